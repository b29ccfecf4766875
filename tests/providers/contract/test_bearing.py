"""What a session bears: slow listeners, odd frames, and tasks that are cancelled at any point."""

from __future__ import annotations

import asyncio

import pytest

from providers.fakes.speech import Tone, render
from providers.types import AudioDelta, AudioDone, ProviderWarning
from tests.providers.contract.call import ANSWER, GREETING, TALK, settled
from tests.providers.contract.far import KEY, Trouble
from tests.providers.contract.needs import needs

LONG = """
    speech: {speed: 500, delta_ms: [100]}
    steps:
      - {on: greeting, say: {tone: 440, ms: 3000, text: "A long story"}}
"""
STORY = Tone(440, 3000)


async def test_a_listener_who_comes_late_misses_nothing(dial) -> None:
    async with dial(LONG, listen=False) as call:
        await call.session.respond()
        for _ in range(50):
            await asyncio.sleep(0)
        async with asyncio.timeout(20):
            async for event in call.session:
                call.events.append(event)
                if isinstance(event, AudioDone):
                    break
        assert render(STORY, call.session.output) in call.voice()


async def test_a_slow_listener_hears_everything_in_order(dial) -> None:
    async with dial(LONG, listen=False) as call:
        await call.session.respond()
        async with asyncio.timeout(20):
            async for event in call.session:
                call.events.append(event)
                await asyncio.sleep(0.005)
                if isinstance(event, AudioDone):
                    break
        assert render(STORY, call.session.output) in call.voice()


async def test_an_iteration_that_is_cancelled_again_and_again_loses_nothing(dial) -> None:
    async with dial(LONG, listen=False) as call:
        cancelled = 0
        async with asyncio.timeout(30):
            while not call.of(AudioDone):
                try:
                    async with asyncio.timeout(0.001):
                        call.events.append(await anext(call.session))
                except TimeoutError:
                    cancelled += 1
                    if cancelled == 3:
                        await call.session.respond()
        assert cancelled >= 3
        assert render(STORY, call.session.output) in call.voice()


async def test_a_sender_that_is_cancelled_does_no_harm(dial) -> None:
    async with dial() as call:
        for _ in range(5):
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(call.session.send_text("never mind"))
                await asyncio.sleep(0)
                sending.cancel()
        await call.session.respond()
        await call.hear_speech(GREETING)


async def test_many_tasks_may_speak_to_one_session(dial) -> None:
    async with dial() as call:
        async with asyncio.TaskGroup() as group:
            for n in range(20):
                group.create_task(call.session.send_text(f"note {n}"))
                group.create_task(call.session.send_audio(call.silence()))
            group.create_task(call.session.respond())
        await call.hear_speech(GREETING)
        await settled(lambda: len(call.far.texts()) == 20)
        assert sorted(call.far.texts()) == sorted(f"note {n}" for n in range(20))
        assert len(call.far.heard()) == 20 * 20 * call.session.input.bytes_per_ms


@needs(Trouble.UNKNOWN_EVENT)
async def test_an_event_that_is_newer_than_our_code_is_ignored(dial) -> None:
    async with dial(TALK, Trouble.UNKNOWN_EVENT) as call:
        await asyncio.sleep(0.05)
        await call.session.respond()
        await call.hear_speech(GREETING)
        assert call.losses == []


@needs(Trouble.GARBAGE)
async def test_a_frame_that_is_no_message_is_a_warning(dial) -> None:
    async with dial(TALK, Trouble.GARBAGE) as call:
        await call.hear(ProviderWarning)
        await call.session.respond()
        await call.hear_speech(GREETING)
        [warning] = call.of(ProviderWarning)
        assert warning.code
        assert KEY not in warning.message


@needs(Trouble.HUGE_AUDIO)
async def test_a_frame_of_more_than_a_mebibyte_is_heard(dial) -> None:
    async with dial(TALK, Trouble.HUGE_AUDIO) as call:
        await call.session.respond()
        await call.hear(AudioDone)
        assert max(len(event.audio) for event in call.of(AudioDelta)) >= 1024 * 1024 * 3 // 4
        assert call.voice().startswith(render(GREETING, call.session.output))
        await call.say()
        await call.hear(AudioDone)
        assert call.voice().endswith(render(ANSWER, call.session.output))


@needs(Trouble.SLOW_READER)
async def test_a_service_that_reads_slowly_makes_us_wait_and_not_grow(dial) -> None:
    async def pour(call, sent: list[int]) -> None:
        while True:
            await call.session.send_audio(bytes(64_000))
            sent.append(64_000)

    async with dial(TALK, Trouble.SLOW_READER) as call:
        sent: list[int] = []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await pour(call, sent)
        assert 0 < sum(sent) < 10_000_000


async def test_silence_alone_is_no_conversation(dial) -> None:
    async with dial() as call:
        for _ in range(100):
            await call.session.send_audio(call.silence())
        await call.session.respond()
        await call.hear_speech(GREETING)
        assert call.written() == []
