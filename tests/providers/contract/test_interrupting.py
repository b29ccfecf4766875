"""A caller who speaks while the model does: it stops, it learns what was heard, and it goes on."""

from __future__ import annotations

import pytest

from providers.fakes.speech import Tone, render
from providers.types import AudioDelta, AudioDone, Interrupted, ResponseDone, ResponseStatus
from tests.providers.contract.call import GOODBYE, GREETING, REPLY, TALK, settled
from tests.providers.contract.far import Trouble
from tests.providers.contract.needs import cancelling, needs, truncation, turns

SPEECH = """
    speech: {speed: 4}
    hearing: {transcript_after_ms: 0}
    otherwise: silence
    steps:
      - {on: {text: "question"}, repeat: true, say: {tone: 700, ms: 300, text: "The answer"}}
      - {on: greeting, say: {tone: 440, ms: 30000, text: "a b c d e f g h i j k l"}}
      - {on: caller_turn, heard: "Stop", say: {tone: 600, ms: 400, text: "Goodbye"}}
"""


async def barge_in(call, *, heard_ms: int = 120) -> str:
    """Let the model begin, speak into it and do what a call does then; returns the item that was cut."""
    await call.session.respond()
    await call.hear(AudioDelta)
    await call.say(400, pause_ms=0)
    await call.hear(Interrupted)
    item_id = call.of(AudioDelta)[-1].item_id
    await call.session.interrupt(item_id=item_id, heard_ms=heard_ms)
    return item_id


@needs(turns)
async def test_a_caller_who_speaks_interrupts(dial) -> None:
    async with dial(SPEECH) as call:
        await barge_in(call)
        assert len(call.voice()) < 30_000 * call.session.output.bytes_per_ms


@needs(turns)
async def test_the_interruption_is_answered(dial) -> None:
    async with dial(SPEECH) as call:
        await barge_in(call)
        await call.say(200)
        await call.hear(AudioDone, times=2)
        assert call.voice().endswith(render(GOODBYE, call.session.output))
        assert call.far.complaints() == []


@needs(turns)
async def test_nothing_of_an_interrupted_item_is_heard_later(dial) -> None:
    async with dial(SPEECH) as call:
        item_id = await barge_in(call)
        await call.say(200)
        await call.hear(AudioDone, times=2)
        last = max(
            at for at, e in enumerate(call.events) if isinstance(e, AudioDelta) and e.item_id == item_id
        )
        done = next(
            at for at, e in enumerate(call.events) if isinstance(e, AudioDone) and e.item_id == item_id
        )
        assert last < done


@needs(turns, Trouble.STRAY_AUDIO)
async def test_audio_that_was_already_on_its_way_is_dropped(dial) -> None:
    async with dial(SPEECH, Trouble.STRAY_AUDIO) as call:
        await call.session.respond()
        await call.hear(AudioDelta)
        await call.session.interrupt(item_id=call.of(AudioDelta)[-1].item_id, heard_ms=50)
        heard = call.voice()
        await call.say(300)
        await call.hear(AudioDone, times=2)
        assert call.voice() == heard + render(GOODBYE, call.session.output)


@needs(turns)
async def test_an_interrupted_answer_ends_as_cancelled(dial) -> None:
    async with dial(SPEECH) as call:
        await barge_in(call)
        await call.hear(ResponseDone)
        assert call.of(ResponseDone)[0].status is ResponseStatus.CANCELLED


@needs(turns, truncation)
@pytest.mark.parametrize("heard_ms", [0, 20, 140])
async def test_the_model_learns_how_much_was_heard(dial, heard_ms: int) -> None:
    async with dial(SPEECH) as call:
        await barge_in(call, heard_ms=heard_ms)
        await settled(lambda: call.far.cuts() == [heard_ms])
        assert call.far.complaints() == []


@needs(turns, truncation)
async def test_no_more_is_cut_than_there_is(dial) -> None:
    async with dial(SPEECH) as call:
        await barge_in(call, heard_ms=10_000_000)
        await call.say(200)
        await call.hear(AudioDone, times=2)
        assert call.far.complaints() == []


@needs(turns, truncation)
async def test_an_answer_that_was_generated_but_not_heard_is_cut(dial) -> None:
    async with dial() as call:
        await call.session.respond()
        await call.hear_speech(GREETING)
        await call.hear(ResponseDone)
        item_id = call.of(AudioDone)[0].item_id
        await call.say(400, pause_ms=0)
        await call.hear(Interrupted)
        await call.session.interrupt(item_id=item_id, heard_ms=200)
        await settled(lambda: call.far.cuts() == [200])
        assert call.far.complaints() == []


@needs(turns, truncation)
async def test_one_interruption_cuts_once(dial) -> None:
    async with dial(SPEECH) as call:
        item_id = await barge_in(call, heard_ms=100)
        await call.session.interrupt(item_id=item_id, heard_ms=100)
        await call.session.interrupt(item_id=item_id, heard_ms=100)
        await call.say(200)
        await call.hear(AudioDone, times=2)
        assert call.far.cuts()[0] == 100
        assert call.far.complaints() == []


@needs(turns, cancelling)
async def test_an_answer_that_was_asked_for_but_has_not_begun_is_silenced(dial) -> None:
    async with dial(SPEECH) as call:
        await call.session.respond()
        await call.session.interrupt(item_id="", heard_ms=0)
        await call.hear(ResponseDone)
        assert call.of(ResponseDone)[0].status is ResponseStatus.CANCELLED
        assert len(call.voice()) < 30_000 * call.session.output.bytes_per_ms
        await call.say(200)
        await call.hear(AudioDone)


@needs(turns, cancelling)
async def test_a_call_may_interrupt_though_nobody_spoke(dial) -> None:
    """A key was pressed: the call stops the model itself."""
    async with dial(SPEECH) as call:
        await call.session.respond()
        await call.hear(AudioDelta)
        await call.session.interrupt(item_id=call.of(AudioDelta)[-1].item_id, heard_ms=40)
        await call.ask()
        await call.hear(AudioDone, times=2)
        assert call.voice().endswith(render(REPLY, call.session.output))
        assert call.far.complaints() == []


async def test_an_interruption_of_nothing_is_harmless(dial) -> None:
    async with dial() as call:
        await call.session.interrupt(item_id="", heard_ms=0)
        await call.session.respond()
        await call.hear_speech(GREETING)
        assert call.far.complaints() == []


async def test_an_interruption_of_an_unknown_item_is_harmless(dial) -> None:
    async with dial() as call:
        await call.session.interrupt(item_id="item_of_another_session", heard_ms=500)
        await call.session.respond()
        await call.hear_speech(GREETING)
        assert call.far.complaints() == []


async def test_speech_while_nothing_is_said_leaves_the_answer_whole(dial) -> None:
    async with dial(TALK) as call:
        await call.say()
        await call.hear_speech(Tone(500, 500))
        assert call.far.cuts() == []


@needs(turns)
async def test_several_interruptions_in_a_row(dial) -> None:
    text = """
        speech: {speed: 4}
        hearing: {transcript_after_ms: 0}
        steps:
          - {on: greeting, say: {tone: 440, ms: 20000, text: "One"}}
          - {on: caller_turn, repeat: true, say: {tone: 500, ms: 20000, text: "More"}}
    """
    async with dial(text) as call:
        await call.session.respond()
        for _ in range(3):
            await call.hear(AudioDelta)
            await call.say(300, pause_ms=0)
            await call.hear(Interrupted)
            await call.session.interrupt(item_id=call.of(AudioDelta)[-1].item_id, heard_ms=20)
            await call.hear(ResponseDone)
            await call.say(100)
        await call.hear(AudioDelta)
        assert {done.status for done in call.of(ResponseDone)} == {ResponseStatus.CANCELLED}
        assert call.far.complaints() == []
