"""
The provider against the shipped Realtime server, which shares no code with it.

The server checks each event that it sends with the SDK's types and each that it receives
against the documentation, so a mistake that both tests and code of ``providers/openai`` make
shows here.
"""

from __future__ import annotations

import asyncio
import json
import textwrap
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from config.providers import OpenAISettings
from providers.errors import ProviderRejected, ProviderUnavailable, SessionLost
from providers.fakes.openai_server import OpenAIFakeServer
from providers.fakes.script_parser import parse_script
from providers.fakes.speech import Tone, render, silence
from providers.openai import OpenAIProvider
from providers.types import (
    PCM16_16K,
    PCMA,
    PCMU,
    AudioDelta,
    AudioDone,
    CallerTranscript,
    Interrupted,
    ProviderWarning,
    ResponseDone,
    ResponseStatus,
    SessionEnding,
    SpeechStopped,
    ToolCallsRequested,
)
from tests.providers.openai.hand_server import LOOKUP, setup
from tools.types import AgentToolDefinition, CallUpdate, ToolResult, ToolStatus

KNOWLEDGE = AgentToolDefinition(
    "query_knowledge",
    "Searches the handbook.",
    {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
        "additionalProperties": False,
    },
)
TALK = """
    speech: {speed: 50}
    hearing: {transcript_after_ms: 0}
    steps:
      - {on: greeting, say: {tone: 440, ms: 1000, text: "Hello, who is there"}}
      - {on: caller_turn, heard: "It is me", say: {tone: 500, ms: 2000, text: "Good to hear you"}}
      - {on: caller_turn, say: {tone: 600, ms: 1000, text: "Goodbye"}}
"""
LONG = TALK.replace("ms: 1000", "ms: 30000", 1)  # its greeting cannot be over before a cancel arrives
TOOLS = """
    speech: {speed: 50}
    steps:
      - on: greeting
        say: {tone: 440, ms: 400, text: "Let me look"}
        call: [{tool: lookup_caller}, {tool: query_knowledge, arguments: {query: hours}}]
      - {on: {tool_result: [lookup_caller, query_knowledge]}, say: {tone: 500, ms: 300, text: "Until six"}}
      - {on: caller_turn, say: {tone: 600, ms: 300, text: "Yes"}}
"""


class Caller:
    """A call that hears events and speaks to the model, as fast as the loop can."""

    def __init__(self, server: OpenAIFakeServer, session) -> None:
        self.server = server
        self.session = session
        self.events: list = []

    async def hear_until(self, kind: type, *, times: int = 1) -> list:
        """Take events until so many of ``kind`` came; returns those that were taken."""
        before = len(self.events)
        async with asyncio.timeout(10):
            while sum(isinstance(event, kind) for event in self.events[before:]) < times:
                self.events.append(await anext(self.session))
        return self.events[before:]

    async def say(self, ms: int = 800, *, pause_ms: int = 600) -> None:
        audio = render(Tone(300, ms), self.session.input) + silence(pause_ms, self.session.input)
        size = self.session.input.bytes_per_ms * 20
        for at in range(0, len(audio), size):
            await self.session.send_audio(audio[at : at + size])

    @property
    def other_side(self):
        return self.server.sessions[-1]

    def received(self, kind: str) -> list[dict]:
        return [each.event for each in self.other_side.received if each.type == kind]

    def errors(self) -> list[str]:
        """Return the errors that we did not ask for (providers.liveness)."""
        errors = [each.event["error"] for each in self.other_side.sent if each.type == "error"]
        return [each["code"] for each in errors if not str(each["event_id"]).startswith("alive")]

    def transcripts(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, CallerTranscript) and event.final]

    def voice(self) -> bytes:
        return b"".join(event.audio for event in self.events if isinstance(event, AudioDelta))


@asynccontextmanager
async def talk(script: str = TALK, faults: str = "", *, server_options: dict | None = None, **more):
    parsed = parse_script(textwrap.dedent(script), Path("test.yaml"))
    async with OpenAIFakeServer(parsed, faults, validate=True, **(server_options or {})) as server:
        async with provider(server).connect(setup(tools=(LOOKUP, KNOWLEDGE), **more)) as session:
            yield Caller(server, session)


def provider(server: OpenAIFakeServer, **more) -> OpenAIProvider:
    return OpenAIProvider(OpenAISettings(api_key="sk-test-0123456789", base_url=server.url, **more))


async def settled(condition: Callable[[], bool]) -> None:
    """Let both sides run until the server has seen what it must see."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.requirement("D-3")
@pytest.mark.parametrize("line", [PCMU, PCMA, PCM16_16K])
async def test_a_whole_conversation_in_the_format_of_the_line(line) -> None:
    async with talk(line=line) as caller:
        config = caller.other_side.config.session
        assert config["instructions"] == "You answer the phone.\n\n## Tools"
        assert [tool["name"] for tool in config["tools"]] == ["lookup_caller", "query_knowledge"]
        await caller.session.respond()
        await caller.hear_until(ResponseDone)
        assert caller.voice() == render(Tone(440, 1000), caller.session.output)
        await caller.say()
        await caller.hear_until(ResponseDone)
        assert caller.voice().endswith(render(Tone(500, 2000), caller.session.output))
        await settled(lambda: len(caller.other_side.input_audio) == 1400 * caller.session.input.bytes_per_ms)
        while not caller.transcripts():  # it may come after the answer
            await caller.hear_until(CallerTranscript)
        assert caller.transcripts() == ["It is me"]
        assert caller.errors() == []
        assert not [event for event in caller.events if isinstance(event, ProviderWarning)]


async def test_parallel_tools_are_one_batch_with_one_answer_each_and_one_response() -> None:
    """Faults 20 and 21."""
    async with talk(TOOLS) as caller:
        await caller.session.respond()
        await caller.hear_until(ResponseDone)
        [batch] = [event for event in caller.events if isinstance(event, ToolCallsRequested)]
        assert [(call.name, json.loads(call.arguments)) for call in batch.calls] == [
            ("lookup_caller", {}),
            ("query_knowledge", {"query": "hours"}),
        ]
        for call in reversed(batch.calls):
            await caller.session.send_tool_result(ToolResult(call.call_id, call.name, ToolStatus.OK))
        await caller.session.respond()
        await caller.hear_until(ResponseDone)
        assert caller.voice().endswith(render(Tone(500, 300), PCMU))
        assert len(caller.received("response.create")) == 2
        assert caller.other_side.conversation.unanswered == ()
        assert caller.errors() == []


async def test_a_barge_in_is_cut_where_it_was_heard() -> None:
    """Faults 3, 6 and 7: no cancel that fails, no cut that is refused."""
    async with talk(TALK.replace("ms: 2000", "ms: 30000"), "late_deltas:3#2") as caller:
        await caller.session.respond()
        await caller.hear_until(ResponseDone)
        await caller.say()
        await caller.hear_until(AudioDelta)
        item_id = caller.events[-1].item_id
        await caller.say(400, pause_ms=0)
        await caller.hear_until(Interrupted)
        heard = caller.voice()
        await caller.session.interrupt(item_id=item_id, heard_ms=120)
        await caller.say(400)
        await caller.hear_until(ResponseDone, times=2)
        await settled(lambda: bool(caller.received("conversation.item.truncate")))
        [cut] = caller.received("conversation.item.truncate")
        assert (cut["item_id"], cut["audio_end_ms"]) == (item_id, 120)
        assert caller.voice() == heard + render(Tone(600, 1000), PCMU)
        assert caller.received("response.cancel") == []
        assert caller.errors() == []


async def test_an_answer_that_is_generated_but_still_plays_is_cut() -> None:
    """Fault 7: the server has finished; only the call knows that nothing more was heard."""
    async with talk() as caller:
        await caller.session.respond()
        await caller.hear_until(ResponseDone)
        item_id = next(event.item_id for event in caller.events if isinstance(event, AudioDone))
        await caller.say()
        await caller.hear_until(Interrupted)
        await caller.session.interrupt(item_id=item_id, heard_ms=300)
        await caller.hear_until(ResponseDone)
        await settled(lambda: bool(caller.received("conversation.item.truncate")))
        assert caller.received("conversation.item.truncate")[0]["audio_end_ms"] == 300
        assert caller.errors() == []


async def test_what_comes_after_a_cancelled_response_is_dropped() -> None:
    """Fault 5 and late deltas: nothing of an interrupted response is heard."""
    async with talk(LONG, "stray_deltas:3#1") as caller:
        await caller.session.respond()
        await caller.hear_until(AudioDelta)
        heard = caller.voice()
        await caller.session.interrupt(item_id=caller.events[-1].item_id, heard_ms=50)
        await caller.hear_until(ResponseDone)
        await caller.say()
        await caller.hear_until(ResponseDone)
        assert caller.voice() == heard + render(Tone(500, 2000), PCMU)
        assert len(caller.received("response.cancel")) == 1


async def test_an_interruption_before_the_greeting_began_silences_it() -> None:
    """Fault 5."""
    async with talk(LONG) as caller:
        await caller.session.respond()
        await caller.session.interrupt(item_id="", heard_ms=0)
        done = (await caller.hear_until(ResponseDone))[-1]
        assert done.status is ResponseStatus.CANCELLED
        assert caller.voice() == b""
        assert caller.errors() == []


async def test_requests_at_any_time_never_collide() -> None:
    """Faults 1 and 2: while one is pending, runs, or is being cancelled."""
    async with talk(
        LONG + '      - {on: {text: ".*"}, repeat: true, say: {tone: 700, ms: 200, text: More}}'
    ) as caller:
        for n in range(3):
            await caller.session.send_text(f"note {n}")
            await caller.session.respond(instructions=f"say {n}")
        await caller.hear_until(AudioDelta)
        await caller.session.respond(instructions="again")
        await caller.session.interrupt(item_id="", heard_ms=0)
        await caller.session.respond(instructions="and again")
        await caller.hear_until(ResponseDone, times=2)
        creates = caller.received("response.create")
        assert [create["response"]["instructions"] for create in creates] == [
            "say 0",
            "say 1\nsay 2\nagain\nand again",
        ]
        assert caller.errors() == []


async def test_a_result_that_comes_during_the_callers_turn_is_answered_with_it() -> None:
    async with talk(TOOLS) as caller:
        await caller.session.respond()
        await caller.hear_until(ResponseDone)
        [batch] = [event for event in caller.events if isinstance(event, ToolCallsRequested)]
        await caller.say(600, pause_ms=0)
        await caller.hear_until(Interrupted)
        for call in batch.calls:
            await caller.session.send_tool_result(ToolResult(call.call_id, call.name, ToolStatus.OK))
        await caller.session.respond()
        await settled(lambda: caller.other_side.conversation.unanswered == ())
        await caller.say(200)
        await caller.hear_until(ResponseDone)
        assert len(caller.received("response.create")) == 1
        assert caller.errors() == []


# What goes wrong at the server.


async def test_a_call_that_was_cut_is_answered_by_us_and_never_runs() -> None:
    """Fault 21."""
    async with talk(TOOLS, "cut_arguments#1") as caller:
        await caller.session.respond()
        await caller.hear_until(ResponseDone)
        assert not [event for event in caller.events if isinstance(event, ToolCallsRequested)]
        await settled(lambda: caller.other_side.conversation.unanswered == ())
        for answer in caller.received("conversation.item.create"):
            assert json.loads(answer["item"]["output"])["status"] == "failed"


@pytest.mark.parametrize("fault", ["failed#1", "failed#1:rate_limit_exceeded", "no_audio#1"])
async def test_a_response_that_says_nothing_is_told_and_can_be_asked_for_again(fault: str) -> None:
    """Faults 10 and 11."""
    async with talk(
        TALK + '      - {on: {text: ".*"}, say: {tone: 700, ms: 200, text: More}}', fault
    ) as caller:
        await caller.session.respond(instructions="Greet the caller.")
        await caller.hear_until(ResponseDone)
        await caller.session.respond(instructions="Greet the caller.")
        await caller.hear_until(AudioDone)
        creates = caller.received("response.create")
        assert len(creates) == 2
        spoken_anyway = creates[1]["response"].get("output_modalities") == ["audio"]
        assert spoken_anyway
        assert caller.errors() == []


async def test_a_quota_that_is_used_up_ends_the_session() -> None:
    async with talk(faults="failed#1:insufficient_quota") as caller:
        await caller.session.respond()
        with pytest.raises(SessionLost) as caught:
            await caller.hear_until(AudioDelta)
        assert caught.value.code == "insufficient_quota"


async def test_an_incomplete_response_is_told_with_its_reason() -> None:
    async with talk(faults="incomplete#1:content_filter") as caller:
        await caller.session.respond()
        [*_, done] = await caller.hear_until(ResponseDone)
        assert (done.status, done.reason) == (ResponseStatus.INCOMPLETE, "content_filter")


@pytest.mark.parametrize("how", ["failed", "empty", "late", "unordered"])
async def test_every_turn_has_a_transcript_that_settles(how: str) -> None:
    """Fault 18."""
    async with talk(faults=f"transcript:{how}") as caller:
        for _ in range(2):
            await caller.say()
            await caller.hear_until(ResponseDone)
        await caller.session.send_audio(silence(200, PCMU))
        final: set[str] = set()
        opened: set[str] = set()
        async with asyncio.timeout(10):
            while len(final) < 2 or opened != final:
                for event in caller.events:
                    if isinstance(event, CallerTranscript):
                        (final if event.final else opened).add(event.item_id)
                if len(final) < 2:
                    caller.events.append(await anext(caller.session))
        assert len(final) == 2


async def test_the_session_goes_on_after_noise_of_the_server() -> None:
    """Unknown events, frames that are no JSON, errors without consequence, a delta of 1 MiB."""
    faults = "unknown_event@0.05,garbage@0.05,error:server_error@0.05,huge_delta#1,rate_limits:before"
    async with talk(faults=faults) as caller:
        await settled(lambda: "error" in [each.type for each in caller.other_side.sent])
        await caller.session.respond()
        await caller.hear_until(ResponseDone)
        warnings = {event.code for event in caller.events if isinstance(event, ProviderWarning)}
        assert warnings == {"invalid_event", "server_error"}
        assert len(caller.voice()) >= 1024 * 1024 * 3 // 4
        assert caller.voice().startswith(render(Tone(440, 1000), PCMU))


@pytest.mark.parametrize("code", [1000, 1001, 1006, 1008, 1011, 4000])
async def test_every_close_is_a_loss(code: int) -> None:
    """Faults 8 and 9."""
    async with talk(faults=f"close:{code}@0.05") as caller:
        with pytest.raises(SessionLost) as caught:
            await caller.hear_until(ResponseDone)
        assert caught.value.code == str(code)


async def test_the_end_of_an_hour_is_announced_and_then_a_loss() -> None:
    """Fault 8."""
    async with talk(faults="expire@0.5", server_options={"session_seconds": 200.0}) as caller:
        with pytest.raises(SessionLost) as caught:
            await caller.hear_until(ResponseDone)
        assert caught.value.code == "session_expired"
        [ending] = [event for event in caller.events if isinstance(event, SessionEnding)]
        assert 100 < ending.after <= 200


@pytest.mark.parametrize(
    ("faults", "error", "code"),
    [
        ("status:401", ProviderRejected, "401"),
        ("status:403", ProviderRejected, "403"),
        ("status:404", ProviderRejected, "404"),
        ("status:429", ProviderUnavailable, "429"),
        ("status:503", ProviderUnavailable, "503"),
        ("late_handshake:60", ProviderUnavailable, "timeout"),
        ("stall@0", ProviderUnavailable, "timeout"),
        ("refuse_update", ProviderRejected, "invalid_value"),
        ("close:1011@0", ProviderUnavailable, "1011"),
        ("expire@0", ProviderRejected, "session_expired"),
    ],
)
async def test_a_set_up_that_fails_says_whether_another_try_helps(faults, error, code) -> None:
    # Only a server that says nothing is left after a while; a busy machine gets all the time it needs.
    patience = 0.3 if code == "timeout" else 30.0
    async with OpenAIFakeServer(faults=faults) as server:
        with pytest.raises(error) as caught:
            async with provider(server, connect_timeout_s=patience).connect(setup()):
                pytest.fail("there is no session")
        assert caught.value.code == code


async def test_a_server_that_reads_slowly_makes_us_wait_and_not_grow() -> None:
    async def pour(caller: Caller, sent: list[int]) -> None:
        while True:
            await caller.session.send_audio(bytes(64_000))
            sent.append(64_000)

    async with talk(faults="slow_reader:0.02") as caller:
        sent: list[int] = []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await pour(caller, sent)
        assert 0 < sum(sent) < 10_000_000


# Updates.


async def test_prompt_and_tools_are_changed_in_the_running_session() -> None:
    async with talk() as caller:
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(caller.hear_until(SpeechStopped))
            await caller.session.update(
                CallUpdate(1, prompt="Other.", tools=(LOOKUP,), language="kk", voice="ash")
            )
            listening.cancel()
        config = caller.other_side.config.session
        assert config["instructions"] == "Other.\n\n## Tools"
        assert [tool["name"] for tool in config["tools"]] == ["lookup_caller"]
        assert config["audio"]["output"]["voice"] == "ash"
        assert config["audio"]["input"]["transcription"]["language"] == "kk"
        assert caller.errors() == []


async def test_an_update_that_the_server_refuses_changes_nothing() -> None:
    bad = AgentToolDefinition("bad name!", "Has a space.", {"type": "object", "properties": {}})
    async with talk() as caller, asyncio.TaskGroup() as group:
        listening = group.create_task(caller.hear_until(SpeechStopped))
        with pytest.raises(ProviderRejected):
            await caller.session.update(CallUpdate(1, prompt="Other.", tools=(bad,)))
        assert caller.other_side.config.session["instructions"] == "You answer the phone.\n\n## Tools"
        listening.cancel()
