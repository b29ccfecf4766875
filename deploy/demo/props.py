"""
What the demo's processes are started with: settings and script on free ports, whole or with a part left out.

The settings are ``demo.yaml`` with ports and paths of this run; the script is the fake provider's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from ruamel.yaml import YAML

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
Yaml: TypeAlias = "dict[str, Yaml] | list[Yaml] | str | int | float | bool | None"


class Part(StrEnum):
    """What can be left out, to show that the demo notices."""

    END_CALL = "end_call"
    TRANSFER_CALL = "transfer_call"
    LOOKUP_CALLER = "lookup_caller"
    QUERY_KNOWLEDGE = "query_knowledge"
    BARGE_IN = "barge_in"
    FAREWELL = "farewell"


TOOLS_IN_CONFIG = {Part.TRANSFER_CALL, Part.LOOKUP_CALLER, Part.QUERY_KNOWLEDGE}
"""These have a switch in the settings. ``end_call`` is always on, so there the model never calls it."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything on loopback."""

    sip: int
    http: int
    rtp_first: int
    rtp_last: int
    lookup: int


def write_settings(folder: Path, ports: Ports, without: Part | None) -> Path:
    """Write the gateway's settings for this run, and its script where that has to change too."""
    settings = _load(HERE / "demo.yaml")
    server, fake = _map(settings["server"]), _map(_map(settings["providers"])["fake"])
    _map(server["sip"])["listen"] = [f"udp:127.0.0.1:{ports.sip}"]
    _map(server["sip"])["rtp_ports"] = f"{ports.rtp_first}-{ports.rtp_last}"
    _map(server["http"])["listen"] = f"127.0.0.1:{ports.http}"
    organization = _map(_map(settings["organizations"])["workshop"])
    organization["client_lookup_url"] = f"http://127.0.0.1:{ports.lookup}/lookup"
    _map(_map(settings["knowledge_bases"])["handbook"])["path"] = str(HERE / "handbook")
    _map(settings["storage"])["recordings"] = str(folder / "recordings")
    fake["script"] = str(_write_script(folder, (HERE / str(fake["script"])).resolve(), without))
    if without in TOOLS_IN_CONFIG:
        for agent in _map(settings["agents"]).values():
            _map(_map(_map(agent)["tools"])[without.value])["enabled"] = False
    path = folder / "demo.yaml"
    _save(settings, path)
    return path


def _write_script(folder: Path, script: Path, without: Part | None) -> Path:
    if without not in (Part.END_CALL, Part.FAREWELL):
        return script
    changed = _load(script)
    for scene in _list(changed["scenes"]):
        for step in _steps(_map(scene)["steps"]):
            if "farewell.flac" in str(step.get("say")):
                step.pop("call" if without is Part.END_CALL else "say", None)
    path = folder / "script.yaml"
    _save(changed, path)
    return path


def _steps(steps: Yaml) -> list[dict[str, Yaml]]:
    """Return all steps of a scene, those below ``then`` too, each once though YAML may share it."""
    found: dict[int, dict[str, Yaml]] = {}
    todo = list(_list(steps))
    while todo:
        step = _map(todo.pop())
        found[id(step)] = step
        todo += _list(step.get("then", []))
    return list(found.values())


def _load(path: Path) -> dict[str, Yaml]:
    return _map(YAML(typ="safe").load(path.read_text()))


def _save(content: Yaml, path: Path) -> None:
    with path.open("w") as out:
        YAML(typ="safe").dump(content, out)


def _map(value: Yaml) -> dict[str, Yaml]:
    if not isinstance(value, dict):
        raise TypeError(f"expected a mapping, not {value!r}")
    return value


def _list(value: Yaml) -> list[Yaml]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, not {value!r}")
    return value
