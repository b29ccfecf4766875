"""The backend's tool calls: each answered once, and the backend goes on when all are."""

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.openai.messages import FunctionCall
from providers.openai_live.backend import Backend
from providers.openai_live.messages import FunctionCallReceived, ResponseBegan, ResponseFinished
from providers.types import ResponseDone, ResponseStatus, ToolCallsRequested
from tools.types import ToolCall

DONE, FAILED = ResponseStatus.COMPLETED, ResponseStatus.FAILED


def response(backend: Backend, *call_ids: str, name: str = "resp_1", where: str = "dlg_1", status=DONE):
    backend.begin(ResponseBegan(where, name))
    for call_id in call_ids:
        backend.announce(FunctionCallReceived(where, FunctionCall(call_id, "look_up", "", completed=False)))
    for call_id in call_ids:
        done = FunctionCall(call_id, "look_up", '{"a":1}', completed=status is DONE)
        backend.announce(FunctionCallReceived(where, done))
    return backend.finish(ResponseFinished(where, name, status, "" if status is DONE else "server_error"))


def test_the_calls_of_a_finished_response_are_asked_for_together():
    events, refused = response(Backend(), "call_1", "call_2")
    calls = tuple(ToolCall(name, "look_up", '{"a":1}', "resp_1") for name in ("call_1", "call_2"))
    assert events == [ToolCallsRequested("resp_1", calls)]
    assert refused == []


def test_a_response_without_calls_says_nothing_when_it_is_done():
    assert response(Backend()) == ([], [])


def test_the_calls_of_a_failed_response_are_refused_and_the_failure_is_told():
    events, refused = response(Backend(), "call_1", status=FAILED)
    assert events == [ResponseDone("resp_1", FAILED, reason="server_error")]
    assert [(each.call_id, each.reason_code) for each in refused] == [("call_1", "response_failed")]


def test_it_goes_on_once_when_all_is_answered_and_it_was_asked_to():
    backend = Backend()
    response(backend, "call_1", "call_2")
    assert not backend.owes
    assert backend.answer("call_1")
    backend.go_on()
    assert not backend.take_go_on()
    assert backend.answer("call_2")
    assert backend.take_go_on()
    assert not backend.take_go_on()


def test_an_unknown_call_and_a_second_answer_are_not_answered():
    backend = Backend()
    response(backend, "call_1")
    assert not backend.answer("call_9")
    assert backend.answer("call_1")
    assert not backend.answer("call_1")


def test_an_answer_alone_does_not_make_it_go_on():
    backend = Backend()
    response(backend, "call_1")
    backend.answer("call_1")
    assert backend.owes
    assert not backend.take_go_on()


def test_two_delegations_wait_for_each_other():
    backend = Backend()
    response(backend, "call_1", name="resp_1", where="dlg_1")
    response(backend, "call_2", name="resp_2", where="dlg_2")
    backend.answer("call_1")
    backend.go_on()
    assert not backend.take_go_on()
    backend.answer("call_2")
    backend.go_on()
    assert backend.take_go_on()


def test_an_error_instead_of_the_end_closes_the_response_that_runs():
    backend = Backend()
    backend.begin(ResponseBegan("dlg_1", "resp_1"))
    backend.announce(FunctionCallReceived("dlg_1", FunctionCall("call_1", "look_up", "{}", completed=True)))
    events, refused = backend.finish(ResponseFinished("dlg_1", "", FAILED, "server_error"))
    assert events == [ResponseDone("resp_1", FAILED, reason="server_error")]
    assert [each.call_id for each in refused] == ["call_1"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["respond", "fail", "answer", "again", "go_on"]), max_size=40))
def test_no_call_is_asked_for_or_answered_twice(steps):
    backend, count = Backend(), 0
    asked, answered, waiting = [], [], []
    for step in steps:
        match step:
            case "respond" | "fail":
                count += 1
                status = DONE if step == "respond" else FAILED
                events, refused = response(backend, f"call_{count}", name=f"resp_{count}", status=status)
                asked += [each.calls[0].call_id for each in events if isinstance(each, ToolCallsRequested)]
                answered += [each.call_id for each in refused]
                waiting = [each for each in asked if each not in answered]
            case "answer" if waiting:
                call_id = waiting.pop(0)
                assert backend.answer(call_id)
                answered.append(call_id)
            case "again" if answered:
                assert not backend.answer(answered[-1])
            case "go_on":
                backend.go_on()
                if backend.take_go_on():
                    assert not waiting
    assert len(set(asked)) == len(asked)
    assert len(set(answered)) == len(answered)
