import gc
import types

import pytest

from tests.tools.doubles import SALES, FakeControl, called, make_desk, make_tool
from tools import CallInvocationContext, CallUpdate, RequestAnswer, ToolContext
from tools.context import RequestDesk, open_context

UPDATE = CallUpdate(expected_revision=1, voice="marin")


class Transport:
    """Stands for the line, the session and everything else that no tool may reach."""


class Call(FakeControl):
    def __init__(self):
        super().__init__()
        self.transport = Transport()


def opened(state=None, numbers=(SALES,)):
    control = Call()
    desk = RequestDesk("tool-1", control=control, transfer_numbers=numbers)
    context = open_context(CallInvocationContext("call-1", state), "tool-1", desk)
    return context, desk, control


@pytest.mark.requirement("V-12")
def test_the_public_names_of_a_context_are_these_six():
    context, _, _ = opened()

    assert {name for name in dir(context) if not name.startswith("_")} == {
        "call_id", "tool_call_id", "consumer_state", "request_end", "request_transfer", "request_update",
    }  # fmt: skip


@pytest.mark.requirement("V-12")
def test_a_context_has_the_values_of_its_call():
    state = object()
    context, _, _ = opened(state)

    assert (context.call_id, context.tool_call_id) == ("call-1", "tool-1")
    assert context.consumer_state is state


@pytest.mark.requirement("V-12")
@pytest.mark.parametrize(
    "name", ["call_id", "tool_call_id", "consumer_state", "request_end", "_call_id", "_consumer_state", "new"]
)
def test_assignment_and_deletion_raise(name):
    context, _, _ = opened()

    with pytest.raises(AttributeError):
        setattr(context, name, "x")
    with pytest.raises(AttributeError):
        delattr(context, name)


@pytest.mark.requirement("V-12")
def test_a_context_has_no_dictionary():
    context, _, _ = opened()

    assert not hasattr(context, "__dict__")
    with pytest.raises(TypeError):
        vars(context)


CARRIERS = {"__self__", "__func__", "__closure__", "__dict__", "__wrapped__", "__slots__", "cell_contents"}


def reachable(start):
    """
    Everything that attributes, bound methods, closures, containers and slots of ``start`` lead to.

    Not followed: classes, modules and the globals of functions, which lead from anything to all
    of the process.
    """
    seen, waiting = {}, [start]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, types.ModuleType | type | str | bytes | int | float):
            if isinstance(value, str):
                seen[id(value)] = value
            continue
        seen[id(value)] = value
        names = [name for name in dir(value) if not name.startswith("__") or name in CARRIERS]
        waiting += [getattr(value, name, None) for name in names]
        if not isinstance(value, types.FunctionType):
            waiting += gc.get_referents(value)
    return list(seen.values())


def test_the_walk_finds_what_a_careless_context_would_hold():
    hidden = Transport()

    class Careless:
        __slots__ = ("_slot",)

        def __init__(self, value):
            self._slot = value

    def closure():
        return hidden

    assert any(value is hidden for value in reachable(Careless(hidden)))
    assert any(value is hidden for value in reachable(Careless({"a": [closure]})))


@pytest.mark.requirement("V-12")
@pytest.mark.requirement("V-13")
def test_no_chain_of_attributes_leads_from_a_context_to_the_call():
    context, desk, control = opened()

    found = reachable(context)

    assert any(value is context.call_id for value in found)
    for hidden in (control, control.transport, desk):
        assert all(value is not hidden for value in found)


@pytest.mark.requirement("V-13")
async def test_a_handler_gets_nothing_but_a_context_and_plain_arguments():
    got = []

    async def handler(*both):
        got.extend(both)
        return {"text": ""}

    async def two(context, arguments):
        return await handler(context, arguments)

    desk = make_desk(make_tool("t", two))
    await desk.dispatcher.run([called("t")])

    context, arguments = got
    assert type(context) is ToolContext
    assert type(arguments) is dict
    found = reachable(context)
    hidden = (desk.dispatcher, desk.control, desk.audit, desk.ledger, desk.policy)
    assert all(value is not one for value in found for one in hidden)


@pytest.mark.requirement("V-14")
def test_a_request_is_queued_and_does_not_act():
    context, desk, control = opened()

    assert context.request_end() is RequestAnswer.QUEUED
    assert desk.terminal is not None
    assert control.terminal is None


@pytest.mark.requirement("V-14")
@pytest.mark.parametrize("first", ["request_end", "transfer"])
@pytest.mark.parametrize("second", ["request_end", "transfer"])
def test_a_second_terminal_request_of_a_tool_is_refused(first, second):
    context, desk, _ = opened()
    ask = {"request_end": context.request_end, "transfer": lambda: context.request_transfer(SALES)}

    assert ask[first]()
    kept = desk.terminal
    answer = ask[second]()

    assert answer is RequestAnswer.TERMINAL_ACTION_PENDING
    assert not answer
    assert desk.terminal is kept


@pytest.mark.requirement("V-14")
@pytest.mark.parametrize(
    "number", ["", "+19005550199", SALES + " ", " " + SALES, "sip:x@evil.example", SALES[1:]]
)
def test_a_number_outside_the_allowed_set_is_refused(number):
    context, desk, _ = opened()

    answer = context.request_transfer(number)

    assert answer is RequestAnswer.PHONE_NUMBER_NOT_CONFIGURED
    assert not answer
    assert desk.terminal is None


def test_an_update_is_answered_by_the_call():
    context, _, control = opened()

    assert context.request_update(UPDATE) is RequestAnswer.UNSUPPORTED
    assert context.request_update(UPDATE) == "unsupported"
    assert control.updates == [UPDATE, UPDATE]
    control.update_answer = "queued"
    assert context.request_update(UPDATE)


def test_a_tool_that_is_done_may_ask_for_nothing():
    context, desk, control = opened()
    desk.close()

    assert context.request_end() is RequestAnswer.CLOSED
    assert context.request_transfer(SALES) is RequestAnswer.CLOSED
    assert context.request_update(UPDATE) is RequestAnswer.CLOSED
    assert (desk.terminal, control.updates) == (None, [])


def test_a_context_without_a_desk_may_ask_for_nothing():
    context = ToolContext("call-1", "tool-1", None)

    assert context.request_end() is RequestAnswer.CLOSED
    assert context.request_transfer(SALES) is RequestAnswer.CLOSED
    assert context.request_update(UPDATE) is RequestAnswer.CLOSED
