"""RTP in libpcap files: what SIPp's ``play_pcap_audio`` plays, and what a capture holds."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.kit.sound import FRAME, Pcm, encode

MAGIC = 0xA1B2C3D4
ETHERNET = 1
PAYLOAD_TYPES = {"PCMU": 0, "PCMA": 8}
KEYS = "0123456789*#ABCD"


@dataclass(frozen=True, slots=True)
class RtpPacket:
    """One RTP packet of a capture; ``at`` is in seconds of the capture's clock."""

    at: float
    source: tuple[str, int]
    target: tuple[str, int]
    payload_type: int
    marker: bool
    sequence: int
    timestamp: int
    ssrc: int
    payload: bytes


def rtp(
    payload: bytes, *, kind: int, sequence: int, timestamp: int, ssrc: int, marker: bool = False
) -> bytes:
    """Return an RTP packet (RFC 3550 section 5.1) without CSRC, extension or padding."""
    return (
        struct.pack("!BBHII", 0x80, kind | marker << 7, sequence & 0xFFFF, timestamp & 0xFFFFFFFF, ssrc)
        + payload
    )


def write_audio(
    path: Path, pcm: Pcm, *, codec: str = "PCMU", ssrc: int | None = None, ptime_ms: int = 20
) -> Path:
    """Write audio as one RTP stream, which SIPp sends at the times that the file says."""
    data, size = encode(pcm, codec), FRAME * ptime_ms // 20
    stream = secrets.randbits(32) if ssrc is None else ssrc
    return write(
        path,
        (
            (
                number * ptime_ms / 1000,
                rtp(
                    data[number * size : (number + 1) * size],
                    kind=PAYLOAD_TYPES[codec],
                    sequence=number + 1,
                    timestamp=number * size,
                    ssrc=stream,
                    marker=number == 0,
                ),
            )
            for number in range(-(-len(data) // size))
        ),
    )


def write_keys(path: Path, keys: str, *, kind: int = 101, ssrc: int | None = None) -> Path:
    """Write keys as RFC 4733 events: 120 ms each with the end three times, a new one each 300 ms."""
    packets, stream = [], secrets.randbits(32) if ssrc is None else ssrc
    for index, key in enumerate(keys):
        for number in range(8):
            length = min(number + 1, 6) * FRAME
            body = struct.pack("!BBH", KEYS.index(key), (number >= 5) << 7 | 10, length)
            packet = rtp(
                body,
                kind=kind,
                sequence=index * 8 + number + 1,
                timestamp=index * 2400,
                ssrc=stream,
                marker=number == 0,
            )
            packets.append((index * 0.3 + number * 0.02, packet))
    return write(path, packets)


def write(path: Path, packets: Iterable[tuple[float, bytes]]) -> Path:
    """Write RTP packets, each with its time in seconds from the beginning."""
    with path.open("wb") as file:
        file.write(struct.pack("!IHHiIII", MAGIC, 2, 4, 0, 0, 65535, ETHERNET))
        for at, packet in packets:
            frame = _datagram(packet)
            seconds, micros = divmod(round(at * 1e6), 1_000_000)
            file.write(struct.pack("!IIII", seconds, micros, len(frame), len(frame)) + frame)
    return path


def _datagram(payload: bytes) -> bytes:
    """Wrap a payload in Ethernet, IPv4 and UDP headers from 127.0.0.1:6000 to 127.0.0.1:6002."""
    host = b"\x7f\x00\x00\x01"
    udp = struct.pack("!HHHH", 6000, 6002, 8 + len(payload), 0) + payload
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, host, host)
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
    return b"\0" * 12 + b"\x08\x00" + head + udp


def read(path: Path) -> Iterator[RtpPacket]:
    """Yield the RTP packets of a capture (Ethernet, IPv4, UDP) in the order of the file."""
    data = path.read_bytes()
    order = "<" if data[:4] == struct.pack("<I", MAGIC) else ">"
    at = 24
    while at + 16 <= len(data):
        seconds, micros, length, _ = struct.unpack(f"{order}IIII", data[at : at + 16])
        packet = _parse(seconds + micros / 1e6, data[at + 16 : at + 16 + length])
        at += 16 + length
        if packet:
            yield packet


def _parse(at: float, frame: bytes) -> RtpPacket | None:
    ip = frame[14:]
    if frame[12:14] != b"\x08\x00" or len(ip) < 40 or ip[9] != 17:
        return None
    udp = ip[(ip[0] & 15) * 4 :]
    source_port, target_port, length = struct.unpack("!HHH", udp[:6])
    body = udp[8:length]
    if len(body) < 12 or body[0] >> 6 != 2:
        return None
    first, second, sequence, timestamp, ssrc = struct.unpack("!BBHII", body[:12])
    source, target = (".".join(map(str, ip[start : start + 4])) for start in (12, 16))
    return RtpPacket(
        at=at,
        source=(source, source_port),
        target=(target, target_port),
        payload_type=second & 127,
        marker=bool(second & 128),
        sequence=sequence,
        timestamp=timestamp,
        ssrc=ssrc,
        payload=body[12 + (first & 15) * 4 :],
    )
