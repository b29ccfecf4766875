"""What is done when the caller hears nothing, and when a provider says that it will end the session."""

import pytest

from gateway.calls import recovery
from gateway.calls.recovery import CONTINUE, FORCE_S, QUIET_S, Rung
from providers.errors import ProviderRejected, ProviderUnavailable, SessionLost
from providers.types import (
    NO_ANSWER,
    AgentTranscript,
    AudioDone,
    CallerTranscript,
    ProviderWarning,
    ResponseDone,
    ResponseStatus,
    Said,
    SessionEnding,
    SpeechStarted,
    SpeechStopped,
)
from tests.gateway.calls.rescue import Rescue
from tests.gateway.calls.scene import audio, tool
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


# The steps of a request.


async def test_a_request_goes_one_rung_further_each_time():
    async with Rescue() as scene:
        scene.bridge.recovery.request("no_audio")
        await scene.settle()
        assert scene.session.told == [("respond", None, True)]

        scene.bridge.recovery.request("no_audio")
        await scene.settle()
        assert [each[0] for each in scene.session.told[1:]] == ["interrupt", "text", "respond"]

        scene.bridge.recovery.request("no_audio")
        await scene.swapped()
        assert (scene.hand.setups, len(scene.other.setups)) == ([], 1)

        scene.other.error = scene.hand.error = ProviderRejected("no")
        scene.bridge.recovery.request("no_audio")
        await scene.until(lambda: ("gave_up", "no_audio") in scene.steps)
        assert [step for step, _ in scene.steps] == ["nudged", "recreated", "swapped", "gave_up"]


async def test_speech_brings_the_next_request_back_to_the_first_rung():
    async with Rescue() as scene:
        for _ in range(2):
            scene.bridge.recovery.request("no_audio")
            await scene.settle()
            scene.bridge.recovery.answered()

        assert [step for step, _ in scene.steps] == ["nudged", "nudged"]


async def test_a_request_may_begin_higher():
    async with Rescue() as scene:
        scene.bridge.recovery.request("stalled", at_least=Rung.FAIL_OVER)
        await scene.swapped()

        assert len(scene.other.setups) == 1


async def test_a_nudge_asks_for_what_was_asked_for():
    async with Rescue(greeting="Say hello.") as scene:
        scene.bridge.recovery.request("no_audio")
        await scene.settle()

        assert scene.session.told == [("respond", "Say hello.", True)] * 2


async def test_nothing_is_done_for_a_call_that_is_about_to_end():
    async with Rescue() as scene:
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(audio("bye", 200), AudioDone("bye"), tool("end_call"))
        scene.bridge.recovery.request("no_audio")
        await scene.settle()

        assert scene.steps == []


@pytest.mark.report("BR-104")
async def test_a_model_that_gives_no_answer_is_left_for_the_next():
    async with Rescue() as scene:
        await scene.says(SpeechStarted(), SpeechStopped(), CallerTranscript("u", "Hello?", final=True))
        for _ in range(2):
            await scene.says(ProviderWarning(NO_ANSWER, "it may not say what it would say"))
            await scene.passes(0.5)
        await scene.swapped()

        assert ("recreated", "response_failed") in scene.steps
        assert scene.other.session.told == [("respond", None, True)]


# A planned hand-over.


async def ending(scene, after=300.0):
    await scene.says(audio("a", 200), AgentTranscript("a", "Hello.", final=True), AudioDone("a"))
    scene.now += after
    await scene.says(SessionEnding(after))


@pytest.mark.report("BR-110")
async def test_a_session_that_will_end_is_handed_over_at_a_quiet_moment_and_nobody_notices():
    async with Rescue() as scene:
        await ending(scene)
        await scene.silence(1)
        assert scene.hand.setups == []
        await scene.hears(200)
        await scene.silence(QUIET_S + 0.2)
        await scene.until(lambda: scene.steps)

        assert scene.steps == [("handed_over", "session_ending")]
        assert scene.hand.setups[0].history == (Said("agent", "Hello."),)
        assert scene.hand.session.told == []
        assert await scene.hears(1000) == b""
        scene.leg.speak(b"\x10" * 160)
        await scene.settle()
        assert scene.hand.session.heard[-160:] == b"\x10" * 160


async def test_nobody_is_handed_over_in_mid_sentence_or_while_a_tool_runs():
    async with Rescue() as scene:
        await ending(scene)
        await scene.hears(200)
        await scene.says(SpeechStarted())
        await scene.silence(1)
        scene.tools.gate.clear()
        await scene.says(SpeechStopped(), tool("lookup_caller"))
        await scene.silence(1)
        assert scene.hand.setups == []

        scene.tools.gate.set()
        await scene.says(audio("b", 100), AudioDone("b"))
        await scene.hears(100)
        await scene.silence(1)
        await scene.until(lambda: scene.steps)
        assert scene.steps[-1] == ("handed_over", "session_ending")


async def test_a_caller_who_speaks_while_the_next_session_opens_stays_with_the_first():
    async with Rescue() as scene:
        scene.hand.ready.clear()
        await ending(scene)
        await scene.hears(200)
        await scene.silence(1)
        await scene.until(lambda: scene.hand.setups)
        await scene.says(SpeechStarted())
        scene.hand.ready.set()
        await scene.until(lambda: scene.hand.closed == 1)

        assert scene.steps == []
        scene.leg.speak(b"\x10" * 160)
        await scene.settle()
        assert scene.session.heard == b"\x10" * 160


async def test_shortly_before_the_deadline_it_is_handed_over_whoever_speaks():
    async with Rescue() as scene:
        await scene.says(SessionEnding(20.0))
        await scene.says(audio("a", 30_000), AgentTranscript("a", "A long story", final=False))
        await scene.silence(20.0 - FORCE_S - 1)
        assert scene.hand.setups == []
        await scene.silence(2)
        await scene.until(lambda: scene.steps)

        assert scene.steps == [("handed_over", "session_ending")]
        assert scene.hand.session.told == [
            ("text", "system", 'You have just said: "A long story"'),
            ("text", "system", CONTINUE),
            ("respond", None, True),
        ]


async def test_a_session_that_has_just_begun_is_not_exchanged_at_once_because_its_life_is_short():
    async with Rescue() as scene:
        await scene.says(SessionEnding(40.0))
        await scene.silence(10)
        assert scene.hand.setups == []
        await scene.silence(11)
        await scene.until(lambda: scene.steps)

        assert scene.steps == [("handed_over", "session_ending")]


async def test_a_hand_over_that_fails_leaves_the_session_as_it_is():
    async with Rescue() as scene:
        scene.hand.error = scene.other.error = ProviderUnavailable("down")
        await ending(scene)
        await scene.hears(200)
        await scene.silence(1)
        await scene.until(lambda: scene.steps)

        assert scene.steps[0] == ("hand_over_failed", "session_ending")
        await scene.says(audio("b", 100, b"\x42"))
        assert await scene.hears(100) == b"\x42" * 800


async def test_a_session_that_is_lost_before_the_quiet_moment_is_replaced():
    async with Rescue() as scene:
        await ending(scene)
        await scene.says(BROKE)
        await scene.swapped()

        assert scene.steps == [("lost", "1006"), ("swapped", "session_lost")]


async def test_a_caller_who_hears_nothing_is_helped_while_a_hand_over_waits_for_a_quiet_moment():
    async with Rescue() as scene:
        await scene.says(SpeechStarted(), SpeechStopped(), SessionEnding(60.0))
        await scene.silence(1)
        scene.bridge.recovery.request("no_audio")
        await scene.until(lambda: scene.steps)

        assert scene.steps == [("nudged", "no_audio")]
        assert scene.session.told == [("respond", None, True)]


async def test_a_farewell_that_is_being_said_is_not_taken_from_the_session_that_says_it():
    async with Rescue() as scene:
        await scene.says(SessionEnding(20.0), audio("bye", 200))
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(tool("end_call"))
        await scene.silence(17)
        await scene.says(audio("bye", 200, b"\x42"), AudioDone("bye"))

        assert scene.hand.setups == []
        assert (await scene.hears(400))[-1600:] == b"\x42" * 1600
