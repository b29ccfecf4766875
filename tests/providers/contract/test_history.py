"""A session that goes on with what another began knows it, and does not begin again."""

from __future__ import annotations

from providers.fakes.speech import Tone
from providers.types import AudioDone, Said, ToolUsed
from tests.providers.contract.call import LOOKUP, settled
from tools.types import ToolCall

PAST = (
    Said("agent", "Hello, this is the bakery."),
    Said("caller", "It’s “Ada” – 漢字 🎧\n"),
    Said("system", "The caller pressed 5."),
    ToolUsed(
        ToolCall("call_of_another_provider_with_a_very_long_id", "lookup_caller", '{"id": 7}'), '{"ok": true}'
    ),
    Said("agent", "Hello Ada."),
)
ON = """
    speech: {speed: 50}
    hearing: {transcript_after_ms: 0}
    otherwise: silence
    steps:
      - {on: greeting, say: {tone: 440, ms: 600, text: "Hello, who is there"}}
      - {on: {text: "go on"}, say: {tone: 700, ms: 300, text: "As I said"}}
      - {on: caller_turn, heard: "Bread", say: {tone: 500, ms: 500, text: "Which one"}}
"""
RESUMED, NEXT = Tone(700, 300), Tone(500, 500)


async def test_what_was_said_is_known_in_its_order(dial) -> None:
    async with dial(ON, history=PAST) as call:
        await settled(lambda: len(call.far.history()) == len(PAST))
        spoken = [each for each in call.far.history() if each[0] != "tool"]
        assert spoken == [(past.party, past.text) for past in PAST if isinstance(past, Said)]


async def test_what_was_looked_up_is_known_with_its_result(dial) -> None:
    async with dial(ON, history=PAST) as call:
        await settled(lambda: len(call.far.history()) == len(PAST))
        party, told = call.far.history()[3]
        assert party == "tool"
        assert "lookup_caller" in told
        assert '"id": 7' in told or '"id":7' in told
        assert '"ok": true' in told or '"ok":true' in told


async def test_the_past_leaves_instructions_and_tools_alone(dial) -> None:
    async with dial(ON, history=PAST, tools=(LOOKUP,)) as call:
        assert call.far.instructions() == "You answer the phone.\n\n## Tools"
        assert call.far.tools() == [LOOKUP]


async def test_the_past_is_not_greeted_again(dial) -> None:
    async with dial(ON, history=PAST) as call:
        await call.session.respond(instructions="Please go on.")
        await call.hear_speech(RESUMED)
        assert call.said() in ([], ["As I said"])
        assert len(call.of(AudioDone)) == 1


async def test_the_caller_is_answered_after_the_past(dial) -> None:
    async with dial(ON, history=PAST) as call:
        await call.say()
        await call.hear_speech(NEXT)
        assert call.written() == ["Bread"]
        assert call.far.complaints() == []


async def test_a_tool_of_the_past_is_not_called_again(dial) -> None:
    async with dial(ON, history=PAST) as call:
        await call.say()
        await call.hear(AudioDone)
        assert call.far.unanswered() == 0
        assert call.far.answers() == []


async def test_without_a_past_nothing_is_put_in(dial) -> None:
    async with dial(ON) as call:
        await call.say()
        await call.hear_speech(NEXT)
        assert call.far.history() == []
        assert call.far.texts() == []


async def test_an_hour_of_past_is_taken(dial) -> None:
    """As much as a provider has room for, and the last words in any case."""
    past = tuple(
        Said("caller" if n % 2 else "agent", f"Sentence number {n} of a long call.") for n in range(301)
    )
    async with dial(ON, history=past) as call:
        await call.say()
        await call.hear_speech(NEXT)
        known = call.far.history()
        assert len(known) >= 60
        assert known[-1] == ("agent", "Sentence number 300 of a long call.")
        assert call.far.complaints() == []
