"""The speech models that a configuration names: address, key and how they listen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator

from config.fields import ExistingFile, Number, Section, Text, WebAddress, Whole, invalid

ENDING_MODELS = ("gpt-realtime", "gpt-realtime-mini", "gpt-audio-mini")
LEGACY_MODELS = ("gpt-4o-realtime-preview", "gpt-4o-mini-realtime-preview")
ENDING_TRANSCRIBERS = (
    "whisper-1",
    "gpt-4o-transcribe",
    "gpt-4o-mini-transcribe",
    "gpt-4o-transcribe-diarize",
)


class TurnDetection(Section):
    """How the provider finds the end of the caller's turn."""

    threshold: Annotated[Number, Field(ge=0, le=1)] = 0.5
    """How loud speech must be, 0 to 1; higher for noisy lines."""
    silence_ms: Annotated[Whole, Field(ge=50, le=10_000)] = 500
    """Silence after which the caller's turn is over."""


class OpenAISettings(Section):
    """OpenAI Realtime, or a server that speaks its protocol."""

    kind: Literal["openai"] = "openai"
    """Which provider this is; may be left out where the entry is named openai."""
    api_key: SecretStr
    """The key; write ${env:OPENAI_API_KEY} and keep the key itself out of the file."""
    model: Text = "gpt-realtime-2.1"
    """The speech model."""
    base_url: WebAddress | None = None
    """Another server, such as http://127.0.0.1:9100/v1 for `trunkline fake-openai`."""
    connect_timeout_s: Annotated[Number, Field(gt=0, le=60)] = 5.0
    """A session that is not configured after so long is given up; the caller hears ringing meanwhile."""
    transcription_model: Text | None = "gpt-live-transcribe"
    """Writes down what the caller says, for the transcript; null for none."""
    turn_detection: TurnDetection = TurnDetection()
    """How the end of a turn is found."""

    @field_validator("api_key")
    @classmethod
    def _key_is_printable(cls, value: SecretStr) -> SecretStr:
        # It becomes an HTTP header: a newline from a file would break every connection, or worse.
        if not re.fullmatch(r"[!-~]+", value.get_secret_value()):
            raise invalid("is empty or has a space or line break in it", "write the key alone")
        return value


class FakeSettings(Section):
    """A deterministic stand-in that plays a script; needs no key and no network."""

    kind: Literal["fake"] = "fake"
    """Which provider this is; may be left out where the entry is named fake."""
    script: ExistingFile | None = None
    """The script (YAML): what it says, what it waits for, which tools it calls; null plays a short one."""


ProviderSettings = Annotated[OpenAISettings | FakeSettings, Field(discriminator="kind")]
PROVIDER_KINDS: Mapping[str, type[Section]] = MappingProxyType(
    {"openai": OpenAISettings, "fake": FakeSettings}
)


def model_of(settings: ProviderSettings) -> str:
    """Return the name under which a provider's speech model has its price."""
    return settings.kind if isinstance(settings, FakeSettings) else settings.model


def models_of(settings: ProviderSettings) -> Mapping[str, str]:
    """Return all models that a provider's calls are billed for, by the key that names them."""
    match settings:
        case FakeSettings():
            return {"kind": settings.kind}
        case OpenAISettings(transcription_model=str(transcriber)):
            return {"model": settings.model, "transcription_model": transcriber}
        case _:
            return {"model": settings.model}


def kind_by_name(value: object) -> object:
    """Give each provider without a ``kind`` the one it is named after."""
    if not isinstance(value, Mapping):
        return value
    return {
        name: {"kind": name, **entry}
        if isinstance(entry, Mapping) and "kind" not in entry and name in PROVIDER_KINDS
        else entry
        for name, entry in value.items()
    }
