"""The first words of a bridged call."""

import asyncio

import pytest

from gateway.calls import events as ev
from gateway.calls.greeting import Greeting
from gateway.legs.base import CallerAudio, DtmfReceived
from providers.types import (
    AgentTranscript,
    AudioDone,
    Interrupted,
    ResponseDone,
    ResponseStatus,
    SpeechStarted,
)
from tests.gateway.calls.scene import Scene, audio
from tests.kit import sound

DONE = ResponseDone("r", ResponseStatus.COMPLETED)
RECORDED = Greeting(recording=b"\x21" * 8000, text="Welcome to Acme. How can I help you today?")
LOCKED = Greeting("Greet.", interruptible=False)
VOICE = sound.encode(sound.utterance(9, 0.5))


async def says_over(scene, data=VOICE) -> None:
    """The caller speaks."""
    for at in range(0, len(data), 160):
        scene.leg.audio.put(CallerAudio(data[at : at + 160], 0))
        await scene.settle()


async def until_over(scene) -> None:
    async with asyncio.timeout(5):
        await scene.bridge._greeter.over.wait()


async def test_a_recording_is_heard_and_stands_in_the_transcript():
    async with Scene(greeting=RECORDED) as scene:
        assert await scene.hears(1000) == RECORDED.recording
        await scene.hears(20)

        [said] = scene.watcher.of(ev.AgentSaid)
        assert (said.item_id, said.text, said.heard_ms) == ("greeting", RECORDED.text, 1000)
        assert scene.session.told == []


@pytest.mark.report("BR-090")
async def test_a_recording_that_is_cut_off_is_told_to_the_model_as_far_as_it_was_heard():
    async with Scene(greeting=RECORDED) as scene:
        await scene.hears(400)
        await scene.says(SpeechStarted(), Interrupted())

        assert await scene.hears(200) == b""
        [text] = [told for told in scene.session.told if told[0] == "text"]
        assert text[1] == "system"
        assert '"Welcome to Acme.' in text[2]
        assert "today" not in text[2]
        [said] = scene.watcher.of(ev.AgentSaid)
        assert (said.heard_ms, said.total_ms) == (400, 1000)


async def test_what_is_said_over_a_greeting_that_may_not_be_interrupted_reaches_the_model_afterwards():
    async with Scene(greeting=LOCKED) as scene:
        await scene.says(audio("a", 800), AgentTranscript("a", "Welcome.", final=True), AudioDone("a"), DONE)
        await scene.hears(200)
        await says_over(scene)
        assert set(scene.session.heard) == {0xFF}

        await scene.says(Interrupted())  # of a model that thinks that it was interrupted
        assert len(await scene.hears(620)) == 600 * 8
        await until_over(scene)
        await says_over(scene, b"\xff" * 160)
        assert VOICE in scene.session.heard


async def test_after_it_the_caller_can_interrupt_as_ever():
    async with Scene(greeting=LOCKED) as scene:
        await scene.says(audio("a", 200), AudioDone("a"), DONE)
        await scene.hears(220)
        await until_over(scene)
        await scene.says(audio("b", 2000))
        await scene.hears(400)
        await scene.says(SpeechStarted(), Interrupted())

        assert await scene.hears(200) == b""


async def test_keys_wait_for_the_end_of_it():
    async with Scene(greeting=LOCKED) as scene:
        await scene.says(audio("a", 400), AudioDone("a"), DONE)
        scene.leg.happened.put(DtmfReceived("#"))
        await scene.settle()
        assert [told[0] for told in scene.session.told] == ["respond"]

        await scene.hears(420)
        await until_over(scene)
        await scene.settle()
        assert ("text", "user", "DTMF # pressed") in scene.session.told


async def test_a_greeting_that_can_be_interrupted_lets_the_caller_through_at_once():
    async with Scene() as scene:
        await says_over(scene)
        assert scene.session.heard == VOICE
