"""The script of a call reaches every model unchanged, and nothing is talked about before it is there."""

from __future__ import annotations

import pytest

from providers.types import PCM16_16K, PCM16_24K, PCMA, PCMU, ProviderWarning, Usage
from tests.providers.contract.call import ANSWER, GREETING, KNOWLEDGE, LOOKUP, TALK, settled
from tests.providers.contract.kinds import KINDS
from tools.types import AgentToolDefinition

PROMPT = "Du bist “Frau Müller”.\n\tSay \\n, 'yes', \"no\" and {curly} <b>\u00a0</b>…  \r\n漢字 🎧 %s ${x}\n "
ADDENDUM = "## Tools\n\n### Ending the Call\n- Say goodbye.\n"


async def test_the_prompt_arrives_byte_for_byte(dial) -> None:
    async with dial(prompt=PROMPT, addendum="") as call:
        assert call.far.instructions() == PROMPT


async def test_the_tools_addendum_follows_the_prompt_after_a_blank_line(dial) -> None:
    async with dial(prompt=PROMPT, addendum=ADDENDUM) as call:
        assert call.far.instructions() == f"{PROMPT}\n\n{ADDENDUM}"


async def test_a_prompt_of_many_pages_arrives_whole(dial) -> None:
    prompt = "\n".join(f"{n}. Be kind to caller number {n}." for n in range(1, 700))
    async with dial(prompt=prompt, addendum="") as call:
        assert call.far.instructions() == prompt


async def test_the_schemas_of_the_tools_arrive_as_they_are(dial) -> None:
    async with dial() as call:
        assert call.far.tools() == [LOOKUP, KNOWLEDGE]


async def test_the_tools_keep_their_order(dial) -> None:
    tools = tuple(AgentToolDefinition(f"tool_{n}", f"Number {n}.", LOOKUP.parameters) for n in (3, 1, 2))
    async with dial(tools=tools) as call:
        assert [tool.name for tool in call.far.tools()] == ["tool_3", "tool_1", "tool_2"]


async def test_a_session_needs_no_tools(dial) -> None:
    async with dial(tools=()) as call:
        assert call.far.tools() == []
        await call.session.respond()
        await call.hear_speech(GREETING)


async def test_the_voice_is_the_one_that_was_wanted(dial) -> None:
    for voice in dial.kind.voices:
        async with dial(voice=voice) as call:
            assert call.far.voice() == voice


async def test_the_language_of_the_caller_is_no_obstacle(dial) -> None:
    async with dial(language="pt-BR") as call:
        await call.session.respond()
        await call.hear_speech(GREETING)
        assert call.far.complaints() == []


async def test_a_vendor_tool_that_does_not_exist_is_left_out_with_a_warning(dial) -> None:
    async with dial(vendor_tools=("no_such_tool",)) as call:
        await call.session.respond()
        await call.hear_speech(GREETING)
        [warning] = call.of(ProviderWarning)
        assert warning.code == "vendor_tool_unavailable"
        assert "no_such_tool" in warning.message
        assert call.far.tools() == [LOOKUP, KNOWLEDGE]


@pytest.mark.parametrize("line", [PCMU, PCMA, PCM16_16K, PCM16_24K], ids=str)
async def test_the_formats_of_a_session_are_those_that_its_capabilities_promise(dial, line) -> None:
    async with dial(line=line) as call:
        assert call.session.input == dial.can.input_for(line)
        assert call.session.output == dial.can.output_for(line)


async def test_a_session_can_what_its_provider_can(dial) -> None:
    async with dial() as call:
        assert call.session.capabilities == call.far.provider.capabilities == dial.can


async def test_a_session_that_is_configured_late_is_entered_late(dial) -> None:
    async with dial("    connect_after: 0.1" + TALK, prompt=PROMPT) as call:
        assert call.far.instructions().startswith(PROMPT)
        await call.session.respond()
        await call.hear_speech(GREETING)


async def test_nothing_is_consumed_before_anything_was_said(dial) -> None:
    async with dial() as call:
        used = call.session.usage
        assert used == Usage(seconds=used.seconds)
        assert used.seconds < 10


async def test_calls_at_the_same_time_do_not_hear_each_other(dial) -> None:
    async with dial.far() as far, dial.on(far, prompt="One.") as one, dial.on(far, prompt="Two.") as two:
        assert far.instructions().startswith("Two.")
        await two.say(300)
        await one.session.respond()
        await one.hear_speech(GREETING)
        await two.hear_speech(ANSWER)
        assert one.written() == []
        await settled(lambda: two.written() == ["It is me"])


async def test_every_provider_is_given_the_same_script(dial) -> None:
    """Each is compared with the first, so all are the same."""
    seen = []
    for kind in (KINDS[0], dial.kind):
        async with type(dial)(kind)(prompt=PROMPT, addendum=ADDENDUM) as call:
            seen.append((call.far.instructions().encode(), call.far.tools()))
    assert seen[0] == seen[1]
