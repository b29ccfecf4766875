"""
RTP packets on the wire (RFC 3550 section 5.1) and arithmetic on their wrapping numbers.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_HEADER = struct.Struct("!BBHII")
_unpack = _HEADER.unpack_from
_pack = _HEADER.pack

HEADER_BYTES = 12


class RtpError(ValueError):
    """A datagram that is no RTP or RTCP; the message says why."""


class RtpPacket(NamedTuple):
    """One packet; a header extension is skipped and padding is removed."""

    payload_type: int
    marker: bool
    sequence: int
    timestamp: int
    ssrc: int
    payload: bytes
    csrcs: tuple[int, ...] = ()


def parse(data: bytes) -> RtpPacket:
    """
    Parse a datagram.

    Raises:
        RtpError: Wrong version, cut off, or lengths that do not fit.
    """
    if len(data) < HEADER_BYTES:
        raise RtpError("shorter than an RTP header")
    first, second, sequence, timestamp, ssrc = _unpack(data)
    if first == 0x80:  # the usual packet: version 2 and nothing else
        return RtpPacket(second & 0x7F, second > 0x7F, sequence, timestamp, ssrc, data[HEADER_BYTES:])
    if first >> 6 != 2:
        raise RtpError(f"RTP version {first >> 6}")
    start = HEADER_BYTES + 4 * (first & 0x0F)
    end = len(data)
    if start > end:
        raise RtpError("cut off in the CSRC list")
    csrcs = struct.unpack_from(f"!{first & 0x0F}I", data, HEADER_BYTES)
    if first & 0x10:
        if start + 4 > end:
            raise RtpError("cut off in the header extension")
        start += 4 + 4 * int.from_bytes(data[start + 2 : start + 4], "big")
    if first & 0x20:
        padding = data[-1]
        if not padding:
            raise RtpError("padding of length 0")
        end -= padding
    if start > end:
        raise RtpError("header extension or padding longer than the packet")
    return RtpPacket(second & 0x7F, second > 0x7F, sequence, timestamp, ssrc, data[start:end], csrcs)


def build(
    payload_type: int, sequence: int, timestamp: int, ssrc: int, payload: bytes, *, marker: bool = False
) -> bytes:
    """Build a packet without CSRC, extension and padding."""
    second = payload_type | 0x80 if marker else payload_type
    return _pack(0x80, second, sequence, timestamp, ssrc) + payload


def is_rtcp(data: bytes) -> bool:
    """Tell RTCP from RTP by the second byte (RFC 5761 section 4)."""
    return len(data) >= 4 and 192 <= data[1] <= 223 and data[0] >> 6 == 2


def sequence_delta(later: int, earlier: int) -> int:
    """How many packets ``later`` is ahead, from -32768 to 32767."""
    return ((later - earlier + 0x8000) & 0xFFFF) - 0x8000


def timestamp_delta(later: int, earlier: int) -> int:
    """How many samples ``later`` is ahead, as a signed 32-bit number."""
    return ((later - earlier + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000
