"""A call whose model fails, with lines and models played by hand."""

import asyncio

import pytest

from gateway.calls import events as ev
from gateway.calls import recovery
from gateway.calls.bridge import TIME_IS_OVER
from gateway.calls.recovery import ANSWER, CONTINUE
from gateway.legs.base import HangupCause, TransferProgress, TransferState
from providers.errors import ProviderRejected, ProviderUnavailable, SessionLost
from providers.types import (
    CONNECTION_LOST,
    AgentTranscript,
    AudioDone,
    CallerTranscript,
    Interrupted,
    ProviderWarning,
    ResponseDone,
    ResponseStatus,
    Said,
    SessionEnding,
    SpeechStarted,
    SpeechStopped,
    ToolUsed,
)
from tests.gateway.calls.doubles import HandSession
from tests.gateway.calls.rescue import Rescue
from tests.gateway.calls.scene import APOLOGY, BUSY, CONFIRMED, CONNECTING, MOMENT, audio, tool
from tools.types import EndRequest, TransferRequest

BROKE = SessionLost("the socket broke", code="1006")
DONE = ResponseDone("r", ResponseStatus.COMPLETED)
REVOKED = SessionLost("the key is refused", code="invalid_api_key", final=True)
SALES = TransferRequest("c_transfer_call", "+12125551234", "Sales")
NIGHT = "+12125559999"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Let the clock of the test decide, and not the loop's."""
    for name in ("TICK_S", "FIRST_PAUSE_S", "LONGEST_PAUSE_S"):
        monkeypatch.setattr(recovery, name, 0.001)


async def test_the_same_provider_goes_on_where_the_connection_broke():
    async with Rescue() as scene:
        await scene.says(audio("a", 400), AgentTranscript("a", "We open at", final=False), BROKE)
        await scene.swapped()

        assert (len(scene.hand.setups), scene.other.setups) == (1, [])
        assert scene.hand.setups[0].history == (Said("agent", "We open at"),)
        assert scene.hand.session.told == [("text", "system", CONTINUE), ("respond", None, True)]


async def test_another_provider_goes_on_where_the_key_is_refused():
    async with Rescue() as scene:
        await scene.says(audio("a", 400), AgentTranscript("a", "We open at", final=False), REVOKED)
        await scene.swapped()

        assert (scene.hand.setups, len(scene.other.setups)) == ([], 1)
        assert scene.other.session.told == [("text", "system", CONTINUE), ("respond", None, True)]
        assert scene.watcher.of(ev.RecoveryStepTaken)[-1].provider == "other"


async def test_another_provider_goes_on_when_the_first_cannot_be_reached_again():
    async with Rescue() as scene:
        scene.hand.error = ProviderUnavailable("refused")
        await scene.says(audio("a", 400), BROKE)
        await scene.swapped()

        assert (len(scene.hand.setups), len(scene.other.setups)) == (1, 1)


async def test_a_provider_that_does_not_answer_in_time_is_left_for_the_next():
    async with Rescue(recovery={"attempt_s": 0.02, "give_up_s": 5}) as scene:
        scene.hand.ready.clear()
        await scene.says(audio("a", 400), BROKE)
        await scene.swapped()

        assert len(scene.other.setups) == 1
        assert scene.hand.closed == 1


async def test_what_had_come_of_a_sentence_is_heard_before_the_next_session_speaks():
    async with Rescue() as scene:
        await scene.says(audio("a", 400), BROKE)
        await scene.swapped()
        scene.hand.session.say(audio("a", 100, b"\x42"))
        await scene.settle()

        assert await scene.hears(500) == b"\x21" * 3200 + b"\x42" * 800
        assert scene.steps[-1] == ("spoke_again", "")


async def test_the_transcript_goes_on_with_the_items_of_the_next_session():
    async with Rescue() as scene:
        await scene.says(audio("a", 200), AgentTranscript("a", "We open", final=False), BROKE)
        await scene.swapped()
        scene.hand.session.say(audio("a", 200), AgentTranscript("a", "at nine.", final=True), AudioDone("a"))
        await scene.settle()
        await scene.hears(500)

        said = scene.watcher.of(ev.AgentSaid)
        assert [(each.item_id, each.text, each.heard_ms) for each in said] == [
            ("a", "We open", 200), ("session-2-a", "at nine.", 200),
        ]  # fmt: skip


async def test_a_greeting_that_nobody_heard_is_asked_for_again():
    async with Rescue(greeting="Say hello.") as scene:
        await scene.says(BROKE)
        await scene.swapped()

        assert scene.hand.setups[0].history == ()
        assert scene.hand.session.told == [("respond", "Say hello.", True)]


async def test_there_is_no_second_greeting():
    async with Rescue(greeting="Say hello.") as scene:
        await scene.says(audio("a", 200), AgentTranscript("a", "Hello.", final=True), AudioDone("a"), DONE)
        await scene.hears(300)
        await scene.says(BROKE)
        await scene.swapped()

        assert scene.hand.setups[0].history == (Said("agent", "Hello."),)
        assert scene.hand.session.told == []
        assert await scene.hears(1000) == b""


async def test_what_the_caller_said_last_is_answered():
    async with Rescue() as scene:
        await scene.says(SpeechStarted(), SpeechStopped(), CallerTranscript("u", "Are you open?", final=True))
        await scene.says(BROKE)
        await scene.swapped()

        assert scene.hand.setups[0].history == (Said("caller", "Are you open?"),)
        assert scene.hand.session.told == [("text", "system", ANSWER), ("respond", None, True)]


async def test_a_caller_who_was_speaking_is_heard_by_the_next_session_and_not_talked_over():
    async with Rescue() as scene:
        scene.leg.speak(b"\x10" * 160)
        await scene.says(SpeechStarted(), Interrupted())
        scene.leg.speak(b"\x11" * 160)
        await scene.settle()
        await scene.says(BROKE)
        await scene.swapped()
        scene.leg.speak(b"\x12" * 160)
        await scene.settle()

        assert scene.hand.session.heard[::160] == b"\x10\x11\x12"
        assert scene.hand.session.told == []


async def test_what_was_cut_off_is_carried_over_as_far_as_it_was_heard():
    async with Rescue() as scene:
        await scene.says(
            audio("a", 1000), AgentTranscript("a", "one two three four five", final=True), AudioDone("a")
        )
        await scene.hears(400)
        await scene.says(SpeechStarted(), Interrupted(), SpeechStopped())
        await scene.says(CallerTranscript("u", "Stop.", final=True), BROKE)
        await scene.swapped()

        assert scene.hand.setups[0].history == (Said("agent", "one two"), Said("caller", "Stop."))


async def test_an_answer_that_stops_at_the_end_of_an_item_was_cut_off_all_the_same():
    async with Rescue() as scene:
        await scene.says(
            audio("a", 400), AgentTranscript("a", "We open at", final=True), AudioDone("a"), BROKE
        )
        await scene.swapped()

        assert scene.hand.session.told == [("text", "system", CONTINUE), ("respond", None, True)]


async def test_a_caller_who_waits_for_a_session_that_looks_for_its_server_hears_something():
    async with Rescue() as scene:
        await scene.says(SpeechStarted(), SpeechStopped(), ProviderWarning(CONNECTION_LOST, "resuming"))
        await scene.silence(1)
        assert await scene.hears(200) == MOMENT
        await scene.says(audio("a", 100))

        assert scene.steps == [("filled", ""), ("spoke_again", "")]


async def test_nobody_waits_for_a_session_that_looks_for_its_server_between_two_turns():
    async with Rescue() as scene:
        await scene.says(ProviderWarning(CONNECTION_LOST, "resuming"))
        await scene.silence(8)

        assert await scene.hears(200) == b""


async def test_an_answer_that_is_wanted_of_a_session_in_doubt_is_asked_of_the_next_at_once():
    async with Rescue() as scene:
        scene.tools.gate.clear()
        await scene.says(tool("lookup_caller"), ProviderWarning(CONNECTION_LOST, "resuming"))
        await scene.says(SessionEnding(30.0))
        scene.tools.gate.set()
        await scene.until(lambda: ("handed_over", "session_ending") in scene.steps)

        assert [type(each) for each in scene.hand.setups[0].history] == [ToolUsed]
        assert scene.hand.session.told == [("respond", None, True)]


async def test_a_session_that_takes_nothing_any_more_holds_nobody_up():
    async with Rescue() as scene:
        scene.session.send_audio = lambda audio: asyncio.Event().wait()
        for _ in range(3):
            scene.leg.speak(b"\x10" * 160)
        await scene.settle()
        await scene.says(BROKE)
        await scene.swapped()
        scene.leg.speak(b"\x11" * 160)
        await scene.settle()

        assert scene.hand.session.heard.endswith(b"\x11" * 160)


# Tools.


async def test_a_tool_that_was_running_answers_to_the_session_that_is_there_then_and_once():
    async with Rescue() as scene:
        scene.tools.gate.clear()
        await scene.says(tool("lookup_caller"), BROKE)
        await scene.swapped()
        assert scene.hand.setups[0].history == ()
        scene.tools.gate.set()
        await scene.settle()

        told = [each for each in scene.hand.session.told if "lookup_caller" in str(each)]
        assert len(told) == 1
        assert told[0][:2] == ("text", "system")
        assert scene.hand.session.told[-1] == ("respond", None, True)
        assert scene.session.told == []
        assert scene.tools.ran == ["lookup_caller"]


async def test_a_tool_that_has_answered_is_carried_over():
    async with Rescue() as scene:
        await scene.says(tool("lookup_caller"))
        await scene.says(BROKE)
        await scene.swapped()

        [used] = scene.hand.setups[0].history
        assert isinstance(used, ToolUsed)
        assert (used.call.name, '"status":"ok"' in used.output) == ("lookup_caller", True)


async def test_the_same_call_id_of_another_session_is_another_call():
    async with Rescue() as scene:
        await scene.says(tool("lookup_caller"))
        await scene.says(BROKE)
        await scene.swapped()
        scene.hand.session.say(tool("lookup_caller"))
        await scene.settle()

        answered = [each.tool_call_id for each in scene.watcher.of(ev.ToolAnswered)]
        assert answered == ["c_lookup_caller", "session-2-c_lookup_caller"]
        assert ("result", "c_lookup_caller", "ok") in scene.hand.session.told


# Terminal actions.


async def test_a_session_lost_behind_the_farewell_is_not_replaced():
    async with Rescue() as scene:
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(audio("bye", 200), AudioDone("bye"), tool("end_call"), BROKE)
        await scene.hears(200)

        assert scene.leg.hung_up == [HangupCause.NORMAL]
        assert (scene.hand.setups, scene.other.setups) == ([], [])


async def test_a_terminal_action_that_comes_after_the_loss_is_carried_out_once():
    async with Rescue() as scene:
        scene.tools.gate.clear()
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(audio("bye", 200), AudioDone("bye"), tool("end_call"), BROKE)
        await scene.swapped()
        scene.tools.gate.set()
        await scene.settle()
        scene.hand.session.say(tool("end_call", response="resp_2"))
        await scene.hears(200)

        await scene.call
        assert scene.leg.hung_up == [HangupCause.NORMAL]


async def test_a_transfer_that_fails_after_the_loss_is_told_to_the_next_session():
    async with Rescue(transfer=BUSY) as scene:
        scene.tools.terminal = SALES
        await scene.says(audio("a", 200), AudioDone("a"), tool("transfer_call"), BROKE)
        await scene.swapped()
        assert scene.hand.session.told == []
        await scene.hears(200)
        await scene.settle()

        assert scene.leg.transferred == ["+12125551234"]
        kind, role, text = scene.hand.session.told[0]
        assert (kind, role, "busy" in text) == ("text", "system", True)
        assert scene.hand.session.told[1] == ("respond", None, True)
        assert scene.leg.hung_up == []


# What the caller hears meanwhile.


async def test_a_pause_that_can_be_heard_is_bridged_until_the_model_speaks():
    async with Rescue() as scene:
        scene.hand.ready.clear()
        await scene.says(audio("a", 200), BROKE)
        await scene.hears(200)
        await scene.silence(0.4)
        assert await scene.hears(100) == b""
        await scene.silence(0.4)
        assert await scene.hears(200) == MOMENT

        scene.hand.ready.set()
        await scene.swapped()
        scene.hand.session.say(audio("a", 100, b"\x42"))
        await scene.settle()
        await scene.silence(8)
        assert await scene.hears(1000) == b"\x42" * 800
        assert scene.steps == [
            ("lost", "1006"), ("filled", ""), ("swapped", "session_lost"), ("spoke_again", ""),
        ]  # fmt: skip


async def test_nothing_is_said_into_a_pause_that_nobody_notices():
    async with Rescue() as scene:
        await scene.says(audio("a", 200), AudioDone("a"), DONE)
        await scene.hears(200)
        await scene.says(BROKE)
        await scene.swapped()
        await scene.silence(8)

        assert await scene.hears(1000) == b""


async def test_a_caller_who_waits_long_is_not_left_in_silence():
    async with Rescue(recovery={"give_up_s": 60}) as scene:
        scene.hand.error = scene.other.error = ProviderUnavailable("down")
        await scene.says(audio("a", 200), BROKE)
        await scene.hears(200)
        for seconds in (2, 4, 4):
            await scene.silence(seconds)
            assert await scene.hears(200) == MOMENT


# When nobody answers.


async def test_the_apology_follows_at_once_when_every_provider_refuses():
    async with Rescue() as scene:
        scene.hand.error = scene.other.error = ProviderRejected("the key is refused", code="401")
        await scene.says(BROKE)
        await scene.until(lambda: scene.leg.playout.queued_ms)

        assert await scene.hears(200) == APOLOGY
        assert scene.leg.hung_up == [HangupCause.FAILED]
        await scene.call
        assert scene.ending.reason == "session_lost"
        assert (len(scene.hand.setups), len(scene.other.setups)) == (1, 1)


@pytest.mark.report("BR-116")
async def test_providers_that_are_down_are_asked_again_until_it_is_time_to_give_up():
    async with Rescue() as scene:
        scene.hand.error = scene.other.error = ProviderUnavailable("down")
        await scene.says(BROKE)
        await scene.until(lambda: len(scene.hand.setups) > 3)
        assert ("gave_up", "session_lost") not in scene.steps
        scene.now += 9
        await scene.until(lambda: ("gave_up", "session_lost") in scene.steps)

        assert await scene.hears(200) == APOLOGY
        await scene.call


async def test_a_call_whose_sessions_are_lost_again_and_again_is_given_up():
    async with Rescue(recovery={"max_swaps": 2}) as scene:
        await scene.says(BROKE)
        await scene.swapped()
        scene.hand.session.say(BROKE)
        await scene.swapped(2)
        scene.hand.session.say(BROKE)
        await scene.until(lambda: scene.leg.playout.queued_ms)

        assert await scene.hears(200) == APOLOGY
        assert len(scene.hand.setups) == 2


async def test_a_call_that_cannot_go_on_is_transferred_to_the_fallback_number():
    async with Rescue(recovery={"max_swaps": 0}, fallback=NIGHT, transfer=CONFIRMED) as scene:
        await scene.says(BROKE)
        await scene.until(lambda: scene.leg.playout.queued_ms)
        assert scene.leg.transferred == []

        assert await scene.hears(100) == CONNECTING
        await scene.call
        assert scene.leg.transferred == [NIGHT]
        assert (scene.ending.transferred, scene.ending.reason) == (True, "session_lost")


async def test_a_fallback_number_that_does_not_answer_is_followed_by_the_apology():
    busy = [TransferProgress(TransferState.FAILED, 486, "busy")]
    async with Rescue(recovery={"max_swaps": 0}, fallback=NIGHT, transfer=busy) as scene:
        await scene.says(BROKE)
        await scene.until(lambda: scene.leg.playout.queued_ms)
        await scene.hears(100)
        await scene.until(lambda: scene.leg.playout.queued_ms)

        assert await scene.hears(200) == APOLOGY
        await scene.call
        assert scene.leg.transferred == [NIGHT]
        assert scene.leg.hung_up == [HangupCause.FAILED]


async def test_a_caller_who_hangs_up_ends_the_search():
    async with Rescue() as scene:
        scene.hand.ready.clear()
        await scene.says(audio("a", 200), BROKE)
        await scene.until(lambda: scene.hand.setups)
        scene.leg.leave()

        assert (await scene.call).by_caller
        await scene.settle()
        assert scene.hand.closed == 1


async def test_a_goodbye_that_was_asked_for_in_mid_sentence_is_asked_of_the_next_session():
    async with Rescue(max_duration_s=60) as scene:
        scene.hand.ready.clear()
        await scene.says(audio("a", 400), AgentTranscript("a", "We open at", final=False), BROKE)
        await scene.time_passes(61)
        scene.hand.ready.set()
        await scene.swapped()

        assert scene.hand.session.told == [("text", "system", CONTINUE), ("respond", TIME_IS_OVER, False)]


async def test_what_a_tool_asks_for_while_the_kept_voice_is_sent_is_asked_of_that_session():
    async with Rescue() as scene:

        class Slow(HandSession):
            async def send_audio(self, audio):
                await super().send_audio(audio)
                scene.tools.gate.set()  # the socket is full: others run meanwhile
                await scene.settle()

        scene.hand.sessions = [Slow()]
        scene.hand.ready.clear()
        scene.tools.gate.clear()
        await scene.says(tool("lookup_caller"), BROKE)
        scene.leg.speak(b"\x10" * 160)
        await scene.settle()
        scene.hand.ready.set()
        await scene.swapped()
        await scene.settle()

        assert [each[0] for each in scene.hand.session.told] == ["text", "respond"]
