"""
The settings as frozen models.

``Settings`` is the whole file; everything below gets the smallest part that it needs. The
docstring below each field is its line in ``docs/configuration.md`` and in the JSON Schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from config.conversation import DEFAULT_GREETING, Greeting, SilenceSettings
from config.destinations import destination_fault
from config.fields import (
    AudioFile,
    ExistingFolder,
    FutureFolder,
    HeaderName,
    KeyedTable,
    Language,
    Number,
    Section,
    Table,
    Text,
    WebAddress,
    Whole,
    empty,
    existing_file,
    invalid,
)
from config.prices import Amount, PriceTable
from config.providers import ProviderSettings, kind_by_name
from config.recovery import AgentRecovery
from config.server import ServerSettings
from config.transfers import AgentTransfer
from config.trunks import TrunkSettings
from config.turns import TurnDetection
from config.voices import AgentVoice


class OrganizationSettings(Section):
    """Whose number was called."""

    client_lookup_url: WebAddress | None = None
    """Where lookup_caller finds the client of a phone number; without it the tool does not exist."""
    client_lookup_auth: SecretStr | None = None
    """Secret that is sent with each look-up."""
    client_lookup_auth_header: HeaderName = "loquent_x_check"
    """Header that carries the secret."""

    @model_validator(mode="after")
    def _secret_has_a_destination(self) -> OrganizationSettings:
        if self.client_lookup_auth is not None and self.client_lookup_url is None:
            raise invalid("client_lookup_auth is set without client_lookup_url", "add client_lookup_url")
        return self


class KnowledgeBaseSettings(Section):
    """Documents that query_knowledge searches."""

    path: ExistingFolder
    """Folder of text files (.txt, .md), relative to this file."""


class OnUnavailable(Section):
    """
    What a caller gets when no provider can be reached.

    ``reject`` alone refuses the call with 503 before it is answered.
    """

    say: AudioFile | None = None
    """Recording that is played first; the call is answered for it."""
    then: Literal["reject", "transfer"] = "reject"
    """What follows: the call is ended, or transferred."""
    transfer: str | None = None
    """Number (+E.164) or SIP URI that the call is transferred to."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [{"const": "reject"}, handler.resolve_ref_schema(handler(schema))]}

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: object) -> object:
        if value == "reject":
            return {}
        if isinstance(value, str):
            raise invalid(
                "{value} is not an answer to an unavailable provider",
                "write reject, or a mapping with say: FILE or transfer: NUMBER",
            )
        if isinstance(value, Mapping) and value.get("transfer") is not None and "then" not in value:
            return {**value, "then": "transfer"}
        return value

    @field_validator("transfer")
    @classmethod
    def _can_be_dialled(cls, value: str | None) -> str | None:
        if value is not None and (fault := destination_fault(value)):
            raise invalid(*fault)
        return value

    @model_validator(mode="after")
    def _transfer_goes_with_its_number(self) -> OnUnavailable:
        if self.then == "transfer" and self.transfer is None:
            raise invalid("then: transfer needs a number", "add transfer: NUMBER")
        if self.then == "reject" and self.transfer is not None:
            raise invalid("then: reject contradicts transfer", "remove one of the two")
        return self


class CallLimits(Section):
    """What one call may use."""

    max_duration_s: Annotated[Number, Field(gt=0, le=86_400)] = 3600.0
    """After so long the agent is asked to say goodbye, and the call ends when the caller has heard it."""
    max_cost_usd: Annotated[Amount, Field(gt=0)] | None = None
    """The same once the models have cost so many US dollars, as far as their prices are known."""
    silence_hangup_s: Annotated[Number, Field(gt=0, le=86_400)] | None = 30.0
    """A call is ended after so much silence, with a goodbye (see silence); null for never."""


def _read_prompt(value: object, info: ValidationInfo) -> object:
    """Take text, or ``{file: PATH}`` and read it."""
    if not isinstance(value, Mapping):
        return value
    if list(value) != ["file"]:
        raise invalid("must be text or a file", "write prompt: TEXT, or prompt: {file: PATH}")
    path = existing_file(value["file"], info)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise invalid(
            "names a file that cannot be read as UTF-8 text", "write the path of a text file"
        ) from None


Prompt = Annotated[
    Text,
    BeforeValidator(_read_prompt),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {
                    "type": "object",
                    "properties": {"file": {"type": "string", "format": "path"}},
                    "required": ["file"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


def _each_once(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(value)) < len(value):
        raise invalid("names one entry twice", "name each once")
    return value


class AgentSettings(Section):
    """One voice agent."""

    providers: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_each_once)]
    """Names of providers, tried in this order when a call is set up, and when one fails in mid-call."""
    voice: AgentVoice = None
    """A voice by the provider's name for it, or {PROVIDER: NAME} for each; null for the default."""
    language: Language | None = None
    """The language of the conversation, as a tag such as en or de-DE."""
    prompt: Prompt
    """The system prompt: text, or {file: PATH} relative to this file."""
    turn_detection: TurnDetection | None = None
    """How the end of a caller's turn is found, where it differs from the provider's settings."""
    greeting: Greeting | None = Field(
        default=Greeting(ask=DEFAULT_GREETING), json_schema_extra={"default": DEFAULT_GREETING}
    )
    """The first words: an instruction, or say, ask or play; null lets the caller speak first."""
    reply_within_s: Annotated[Number, Field(ge=1, le=60)] = 6.0
    """How long an answer may take to its first sound; then the model is asked again, and at last replaced."""
    silence: SilenceSettings = SilenceSettings()
    """What is done about a caller who says nothing."""
    tools: Table[Mapping[str, JsonValue]] = Field(default_factory=empty)
    """Tools by name, each a mapping with enabled: true and its settings, see Tools of an agent."""
    max_tool_calls: Annotated[Whole, Field(ge=1, le=1000)] = 6
    """Rounds of tool calls after one turn of the caller; after them the agent must answer without tools."""
    on_unavailable: OnUnavailable = OnUnavailable()
    """When no provider can be reached: reject, {say: FILE}, {transfer: NUMBER}, or both."""
    transfer: AgentTransfer = AgentTransfer()
    """How its callers are handed over to people."""
    apology: AudioFile | None = None
    """Recording for a caller whose model fails for good; null takes the shipped one by language."""
    recovery: AgentRecovery = AgentRecovery()
    """What is done in mid-call when a session fails, before that."""
    limits: CallLimits = CallLimits()
    """What one call may use."""


class NumberSettings(Section):
    """What answers a number."""

    agent: str
    """Name of an agent."""
    organization: str | None = None
    """Name of an organization."""


class StorageSettings(Section):
    """What is kept."""

    recordings: FutureFolder | None = None
    """Folder for recordings, one folder a call (call.json, call.flac, sip.jsonl); null records nothing."""
    sip_trace: bool = True
    """Keep each call's SIP messages in its folder, without passwords and keys, for trunkline sip trace."""


_USER_PART = re.compile(r"[A-Za-z0-9_.!~*'()&=$,;?/-][A-Za-z0-9_.!~*'()&=+$,;?/-]*")  # RFC 3261 section 25.1


def _dialled(value: str) -> str:
    if not re.fullmatch(r"\+[1-9][0-9]{1,14}", value) and not _USER_PART.fullmatch(value):
        raise invalid(
            "this is neither a number nor the user part of a SIP address",
            'write "+" and digits in quotes (no spaces), or a name such as reception',
        )
    return value


DialledNumber = Annotated[str, AfterValidator(_dialled)]


class Settings(Section):
    """The whole configuration file."""

    server: ServerSettings = Field(default_factory=ServerSettings)
    """The process: addresses, ports, limits. A change needs a restart."""
    trunks: Table[TrunkSettings] = Field(default_factory=empty)
    """Who may call, by a name that logs and metrics use."""
    providers: Annotated[Table[ProviderSettings], BeforeValidator(kind_by_name)] = Field(
        default_factory=empty
    )
    """Speech models by name."""
    prices: PriceTable = Field(default_factory=empty)
    """What models cost where the shipped prices do not fit: by provider or kind, then by model."""
    organizations: Table[OrganizationSettings] = Field(default_factory=empty)
    """Organizations by name."""
    knowledge_bases: Table[KnowledgeBaseSettings] = Field(default_factory=empty)
    """Folders of documents by name."""
    agents: Table[AgentSettings] = Field(default_factory=empty)
    """Voice agents by name."""
    numbers: KeyedTable[DialledNumber, NumberSettings] = Field(default_factory=empty)
    """Dialled numbers ("+12125550100", in quotes) or user parts, and what answers them."""
    storage: StorageSettings = StorageSettings()
    """What is kept of calls."""
