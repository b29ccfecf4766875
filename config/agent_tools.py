"""
Which tools an agent may use, and their settings (L-31 to L-35).

The shape is the YAML's own::

    transfer_call: {enabled: true, numbers: [{number: "+12125551234", label: Sales}]}
    lookup_caller: {enabled: true}
    query_knowledge: {enabled: true, knowledge_bases: [handbook]}

A tool's settings stay a plain mapping here, so that a new tool needs no change of this module;
whoever knows the tool asks for them in its own type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SerializeAsAny,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

TRANSFER_CALL: Final = "transfer_call"
TRANSFER_NEEDS_A_NUMBER: Final = "Transfer Call requires at least one phone number."

Settings = TypeVar("Settings", bound=BaseModel)


class TransferNumber(BaseModel):
    """One destination: what is dialled, and the name that the agent says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: str
    label: str = ""

    @property
    def is_valid(self) -> bool:
        """Whether anything is left after trimming (L-32); the form of a number is checked elsewhere."""
        return bool(self.number.strip())

    @property
    def is_warm(self) -> bool:
        """Whether the colleague is asked before the caller is handed over."""
        return False


class TransferNumberWithMode(TransferNumber):
    """
    A destination that says how a caller comes there.

    The requirements' own type (L-35) has number and label only, and is what a row without ``mode`` becomes.
    """

    mode: Literal["cold", "warm"] = "cold"
    """
    ``cold``: the caller is handed over once the transfer is announced. ``warm``: the colleague is called
    first, learns from the agent what it is about, and accepts or declines.
    """

    @property
    def is_warm(self) -> bool:
        return self.mode == "warm"


def _row(value: object, handler: ValidatorFunctionWrapHandler) -> TransferNumber:
    """Read a row in the type that fits it; each keeps its own errors."""
    if isinstance(value, Mapping) and "mode" in value:
        return TransferNumberWithMode.model_validate(value)
    row: TransferNumber = handler(value)
    return row


_Row = Annotated[
    SerializeAsAny[TransferNumber], WrapValidator(_row, json_schema_input_type=TransferNumberWithMode)
]


class TransferCallSettings(BaseModel):
    """Where ``transfer_call`` may send a caller."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    numbers: tuple[_Row, ...] = ()

    @property
    def valid_numbers(self) -> tuple[TransferNumber, ...]:
        """The numbers that are not blank, in the order of the configuration."""
        return tuple(number for number in self.numbers if number.is_valid)


class QueryKnowledgeSettings(BaseModel):
    """Which knowledge bases ``query_knowledge`` searches, by their configured names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    knowledge_bases: tuple[str, ...] = ()


class ToolEntry(BaseModel):
    """One tool of an agent: a switch, and whatever settings the tool defines itself."""

    model_config = ConfigDict(extra="allow", frozen=True)

    enabled: bool = True
    """An entry that is written is meant; ``enabled: false`` keeps its settings for later."""

    @property
    def settings(self) -> Mapping[str, object]:
        """Everything but the switch, as it stood in the configuration."""
        return self.model_extra or {}


class AgentToolConfig(RootModel[Mapping[str, ToolEntry]]):
    """The ``tools`` mapping of an agent; frozen, and empty when nothing is configured."""

    model_config = ConfigDict(frozen=True)

    root: Mapping[str, ToolEntry] = Field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The tools that the configuration mentions, on or off, in its order."""
        return tuple(self.root)

    def is_tool_enabled(self, name: str) -> bool:
        """Say whether ``name`` is configured and switched on."""
        entry = self.root.get(name)
        return entry is not None and entry.enabled

    def get_tool_settings(self, settings: type[Settings], name: str) -> Settings | None:
        """
        Return the settings of a tool as ``settings``, or ``None`` where it has none.

        Raises :exc:`pydantic.ValidationError` when they do not fit the type.
        """
        entry = self.root.get(name)
        if entry is None or not entry.settings:
            return None
        return settings.model_validate(dict(entry.settings))

    def validation_error(self) -> str | None:
        """Return a sentence when transfer is on without one valid number (L-31), else ``None``."""
        if not self.is_tool_enabled(TRANSFER_CALL):
            return None
        try:
            settings = self.get_tool_settings(TransferCallSettings, TRANSFER_CALL)
        except ValidationError:
            # Settings of another shape hold no valid number either; the loader says what is wrong.
            return TRANSFER_NEEDS_A_NUMBER
        return None if settings and settings.valid_numbers else TRANSFER_NEEDS_A_NUMBER
