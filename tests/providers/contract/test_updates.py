"""What can be changed in a running session is changed whole; what cannot is refused whole."""

from __future__ import annotations

import asyncio

import pytest

from providers.errors import ProviderRejected
from providers.types import AudioDone, Part
from tests.providers.contract.call import ANSWER, GREETING, KNOWLEDGE, LOOKUP, settled
from tests.providers.contract.needs import a_fixed, a_live, needs
from tools.types import CallUpdate

HANDOFF = """
    speech: {speed: 50}
    hearing: {transcript_after_ms: 0}
    scenes:
      - when: {instructions: "kitchen"}
        steps:
          - {on: caller_turn, repeat: true, say: {tone: 600, ms: 300, text: "This is the kitchen"}}
          - {on: greeting, say: {tone: 600, ms: 300, text: "This is the kitchen"}}
      - steps:
          - {on: greeting, say: {tone: 440, ms: 600, text: "Hello, who is there"}}
          - {on: caller_turn, repeat: true, say: {tone: 500, ms: 300, text: "This is the bar"}}
"""


@needs(a_live(Part.PROMPT))
async def test_a_new_prompt_keeps_the_tools_addendum(dial) -> None:
    async with dial() as call:
        await call.session.update(CallUpdate(1, prompt="You are the “kitchen”."))
        await settled(lambda: call.far.instructions() == "You are the “kitchen”.\n\n## Tools")
        assert call.far.tools() == [LOOKUP, KNOWLEDGE]


@needs(a_live(Part.PROMPT))
async def test_the_model_follows_a_new_prompt(dial) -> None:
    async with dial(HANDOFF) as call:
        await call.session.respond()
        await call.hear_speech(GREETING)
        await call.session.update(CallUpdate(1, prompt="You are the kitchen."))
        await call.say()
        await call.hear(AudioDone)
        await settled(lambda: call.said()[-1] == "This is the kitchen")


@needs(a_live(Part.TOOLS))
async def test_new_tools_replace_the_old_ones(dial) -> None:
    async with dial() as call:
        await call.session.update(CallUpdate(1, tools=(KNOWLEDGE,)))
        await settled(lambda: call.far.tools() == [KNOWLEDGE])
        assert call.far.instructions() == "You answer the phone.\n\n## Tools"


@needs(a_live(Part.TOOLS))
async def test_tools_can_be_taken_away(dial) -> None:
    async with dial() as call:
        await call.session.update(CallUpdate(1, tools=()))
        await settled(lambda: call.far.tools() == [])
        await call.session.respond()
        await call.hear_speech(GREETING)


@needs(a_live(Part.LANGUAGE))
async def test_the_language_can_be_switched_in_the_middle(dial) -> None:
    async with dial(language="en") as call:
        await call.session.respond()
        await call.hear_speech(GREETING)
        await call.session.update(CallUpdate(1, language="kk"))
        await call.say()
        await call.hear_speech(ANSWER)
        assert call.far.complaints() == []


@needs(a_live(Part.PROMPT), a_live(Part.TOOLS), a_live(Part.LANGUAGE))
async def test_several_parts_are_changed_at_once(dial) -> None:
    async with dial() as call:
        await call.session.update(CallUpdate(1, prompt="Other.", language="de", tools=(LOOKUP,)))
        await settled(lambda: call.far.instructions() == "Other.\n\n## Tools")
        assert call.far.tools() == [LOOKUP]


@needs(a_live(Part.PROMPT))
async def test_updates_that_come_together_are_all_applied(dial) -> None:
    async with dial() as call, asyncio.TaskGroup() as group:
        for n in range(4):
            group.create_task(call.session.update(CallUpdate(n, prompt=f"Number {n}.")))
        await settled(lambda: call.far.instructions() == "Number 3.\n\n## Tools")


@needs(a_fixed(Part.VOICE))
async def test_a_voice_that_was_heard_cannot_be_changed(dial) -> None:
    async with dial(voice=dial.kind.voices[0]) as call:
        await call.session.respond()
        await call.hear_speech(GREETING)
        with pytest.raises(ProviderRejected):
            await call.session.update(CallUpdate(1, voice=dial.kind.voices[1]))
        assert call.far.voice() == dial.kind.voices[0]
        await call.say()
        await call.hear_speech(ANSWER)


@needs(a_fixed(Part.VOICE))
async def test_an_update_with_a_part_that_cannot_be_changed_changes_nothing(dial) -> None:
    async with dial() as call:
        await call.session.respond()
        await call.hear_speech(GREETING)
        with pytest.raises(ProviderRejected):
            await call.session.update(CallUpdate(1, prompt="Other.", voice=dial.kind.voices[1]))
        assert call.far.instructions() == "You answer the phone.\n\n## Tools"


async def test_an_update_of_nothing_is_nothing(dial) -> None:
    async with dial() as call:
        await call.session.update(CallUpdate(1))
        await call.session.respond()
        await call.hear_speech(GREETING)
        assert call.far.sessions() == 1
