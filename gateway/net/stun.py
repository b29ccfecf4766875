"""STUN binding requests and their answers (RFC 8489), as far as one needs to learn one's own address."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from ipaddress import ip_address

from gateway.sip.flow import Address

REQUEST, SUCCESS, ERROR = 0x0001, 0x0101, 0x0111
_COOKIE = 0x2112A442
_HEADER = struct.Struct("!HHI12s")
HEADER_BYTES = _HEADER.size
_ATTRIBUTE = struct.Struct("!HH")
_MAPPED, _ERROR_CODE, _XOR_MAPPED = 0x0001, 0x0009, 0x0020
_V4, _V6 = 1, 2


class StunError(Exception):
    """An answer that tells no address."""


def is_stun(data: bytes) -> bool:
    """Whether a datagram is STUN: SIP begins with a letter, RTP with other bits (section 5)."""
    return len(data) >= _HEADER.size and data[0] < 4 and data[4:8] == _COOKIE.to_bytes(4, "big")


def kind_of(data: bytes) -> int:
    """Return the type of a message that :func:`is_stun`."""
    return int.from_bytes(data[:2], "big")


def binding_request(transaction: bytes) -> bytes:
    """Ask how we are seen; ``transaction`` is 12 random octets."""
    return _HEADER.pack(REQUEST, 0, _COOKIE, transaction)


def binding_response(request: bytes, seen: Address) -> bytes:
    """Answer a binding request with the address that it came from."""
    transaction = request[8:20]
    packed = ip_address(seen[0]).packed
    value = bytes([0, _V4 if len(packed) == 4 else _V6])
    value += (seen[1] ^ (_COOKIE >> 16)).to_bytes(2, "big") + _masked(packed, transaction)
    return (
        _HEADER.pack(SUCCESS, _ATTRIBUTE.size + len(value), _COOKIE, transaction)
        + _ATTRIBUTE.pack(_XOR_MAPPED, len(value))
        + value
    )


def mapped_address(data: bytes, transaction: bytes) -> Address | None:
    """
    Read the answer to our request.

    Returns ``None`` for what is no answer to it (section 6.3: such a message is ignored). Raises
    :exc:`StunError` for a refusal, and for an answer that names no address.
    """
    if not is_stun(data) or data[8:20] != transaction:
        return None
    kind, length, _, _ = _HEADER.unpack_from(data)
    if kind not in {SUCCESS, ERROR} or len(data) < _HEADER.size + length:
        return None
    attributes = _attributes(data[_HEADER.size : _HEADER.size + length])
    if kind == ERROR:
        code = attributes.get(_ERROR_CODE, b"")
        raise StunError(f"refused with {(code[2] & 7) * 100 + code[3]}" if len(code) >= 4 else "refused")
    if (found := _address(attributes.get(_XOR_MAPPED, b""), transaction)) is not None:
        return found
    if (found := _address(attributes.get(_MAPPED, b""), None)) is not None:  # RFC 3489's servers
        return found
    raise StunError("the answer names no address")


def _attributes(body: bytes) -> dict[int, bytes]:
    """Return the first of each attribute (section 14)."""
    found: dict[int, bytes] = {}
    for kind, _, value in attributes(body):
        found.setdefault(kind, value)
    return found


def attributes(body: bytes, at: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """Yield the attributes (section 14), each as type, where it begins, and value; none that is cut off."""
    while at + _ATTRIBUTE.size <= len(body):
        kind, length = _ATTRIBUTE.unpack_from(body, at)
        end = at + _ATTRIBUTE.size + length
        if end > len(body):
            return
        yield kind, at, body[at + _ATTRIBUTE.size : end]
        at = end + (-length % 4)


def with_attribute(message: bytes, kind: int, value: bytes) -> bytes:
    """Return a message with one more attribute at its end, counted in its length."""
    padded = value + bytes(-len(value) % 4)
    length = len(message) - HEADER_BYTES + _ATTRIBUTE.size + len(padded)
    return message[:2] + length.to_bytes(2, "big") + message[4:] + _ATTRIBUTE.pack(kind, len(value)) + padded


def _address(value: bytes, transaction: bytes | None) -> Address | None:
    """Read an address; ``transaction`` is given where it is masked."""
    size = {_V4: 4, _V6: 16}.get(value[1], 0) if len(value) > 1 else 0
    if not size or len(value) != 4 + size:
        return None
    port, host = int.from_bytes(value[2:4], "big"), value[4:]
    if transaction is not None:
        port, host = port ^ (_COOKIE >> 16), _masked(host, transaction)
    return str(ip_address(host)), port


def _masked(packed: bytes, transaction: bytes) -> bytes:
    mask = _COOKIE.to_bytes(4, "big") + transaction
    return bytes(one ^ other for one, other in zip(packed, mask, strict=False))
