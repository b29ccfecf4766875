"""What the three sides of a call say about it: the caller, the look-up service, the gateway's record."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import soundfile

from deploy.demo.caller.report import read_wav

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Pcm = npt.NDArray[np.int16]


class EvidenceError(Exception):
    """A report is missing or is not what it should be; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """What the caller says to have said; times are seconds since the epoch."""

    line: str
    text: str
    began_at: float
    ended_at: float
    interrupting: bool


@dataclass(frozen=True, slots=True)
class CallerSide:
    """The caller's report, see :mod:`deploy.demo.caller.report`."""

    invited_at: float
    answered_at: float
    media_at: float
    ended_at: float
    ended_by: str
    said: tuple[Utterance, ...]
    refer_to: str
    refer_at: float
    notified: tuple[str, ...]
    packets: int
    lost: int
    jitter_ms: float
    spacing_p99_ms: float
    longest_gap_ms: float
    failure: str
    heard: Pcm
    """What arrived, 8 kHz; sample 0 is at ``media_at``."""
    audible_at: tuple[float, ...]
    """Arrival of every packet that holds sound, in order."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """One request to the look-up service."""

    at: float
    query: dict[str, str]
    headers: dict[str, str]
    status: int


def read_caller(folder: Path) -> CallerSide:
    """Read the report that a caller left in ``folder``."""
    report = load(folder / "caller.json")
    heard = read_wav(folder / "heard.wav")
    rtp = as_map(report["rtp"])
    messages = [as_map(message) for message in as_list(report["messages"])]
    refers = [m for m in messages if str(m["start_line"]).startswith("REFER ") and not m["sent"]]
    media_at = as_number(report["media_at"])
    return CallerSide(
        invited_at=as_number(report["invited_at"]),
        answered_at=as_number(report["answered_at"]),
        media_at=media_at,
        ended_at=as_number(report["ended_at"]),
        ended_by=str(report["ended_by"]),
        said=tuple(_utterance(as_map(said)) for said in as_list(report["said"])),
        refer_to=str(report["refer_to"]),
        refer_at=as_number(refers[0]["at"]) if refers else 0.0,
        notified=tuple(str(fragment) for fragment in as_list(report["notified"])),
        packets=int(as_number(rtp["packets"])),
        lost=int(as_number(rtp["lost"])),
        jitter_ms=as_number(rtp["jitter_ms"]),
        spacing_p99_ms=as_number(rtp["spacing_p99_ms"]),
        longest_gap_ms=as_number(rtp["longest_gap_ms"]),
        failure=str(report["failure"]),
        heard=heard,
        audible_at=tuple(as_number(at) for at in as_list(report["audible_at"])),
    )


def read_lookups(path: Path) -> list[Lookup]:
    """Read what the look-up service received; a missing file means nothing."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [
        Lookup(
            at=as_number(entry["at"]),
            query={name: str(value) for name, value in as_map(entry["query"]).items()},
            headers={name: str(value) for name, value in as_map(entry["headers"]).items()},
            status=int(as_number(entry["status"])),
        )
        for entry in map(as_map, map(json.loads, lines))
    ]


def read_recording(path: Path) -> Pcm:
    """Read a sound file as 16-bit samples; two channels have the shape (n, 2)."""
    samples, rate = soundfile.read(path, dtype="int16")
    if rate != 8000:
        raise EvidenceError(f"{path.name} has {rate} Hz, not 8000")
    recording: Pcm = samples
    return recording


def _utterance(said: dict[str, Json]) -> Utterance:
    return Utterance(
        line=str(said["line"]),
        text=str(said["text"]),
        began_at=as_number(said["began_at"]),
        ended_at=as_number(said["ended_at"]),
        interrupting=bool(said["interrupting"]),
    )


def load(path: Path) -> dict[str, Json]:
    """Read a JSON object from a file."""
    try:
        return as_map(json.loads(path.read_text()))
    except FileNotFoundError:
        raise EvidenceError(f"{path.name} was not written") from None
    except ValueError as error:
        raise EvidenceError(f"{path.name} is not JSON: {error}") from None


def as_map(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise EvidenceError(f"expected a JSON object, not {value!r}")
    return value


def as_list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise EvidenceError(f"expected a JSON array, not {value!r}")
    return value


def as_number(value: Json) -> float:
    if not isinstance(value, int | float):
        raise EvidenceError(f"expected a number, not {value!r}")
    return float(value)
