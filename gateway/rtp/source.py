"""
Whose packets are trusted: symmetric RTP (RFC 4961, RFC 7362) with a lock.

The first valid source is locked, because a peer behind NAT sends from another address than it signalled.
From then on another address is heard only if it is the signalled one, or continues the very same stream.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TypeAlias

Address: TypeAlias = tuple[str, int]

_FORMER_REFUSED_S = 1.0


def is_unspecified(address: Address) -> bool:
    """Whether it is 0.0.0.0 or ::, to which nothing may be sent (the hold of RFC 2543)."""
    return ip_address(address[0]).is_unspecified


class SourceLock:
    """Where the peer's packets come from, and so where ours go."""

    def __init__(self) -> None:
        self.locked: Address | None = None
        self.signalled: Address | None = None
        self._former: Address | None = None  # the locked source before the last change of address
        self._changed_at = 0.0

    def signal(self, address: Address, now: float) -> bool:
        """
        Take the address of a new description.

        Returns:
            Whether the lock was opened, because the peer moved.
        """
        if address == self.signalled or is_unspecified(address):
            return False
        self._former = self.locked
        self._changed_at = now
        self.signalled = address
        self.locked = None
        return True

    @property
    def destination(self) -> Address | None:
        """Where to send."""
        return self.locked or self.signalled

    def admits(self, source: Address, now: float, *, follows: bool) -> bool:
        """
        Decide about a valid packet from an address that is not locked; lock it if it is trusted.

        Args:
            source: Where it came from.
            now: When.
            follows: Whether it continues the stream that is heard.
        """
        if source == self.locked:
            return True
        if self.locked is None:
            # Packets that were on their way when the peer moved must not lock its old address.
            trusted = source != self._former or now - self._changed_at > _FORMER_REFUSED_S
        else:
            trusted = follows or source == self.signalled
        if trusted:
            self.locked = source
        return trusted
