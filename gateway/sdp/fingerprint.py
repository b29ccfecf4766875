"""Who a DTLS peer has to be, in session descriptions (RFC 8122), and who begins (RFC 4145, RFC 5763)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

DIGEST_BYTES = {"sha-1": 20, "sha-224": 28, "sha-256": 32, "sha-384": 48, "sha-512": 64}
"""The hash functions that we check, weakest first; MD2 and MD5 prove nothing (RFC 8122 section 5)."""

_STRENGTH = list(DIGEST_BYTES)
_MAX_LINES = 16


class Setup(Enum):
    """Who opens the association, seen from the side that wrote the description."""

    ACTIVE = "active"
    PASSIVE = "passive"
    ACTPASS = "actpass"
    """Either; the answer decides."""
    HOLDCONN = "holdconn"
    """Nobody yet."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The hash of a certificate."""

    function: str
    """A key of :data:`DIGEST_BYTES`."""
    digest: bytes

    def __str__(self) -> str:
        return f"a=fingerprint:{self.function} {self.digest.hex(':').upper()}"


def read_fingerprints(values: Iterable[str]) -> tuple[Fingerprint, ...]:
    """
    Read the values of ``a=fingerprint`` lines; unknown functions and broken lines are left out.

    Only those of the strongest function count: a certificate that has one of them is the right one
    (RFC 8122 section 5.1).
    """
    found = [_read(value) for _, value in zip(range(_MAX_LINES), values, strict=False)]
    known = [fingerprint for fingerprint in found if fingerprint is not None]
    strongest = max((_STRENGTH.index(each.function) for each in known), default=0)
    return tuple(each for each in known if each.function == _STRENGTH[strongest])


def read_setup(value: str | None) -> Setup | None:
    """Read the value of ``a=setup``; ``None`` if there is none or it is unknown."""
    return next((setup for setup in Setup if value is not None and setup.value == value.lower()), None)


def _read(value: str) -> Fingerprint | None:
    function, _, text = value.partition(" ")
    function = function.lower()
    try:
        digest = bytes.fromhex(text.strip().replace(":", ""))
    except ValueError:
        return None
    return Fingerprint(function, digest) if DIGEST_BYTES.get(function) == len(digest) else None
