import pytest
from ruamel.yaml import YAML

from deploy.demo.props import HERE, Part, Ports, write_settings
from providers.fakes.script import load_script

PORTS = Ports(sip=15060, http=18080, rtp_first=30000, rtp_last=30031, lookup=18081)


def read(path):
    return YAML(typ="safe").load(path.read_text())


def test_the_run_has_its_own_ports_and_nothing_else_changes(tmp_path):
    settings, original = read(write_settings(tmp_path, PORTS, None)), read(HERE / "demo.yaml")

    assert settings["server"]["sip"]["listen"] == ["udp:127.0.0.1:15060"]
    assert settings["server"]["sip"]["rtp_ports"] == "30000-30031"
    assert settings["organizations"]["workshop"]["client_lookup_url"] == "http://127.0.0.1:18081/lookup"
    assert settings["agents"] == original["agents"]
    assert settings["numbers"] == original["numbers"]
    assert settings["providers"]["fake"]["script"].endswith("providers/fakes/scripts/demo.yaml")


@pytest.mark.parametrize("part", [Part.TRANSFER_CALL, Part.LOOKUP_CALLER, Part.QUERY_KNOWLEDGE])
def test_a_tool_is_left_out_by_its_switch_in_the_settings(tmp_path, part):
    agents = read(write_settings(tmp_path, PORTS, part))["agents"].values()

    assert [agent["tools"][part.value]["enabled"] for agent in agents] == [False, False, False]
    assert all(agent["tools"]["end_call"]["enabled"] for agent in agents)


def farewells(path):
    def walk(steps):
        for step in steps:
            acts = [type(act).__name__ for act in step.acts]
            if "farewell" in str(step.acts) or "end_call" in str(step.acts):
                yield acts
            yield from walk(step.then)

    return [acts for scene in load_script(path).scenes for acts in walk(scene.steps)]


def test_the_script_of_a_whole_run_says_farewell_and_hangs_up_in_every_scene(tmp_path):
    script = read(write_settings(tmp_path, PORTS, None))["providers"]["fake"]["script"]

    assert farewells(HERE / script) == [["Say", "Call"]] * 3


@pytest.mark.parametrize(("part", "left"), [(Part.END_CALL, ["Say"]), (Part.FAREWELL, ["Call"])])
def test_farewell_and_end_call_are_left_out_of_the_script(tmp_path, part, left):
    script = read(write_settings(tmp_path, PORTS, part))["providers"]["fake"]["script"]

    assert farewells(HERE / script) == [left] * 3
