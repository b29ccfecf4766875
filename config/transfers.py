"""How callers are handed over to people: by the trunk or by us, and what is heard meanwhile."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from config.fields import AudioFile, Number, Section

TransferMethod = Literal["auto", "refer", "bridge"]


class TrunkTransfer(Section):
    """How the calls of a trunk are transferred."""

    method: TransferMethod = "auto"
    """refer: the trunk does it; bridge: we call, and carry both; auto: bridge where a refer is refused."""


class AgentTransfer(Section):
    """How an agent's callers are transferred, and what they hear meanwhile."""

    method: TransferMethod | None = None
    """refer, bridge or auto; null leaves it to the trunk that the caller came over."""
    trunk: str | None = None
    """The trunk for our own calls; null takes the caller's, else the only one with an address."""
    ring_s: Annotated[Number, Field(gt=0, le=180)] = 30.0
    """How long our own call may ring before the caller is back with the agent."""
    decide_s: Annotated[Number, Field(gt=0, le=600)] = 60.0
    """How long the colleague of a warm transfer may take to accept (1) or to decline (2)."""
    hold: AudioFile | None = None
    """Recording that a caller hears who waits for a warm transfer; null beeps every five seconds."""
    bridge_max_s: Annotated[Number, Field(gt=0, le=86_400)] = 14_400.0
    """Two people whom we joined are parted after so long."""
