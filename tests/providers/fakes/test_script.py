"""Scripts from files."""

import pytest

from providers.fakes.script import (
    DEFAULT_SCRIPT,
    SCRIPTS_FOLDER,
    ScriptError,
    json_arguments,
    load_script,
)


@pytest.mark.parametrize("path", sorted(SCRIPTS_FOLDER.glob("*.yaml")), ids=lambda path: path.name)
def test_the_scripts_that_ship_are_good(path):
    assert load_script(path).scenes


def test_the_default_script_ships():
    assert DEFAULT_SCRIPT.is_file()


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(ScriptError, match="cannot be read") as error:
        load_script(tmp_path / "none.yaml")
    assert len(error.value.problems) == 1


def test_the_first_scene_whose_pattern_is_in_the_instructions_is_taken(script_of):
    script = script_of("""
        scenes:
          - {name: a, when: {instructions: "^sales"}, steps: []}
          - {name: b, when: {instructions: "DESK"}, steps: []}
          - {name: c, steps: []}
    """)
    assert [script.scene_for(text).name for text in ("sales desk", "the desk", "other")] == ["a", "b", "c"]


def test_without_a_fitting_scene_there_are_no_steps(script_of):
    script = script_of("scenes: [{when: {instructions: sales}, steps: []}]")
    assert script.scene_for("other").steps == ()


def test_arguments_are_compact_json():
    assert json_arguments({"query": "Öffnung", "n": [1]}) == '{"query":"Öffnung","n":[1]}'
