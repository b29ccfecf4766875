"""How the end of a caller's turn is found: one set of words for every provider that can be told."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from config.fields import Number, Section, Whole, invalid

OPENAI_IDLE_MS = (5_000, 30_000)
"""What OpenAI takes for an idle timeout."""


class TurnDetection(Section):
    """
    How the provider finds the end of the caller's turn.

    The defaults are for telephones: a caller who hesitates for half a second is not cut off. What an agent
    writes goes before what its provider says, key by key.
    """

    end_by: Literal["silence", "meaning"] = "silence"
    """What ends a turn: silence_ms of silence, or also whether the words sound finished (OpenAI only)."""
    eagerness: Literal["auto", "low", "medium", "high"] = "auto"
    """How soon the agent answers: OpenAI with meaning after at most 8, 4 or 2 s; Gemini: high or not."""
    threshold: Annotated[Number, Field(ge=0, le=1)] = 0.5
    """How loud speech must be, 0 to 1; higher for noisy lines. Gemini is sensitive below 0.5."""
    silence_ms: Annotated[Whole, Field(ge=50, le=10_000)] = 500
    """Silence after which the caller's turn is over."""
    prefix_padding_ms: Annotated[Whole, Field(ge=0, le=5_000)] = 300
    """How much before the first loud sound belongs to the turn (OpenAI only)."""
    idle_timeout_ms: Annotated[Whole, Field(ge=OPENAI_IDLE_MS[0], le=OPENAI_IDLE_MS[1])] | None = None
    """After so long a silence of both the model speaks by itself (OpenAI only, where silence ends a turn)."""

    @model_validator(mode="after")
    def _idle_time_needs_silence(self) -> Self:
        if self.idle_timeout_ms is not None and self.end_by == "meaning":
            raise invalid("idle_timeout_ms needs end_by: silence", "remove one of the two")
        return self

    def over(self, base: TurnDetection) -> TurnDetection:
        """Return ``base`` with every key that was written here."""
        changed = {key: getattr(self, key) for key in self.model_fields_set}
        if changed.get("end_by") == "meaning":
            changed.setdefault("idle_timeout_ms", None)
        return base.model_copy(update=changed)
