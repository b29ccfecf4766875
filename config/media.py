"""How the audio of a trunk's calls is treated."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from config.fields import Section, Whole, invalid


class JitterSettings(Section):
    """
    How long a packet that is missing is waited for.

    The wait follows the network between the two; what comes in order passes at once all the same.
    """

    min: Annotated[Whole, Field(ge=10, le=500)] = 40
    """The shortest wait, on a network without jitter."""
    max: Annotated[Whole, Field(ge=10, le=1000)] = 200
    """The longest: what comes still later is lost."""

    @model_validator(mode="after")
    def _is_a_range(self) -> JitterSettings:
        if self.min > self.max:
            raise invalid("min is greater than max", f"write min: {self.max} or less")
        return self
