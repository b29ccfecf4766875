"""The speech models that a configuration names: address, key and how they listen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from config.fields import ExistingFile, Number, Section, Text, WebAddress, Whole, invalid
from config.turns import TurnDetection

ENDING_MODELS = ("gpt-realtime", "gpt-realtime-mini", "gpt-audio-mini")
LEGACY_MODELS = ("gpt-4o-realtime-preview", "gpt-4o-mini-realtime-preview")
ENDING_TRANSCRIBERS = (
    "whisper-1",
    "gpt-4o-transcribe",
    "gpt-4o-mini-transcribe",
    "gpt-4o-transcribe-diarize",
)
KEYWORD_TRANSCRIBERS = ("gpt-transcribe", "gpt-live-transcribe")
NOT_REASONING = re.compile(r"gpt-(realtime(-mini|-1\.5)?|audio-mini|4o(-mini)?-realtime-preview)(-20.*)?")


class NoiseReduction(Section):
    """Takes noise out of the caller's voice at the provider, before it is listened to."""

    type: Literal["near_field", "far_field"] = "near_field"
    """near_field for a handset or headset, far_field for a hands-free phone."""
    strength: Annotated[Number, Field(ge=0, le=1)] = 1.0
    """How much is taken out."""


class AzureSettings(Section):
    """OpenAI Realtime in an Azure resource; base_url is then the address of the resource."""

    deployment: Text | None = None
    """The name of the deployment; null is the name of the model."""
    api_version: Text | None = None
    """A dated version such as 2025-04-01-preview; null is the GA address (/openai/v1)."""


def _printable(key: SecretStr) -> SecretStr:
    # It becomes an HTTP header: a newline from a file would break every connection, or worse.
    if not re.fullmatch(r"[!-~]+", key.get_secret_value()):
        raise invalid("is empty or has a space or line break in it", "write the key alone")
    return key


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
    azure: AzureSettings | None = None
    """Write azure: {} where base_url is an Azure resource (https://NAME.openai.azure.com)."""
    transcription_model: Text | None = "gpt-live-transcribe"
    """Writes down what the caller says, for the transcript; null for none."""
    transcription_keywords: tuple[Text, ...] = ()
    """Names and words that callers use; for gpt-transcribe and gpt-live-transcribe."""
    transcription_prompt: Text | None = None
    """What the calls are about, for the transcriber; not for gpt-realtime-whisper."""
    turn_detection: TurnDetection = TurnDetection()
    """How the end of a turn is found; an agent may say it differently."""
    noise_reduction: NoiseReduction | None = None
    """Write {} for the provider's noise reduction; null for none, since telephones have their own."""
    reasoning_effort: Literal["minimal", "low", "medium", "high", "xhigh"] | None = None
    """How much the model thinks before it speaks; null is its own choice. For gpt-realtime-2 and newer."""
    parallel_tool_calls: bool | None = None
    """Whether one answer may call several tools; null is the model's choice. For gpt-realtime-2 and newer."""
    max_output_tokens: Annotated[Whole, Field(ge=1, le=4096)] | None = None
    """The longest answer (a second of speech is 20 tokens), tool calls included; null for no limit."""
    speed: Annotated[Number, Field(ge=0.25, le=1.5)] = 1.0
    """How fast the agent speaks."""

    @field_validator("api_key")
    @classmethod
    def _key_is_printable(cls, value: SecretStr) -> SecretStr:
        return _printable(value)

    @model_validator(mode="after")
    def _fits_its_models(self) -> OpenAISettings:
        if self.azure is not None and self.base_url is None:
            raise invalid(
                "azure needs the address of the resource", "add base_url: https://NAME.openai.azure.com"
            )
        model = self.transcription_model or ""
        if self.transcription_keywords and model not in KEYWORD_TRANSCRIBERS:
            raise invalid(
                "transcription_keywords do not fit the transcription_model",
                "write transcription_model: gpt-live-transcribe, or remove the keywords",
            )
        if self.transcription_prompt and model in ("", "gpt-realtime-whisper"):
            raise invalid(
                "transcription_prompt does not fit the transcription_model",
                "write transcription_model: gpt-live-transcribe, or remove the prompt",
            )
        if not _reasons(self.model) and (self.reasoning_effort, self.parallel_tool_calls) != (None, None):
            raise invalid(
                "reasoning_effort and parallel_tool_calls need a model that reasons",
                "write model: gpt-realtime-2.1, or remove them",
            )
        return self


def _reasons(model: str) -> bool:
    """Whether a model takes the settings of those that reason; what is unknown is the operator's word."""
    return NOT_REASONING.fullmatch(model) is None


class GeminiTurnDetection(Section):
    """
    How Gemini finds the beginning and the end of the caller's turn.

    Its own defaults are made for a good microphone: on a telephone they take noise for speech and a breath
    for the end of a sentence.
    """

    start_sensitivity: Literal["low", "high"] = "low"
    """How easily sound counts as speech."""
    end_sensitivity: Literal["low", "high"] = "low"
    """How easily a pause counts as the end."""
    prefix_padding_ms: Annotated[Whole, Field(ge=0, le=2000)] = 200
    """So much speech is needed before the agent is interrupted: a cough is shorter."""
    silence_ms: Annotated[Whole, Field(ge=100, le=10_000)] = 600
    """Silence after which the caller's turn is over."""


class VertexSettings(Section):
    """Gemini in a project of Google Cloud, instead of a key."""

    project: Text
    """The project's id."""
    location: Text = "us-central1"
    """The region; it is a part of the address."""
    credentials: ExistingFile | None = None
    """The JSON key of a service account; null uses what the machine has (application default credentials)."""


class GeminiSettings(Section):
    """Gemini Live: with a key of AI Studio, or in a project of Vertex AI."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["api_key"]}, {"required": ["vertex"]}]}
    )

    kind: Literal["gemini"] = "gemini"
    """Which provider this is; may be left out where the entry is named gemini."""
    api_key: SecretStr | None = None
    """The key; write ${env:GEMINI_API_KEY} and keep the key itself out of the file. Not with vertex."""
    vertex: VertexSettings | None = None
    """The project that is used instead of a key."""
    model: Text = "gemini-3.8-live"
    """The speech model."""
    base_url: WebAddress | None = None
    """Another server, such as https://127.0.0.1:9200 for `trunkline fake-gemini`; always over TLS."""
    ca_file: ExistingFile | None = None
    """Certificates (PEM) that are trusted for that server; null trusts the usual ones."""
    connect_timeout_s: Annotated[Number, Field(gt=0, le=60)] = 5.0
    """A session that is not configured after so long is given up; the caller hears ringing meanwhile."""
    transcription: bool = True
    """Whether the service writes down what the caller says, for the transcript."""
    session_limit_s: Annotated[Number, Field(ge=120, le=86_400)] = 3420.0
    """Age at which a session is handed over to a new one: some models end it, unannounced, at 58 minutes."""
    turn_detection: GeminiTurnDetection = GeminiTurnDetection()
    """How the ends of a turn are found."""

    @field_validator("api_key")
    @classmethod
    def _key_is_printable(cls, value: SecretStr | None) -> SecretStr | None:
        return None if value is None else _printable(value)

    @model_validator(mode="after")
    def _has_one_way_in(self) -> GeminiSettings:
        if self.api_key is None and self.vertex is None:
            raise invalid("has neither api_key nor vertex", 'write api_key: "${env:GEMINI_API_KEY}"')
        if self.api_key is not None and self.vertex is not None:
            raise invalid("has both api_key and vertex", "remove one of them")
        return self


class LiveTurnDetection(Section):
    """How the gateway hears the caller speak; GPT-Live does not say."""

    threshold: Annotated[Number, Field(ge=0, le=1)] = 0.5
    """How loud speech must be, 0 to 1; higher for noisy lines."""
    silence_ms: Annotated[Whole, Field(ge=50, le=10_000)] = 500
    """Silence after which a turn is over in transcript and latency; the model answers when it likes."""


class LiveSettings(Section):
    """OpenAI's GPT-Live, which listens while it talks, or a server that speaks its protocol."""

    kind: Literal["openai-live"] = "openai-live"
    """Which provider this is; may be left out where the entry is named openai-live."""
    api_key: SecretStr
    """The key; write ${env:OPENAI_API_KEY} and keep the key itself out of the file."""
    model: Text = "gpt-live-1.1"
    """The voice."""
    backend_model: Text = "gpt-6-luna"
    """The model behind the voice, to which it delegates tools and harder questions; billed by tokens."""
    base_url: WebAddress | None = None
    """Another server, such as http://127.0.0.1:9101/v1 for `trunkline fake-live`."""
    connect_timeout_s: Annotated[Number, Field(gt=0, le=60)] = 5.0
    """A session that is not started after so long is given up; the caller hears ringing meanwhile."""
    pause_ms: Annotated[Whole, Field(ge=300, le=5_000)] = 800
    """Silence of the model after which what it said is complete; the call hangs up or transfers no sooner."""
    yield_ms: Annotated[Whole, Field(ge=300, le=10_000)] = 1_200
    """How long the model may talk on while the caller speaks; then it is muted until it falls silent."""
    buffer_ms: Annotated[Whole, Field(ge=0, le=200)] = 80
    """How much of its voice is kept against jitter; more makes it slower to fall silent."""
    turn_detection: LiveTurnDetection = LiveTurnDetection()
    """How the gateway hears that the caller speaks."""

    @field_validator("api_key")
    @classmethod
    def _key_is_printable(cls, value: SecretStr) -> SecretStr:
        return _printable(value)


class FakeSettings(Section):
    """A deterministic stand-in that plays a script; needs no key and no network."""

    kind: Literal["fake"] = "fake"
    """Which provider this is; may be left out where the entry is named fake."""
    script: ExistingFile | None = None
    """The script (YAML): what it says, what it waits for, which tools it calls; null plays a short one."""


ProviderSettings = Annotated[
    OpenAISettings | LiveSettings | GeminiSettings | FakeSettings, Field(discriminator="kind")
]
PROVIDER_KINDS: Mapping[str, type[Section]] = MappingProxyType(
    {"openai": OpenAISettings, "openai-live": LiveSettings, "gemini": GeminiSettings, "fake": FakeSettings}
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
        case LiveSettings():
            return {"model": settings.model, "backend_model": settings.backend_model}
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
