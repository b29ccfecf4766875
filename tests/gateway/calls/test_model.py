import pytest

from gateway.calls.model import PREFIX_FRAMES, RECENT_FRAMES, LiveModel, Wanted
from gateway.calls.opening import OpenSession
from providers.failover import History
from providers.types import (
    PCM16_24K,
    PCMU,
    AgentTranscript,
    AudioDelta,
    AudioDone,
    CallerTranscript,
    Said,
    SessionSetup,
    ToolCallsCancelled,
    ToolCallsRequested,
    ToolUsed,
)
from tests.gateway.calls.doubles import HandSession
from tools.types import CallUpdate, ToolCall, ToolResult, ToolStatus

SETUP = SessionSetup("You answer the phone.", "", (), PCMU, language="en")


class Wide(HandSession):
    """A session of another vendor, with other audio."""

    input = PCM16_24K
    output = PCM16_24K


def opened(provider="hand", session=None):
    return OpenSession(provider, session or HandSession())


@pytest.fixture
def first():
    return opened()


@pytest.fixture
def model(first):
    return LiveModel(first, SETUP, History())


def asked(*ids, response="r1"):
    return ToolCallsRequested(response, tuple(ToolCall(each, "lookup", "{}", response) for each in ids))


def result(call_id):
    return ToolResult(call_id, "lookup", ToolStatus.OK)


async def frames(model, *bytes_):
    for byte in bytes_:
        await model.hear(bytes([byte]) * 160)


async def test_the_first_session_hears_and_is_told_everything_as_it_is(model, first):
    await model.hear(b"\x10" * 160)
    await model.send_text("DTMF 1 pressed")
    model.renamed(asked("c1"))
    await model.send_tool_result(result("c1"))
    model.renamed(AudioDelta("a", b""))
    await model.interrupt(item_id="a", heard_ms=120)
    await model.respond(instructions="Say hello.", tools=False)

    assert first.session.heard == b"\x10" * 160
    assert first.session.told == [
        ("text", "user", "DTMF 1 pressed"),
        ("result", "c1", "ok"),
        ("interrupt", "a", 120),
        ("respond", "Say hello.", False),
    ]


async def test_another_session_knows_what_was_said_and_done(model):
    model.history.agent("a", "Hello.")
    model.renamed(CallerTranscript("u", "", final=False))
    model.renamed(asked("c1", "c2"))
    await model.send_tool_result(result("c1"))
    model.renamed(CallerTranscript("u", "My number is 4711.", final=True))
    await model.send_text("Be brief.", role="system")

    setup = model.setup()
    assert setup.prompt == SETUP.prompt
    assert setup.history == (
        Said("agent", "Hello."),
        Said("caller", "My number is 4711."),
        ToolUsed(ToolCall("c1", "lookup", "{}", "r1"), result("c1").to_json()),
        Said("system", "Be brief."),
    )


async def test_ids_of_a_later_session_are_no_ids_of_the_first(model):
    second = opened("other")
    model.suspend()
    await model.resume(second, told=0)

    events = [
        AudioDelta("item_1", b"x"), AudioDone("item_1"), AgentTranscript("item_1", "Hi", final=True),
        CallerTranscript("turn_1", "Yes.", final=True), ToolCallsCancelled(("call_1",)),
    ]  # fmt: skip
    renamed = [model.renamed(event) for event in events]
    assert renamed == [
        AudioDelta("session-2-item_1", b"x"), AudioDone("session-2-item_1"),
        AgentTranscript("session-2-item_1", "Hi", final=True),
        CallerTranscript("session-2-turn_1", "Yes.", final=True),
        ToolCallsCancelled(("session-2-call_1",)),
    ]  # fmt: skip
    calls = model.renamed(asked("call_1")).calls
    assert [call.call_id for call in calls] == ["session-2-call_1"]

    await model.send_tool_result(result("session-2-call_1"))
    await model.interrupt(item_id="session-2-item_1", heard_ms=40)
    assert second.session.told == [("result", "call_1", "ok"), ("interrupt", "item_1", 40)]


async def test_an_item_of_an_earlier_session_is_none_that_the_present_one_can_cut(model):
    model.renamed(AudioDelta("a", b"x"))
    second = opened()
    model.suspend()
    await model.resume(second, told=0)
    await model.interrupt(item_id="a", heard_ms=500)
    await model.interrupt(item_id="moment-1", heard_ms=500)

    assert second.session.told == [("interrupt", "", 0)] * 2


async def test_a_tool_that_is_ready_before_the_next_session_opens_is_in_its_history_alone(model, first):
    model.renamed(asked("c1"))
    model.suspend()
    await model.send_tool_result(result("c1"))
    setup, told = model.setup(), model.history.version
    second = opened()
    await model.resume(second, told=told)

    assert [type(item) for item in setup.history] == [ToolUsed]
    assert second.session.told == []
    assert first.session.told == []


async def test_a_tool_that_is_ready_while_the_next_session_opens_is_told_to_it_once(model):
    model.renamed(asked("c1"))
    model.suspend()
    setup, told = model.setup(), model.history.version
    await model.send_tool_result(result("c1"))
    second = opened()
    await model.resume(second, told=told)
    await model.send_tool_result(result("c1"))

    assert setup.history == ()
    [(kind, role, text)] = second.session.told
    assert (kind, role) == ("text", "system")
    assert result("c1").to_json() in text


async def test_a_tool_that_is_ready_later_is_told_to_the_session_that_is_there_then(model):
    model.renamed(asked("c1"))
    model.suspend()
    second = opened()
    await model.resume(second, told=model.history.version)
    assert second.session.told == []
    await model.send_tool_result(result("c1"))

    [(kind, role, text)] = second.session.told
    assert (kind, role) == ("text", "system")
    assert result("c1").to_json() in text


async def test_the_callers_voice_waits_for_the_next_session_and_stays_in_order(model, first):
    await frames(model, 1, 2)
    model.suspend()
    await frames(model, 3, 4)
    second = opened()
    await model.resume(second, told=0)
    await frames(model, 5)

    assert first.session.heard == b"\x01" * 160 + b"\x02" * 160
    assert second.session.heard == b"".join(bytes([byte]) * 160 for byte in (3, 4, 5))


async def test_a_turn_that_nobody_has_written_down_is_heard_again_from_its_beginning(model):
    await frames(model, *range(100))
    model.caller_started()
    await frames(model, *range(100, 110))
    model.suspend()
    assert model.has_open_turn
    second = opened()
    await model.resume(second, told=0)

    assert second.session.heard[::160] == bytes(range(100 - PREFIX_FRAMES, 110))
    assert not model.has_open_turn


async def test_a_turn_that_is_written_down_is_not_heard_again(model):
    model.caller_started()
    await frames(model, 1, 2)
    model.renamed(CallerTranscript("u", "Yes.", final=True))
    model.suspend()
    assert not model.has_open_turn
    second = opened()
    await model.resume(second, told=0)

    assert second.session.heard == b""


async def test_a_turn_that_is_answered_is_not_heard_again_even_if_nobody_writes_it_down(model):
    model.caller_started()
    await frames(model, 1, 2)
    model.turn_answered()
    model.suspend()
    second = opened()
    await model.resume(second, told=0)

    assert second.session.heard == b""


async def test_no_more_of_the_voice_is_kept_than_a_few_seconds(model):
    model.caller_started()
    model.suspend()
    for _ in range(RECENT_FRAMES * 2):
        await model.hear(b"\x10" * 160)
    assert not model.has_open_turn
    second = opened()
    await model.resume(second, told=0)

    assert len(second.session.heard) == RECENT_FRAMES * 160


async def test_frames_that_come_while_the_kept_ones_are_sent_follow_them(model):
    class Slow(HandSession):
        async def send_audio(self, audio):
            await super().send_audio(audio)
            if len(self.heard) == 160:
                await frames(model, 7)

    await frames(model, 1)
    model.suspend()
    await frames(model, 2, 3)
    second = opened(session=Slow())
    await model.resume(second, told=0)
    await frames(model, 8)

    assert second.session.heard[::160] == bytes([2, 3, 7, 8])


async def test_a_session_with_other_audio_gets_the_voice_in_its_own_format(model):
    second = opened(session=Wide())
    model.suspend()
    await model.resume(second, told=0)
    await frames(model, 1)

    assert model.output == PCM16_24K
    assert len(second.session.heard) in range(900, 961)


async def test_the_session_before_is_closed_when_another_takes_over(model, first):
    model.suspend()
    await model.resume(opened("other"), told=0)

    assert first.is_closing
    assert model.provider == "other"


async def test_what_was_asked_for_is_remembered_until_the_model_speaks(model):
    await model.respond(instructions="Greet.")
    assert model.wanted == Wanted("Greet.", tools=True)
    model.renamed(AudioDelta("a", b"x"))
    assert model.wanted is None

    model.suspend()
    await model.respond()
    assert model.wanted == Wanted(None, tools=True)


async def test_an_update_holds_for_the_sessions_to_come(model):
    model.suspend()
    await model.update(CallUpdate(1, prompt="You are a baker.", language="de"))

    setup = model.setup()
    assert (setup.prompt, setup.language, setup.tools) == ("You are a baker.", "de", ())


async def test_another_line_is_heard_in_its_own_format(model, first):
    model.listen_to(PCM16_24K)
    await model.hear(b"\x00" * 960)

    assert len(first.session.heard) in range(150, 161)


async def test_what_becomes_ready_while_the_kept_voice_is_sent_is_told_to_that_session_once(model):
    class Slow(HandSession):
        async def send_audio(self, audio):
            await super().send_audio(audio)
            if len(self.heard) == 160:  # the socket is full: others run meanwhile
                await model.send_tool_result(result("c1"))
                await model.send_text("DTMF 1 pressed")

    model.renamed(asked("c1"))
    model.suspend()
    await frames(model, 2, 3)
    second = opened(session=Slow())
    await model.resume(second, told=model.history.version)

    (_, _, late), digits = second.session.told
    assert result("c1").to_json() in late
    assert digits == ("text", "user", "DTMF 1 pressed")
