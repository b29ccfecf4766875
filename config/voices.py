"""
The voices that each kind of provider has, and the check that agents name one of them.

A name that a vendor does not know may be refused in the middle of a call, or give noise and no error (OpenAI
Realtime), so it is a mistake in the file. This table is the only one: ``providers`` reads it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from pydantic import JsonValue, PlainSerializer, PlainValidator, WithJsonSchema

from config.errors import KeyPath, Marks, Problem
from config.fields import did_you_mean, invalid
from config.providers import PROVIDER_KINDS


@dataclass(frozen=True, slots=True)
class VoiceList:
    """
    The voices of one kind of provider.

    Args:
        names: The built-in ones.
        default: Of an agent that names none; empty where the vendor chooses.
        custom: What the ids of an account's own voices begin with; empty where there are none.
    """

    names: tuple[str, ...]
    default: str = ""
    custom: str = ""

    def __contains__(self, name: str) -> bool:
        return name in self.names or self.is_custom(name)

    def is_custom(self, name: str) -> bool:
        """Whether a name is the id of a voice of the account's own."""
        return bool(self.custom) and name.startswith(self.custom) and len(name) > len(self.custom)

    @property
    def choices(self) -> str:
        """The names, to be shown to a person."""
        own = f", or the id of a voice of your own ({self.custom}…)" if self.custom else ""
        return ", ".join(self.names) + own


OPENAI = VoiceList(
    ("alloy", "ash", "ballad", "cedar", "coral", "echo", "marin", "sage", "shimmer", "verse"),
    default="marin",
    custom="voice_",
)
GEMINI = VoiceList(
    (
        "Achernar", "Achird", "Algenib", "Algieba", "Alnilam", "Aoede", "Autonoe", "Callirrhoe", "Charon",
        "Despina", "Enceladus", "Erinome", "Fenrir", "Gacrux", "Iapetus", "Kore", "Laomedeia", "Leda",
        "Orus", "Puck", "Pulcherrima", "Rasalgethi", "Sadachbia", "Sadaltager", "Schedar", "Sulafat",
        "Umbriel", "Vindemiatrix", "Zephyr", "Zubenelgenubi",
    ),
)  # fmt: skip
OPENAI_LIVE = VoiceList(
    (
        "alloy", "ash", "ballad", "beacon", "bossa", "cedar", "cinder", "coral", "delta", "echo", "gleam",
        "marin", "meridian", "quartz", "ripple", "sage", "shida", "shimmer", "stone", "tempo", "verse",
        "vesper", "willow",
    ),
    default="marin",
    custom="voice_",
)  # fmt: skip
VOICES: Mapping[str, VoiceList] = MappingProxyType(
    {"openai": OPENAI, "gemini": GEMINI, "openai-live": OPENAI_LIVE}
)
"""By kind of provider; a kind without an entry (the fake) takes any name."""


def _voice(value: object) -> str | Mapping[str, str] | None:
    match value:
        case None:
            return None
        case str() if value.strip():
            return value
        case Mapping() if value and all(_is_text(each) for pair in value.items() for each in pair):
            return MappingProxyType({str(name): str(voice) for name, voice in value.items()})
        case _:
            raise invalid(
                "is neither a voice nor a voice for each provider",
                "write voice: NAME, or voice: {PROVIDER: NAME}",
            )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


AgentVoice = Annotated[
    str | Mapping[str, str] | None,
    PlainValidator(_voice),
    PlainSerializer(lambda value: dict(value) if isinstance(value, Mapping) else value),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "object", "additionalProperties": {"type": "string", "minLength": 1}},
                {"type": "null"},
            ]
        }
    ),
]


def voice_problems(data: JsonValue, marks: Marks) -> list[Problem]:
    """
    Check the voices of all agents; reads the plain data, so that mistakes elsewhere hide nothing.

    A plain name is a mistake when none of the agent's providers has it; where only some have it, the others
    use their own default (:func:`voice_warnings`).
    """
    kinds = _kinds(data)
    problems: list[Problem] = []
    for agent, entry in _table(data, "agents").items():
        if not isinstance(entry, dict):
            continue
        path: KeyPath = ("agents", agent, "voice")
        providers = [name for name in _names(entry.get("providers")) if name in kinds]
        match entry.get("voice"):
            case str() as voice:
                problems += _plain_problems(path, voice, [kinds[name] for name in providers], marks)
            case dict() as voices:
                problems += _table_problems(path, voices, providers, kinds, marks)
    return problems


def voice_warnings(data: JsonValue, marks: Marks) -> list[Problem]:
    """Name the providers that do not have the one voice that an agent names."""
    kinds = _kinds(data)
    problems = []
    for agent, entry in _table(data, "agents").items():
        voice = entry.get("voice") if isinstance(entry, dict) else None
        if not isinstance(voice, str) or not isinstance(entry, dict):
            continue
        for name in _names(entry.get("providers")):
            known = VOICES.get(kinds.get(name, ""))
            if known is not None and voice not in known:
                problems.append(
                    marks.problem(
                        ("agents", agent, "voice"),
                        f"{{value}} is no voice of {name}: its default is heard there",
                        f"write voice: {{PROVIDER: NAME, {name}: {known.names[0]}}}",
                    )
                )
    return problems


def _plain_problems(path: KeyPath, voice: str, kinds: list[str], marks: Marks) -> Iterator[Problem]:
    lists = [VOICES[kind] for kind in kinds if kind in VOICES]
    if not lists or len(lists) < len(kinds) or any(voice in known for known in lists):
        return
    yield _unknown(path, voice, kinds[0], lists[0], marks)


def _table_problems(
    path: KeyPath,
    voices: Mapping[str, JsonValue],
    providers: list[str],
    kinds: Mapping[str, str],
    marks: Marks,
) -> Iterator[Problem]:
    for name, voice in voices.items():
        if name not in providers:
            write = did_you_mean(name, providers) or f"choose from {', '.join(providers)}"
            yield marks.problem((*path, name), "is none of the agent's providers", write)
            continue
        known = VOICES.get(kinds[name])
        if known is not None and isinstance(voice, str) and voice not in known:
            yield _unknown((*path, name), voice, kinds[name], known, marks)


def _unknown(path: KeyPath, voice: str, kind: str, known: VoiceList, marks: Marks) -> Problem:
    near = did_you_mean(voice, known.names) or did_you_mean(voice.lower(), map(str.lower, known.names))
    write = f"write one of {known.choices}"
    return marks.problem(path, f"{{value}} is no voice of {kind}", f"{near} {write}" if near else write)


def _kinds(data: JsonValue) -> dict[str, str]:
    """Return the kind of each provider that has one."""
    kinds = {}
    for name, entry in _table(data, "providers").items():
        kind = entry.get("kind", name) if isinstance(entry, dict) else None
        if isinstance(kind, str) and kind in PROVIDER_KINDS:
            kinds[name] = kind
    return kinds


def _table(data: JsonValue, key: str) -> Mapping[str, JsonValue]:
    found = data.get(key) if isinstance(data, dict) else None
    return found if isinstance(found, dict) else {}


def _names(value: JsonValue) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
