"""The session object and what an update may do to it."""

import pytest

from providers.fakes.openai_config import SessionConfig, check_response
from providers.fakes.vad import VadSettings
from providers.types import PCM16_24K, PCMA


@pytest.fixture
def config():
    return SessionConfig("sess_1", "gpt-realtime-2.1", 1_796_000_000)


def update(config, *, spoken=False, speaking=False, **changes):
    return config.update({"type": "realtime", **changes}, spoken=spoken, speaking=speaking)


def test_only_fields_that_are_present_change(config):
    assert update(config, instructions="a") is None
    assert update(config, tools=[{"type": "function", "name": "x"}]) is None
    assert (config.session["instructions"], len(config.session["tools"])) == ("a", 1)


def test_empty_values_clear(config):
    update(config, instructions="a", tools=[{"type": "function", "name": "x"}])
    assert update(config, instructions="", tools=[]) is None
    assert (config.session["instructions"], config.session["tools"]) == ("", [])


def test_turn_detection_merges_within_its_type_and_starts_over_in_another(config):
    update(config, audio={"input": {"turn_detection": {"type": "server_vad", "threshold": 0.7}}})
    update(config, audio={"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 650}}})
    assert config.vad() == VadSettings(threshold=0.7, prefix_padding_ms=300, silence_ms=650)
    update(config, audio={"input": {"turn_detection": {"type": "semantic_vad", "eagerness": "high"}}})
    assert config.turn_detection == {
        "type": "semantic_vad", "eagerness": "high", "create_response": True, "interrupt_response": True,
    }  # fmt: skip
    assert config.vad().silence_ms == 300
    update(config, audio={"input": {"turn_detection": None}})
    assert config.turn_detection is None


def test_formats_follow_the_session(config):
    assert config.input == PCM16_24K
    update(config, audio={"input": {"format": {"type": "audio/pcma"}}})
    assert config.input == PCMA
    update(config, audio={"input": {"format": {"type": "audio/pcm"}}})
    assert config.session["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}


BAD = [
    ({"model": "gpt-realtime"}, "session.model"),
    ({"output_modalities": ["audio", "text"]}, "session.output_modalities"),
    ({"output_modalities": []}, "session.output_modalities"),
    ({"max_output_tokens": 0}, "session.max_output_tokens"),
    ({"max_output_tokens": 4097}, "session.max_output_tokens"),
    ({"audio": {"output": {"voice": "robot"}}}, "session.audio.output.voice"),
    ({"audio": {"output": {"speed": 1.6}}}, "session.audio.output.speed"),
    ({"audio": {"input": {"format": {}}}}, "session.audio.input.format.type"),
    (
        {"audio": {"input": {"turn_detection": {"type": "server_vad", "threshold": 1.5}}}},
        "session.audio.input.turn_detection.threshold",
    ),
    (
        {"audio": {"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 4000}}}},
        "session.audio.input.turn_detection.idle_timeout_ms",
    ),
    (
        {"audio": {"input": {"transcription": {"model": "whisper-1", "keywords": ["a"]}}}},
        "session.audio.input.transcription.keywords",
    ),
    ({"tools": [{"name": "x"}]}, "session.tools[0].type"),
    ({"tools": [{"type": "function"}]}, "session.tools[0].name"),
    ({"tools": [{"type": "function", "name": "no spaces"}]}, "session.tools[0].name"),
    ({"tools": [{"type": "function", "name": "x", "parameters": []}]}, "session.tools[0].parameters"),
    ({"tools": [{"type": "mcp", "server_label": "crm"}]}, "session.tools[0].server_url"),
]


@pytest.mark.parametrize(("changes", "param"), BAD, ids=[param for _, param in BAD])
def test_a_bad_value_is_named_and_nothing_is_applied(config, changes, param):
    before = dict(config.session)
    problem = update(config, instructions="new", **changes)
    assert problem.param == param
    assert config.session == before


def test_a_tool_description_may_have_1024_characters(config):
    tool = {"type": "function", "name": "x", "description": "d" * 1024}
    assert update(config, tools=[tool]) is None
    problem = update(config, tools=[tool | {"description": "d" * 1025}])
    assert problem.code == "string_above_max_length"


def test_the_voice_may_be_repeated_but_not_changed_after_speech(config):
    assert update(config, spoken=True, audio={"output": {"voice": "marin"}}) is None
    assert update(config, spoken=True, audio={"output": {"voice": "cedar"}}).code == "cannot_update_voice"
    assert update(config, audio={"output": {"voice": {"id": "voice_1234"}}}) is None


def test_the_speed_changes_only_between_turns(config):
    assert (
        update(config, speaking=True, audio={"output": {"speed": 1.2}}).param == "session.audio.output.speed"
    )
    assert update(config, audio={"output": {"speed": 1.2}}) is None


def test_tracing_is_fixed_once_it_is_on(config):
    assert update(config, tracing="auto") is None
    assert update(config, tracing="auto") is None
    assert update(config, tracing=None).param == "session.tracing"


def test_a_transcription_update_is_refused(config):
    assert config.update({"type": "transcription"}, spoken=False, speaking=False).param == "session.type"


def test_metadata_of_a_response_has_limits():
    assert check_response({"metadata": {"turn": "greeting"}}) is None
    assert check_response({"metadata": {"k": "v" * 513}}).param == "response.metadata"
    assert check_response({"metadata": {str(n): "v" for n in range(17)}}).param == "response.metadata"
