"""Where a message came from and where its answer goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Address: TypeAlias = tuple[str, int]
"""IP address (no brackets, no scope) and port. A ``remote`` to be resolved may hold a host name."""


@dataclass(frozen=True, slots=True)
class Flow:
    """
    A path between us and a peer.

    ``id`` tells TCP connections apart; 0 means UDP, or "any connection to ``remote``, a new one if
    there is none". ``local`` is the address by which that peer reaches us, never a wildcard.
    """

    transport: Literal["udp", "tcp"]
    remote: Address
    local: Address
    id: int = 0

    @property
    def reliable(self) -> bool:
        return self.transport != "udp"

    def __str__(self) -> str:
        return f"{self.transport}:{self.remote[0]}:{self.remote[1]}"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Bytes for the wire. When ``flow`` is gone or cannot be opened, ``fallback`` is tried once."""

    flow: Flow
    data: bytes
    fallback: Flow | None = None
