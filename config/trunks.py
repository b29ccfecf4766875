"""The settings of a trunk: who may call us, and how they are spoken to."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from config.fields import Network, Section, Whole, invalid

Codec = Literal["PCMU", "PCMA"]


class TrunkSettings(Section):
    """Who may call us."""

    allow: Annotated[tuple[Network, ...], Field(min_length=1)]
    """Addresses and CIDR networks of the peer; a packet from elsewhere gets no answer."""
    codecs: Annotated[tuple[Codec, ...], Field(min_length=1)] = ("PCMU", "PCMA")
    """Codecs that we accept, the preferred one first."""
    max_calls: Annotated[Whole, Field(ge=1)] | None = None
    """Calls at once on this trunk; one more is answered with 503. null leaves it to server.sip."""

    @field_validator("codecs")
    @classmethod
    def _each_once(cls, value: tuple[Codec, ...]) -> tuple[Codec, ...]:
        if len(set(value)) < len(value):
            raise invalid("names a codec twice", "name each codec once")
        return value
