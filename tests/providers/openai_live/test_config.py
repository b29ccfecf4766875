"""The session that GPT-Live gets, and nothing that it would refuse."""

import json

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from config.providers import LiveSettings
from providers.fakes.live_config import LiveConfig
from providers.fakes.live_shapes import check_event
from providers.openai_live.config import (
    CONTENT_BYTES,
    HISTORY_BYTES,
    HISTORY_MESSAGES,
    build_backend_update,
    build_live_session_config,
    pieces,
    setup_warnings,
)
from providers.types import PCM16_16K, PCM16_24K, PCMA, PCMU, AudioFormat, Said, SessionSetup, ToolUsed
from tools.types import AgentToolDefinition, CallUpdate, ToolCall

TOOL = AgentToolDefinition(
    "look_up", "Looks up.", {"type": "object", "properties": {"a": {"type": "string"}}}
)
SETTINGS = LiveSettings(api_key="sk-x")


def setup(**more) -> SessionSetup:
    fields = {"prompt": "You answer.", "addendum": "## Tools", "tools": (TOOL,), "line": PCMU}
    return SessionSetup(**{**fields, **more})


def built(**more) -> dict:
    session = build_live_session_config(setup(**more), SETTINGS)
    assert check_event({"type": "session.start", "session": session}) is None
    assert LiveConfig("live_1", 0).start(session) is None
    return json.loads(json.dumps(session))


def test_voice_and_backend_get_the_same_instructions():
    session = built()
    backend = session["delegation"]["responses"]
    assert session["instructions"] == backend["instructions"] == "You answer.\n\n## Tools"
    assert backend["model"] == "gpt-6-luna"
    assert [tool["name"] for tool in backend["tools"]] == ["look_up"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (PCMU, {"type": "audio/pcmu", "rate": 8000}),
        (PCMA, {"type": "audio/pcma", "rate": 8000}),
        (PCM16_16K, {"type": "audio/pcm", "rate": 16000}),
        (PCM16_24K, {"type": "audio/pcm", "rate": 24000}),
        (AudioFormat("pcm16", 48000), {"type": "audio/pcm", "rate": 24000}),
    ],
)
def test_the_rate_is_named_for_every_format(line, expected):
    assert built(line=line)["audio"]["format"] == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [(None, "marin"), ("willow", "willow"), ("voice_abc", {"id": "voice_abc"}), ("nova", "marin")],
)
def test_a_voice_that_does_not_exist_is_replaced(name, expected):
    assert built(voice=name)["audio"]["output"]["voice"] == expected


def test_what_is_left_out_is_told():
    warnings = setup_warnings(setup(voice="nova", vendor_tools=("search",)))
    assert {warning.code for warning in warnings} == {"voice_unknown", "vendor_tool_unavailable"}
    assert setup_warnings(setup()) == []


def test_the_past_is_told_in_text_and_tools_in_words():
    call = ToolCall("call_1", "look_up", '{"a":"b"}')
    past = (
        Said("agent", "Hello."),
        Said("caller", "Hi."),
        Said("system", "Key 5."),
        ToolUsed(call, '{"ok":1}'),
    )
    items = [(item["role"], item["content"][0]["text"]) for item in built(history=past)["input"]]
    assert items[:3] == [("assistant", "Hello."), ("user", "Hi."), ("developer", "Key 5.")]
    assert items[3][0] == "developer"
    assert 'look_up was called with {"a":"b"} and answered: {"ok":1}' in items[3][1]


def test_of_a_long_past_the_newest_is_told():
    past = tuple(Said("caller", f"Sentence {n}.") for n in range(300))
    items = built(history=past)["input"]
    assert len(items) == HISTORY_MESSAGES
    assert items[-1]["content"][0]["text"] == "Sentence 299."
    wordy = tuple(Said("caller", f"{n} " + "ü" * 2000) for n in range(20))
    items = built(history=wordy)["input"]
    assert sum(len(item["content"][0]["text"].encode()) for item in items) <= HISTORY_BYTES
    assert items[-1]["content"][0]["text"].startswith("19 ")


def test_an_update_names_only_what_changed():
    assert build_backend_update(CallUpdate(1, language="de"), setup()) is None
    update = build_backend_update(CallUpdate(1, tools=()), setup(tools=()))
    assert update == {"delegation": {"type": "responses", "responses": {"tools": []}}}
    assert check_event({"type": "session.update", "session": update}) is None


@given(st.text(max_size=6000))
@hypothesis_settings(max_examples=100, deadline=None)
def test_no_piece_is_too_long_and_no_word_is_lost(text):
    cut = list(pieces(text))
    assert all(0 < len(piece.encode()) <= CONTENT_BYTES for piece in cut)
    assert "".join("".join(cut).split()) == "".join(text.split())


def test_a_text_that_fits_is_sent_as_it_is():
    assert list(pieces(" Hello\n")) == [" Hello\n"]
    assert list(pieces("  \n")) == []
