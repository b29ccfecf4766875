"""
Keys for SRTP in session descriptions: the ``a=crypto`` attribute (RFC 4568, RFC 7714 section 14).

Whoever writes a line names the key with which it will *send*. Keys never show in a ``repr``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class Suite(StrEnum):
    """What libsrtp can do for us, in our order of preference; the values are the names in SDP."""

    AEAD_AES_256_GCM = "AEAD_AES_256_GCM"
    AEAD_AES_128_GCM = "AEAD_AES_128_GCM"
    AES_CM_128_HMAC_SHA1_80 = "AES_CM_128_HMAC_SHA1_80"
    AES_CM_128_HMAC_SHA1_32 = "AES_CM_128_HMAC_SHA1_32"

    @property
    def key_bytes(self) -> int:
        """Length of the master key."""
        return 32 if self is Suite.AEAD_AES_256_GCM else 16

    @property
    def salt_bytes(self) -> int:
        """Length of the master salt, which follows the key on the line."""
        return 12 if self in (Suite.AEAD_AES_256_GCM, Suite.AEAD_AES_128_GCM) else 14


MAX_LIFETIME = 2**48
"""Packets that one key may protect (RFC 3711 section 9.2); what a line without a lifetime means."""

_MAX_LINES = 16
_TAG = re.compile(r"\d{1,9}")
_POWER = re.compile(r"2\^(\d{1,2})")
_MKI = re.compile(r"(\d{1,38}):(\d{1,3})")
_HARMLESS = re.compile(r"-.*|WSH=\d{1,5}", re.IGNORECASE | re.DOTALL)
"""Session parameters that bind nobody: extensions marked as optional, and a hint about the replay window."""
_SECRETS = re.compile(
    rb"(?<![^\r\n])([ \t]*(?:a[ \t]*=[ \t]*(?:crypto[ \t]*:[ \t]*\S+[ \t]+\S+[ \t]+"
    rb"|key-mgmt[ \t]*:|ice-pwd[ \t]*:)|k[ \t]*=))([^\r\n]+)",
    re.IGNORECASE,
)
_INLINE = re.compile(rb"((?:^|;)[ \t]*inline:)[^|;\s]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Crypto:
    """One line that can be used."""

    tag: int
    suite: Suite
    key: bytes = field(repr=False)
    """Master key and salt of whoever wrote the line."""
    lifetime: int = MAX_LIFETIME
    """Packets after which the writer has to change the key."""
    mki: bytes = b""
    """Stands before the authentication tag of each packet, where it is not empty."""

    def __str__(self) -> str:
        """Write our own line: no lifetime, no MKI."""
        return f"a=crypto:{self.tag} {self.suite} inline:{base64.b64encode(self.key).decode('ascii')}"


def read_crypto(values: Iterable[str]) -> tuple[Crypto, ...]:
    """Read the values of ``a=crypto`` lines; what is broken, unknown or too much for us is left out."""
    found = (_read(value) for _, value in zip(range(_MAX_LINES), values, strict=False))
    return tuple(line for line in found if line is not None)


def draw_crypto(draw: Callable[[int], bytes]) -> tuple[Crypto, ...]:
    """
    Make a line with a fresh key for each suite, the preferred one first.

    Args:
        draw: Returns so many bytes that nobody can guess.
    """
    return tuple(
        Crypto(tag, suite, draw(suite.key_bytes + suite.salt_bytes)) for tag, suite in enumerate(Suite, 1)
    )


def redact_sdp(message: bytes) -> bytes:
    """Cut the keys and passwords out of a session description, or of a SIP message that carries one."""
    return _SECRETS.sub(_cut, message)


def _cut(found: re.Match[bytes]) -> bytes:
    """Keep of a line that is in order what is no secret: lifetime, MKI and parameters."""
    name, value = found[1], found[2]
    in_order = _INLINE.match(value)
    return name + (_INLINE.sub(rb"\1[redacted]", value) if in_order else b"[redacted]")


def _read(value: str) -> Crypto | None:
    """Read ``1 AES_CM_128_HMAC_SHA1_80 inline:KEY|2^20|1:4 WSH=64``."""
    parts = value.split()
    if len(parts) < 3 or not _TAG.fullmatch(parts[0]):
        return None
    tag, name, keys, *parameters = parts
    try:
        suite = Suite(name.upper())
    except ValueError:
        return None
    # RFC 4568 section 6.3: a parameter that we do not keep to rules the whole line out.
    if not all(_HARMLESS.fullmatch(parameter) for parameter in parameters):
        return None
    return _with_key(int(tag), suite, keys)


def _with_key(tag: int, suite: Suite, keys: str) -> Crypto | None:
    """Read ``inline:KEY|lifetime|MKI:length``; several keys, which an MKI tells apart, are too much."""
    method, _, text = keys.partition(":")
    if method.lower() != "inline" or ";" in text:
        return None
    encoded, *rest = text.split("|")
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(key) != suite.key_bytes + suite.salt_bytes:
        return None
    lifetime: int | None = MAX_LIFETIME
    if rest and ":" not in rest[0]:
        lifetime = _lifetime(rest.pop(0))
    mki: bytes | None = _mki(rest.pop(0)) if rest else b""
    if lifetime is None or mki is None or rest:
        return None
    return Crypto(tag, suite, key, lifetime, mki)


def _lifetime(text: str) -> int | None:
    power = _POWER.fullmatch(text)
    if power:
        packets = 2 ** int(power[1])
    elif text.isascii() and text.isdecimal() and len(text) <= 15:
        packets = int(text)
    else:
        return None
    return packets if 0 < packets <= MAX_LIFETIME else None


def _mki(text: str) -> bytes | None:
    """Read ``1:4``: the value 1 in 4 bytes (RFC 4568 section 6.1)."""
    found = _MKI.fullmatch(text)
    if not found or not 1 <= int(found[2]) <= 128:
        return None
    try:
        return int(found[1]).to_bytes(int(found[2]), "big")
    except OverflowError:
        return None
