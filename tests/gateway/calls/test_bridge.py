import pytest

from gateway.calls import events as ev
from gateway.calls.ending import SAFETY_NET_S
from gateway.calls.state import State
from gateway.legs.base import (
    CallerAudio,
    DtmfReceived,
    HangupCause,
    HoldChanged,
    HoldExpired,
    MediaLost,
    TransferProgress,
    TransferState,
)
from providers.errors import SessionLost
from providers.types import (
    AgentTranscript,
    AudioDone,
    CallerTranscript,
    Interrupted,
    ResponseDone,
    ResponseStatus,
    SpeechStarted,
    SpeechStopped,
)
from tests.gateway.calls.scene import BUSY, CONFIRMED, Scene, audio, tool
from tools.types import EndRequest, TransferRequest


async def test_the_agent_is_asked_to_greet_when_the_call_is_answered():
    async with Scene(greeting="Say hello.") as scene:
        assert scene.session.told == [("respond", "Say hello.", True)]


async def test_without_a_greeting_the_caller_speaks_first():
    async with Scene(greeting=None) as scene:
        assert scene.session.told == []


async def test_g711_passes_through_untouched_in_both_directions():
    async with Scene() as scene:
        scene.leg.audio.put(CallerAudio(b"\x10" * 160, 0))
        await scene.says(audio("a", 20, b"\x42"))

        assert await scene.hears(20) == b"\x42" * 160
        assert scene.session.heard == b"\x10" * 160


@pytest.mark.report("BR-091")
async def test_the_line_is_cut_only_when_the_whole_farewell_was_heard():
    async with Scene() as scene:
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(audio("bye", 3200), AudioDone("bye"), tool("end_call"))

        await scene.hears(3180)
        assert scene.leg.hung_up == []
        await scene.hears(20)
        assert scene.leg.hung_up == [HangupCause.NORMAL]


async def test_a_farewell_that_is_still_being_spoken_is_waited_for():
    """A model that speaks in real time may call end_call in the middle of its goodbye."""
    async with Scene() as scene:
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(audio("bye", 400), tool("end_call"))
        await scene.hears(400)
        assert scene.leg.hung_up == []

        await scene.says(audio("bye", 400), AudioDone("bye"))
        assert len(await scene.hears(380)) == 380 * 8
        assert scene.leg.hung_up == []
        await scene.hears(20)
        assert scene.leg.hung_up == [HangupCause.NORMAL]


async def test_a_farewell_that_breaks_off_with_its_session_ends_the_call_all_the_same():
    async with Scene() as scene:
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(audio("bye", 400), tool("end_call"))
        await scene.hears(200)
        await scene.says(SessionLost("gone", code="1011"))
        await scene.hears(200)
        assert scene.leg.hung_up == [HangupCause.NORMAL]


async def test_no_response_is_asked_for_after_a_terminal_action():
    async with Scene(greeting=None) as scene:
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(audio("bye", 100), AudioDone("bye"), tool("lookup_caller", "end_call"))

        assert scene.session.told == [("result", "c_lookup_caller", "ok"), ("result", "c_end_call", "ok")]


async def test_without_a_mark_the_call_ends_at_the_safety_net():
    assert SAFETY_NET_S == 15.0
    async with Scene(safety_net_s=0.01) as scene:
        scene.leg.lose_marks = True
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(audio("bye", 100), AudioDone("bye"), tool("end_call"))

        await scene.call
        assert scene.leg.hung_up == [HangupCause.NORMAL]


@pytest.mark.report("BR-093")
async def test_barge_in_does_not_cut_a_farewell_and_nobody_is_hung_up_on_while_speaking():
    async with Scene() as scene:
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(audio("bye", 7000), AudioDone("bye"), tool("end_call"))
        await scene.hears(2000)
        await scene.says(SpeechStarted(), Interrupted())

        assert len(await scene.hears(5000)) == 5000 * 8
        assert scene.leg.hung_up == []

        await scene.says(SpeechStopped())
        assert scene.leg.hung_up == [HangupCause.NORMAL]


async def test_new_model_audio_is_dropped_while_the_end_is_pending():
    async with Scene() as scene:
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(audio("bye", 100), AudioDone("bye"), tool("end_call"))
        await scene.says(audio("more", 500), AudioDone("more"))

        assert len(await scene.hears(1000)) == 100 * 8


async def test_barge_in_clears_the_line_and_tells_the_model_what_was_heard():
    async with Scene(greeting=None) as scene:
        await scene.says(audio("a", 3000), AgentTranscript("a", "A long story", final=True), AudioDone("a"))
        await scene.hears(1240)
        await scene.says(SpeechStarted(), Interrupted())

        assert scene.session.told == [("interrupt", "a", 1240)]
        assert await scene.hears(200) == b""
        [barge] = scene.watcher.of(ev.BargedIn)
        assert (barge.item_id, barge.heard_ms, barge.dropped_ms) == ("a", 1240, 1760)
        [said] = scene.watcher.of(ev.AgentSaid)
        assert (said.text, said.heard_ms, said.total_ms) == ("A long story", 1240, 3000)


async def test_speech_after_everything_was_heard_interrupts_nothing():
    async with Scene(greeting=None) as scene:
        await scene.says(audio("a", 100), AudioDone("a"))
        await scene.hears(200)
        await scene.says(SpeechStarted(), Interrupted())

        assert scene.session.told == []
        assert scene.watcher.of(ev.BargedIn) == []


async def test_the_calls_of_one_response_are_all_answered_then_one_response_is_asked_for():
    async with Scene(greeting=None) as scene:
        await scene.says(tool("lookup_caller", "query_knowledge"))

        assert scene.session.told == [
            ("result", "c_lookup_caller", "ok"),
            ("result", "c_query_knowledge", "ok"),
            ("respond", None, True),
        ]


async def test_the_caller_is_heard_while_a_tool_works():
    async with Scene() as scene:
        scene.tools.gate.clear()
        await scene.says(tool("lookup_caller"))
        scene.leg.audio.put(CallerAudio(b"\x10" * 160, 0))
        await scene.says(audio("a", 20))

        assert scene.session.heard == b"\x10" * 160
        assert len(await scene.hears(20)) == 160
        scene.tools.gate.set()


async def test_too_many_tool_rounds_are_refused_and_the_model_must_speak():
    async with Scene(greeting=None) as scene:
        for _ in range(3):
            await scene.says(tool("lookup_caller"))

        assert scene.tools.ran == ["lookup_caller"] * 2
        assert scene.session.told[-2:] == [
            ("result", "c_lookup_caller", "limit_reached"),
            ("respond", None, False),
        ]


async def test_a_transfer_begins_when_the_announcement_was_heard_and_ends_the_call_when_confirmed():
    async with Scene(transfer=CONFIRMED) as scene:
        scene.tools.terminal = TransferRequest("c_transfer_call", "+12125551234", "Sales")
        await scene.says(audio("a", 500), AudioDone("a"), tool("transfer_call"))
        await scene.hears(480)
        assert scene.leg.transferred == []

        await scene.hears(20)
        assert scene.leg.transferred == ["+12125551234"]
        assert scene.leg.hung_up == [HangupCause.NORMAL]
        states = [step.state for step in scene.watcher.of(ev.TransferChanged)]
        assert states == ["requested", "announced", "redirecting", "confirmed"]


@pytest.mark.report("BR-094")
async def test_after_a_failed_transfer_the_same_agent_speaks_again_with_the_reason():
    async with Scene(transfer=BUSY, greeting=None) as scene:
        scene.tools.terminal = TransferRequest("c_transfer_call", "+12125551234", "Sales")
        await scene.says(tool("transfer_call"))

        assert scene.leg.hung_up == []
        kind, role, text = scene.session.told[-2]
        assert (kind, role) == ("text", "system")
        assert "Sales" in text
        assert "busy" in text
        assert scene.session.told[-1] == ("respond", None, True)
        assert scene.state.now is State.TALKING
        assert scene.policy.denial("end_call") is None

        await scene.says(audio("sorry", 100), AudioDone("sorry"))
        assert len(await scene.hears(100)) == 800


async def test_a_trunk_that_takes_the_caller_over_with_bye_alone_confirms_the_transfer():
    async with Scene(transfer=[TransferProgress(TransferState.CONFIRMED)]) as scene:
        scene.leg.hold_transfer = True
        scene.tools.terminal = TransferRequest("c_transfer_call", "+12125551234", "Sales")
        await scene.says(audio("a", 100), AudioDone("a"), tool("transfer_call"))
        await scene.hears(100)
        assert scene.leg.transferred == ["+12125551234"]
        assert not scene.ending.transferred

        scene.leg.leave()
        await scene.call
        assert scene.ending.transferred


async def test_a_lost_session_is_apologised_for_and_then_hung_up():
    async with Scene() as scene:
        await scene.says(audio("a", 1000), SessionLost("the socket broke", code="1006"))

        assert await scene.hears(200) == b"\x55" * 1600
        assert scene.leg.hung_up == [HangupCause.FAILED]
        await scene.call
        assert scene.ending.reason == "session_lost"
        steps = [(each.step, each.reason) for each in scene.watcher.of(ev.RecoveryStepTaken)]
        assert steps == [("lost", "1006"), ("gave_up", "session_lost")]


async def test_a_session_lost_behind_the_farewell_changes_nothing():
    async with Scene() as scene:
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(
            audio("bye", 200), AudioDone("bye"), tool("end_call"), SessionLost("closed", code="1000")
        )

        assert await scene.hears(200) == b"\x21" * 1600
        assert scene.leg.hung_up == [HangupCause.NORMAL]


async def test_keys_are_told_to_the_model_once_and_stop_what_is_playing():
    async with Scene(greeting=None) as scene:
        await scene.says(audio("a", 3000))
        await scene.hears(100)
        for digit in "42#":
            scene.leg.happened.put(DtmfReceived(digit))
        await scene.settle()

        assert scene.session.told == [
            ("interrupt", "a", 100),
            ("text", "user", "DTMF 42# pressed"),
            ("respond", None, True),
        ]
        assert [event.digit for event in scene.watcher.of(ev.DtmfHeard)] == ["4", "2", "#"]


async def test_a_line_without_media_is_hung_up():
    async with Scene() as scene:
        scene.leg.happened.put(MediaLost(30_000))

        end = await scene.call
        assert (end.by_caller, end.reason) == (False, "media_lost")


@pytest.mark.report("BR-056")
async def test_a_line_that_is_held_for_too_long_is_hung_up_and_one_that_is_held_is_not():
    async with Scene() as scene:
        scene.leg.happened.put(HoldChanged(held=True))
        await scene.settle()
        assert not scene.call.done()
        scene.leg.happened.put(HoldExpired(1_800_000))

        end = await scene.call
        assert (end.by_caller, end.reason) == (False, "hold_timeout")


async def test_tools_that_began_may_finish_when_the_caller_hangs_up():
    async with Scene() as scene:
        scene.tools.gate.clear()
        await scene.says(tool("book_table"))
        scene.leg.leave()
        await scene.settle()
        assert not scene.call.done()

        scene.tools.gate.set()
        assert (await scene.call).by_caller


async def test_the_time_limit_lets_the_agent_say_goodbye():
    async with Scene(max_duration_s=0.0, greeting=None) as scene:
        await scene.settle()
        [(kind, instructions, tools)] = scene.session.told
        assert (kind, tools) == ("respond", False)
        assert "goodbye" in instructions

        await scene.says(audio("bye", 100), AudioDone("bye"), ResponseDone("r", ResponseStatus.COMPLETED))
        assert scene.leg.hung_up == []
        await scene.hears(100)
        assert scene.leg.hung_up == [HangupCause.NORMAL]


async def test_the_transcript_keeps_both_sides_in_order():
    async with Scene(greeting=None) as scene:
        await scene.says(audio("a", 100), AgentTranscript("a", "Hello.", final=True), AudioDone("a"))
        await scene.hears(200)
        await scene.says(SpeechStarted(), SpeechStopped(), CallerTranscript("u", "Hi.", final=True))

        texts = [
            event.text for event in scene.watcher.seen if isinstance(event, ev.AgentSaid | ev.CallerSaid)
        ]
        assert texts == ["Hello.", "Hi."]


async def test_latency_is_measured_from_the_callers_pause():
    async with Scene(greeting=None) as scene:
        await scene.says(SpeechStarted(), SpeechStopped())
        scene.now += 0.35
        await scene.says(audio("a", 100))

        assert [event.latency_ms for event in scene.watcher.of(ev.FirstAudio)] == [350]
