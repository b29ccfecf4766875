"""Which voices there are, and what an agent may write."""

from typing import get_args

import pytest
from openai.types.live import BuiltInVoice
from openai.types.realtime import realtime_audio_config_output_param as realtime

from config.voices import GEMINI, OPENAI, OPENAI_LIVE, VOICES

TWO = """\
trunks:
  office: {{allow: ["192.0.2.10"]}}
providers:
  openai: {{api_key: "${{env:OPENAI_API_KEY}}"}}
  spare: {{kind: fake}}
agents:
  reception: {{providers: [openai, spare], prompt: You answer the phone., voice: {voice}}}
numbers:
  "+12125550100": {{agent: reception}}
"""


def test_the_voices_of_gpt_live_are_those_that_the_sdk_knows():
    assert set(OPENAI_LIVE.names) == set(get_args(BuiltInVoice))


def test_the_voices_of_realtime_are_those_that_the_sdk_knows():
    known = set()
    for argument in get_args(realtime.Voice):
        known |= {name for name in get_args(argument) if isinstance(name, str)}
    assert set(OPENAI.names) <= known


def test_gemini_has_thirty_voices():
    assert len(set(GEMINI.names)) == 30


def test_no_voice_is_named_twice():
    for voices in VOICES.values():
        assert len(set(voices.names)) == len(voices.names)
        assert not voices.default or voices.default in voices.names


@pytest.mark.parametrize(
    ("name", "known"),
    [("marin", True), ("voice_68a1", True), ("voice_", False), ("Marin", False), ("", False)],
)
def test_a_voice_is_built_in_or_the_accounts_own(name, known):
    assert (name in OPENAI) == known


@pytest.mark.parametrize(
    "voice", ["marin", "voice_68a1", "{openai: cedar}", "{openai: cedar, spare: anything}", "null"]
)
def test_good_voices_are_taken(folder, voice):
    assert folder.load(TWO.format(voice=voice)).warnings == ()


def test_a_voice_that_some_of_the_providers_lack_is_a_warning(folder):
    (warning,) = folder.load(TWO.format(voice="Kore")).warnings
    assert "is no voice of openai: its default is heard there" in str(warning)


def test_a_voice_for_a_provider_that_the_agent_does_not_use_is_a_mistake(folder):
    (line,) = folder.problems(TWO.format(voice="{spair: x}"))
    assert line == (
        "gateway.yaml:7: agents.reception.voice.spair: is none of the agent's providers; did you mean spare?"
    )


def test_the_voice_survives_being_written_out_and_read_again(folder):
    settings = folder.load(TWO.format(voice="{openai: cedar}")).settings
    assert settings.model_dump(mode="json")["agents"]["reception"]["voice"] == {"openai": "cedar"}
