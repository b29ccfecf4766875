"""Who watches a bridged call, with the clock in the test's hands."""

import asyncio

import pytest

from gateway.calls import events as ev
from gateway.calls.repair import Patience
from gateway.calls.silence import SilenceLimits
from gateway.legs.base import DtmfReceived, HangupCause, HoldChanged
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
from tests.gateway.calls.scene import BUSY, Scene, audio, tool
from tools.types import TransferRequest

PATIENCE = Patience()
DONE = ResponseDone("r", ResponseStatus.COMPLETED)
SILENCE = SilenceLimits(nudge_after=10.0, nudges=1, hang_up_after=20.0)
QUIET = b"\xff"
SPEECH = b"\x21"


def responses(scene) -> list[str | None]:
    return [told[1] for told in scene.session.told if told[0] == "respond"]


async def speaks(scene, item, ms=1000, byte=SPEECH) -> None:
    """The agent says something, and it is heard to its end."""
    await scene.says(audio(item, ms, byte), AgentTranscript(item, "Yes.", final=True), AudioDone(item), DONE)
    await scene.hears(ms + 20)


async def turn(scene) -> None:
    await scene.says(SpeechStarted(), SpeechStopped(), CallerTranscript("u", "Hello?", final=True))


# The agent.


async def test_an_answer_in_time_is_nobodys_business():
    async with Scene() as scene:
        await speaks(scene, "a")
        await turn(scene)
        await scene.passes(PATIENCE.reply - 0.5)
        await speaks(scene, "b")
        await scene.passes(60)

        assert scene.watcher.of(ev.ReplyMissed) == []
        assert responses(scene) == ["Greet."]


@pytest.mark.report("BR-112")
async def test_a_caller_without_an_answer_is_told_of_and_the_model_asked_again():
    async with Scene(greeting=None) as scene:
        await turn(scene)
        await scene.passes(PATIENCE.reply + 0.3)
        [missed] = scene.watcher.of(ev.ReplyMissed)
        assert (missed.fault, missed.waited_ms) == ("no_audio", pytest.approx(6000, abs=300))
        assert responses(scene) == [None]

        await speaks(scene, "a")
        [heard] = scene.watcher.of(ev.ReplyHeard)
        assert heard.fault == "no_audio"


@pytest.mark.report("BR-104")
async def test_a_greeting_that_failed_is_asked_for_again_with_its_words():
    async with Scene() as scene:
        await scene.says(ResponseDone("r", ResponseStatus.FAILED, "server_error"))
        assert [missed.fault for missed in scene.watcher.of(ev.ReplyMissed)] == ["response_failed"]
        await scene.passes(0.5)

        assert responses(scene) == ["Greet.", "Greet."]


@pytest.mark.report("BR-117")
async def test_audio_that_cannot_be_heard_is_dropped_and_asked_for_again():
    async with Scene() as scene:
        await scene.says(audio("a", 5000, QUIET))
        for _ in range(6):
            await scene.hears(200)

        assert [missed.fault for missed in scene.watcher.of(ev.ReplyMissed)] == ["inaudible_audio"]
        assert ("interrupt", "a", 1000) in scene.session.told
        assert await scene.hears(200) == b""
        await speaks(scene, "b")
        assert len(scene.watcher.of(ev.ReplyHeard)) == 1


async def test_an_utterance_that_breaks_off_is_asked_for_again():
    async with Scene() as scene:
        await scene.says(audio("a", 400), AgentTranscript("a", "Welcome to", final=False))
        await scene.hears(420)
        await scene.passes(PATIENCE.gap + 0.3)

        assert [missed.fault for missed in scene.watcher.of(ev.ReplyMissed)] == ["speech_broken_off"]
        assert ("interrupt", "a", 400) in scene.session.told


async def test_tools_that_run_for_long_are_no_silence():
    async with Scene(greeting=None, silence=SILENCE) as scene:
        scene.tools.gate.clear()
        await turn(scene)
        await scene.says(tool("lookup_caller"), DONE)
        await scene.passes(120)
        assert scene.watcher.of(ev.ReplyMissed) == scene.watcher.of(ev.CallerWasSilent) == []

        scene.tools.gate.set()
        await scene.settle()
        await scene.passes(PATIENCE.reply + 0.3)
        assert [missed.fault for missed in scene.watcher.of(ev.ReplyMissed)] == ["no_audio"]


async def test_a_line_on_hold_is_no_silence():
    async with Scene(greeting=None, silence=SILENCE) as scene:
        await turn(scene)
        scene.leg.happened.put(HoldChanged(held=True))
        await scene.settle()
        await scene.passes(300)
        assert scene.watcher.of(ev.ReplyMissed) == scene.watcher.of(ev.CallerWasSilent) == []


async def test_a_model_that_stays_silent_for_good_is_apologised_for():
    async with Scene(greeting=None) as scene:
        await turn(scene)
        await scene.passes(PATIENCE.reply + 2 * PATIENCE.again + 1)
        await scene.hears(2000)

        assert scene.leg.hung_up == [HangupCause.FAILED]
        assert len(scene.watcher.of(ev.ReplyMissed)) == 1
        assert scene.ending.reason == "no_audio"


# The caller.


async def test_a_silent_caller_is_asked_and_then_taken_leave_of():
    async with Scene(silence=SILENCE) as scene:
        await speaks(scene, "a")
        await scene.passes(8.5)
        assert scene.watcher.of(ev.CallerWasSilent) == []
        await scene.passes(2.0)
        assert responses(scene)[-1] == "Are they there?"
        await speaks(scene, "b")
        await scene.passes(10.5)
        assert responses(scene)[-1] == "Say goodbye."

        await scene.says(audio("bye", 400), AgentTranscript("bye", "Goodbye.", final=True), AudioDone("bye"))
        assert scene.leg.hung_up == []
        await scene.hears(420)
        await scene.passes(0.5)
        assert scene.leg.hung_up == [HangupCause.NORMAL]
        assert scene.ending.reason == "caller_silent"
        assert [event.act for event in scene.watcher.of(ev.CallerWasSilent)] == ["nudge", "hang_up"]


async def test_a_caller_who_speaks_during_the_goodbye_is_there_again():
    async with Scene(silence=SilenceLimits(None, 1, 20.0)) as scene:
        await speaks(scene, "a")
        await scene.passes(20.5)
        await scene.says(audio("bye", 2000))
        await scene.hears(400)
        await scene.says(SpeechStarted(), Interrupted(), SpeechStopped())
        await speaks(scene, "b")
        await scene.passes(15)

        assert scene.leg.hung_up == []


async def test_a_key_is_a_sign_of_life():
    async with Scene(silence=SILENCE) as scene:
        await speaks(scene, "a")
        for number in range(4):
            await scene.passes(8)
            scene.leg.happened.put(DtmfReceived("1"))
            await scene.settle()
            await speaks(scene, f"b{number}")

        assert scene.watcher.of(ev.CallerWasSilent) == []


async def test_nobody_is_hung_up_on_while_the_agent_speaks():
    async with Scene(silence=SilenceLimits(None, 1, 5.0)) as scene:
        await scene.says(audio("a", 30_000), AudioDone("a"), DONE)
        for _ in range(150):
            await scene.hears(200)

        assert scene.watcher.of(ev.CallerWasSilent) == []


async def test_a_repair_that_settles_during_a_transfer_keeps_nobody_awake(monkeypatch):
    async with Scene(transfer=BUSY, greeting=None) as scene:
        await scene.says(SpeechStarted(), SpeechStopped())
        await scene.passes(8)
        await scene.says(audio("a", 200), AudioDone("a"))
        await scene.hears(200)
        assert scene.watcher.of(ev.ReplyHeard)
        scene.leg.hold_transfer = True
        scene.tools.terminal = TransferRequest("c_transfer_call", "+12125551234", "Sales")
        await scene.says(tool("transfer_call"))
        await scene.passes(30)

        looked = 0
        look = scene.vigil._look

        async def counted(*args):
            nonlocal looked
            looked += 1
            await look(*args)

        monkeypatch.setattr(scene.vigil, "_look", counted)
        await asyncio.sleep(0.05)
        assert looked <= 1
