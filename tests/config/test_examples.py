import re
from pathlib import Path

import pytest

from config.errors import KeyPath
from config.load import load
from config.models import Settings
from config.reference import _models
from config.source import read_source

EXAMPLES = Path(__file__).parents[2] / "config" / "examples"
ENVIRON = {
    "OPENAI_API_KEY": "sk-x",
    "GEMINI_API_KEY": "AIza-x",
    "LOOKUP_TOKEN": "t",
    "PBX_PASSWORD": "p",
    "CARRIER_PASSWORD": "c",
}


def options(model, path: KeyPath = ()):
    """Yield every option of the models as a key path, `*` for a name of the operator's."""
    for key, info in model.model_fields.items():
        yield (*path, key)
        for child in _models(info.annotation):
            names = ("*",) * str(info.annotation).count("Mapping[")
            yield from options(child, (*path, key, *names))


@pytest.mark.parametrize("name", ["minimal.yaml", "fake.yaml", "full.yaml"])
def test_each_example_can_be_used_as_it_is(name):
    loaded = load(EXAMPLES / name, environ=ENVIRON)

    assert loaded.settings.numbers
    assert loaded.warnings == ()


def test_there_is_no_example_that_is_not_tested():
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == {"minimal.yaml", "fake.yaml", "full.yaml"}


def test_the_full_example_has_every_option_there_is():
    marks = read_source(EXAMPLES / "full.yaml", ENVIRON, set()).marks
    tables = {key: str(info.annotation).count("Mapping[") for key, info in Settings.model_fields.items()}
    keys = [tuple(part for part in path if isinstance(part, str)) for path in marks.lines]
    written = {_without_names(path, tables) for path in keys if path}
    # There are no certificates beside the example: their options stand in it as comments.
    text = (EXAMPLES / "full.yaml").read_text(encoding="utf-8")
    written |= {("server", "sip", "tls", key) for key in re.findall(r"^      # (\w+): ", text, re.MULTILINE)}
    # Of the ways to greet only one can be chosen.
    greetings = re.findall(r"^      # (say|play|text): ", text, re.MULTILINE)
    written |= {("agents", "*", "greeting", key) for key in greetings}

    assert set(options(Settings)) - written == set()


def _without_names(path, tables):
    names = range(1, min(tables[path[0]] + 1, len(path)))
    return tuple("*" if at in names else key for at, key in enumerate(path))


def test_the_defaults_in_the_full_example_are_the_defaults():
    full = load(EXAMPLES / "full.yaml", environ=ENVIRON).settings
    minimal = load(EXAMPLES / "minimal.yaml", environ=ENVIRON).settings

    assert full.server == minimal.server
    theirs, ours = full.providers["openai"], minimal.providers["openai"]
    assert theirs == ours.model_copy(update={"api_key": theirs.api_key})
    assert full.agents["reception"].limits == minimal.agents["reception"].limits
    assert full.agents["reception"].max_tool_calls == minimal.agents["reception"].max_tool_calls


def test_the_fake_providers_script_is_one():
    from providers.fakes.script_parser import parse_script

    path = EXAMPLES / "scripts" / "rehearsal.yaml"
    assert parse_script(path.read_text(), path)


def test_the_options_are_found_by_the_walk_that_the_other_tests_rely_on():
    found = set(options(Settings))

    assert ("server", "sip", "timers", "t1_ms") in found
    assert ("agents", "*", "limits", "max_duration_s") in found
    assert ("providers", "*", "turn_detection", "silence_ms") in found
    assert ("providers", "*", "script") in found
