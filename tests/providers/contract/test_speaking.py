"""What the model says reaches the call: every sample, with its words, item by item."""

from __future__ import annotations

import pytest

from providers.fakes.speech import Tone, render
from providers.types import (
    PCMA,
    PCMU,
    AgentTranscript,
    AudioDelta,
    AudioDone,
    ResponseDone,
    ResponseStatus,
    ToolCallsRequested,
)
from tests.providers.contract.call import ANSWER, GOODBYE, GREETING, REPLY, settled
from tests.providers.contract.far import Trouble
from tests.providers.contract.needs import client_turns, needs, turns

LONG = """
    speech: {speed: 200}
    steps:
      - {on: greeting, say: {tone: 440, ms: 3000, text: "one two three four five six seven eight nine ten"}}
"""
TWICE = """
    speech: {speed: 50}
    steps:
      - {on: greeting, repeat: true, say: {tone: 440, ms: 400, text: "Here I am"}}
"""
HERE = Tone(440, 400)


async def test_the_model_says_nothing_before_it_is_asked(dial) -> None:
    async with dial() as call:
        await call.session.send_audio(call.silence())
        await call.session.respond()
        await call.hear_speech(GREETING)
        await settled(lambda: call.said() == ["Hello, who is there"])


@pytest.mark.parametrize("line", [PCMU, PCMA], ids=str)
async def test_every_sample_arrives(dial, line) -> None:
    async with dial(line=line) as call:
        await call.session.respond()
        await call.hear_speech(GREETING)


async def test_a_long_utterance_arrives_whole(dial) -> None:
    async with dial(LONG) as call:
        await call.session.respond()
        await call.hear_speech(Tone(440, 3000))


@needs(turns)
async def test_an_utterance_comes_faster_than_it_is_spoken(dial) -> None:
    async with dial(LONG.replace("3000", "30000")) as call:
        await call.session.respond()
        await call.hear_speech(Tone(440, 30_000))


async def test_an_item_is_done_once_and_after_its_last_sample(dial) -> None:
    async with dial() as call:
        await call.session.respond()
        await call.hear_speech(GREETING)
        await call.say()
        await call.hear_speech(ANSWER)
        done = [event.item_id for event in call.of(AudioDone)]
        assert len(done) == len(set(done)) == 2
        for item_id in done:
            kinds = [type(event) for event in call.events if getattr(event, "item_id", "") == item_id]
            sounds = [kind for kind in kinds if kind in (AudioDelta, AudioDone)]
            assert sounds.index(AudioDone) == len(sounds) - 1


async def test_each_utterance_is_an_item_of_its_own(dial) -> None:
    async with dial() as call:
        await call.session.respond()
        await call.hear_speech(GREETING)
        await call.ask()
        await call.hear_speech(REPLY)
        items = list(dict.fromkeys(event.item_id for event in call.of(AudioDelta)))
        assert len(items) == 2
        assert all(items)


async def test_the_words_belong_to_the_item_that_is_heard(dial) -> None:
    async with dial() as call:
        await call.session.respond()
        await call.hear_speech(GREETING)
        await settled(lambda: call.said() == ["Hello, who is there"])
        [item_id] = {event.item_id for event in call.of(AudioDelta)}
        assert {event.item_id for event in call.of(AgentTranscript)} == {item_id}


async def test_the_words_come_in_pieces_and_then_whole(dial) -> None:
    async with dial(LONG) as call:
        await call.session.respond()
        await call.hear(AudioDone)
        await settled(lambda: bool(call.said()))
        pieces = [event.text for event in call.of(AgentTranscript) if not event.final]
        assert len(pieces) > 1
        assert "".join(pieces).split() == call.said()[0].split()


@needs(turns)
async def test_the_end_of_an_answer_is_told_after_its_audio(dial) -> None:
    async with dial() as call:
        await call.session.respond()
        await call.hear(ResponseDone)
        [done] = call.of(ResponseDone)
        assert done.status is ResponseStatus.COMPLETED
        assert done.response_id
        kinds = [type(event) for event in call.events]
        assert kinds.index(AudioDone) < kinds.index(ResponseDone)
        assert call.voice() == render(GREETING, call.session.output)


async def test_each_answer_has_its_own_id(dial) -> None:
    async with dial() as call:
        await call.session.respond()
        await call.hear(ResponseDone)
        await call.ask()
        await call.hear(ResponseDone)
        assert len({done.response_id for done in call.of(ResponseDone)}) == 2


@needs(turns)
async def test_requests_that_wait_become_one(dial) -> None:
    async with dial(TWICE) as call:
        for _ in range(4):
            await call.session.respond()
        await call.hear_speech(HERE, HERE)
        await call.session.respond()
        await call.hear_speech(HERE)
        assert len(call.of(AudioDone)) == 3


async def test_an_answer_without_tools_calls_none(dial) -> None:
    text = """
        speech: {speed: 50}
        otherwise: {tone: 500, ms: 300, text: "As I said"}
        steps:
          - {on: greeting, say: {tone: 440, ms: 300, text: "Let me look"}, call: {tool: lookup_caller}}
          - {on: {text: "question"}, say: {tone: 700, ms: 300, text: "The answer"}}
    """
    async with dial(text) as call:
        await call.session.respond(tools=False)
        await call.hear(AudioDone)
        await call.ask()
        await call.hear(AudioDone)
        assert call.of(ToolCallsRequested) == []
        await settled(lambda: call.far.unanswered() == 0)


@needs(turns, Trouble.SILENT_ANSWER)
async def test_an_answer_without_audio_is_told_and_can_be_asked_for_again(dial) -> None:
    async with dial(TWICE, Trouble.SILENT_ANSWER) as call:
        await call.session.respond()
        await call.hear(ResponseDone)
        await call.session.respond()
        await call.hear_speech(HERE)


@needs(turns, Trouble.FAILED_ANSWER)
async def test_an_answer_that_fails_is_told_and_can_be_asked_for_again(dial) -> None:
    async with dial(TWICE, Trouble.FAILED_ANSWER) as call:
        await call.session.respond()
        await call.hear(ResponseDone)
        await call.session.respond()
        await call.hear_speech(HERE)
        assert ResponseStatus.FAILED in [done.status for done in call.of(ResponseDone)]


@needs(client_turns)
async def test_what_is_asked_while_the_model_speaks_is_answered_afterwards(dial) -> None:
    async with dial() as call:
        await call.session.respond()
        await call.hear(AudioDelta)
        await call.ask()
        await call.hear(AudioDone, times=2)
        assert call.voice() == b"".join(render(sound, call.session.output) for sound in (GREETING, REPLY))


async def test_a_conversation_of_several_turns(dial) -> None:
    async with dial() as call:
        await call.session.respond()
        await call.hear_speech(GREETING)
        await call.say()
        await call.hear_speech(ANSWER)
        await call.say()
        await call.hear_speech(GOODBYE)
        await settled(lambda: len(call.said()) == 3 and len(call.written()) == 2)
        assert call.said() == ["Hello, who is there", "Good to hear you", "Goodbye"]
        assert call.written() == ["It is me", "And now"]
        assert call.far.complaints() == []
