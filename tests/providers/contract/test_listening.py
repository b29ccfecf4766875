"""What the caller says reaches the model, and what the model understood of it comes back."""

from __future__ import annotations

import pytest

from providers.types import (
    AudioDone,
    CallerTranscript,
    ResponseDone,
    SpeechStarted,
    SpeechStopped,
)
from tests.providers.contract.call import ANSWER, GREETING, REPLY, TALK, settled
from tests.providers.contract.far import Trouble
from tests.providers.contract.needs import client_turns, needs, turns

ECHO = """
    speech: {speed: 50}
    steps:
      - {on: {text: "first"}, say: {tone: 500, ms: 300, text: "The first"}}
      - {on: {dtmf: "5"}, say: {tone: 600, ms: 300, text: "Five"}}
      - {on: {text: "second"}, say: {tone: 700, ms: 300, text: "The second"}}
"""


async def test_the_callers_voice_arrives_byte_for_byte(dial) -> None:
    async with dial() as call:
        audio = await call.say()
        await settled(lambda: len(call.far.heard()) == len(audio))
        assert call.far.heard() == audio


async def test_the_first_frames_are_not_lost(dial) -> None:
    async with dial(listen=False) as call:
        frames = [bytes([n]) * call.session.input.bytes_per_ms * 20 for n in range(1, 40)]
        for frame in frames:
            await call.session.send_audio(frame)
        await settled(lambda: len(call.far.heard()) == len(b"".join(frames)))
        assert call.far.heard() == b"".join(frames)


async def test_frames_may_have_any_length(dial) -> None:
    async with dial() as call:
        step = call.session.input.bytes_per_ms
        sent = b""
        for ms in (1, 3, 10, 20, 60, 1000):
            frame = bytes([ms % 251]) * step * ms
            sent += frame
            await call.session.send_audio(frame)
        await settled(lambda: len(call.far.heard()) == len(sent))
        assert call.far.heard() == sent


async def test_the_model_answers_the_caller_by_itself(dial) -> None:
    async with dial() as call:
        await call.say()
        await call.hear_speech(ANSWER)
        assert call.far.complaints() == []


async def test_the_callers_words_are_told_once_a_turn(dial) -> None:
    async with dial() as call:
        for _ in range(2):
            await call.say()
            await call.hear(AudioDone)
        await settled(lambda: len(call.written()) == 2)
        assert call.written() == ["It is me", "And now"]
        final = [event.item_id for event in call.of(CallerTranscript) if event.final]
        assert len(set(final)) == 2


async def test_pieces_of_the_callers_words_come_before_the_whole(dial) -> None:
    async with dial() as call:
        await call.say()
        await call.hear(AudioDone)
        await settled(lambda: call.written() == ["It is me"])
        *pieces, whole = call.of(CallerTranscript)
        assert whole.final
        assert not whole.partial
        assert {piece.item_id for piece in pieces} <= {whole.item_id}
        assert "".join(piece.text for piece in pieces).strip() in ("", whole.text)


@needs(client_turns)
async def test_the_begin_and_the_end_of_speech_are_told(dial) -> None:
    async with dial() as call:
        await call.say()
        await call.hear(ResponseDone)
        told = [type(event) for event in call.events if isinstance(event, SpeechStarted | SpeechStopped)]
        assert told == [SpeechStarted, SpeechStopped]


@needs(Trouble.NO_TRANSCRIPT)
async def test_a_turn_whose_words_are_lost_is_settled_all_the_same(dial) -> None:
    async with dial(TALK, Trouble.NO_TRANSCRIPT) as call:
        await call.say()
        await call.hear_speech(ANSWER)
        await settled(lambda: len(call.written()) == 1)
        [final] = [event for event in call.of(CallerTranscript) if event.final]
        assert final.partial


async def test_a_text_is_answered_when_an_answer_is_asked_for(dial) -> None:
    async with dial() as call:
        await call.ask("This is a question.")
        await call.hear_speech(REPLY)
        assert call.far.texts() == ["This is a question."]


@needs(turns)
async def test_texts_without_a_request_are_answered_together(dial) -> None:
    async with dial() as call:
        await call.session.send_text("one")
        await call.session.send_text("a question")
        await call.session.respond()
        await call.hear_speech(REPLY)
        await call.say()
        await call.hear_speech(ANSWER)
        assert len(call.of(AudioDone)) == 2


async def test_texts_arrive_in_order_and_byte_for_byte(dial) -> None:
    texts = ["“one”\n", "zwei ß", "三 🎧", 'four "quoted" \\ ']
    async with dial() as call:
        for text in texts:
            await call.session.send_text(text)
        await call.ask()
        await call.hear(AudioDone)
        assert call.far.texts() == [*texts, "a question"]


async def test_a_text_of_the_system_is_a_text_too(dial) -> None:
    async with dial() as call:
        await call.session.send_text("The colleague has a question.", role="system")
        await call.session.respond()
        await call.hear_speech(REPLY)
        assert call.far.complaints() == []


async def test_a_key_that_was_pressed_is_understood(dial) -> None:
    async with dial(ECHO) as call:
        await call.ask("DTMF 5 pressed")
        await call.hear(AudioDone)
        await settled(lambda: call.said() == ["Five"])


async def test_the_words_of_a_request_steer_the_answer(dial) -> None:
    async with dial(ECHO) as call:
        await call.session.respond(instructions="Say the second thing.")
        await call.hear(AudioDone)
        await settled(lambda: call.said() == ["The second"])


async def test_a_caller_on_hold_is_still_there_afterwards(dial) -> None:
    """No audio comes for a while, and the conversation goes on in writing meanwhile."""
    async with dial() as call:
        await call.session.respond()
        await call.hear_speech(GREETING)
        await call.ask()
        await call.hear_speech(REPLY)
        await call.say()
        await call.hear_speech(ANSWER)
        assert call.losses == []


@pytest.mark.parametrize("ms", [200, 2000])
async def test_a_short_and_a_long_turn_are_both_answered(dial, ms: int) -> None:
    async with dial() as call:
        await call.say(ms)
        await call.hear_speech(ANSWER)
