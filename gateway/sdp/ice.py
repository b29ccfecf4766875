"""
ICE in session descriptions (RFC 8839), as far as a lite agent needs it: both sides' names and passwords.

We are reachable, so we make no checks of our own; the peer tries our one address, and where its good check
comes from, there it is. Its candidates need not be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

_UFRAG = re.compile(r"[A-Za-z0-9+/]{4,256}")
_PASSWORD = re.compile(r"[A-Za-z0-9+/]{22,256}")
_HOST_PRIORITY = 2**24 * 126 + 2**8 * 65_535
"""Of the only candidate of its kind (RFC 8445 section 5.1.2.1); its component's number is taken off."""


@dataclass(frozen=True, slots=True)
class IceCredentials:
    """What one side's checks are made of."""

    ufrag: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ice:
    """Both sides' credentials; how a call's addresses are found."""

    ours: IceCredentials
    theirs: IceCredentials


def read_ice(ufrag: str | None, password: str | None) -> IceCredentials | None:
    """Read the values of ``a=ice-ufrag`` and ``a=ice-pwd``; ``None`` unless both are there and good."""
    if not ufrag or not password or not _UFRAG.fullmatch(ufrag) or not _PASSWORD.fullmatch(password):
        return None
    return IceCredentials(ufrag, password)


def draw_ice(draw: Callable[[int], str]) -> IceCredentials:
    """
    Make credentials of our own.

    Args:
        draw: Returns text of so many random octets, in hexadecimal.
    """
    return IceCredentials(draw(4), draw(16))


def ice_lines(ours: IceCredentials, host: str, ports: list[int]) -> list[str]:
    """Write our credentials and our address, a port for each component."""
    return [
        f"a=ice-ufrag:{ours.ufrag}",
        f"a=ice-pwd:{ours.password}",
        *(
            f"a=candidate:1 {number} UDP {_HOST_PRIORITY + 256 - number} {host} {port} typ host"
            for number, port in enumerate(ports, 1)
        ),
        "a=end-of-candidates",
    ]
