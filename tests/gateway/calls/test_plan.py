"""What of the settings a call is served with."""

import pytest

from config.load import load
from gateway.app.providers import ProviderPool
from gateway.calls.cost import ModelName
from gateway.calls.plan import make_plans
from tools import ToolBuilders

TEXT = """\
trunks: {{office: {{allow: ["192.0.2.10"]}}}}
providers:
  openai: {{api_key: sk-test}}
  spare: {{kind: fake}}
agents:
  reception: {{providers: [openai, spare], prompt: You answer the phone., voice: {voice}}}
numbers: {{"100": {{agent: reception}}}}
"""


def plan(folder, voice):
    path = folder / "gateway.yaml"
    path.write_text(TEXT.format(voice=voice))
    settings = load(path).settings
    return make_plans(settings, ProviderPool().use(settings), ToolBuilders(None)).route("100").target


@pytest.mark.parametrize(
    ("voice", "voices"),
    [
        ("marin", {"openai": "marin", "spare": "marin"}),
        ("Kore", {"spare": "Kore"}),
        ("{openai: cedar}", {"openai": "cedar"}),
        ("null", {}),
    ],
)
def test_each_provider_gets_the_voice_that_it_has(tmp_path, voice, voices):
    assert plan(tmp_path, voice).voices == voices


def test_each_provider_has_its_model_for_the_bill(tmp_path):
    assert plan(tmp_path, "null").models == {
        "openai": ModelName("openai", "gpt-realtime-2.1"),
        "spare": ModelName("fake", "fake"),
    }
