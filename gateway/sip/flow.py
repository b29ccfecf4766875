"""Where a message came from and where its answer goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Address: TypeAlias = tuple[str, int]
"""
IP address (no brackets, no scope) and port. A ``remote`` to be looked up may hold a host name, and with it
port 0 where that is to be looked up as well.
"""


Transport: TypeAlias = Literal["udp", "tcp", "tls", "ws", "wss"]
"""How SIP travels, in the words of a ``transport`` parameter; ``wss`` is ``ws`` over TLS (RFC 7118)."""


@dataclass(frozen=True, slots=True)
class Flow:
    """
    A path between us and a peer.

    ``id`` tells connections apart, and the sockets that UDP came in on; 0 means any socket, or "any
    connection to ``remote``, a new one if there is none". ``local`` is the address by which that peer
    reaches us, never a wildcard. ``domain`` is whose certificate the peer of a new TLS connection must show
    (RFC 5922); empty stands for the host of ``remote``. ``bound`` is the address of the listener that it came
    in on, as it was configured: perhaps a wildcard, and not what peers are told. ``names`` are those of the
    certificate that the peer showed, in lower case, where it was asked for one and had to be right.
    """

    transport: Transport
    remote: Address
    local: Address
    id: int = 0
    domain: str = ""
    bound: str = ""
    names: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def reliable(self) -> bool:
        """Whether the transport retransmits for us."""
        return self.transport != "udp"

    @property
    def stream(self) -> bool:
        """Whether messages follow each other without a gap, so that only Content-Length ends one."""
        return self.transport in {"tcp", "tls"}

    @property
    def secure(self) -> bool:
        """Whether TLS protects it."""
        return self.transport in {"tls", "wss"}

    def __str__(self) -> str:
        return f"{self.transport}:{self.remote[0]}:{self.remote[1]}"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Bytes for the wire. When ``flow`` is gone or cannot be opened, ``fallback`` is tried once."""

    flow: Flow
    data: bytes
    fallback: Flow | None = None
