"""
The way out: over which trunk a call of ours goes, and as whom (no I/O but the look-up of an address).

The legs only use what stands here; who fills it in knows the trunks' configuration. Nothing is dialled
that no trunk carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.sip.target import Target


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom the called party sees."""

    number: str
    """Ours, the one that the caller had dialled: it stands in From, and in Diversion where that is sent."""
    caller: str = ""
    """Who really calls; for P-Asserted-Identity on trunks that are trusted. Empty when withheld."""


class OutboundRoute(Protocol):
    """One trunk on which calls of ours may go out."""

    @property
    def trunk(self) -> str:
        """Its name in the configuration."""
        ...

    @property
    def codecs(self) -> Sequence[str]:
        """What is offered, the preferred one first."""
        ...

    async def target(self, destination: str, identity: Identity) -> Target:
        """
        Build the INVITE's addresses and look up where it goes (RFC 3263).

        Args:
            destination: A number (``+E.164``) or a SIP URI.
            identity: Whom the called party sees, by the trunk's rules.

        Raises:
            Unroutable: No address can be found, or the destination makes no address on this trunk.
        """
        ...


class OutboundRoutes(Protocol):
    """All trunks on which calls of ours may go out."""

    def find(self, trunk: str) -> OutboundRoute | None:
        """Return the way out over a trunk; ``None`` where that trunk takes no calls of ours."""
        ...

    def only(self) -> OutboundRoute | None:
        """Return the one trunk that takes calls of ours; ``None`` where there are several or none."""
        ...


class Unroutable(Exception):
    """A destination that cannot be called; the message says why."""
