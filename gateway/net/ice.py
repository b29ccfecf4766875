"""
The answering side of ICE for one call (RFC 8445, a lite agent): checks that come in are answered.

A check proves that its sender has read our description and can be reached where it comes from; one that
nominates says that media goes there from now on. We send none.
"""

from __future__ import annotations

import hashlib
import hmac
import zlib
from enum import IntEnum

from gateway.net import stun
from gateway.sdp import Ice

Address = tuple[str, int]


class _Attribute(IntEnum):
    USERNAME = 0x0006
    INTEGRITY = 0x0008
    USE_CANDIDATE = 0x0025
    FINGERPRINT = 0x8028


_FINGERPRINT_MASK = 0x5354_554E
_MAX_ATTRIBUTES = 32
_MAX_BYTES = 1_280
_MAX_PLACES = 16


class IceLite:
    """
    Args:
        ice: Both sides' credentials.
    """

    def __init__(self, ice: Ice) -> None:
        self._password = ice.ours.password.encode()
        self._username = f"{ice.ours.ufrag}:{ice.theirs.ufrag}".encode()
        self._places: dict[Address, None] = {}

    def receive(self, data: bytes, source: Address) -> tuple[bytes, bool]:
        """
        Take a STUN datagram.

        Returns:
            The answer, empty for what is no good check of this peer's; and whether media goes to its
            source from now on.
        """
        if len(data) > _MAX_BYTES or not stun.is_stun(data) or stun.kind_of(data) != stun.REQUEST:
            return b"", False
        if int.from_bytes(data[2:4], "big") != len(data) - stun.HEADER_BYTES:
            return b"", False
        nominates = self._check(data)
        if nominates is None:
            return b"", False
        self._places[source] = None
        if len(self._places) > _MAX_PLACES:
            del self._places[next(iter(self._places))]
        response = stun.binding_response(data, source)
        response = stun.with_attribute(response, _Attribute.INTEGRITY, self._sign(response))
        return stun.with_attribute(response, _Attribute.FINGERPRINT, _fingerprint(response)), nominates

    def knows(self, source: Address) -> bool:
        """Whether a good check came from there."""
        return source in self._places

    def _check(self, data: bytes) -> bool | None:
        """Whether a request of the peer's nominates; ``None`` if it is not the peer's (section 7.3)."""
        username, nominates = b"", False
        for number, (kind, at, value) in enumerate(stun.attributes(data, stun.HEADER_BYTES)):
            if number >= _MAX_ATTRIBUTES:
                return None
            match kind:
                case _Attribute.USERNAME:
                    username = value
                case _Attribute.USE_CANDIDATE:
                    nominates = True
                case _Attribute.INTEGRITY:  # what stands behind it is not protected (RFC 8489 section 14.5)
                    known = username == self._username and hmac.compare_digest(self._sign(data[:at]), value)
                    return nominates if known else None
        return None

    def _sign(self, message: bytes) -> bytes:
        """Compute MESSAGE-INTEGRITY, with the length that the message has with it (section 14.5)."""
        length = len(message) - stun.HEADER_BYTES + 24
        text = message[:2] + length.to_bytes(2, "big") + message[4:]
        return hmac.new(self._password, text, hashlib.sha1).digest()


def _fingerprint(message: bytes) -> bytes:
    """Compute FINGERPRINT, with the length that the message has with it (section 14.7)."""
    length = len(message) - stun.HEADER_BYTES + 8
    text = message[:2] + length.to_bytes(2, "big") + message[4:]
    return (zlib.crc32(text) ^ _FINGERPRINT_MASK).to_bytes(4, "big")
