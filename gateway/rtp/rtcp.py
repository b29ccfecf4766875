"""
RTCP: sender and receiver reports, the source description and the goodbye (RFC 3550 section 6), and of the
extended reports the VoIP metrics (RFC 3611 section 4.7).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from gateway.rtp.packet import RtpError

_SENDER_REPORT = 200
_RECEIVER_REPORT = 201
_SOURCE_DESCRIPTION = 202
_GOODBYE = 203
_EXTENDED_REPORT = 207
_VOIP_METRICS = 7
_VOIP_METRICS_BYTES = 36
_UNKNOWN = 127
_CNAME = 1

NTP_EPOCH_S = 2_208_988_800
"""Seconds from 1900 to 1970."""


@dataclass(frozen=True, slots=True)
class ReportBlock:
    """What one receiver says about one source (section 6.4.1)."""

    ssrc: int
    fraction_lost: int
    """Of the last interval, in 256ths."""
    cumulative_lost: int
    highest_sequence: int
    """Extended by the number of wraps."""
    jitter: int
    """In samples."""
    last_sr: int
    """Middle 32 bits of the NTP time of the last sender report, 0 if there was none."""
    delay_since_last_sr: int
    """In 65536ths of a second."""


@dataclass(frozen=True, slots=True)
class SenderInfo:
    """The sender's part of a sender report."""

    ntp_time: int
    """64 bits: seconds since 1900 and their fraction."""
    rtp_timestamp: int
    packets: int
    octets: int


@dataclass(frozen=True, slots=True)
class VoipMetrics:
    """How a receiver hears one source, in its own words; ``None`` where it does not know."""

    ssrc: int
    loss: float
    """Share of packets lost in the network, 0 to 1."""
    discard: float
    """Share of packets that came too late or too early to be played."""
    round_trip_ms: int
    end_system_ms: int
    """Delay inside the receiver, play-out included."""
    r_factor: int | None
    mos_lq: float | None
    """Listening quality."""
    mos_cq: float | None
    """Conversational quality: with the delay."""
    buffer_ms: int
    """Nominal delay of its jitter buffer."""


@dataclass(frozen=True, slots=True)
class RtcpReport:
    """What is of interest in a compound packet."""

    ssrc: int = 0
    """Who sent the report; 0 if there was none in the packet."""
    sender: SenderInfo | None = None
    blocks: tuple[ReportBlock, ...] = ()
    cname: str | None = None
    goodbyes: tuple[int, ...] = field(default=())
    metrics: tuple[VoipMetrics, ...] = ()


def ntp_time(wall_clock: float) -> int:
    """Write seconds since 1970 as a 64-bit NTP time."""
    return int((wall_clock + NTP_EPOCH_S) * 4_294_967_296) & 0xFFFF_FFFF_FFFF_FFFF


def middle_bits(ntp: int) -> int:
    """The middle 32 bits of an NTP time, in 65536ths of a second."""
    return ntp >> 16 & 0xFFFF_FFFF


def build_report(ssrc: int, cname: str, sender: SenderInfo | None, blocks: tuple[ReportBlock, ...]) -> bytes:
    """Build a compound packet: a report and the CNAME, as section 6.1 asks."""
    body = struct.pack("!I", ssrc)
    if sender is not None:
        body += struct.pack(
            "!QIII",
            sender.ntp_time,
            sender.rtp_timestamp,
            sender.packets & 0xFFFF_FFFF,
            sender.octets & 0xFFFF_FFFF,
        )
    body += b"".join(_build_block(block) for block in blocks)
    kind = _RECEIVER_REPORT if sender is None else _SENDER_REPORT
    return _packet(kind, len(blocks), body) + _build_cname(ssrc, cname)


def build_goodbye(ssrc: int, cname: str) -> bytes:
    """Build a compound packet that says goodbye (section 6.6)."""
    empty_report = _packet(_RECEIVER_REPORT, 0, struct.pack("!I", ssrc))
    return empty_report + _build_cname(ssrc, cname) + _packet(_GOODBYE, 1, struct.pack("!I", ssrc))


def parse(data: bytes) -> RtcpReport:
    """
    Parse a compound packet; what is unknown in it is skipped.

    Raises:
        RtpError: A length or version in it is wrong.
    """
    ssrc, sender, cname = 0, None, None
    blocks: list[ReportBlock] = []
    goodbyes: list[int] = []
    metrics: list[VoipMetrics] = []
    position = 0
    while position < len(data):
        kind, count, body = _split(data, position)
        position += 4 + len(body)
        if kind in (_SENDER_REPORT, _RECEIVER_REPORT):
            ssrc, found, reported = _parse_report(kind, count, body)
            sender = found or sender
            blocks += reported
        elif kind == _SOURCE_DESCRIPTION:
            cname = _parse_cname(body) or cname
        elif kind == _GOODBYE:
            goodbyes += struct.unpack_from(f"!{min(count, len(body) // 4)}I", body)
        elif kind == _EXTENDED_REPORT:
            metrics += _parse_metrics(body)
    return RtcpReport(ssrc, sender, tuple(blocks), cname, tuple(goodbyes), tuple(metrics))


def _packet(kind: int, count: int, body: bytes) -> bytes:
    return struct.pack("!BBH", 0x80 | count, kind, len(body) // 4) + body


def _build_block(block: ReportBlock) -> bytes:
    lost = max(-0x80_0000, min(block.cumulative_lost, 0x7F_FFFF)) & 0xFF_FFFF
    return struct.pack(
        "!IIIIII",
        block.ssrc,
        block.fraction_lost << 24 | lost,
        block.highest_sequence & 0xFFFF_FFFF,
        block.jitter & 0xFFFF_FFFF,
        block.last_sr,
        block.delay_since_last_sr & 0xFFFF_FFFF,
    )


def _build_cname(ssrc: int, cname: str) -> bytes:
    text = cname.encode()[:255]
    chunk = struct.pack("!IBB", ssrc, _CNAME, len(text)) + text
    return _packet(_SOURCE_DESCRIPTION, 1, chunk + bytes(4 - len(chunk) % 4))


def _split(data: bytes, position: int) -> tuple[int, int, bytes]:
    if position + 4 > len(data):
        raise RtpError("RTCP cut off in a header")
    first, kind, words = struct.unpack_from("!BBH", data, position)
    if first >> 6 != 2:
        raise RtpError(f"RTCP version {first >> 6}")
    body = data[position + 4 : position + 4 + 4 * words]
    if len(body) < 4 * words:
        raise RtpError("RTCP packet longer than the datagram")
    return kind, first & 0x1F, body


def _parse_report(kind: int, count: int, body: bytes) -> tuple[int, SenderInfo | None, list[ReportBlock]]:
    start = 24 if kind == _SENDER_REPORT else 4
    if len(body) < start + 24 * count:
        raise RtpError("RTCP report shorter than its blocks")
    (ssrc,) = struct.unpack_from("!I", body)
    sender = SenderInfo(*struct.unpack_from("!QIII", body, 4)) if kind == _SENDER_REPORT else None
    return ssrc, sender, [_parse_block(body, start + 24 * number) for number in range(count)]


def _parse_block(body: bytes, position: int) -> ReportBlock:
    ssrc, loss, highest, jitter, last_sr, delay = struct.unpack_from("!IIIIII", body, position)
    lost = loss & 0xFF_FFFF
    if lost >= 0x80_0000:
        lost -= 0x100_0000
    return ReportBlock(ssrc, loss >> 24, lost, highest, jitter, last_sr, delay)


def _parse_metrics(body: bytes) -> list[VoipMetrics]:
    """Read the VoIP metrics of an extended report; other blocks are skipped, a cut one ends it."""
    found: list[VoipMetrics] = []
    position = 4
    while position + 4 <= len(body):
        kind, _, words = struct.unpack_from("!BBH", body, position)
        block = body[position : position + 4 + 4 * words]
        if kind == _VOIP_METRICS and len(block) == _VOIP_METRICS_BYTES:
            found.append(_parse_voip(block))
        position += 4 + 4 * words
    return found


def _parse_voip(block: bytes) -> VoipMetrics:
    ssrc, loss, discard, _, _, _, _, trip, inside, _, _, _, _, r, _, lq, cq, _, _, nominal, _, _ = (
        struct.unpack_from("!IBBBBHHHHBBBBBBBBBBHHH", block, 4)
    )
    return VoipMetrics(
        ssrc=ssrc,
        loss=loss / 256,
        discard=discard / 256,
        round_trip_ms=trip,
        end_system_ms=inside,
        r_factor=None if r == _UNKNOWN else r,
        mos_lq=None if lq == _UNKNOWN else lq / 10,
        mos_cq=None if cq == _UNKNOWN else cq / 10,
        buffer_ms=nominal,
    )


def _parse_cname(body: bytes) -> str | None:
    """Read the CNAME of the first chunk."""
    position = 4
    while position + 2 <= len(body) and body[position]:
        kind, length = body[position], body[position + 1]
        if kind == _CNAME:
            return body[position + 2 : position + 2 + length].decode("utf-8", "replace")
        position += 2 + length
    return None
