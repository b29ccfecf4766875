"""What happens when a speech model fails: who is tried next, and what the caller hears meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from config.fields import AudioFile, Number, Section, Whole, invalid

PROMPTS = Path(__file__).parent / "prompts"
SHIPPED_LANGUAGES = ("en", "de", "es", "fr", "it", "nl", "pt")
"""Languages in which there are recordings for a caller whose model fails."""


def shipped_prompt(name: str, language: str | None) -> Path:
    """Return a shipped recording (``apology``, ``moment``, ``connecting``); English if there is no other."""
    primary = (language or "en").partition("-")[0].lower()
    return PROMPTS / f"{name}_{primary if primary in SHIPPED_LANGUAGES else 'en'}.flac"


class BreakerSettings(Section):
    """
    When a provider that fails is left alone for a while; calls then begin with the next one.

    After the pause one call tries it again; while that fails, the pause doubles.
    """

    failures: Annotated[Whole, Field(ge=1, le=1000)] = 3
    """So many failures without a success between them open the breaker."""
    within_s: Annotated[Number, Field(gt=0, le=86_400)] = 60.0
    """Failures that lie further back are forgotten."""
    pause_s: Annotated[Number, Field(gt=0, le=3600)] = 10.0
    """How long the provider is left alone at first."""
    longest_pause_s: Annotated[Number, Field(gt=0, le=86_400)] = 300.0
    """How long at most, after it failed again and again."""

    @model_validator(mode="after")
    def _is_a_range(self) -> BreakerSettings:
        if self.pause_s > self.longest_pause_s:
            raise invalid(
                "pause_s is greater than longest_pause_s", f"write pause_s: {self.longest_pause_s:g} or less"
            )
        return self


class AgentRecovery(Section):
    """
    What is done for a caller whose session with a provider is lost, or does not answer.

    A new session, of the same provider or the next one, goes on with the conversation. Where none can be had,
    the caller hears the agent's apology and is transferred to on_unavailable.transfer, if that is set.
    """

    open_s: Annotated[Number, Field(gt=0, le=120)] = 12.0
    """A new call is unavailable when no provider has a session after so long, all tries together."""
    attempt_s: Annotated[Number, Field(gt=0, le=60)] = 2.5
    """In mid-call the next provider is tried when one has no session after so long."""
    give_up_s: Annotated[Number, Field(gt=0, le=120)] = 8.0
    """In mid-call the apology follows when no provider has a session after so long, all tries together."""
    max_swaps: Annotated[Whole, Field(ge=0, le=1000)] = 6
    """Lost sessions of one call that are replaced; 0 apologises for the first."""
    moment: AudioFile | None = None
    """Recording that bridges a pause while a session is replaced; null takes the shipped one by language."""
    connecting: AudioFile | None = None
    """Recording before the transfer to on_unavailable.transfer; null takes the shipped one by language."""

    @model_validator(mode="after")
    def _an_attempt_fits(self) -> AgentRecovery:
        if self.attempt_s > self.give_up_s:
            raise invalid(
                "attempt_s is greater than give_up_s", f"write attempt_s: {self.give_up_s:g} or less"
            )
        return self
