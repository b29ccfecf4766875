"""What the caller reports: JSON for programs, two WAV files for ears. Times: seconds since the epoch."""

from __future__ import annotations

import json
import wave
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from deploy.demo.caller import g711
from deploy.demo.caller.media import FRAME, RATE, Packet
from deploy.demo.caller.phone import Logged


@dataclass(frozen=True, slots=True)
class Said:
    """One utterance as it was sent."""

    line: str
    text: str
    began_at: float
    ended_at: float
    interrupting: bool


@dataclass(frozen=True, slots=True)
class Stream:
    """The gateway's RTP as it arrived."""

    packets: int
    lost: int
    reordered: int
    ssrcs: int
    payload_types: list[int]
    jitter_ms: float
    """Interarrival jitter at its highest (RFC 3550, section 6.4.1)."""
    spacing_p99_ms: float
    """How far the distance of two packets in sequence is from their timestamps, 99th percentile."""
    longest_gap_ms: float
    """The longest time between two packets that follow each other in the same talk spurt."""


def measure(packets: Sequence[Packet]) -> Stream:
    """Compute the figures of a received stream."""
    jitter = highest = 0.0
    gaps: list[float] = []
    deviations: list[float] = []
    lost = reordered = 0
    before: Packet | None = None
    for packet in packets:
        if before is None or packet.ssrc != before.ssrc:
            before = packet
            continue
        step = (packet.sequence - before.sequence + 0x8000 & 0xFFFF) - 0x8000
        if step <= 0:
            reordered += 1
            lost -= 1 if step < 0 else 0  # it was counted as lost when its successor came
            continue
        lost += step - 1
        media = ((packet.timestamp - before.timestamp + 0x80000000 & 0xFFFFFFFF) - 0x80000000) / RATE
        deviation = packet.at - before.at - media
        jitter += (abs(deviation) - jitter) / 16
        if not packet.marker:  # a marker begins a talk spurt: its distance says nothing (RFC 3551, 4.1)
            highest = max(highest, jitter)
            deviations.append(abs(deviation))
            gaps.append(packet.at - before.at)
        before = packet
    return Stream(
        packets=len(packets),
        lost=lost,
        reordered=reordered,
        ssrcs=len({packet.ssrc for packet in packets}),
        payload_types=sorted({packet.payload_type for packet in packets}),
        jitter_ms=round(highest * 1000, 2),
        spacing_p99_ms=round(float(np.percentile(deviations, 99)) * 1000, 2) if deviations else 0.0,
        longest_gap_ms=round(max(gaps, default=0.0) * 1000, 1),
    )


def reassemble(packets: Sequence[Packet], started_at: float) -> g711.Pcm:
    """
    Lay the received audio on one time line, sample 0 at ``started_at``.

    Within one SSRC the timestamps place the audio, from the first packet's arrival on, as a
    player without a jitter buffer would; what never came is silence.
    """
    placed: list[tuple[int, g711.Pcm]] = []
    base: Packet | None = None
    for packet in packets:
        if packet.payload_type != 0:
            continue
        if base is None or packet.ssrc != base.ssrc:
            base = packet
        elapsed = (packet.timestamp - base.timestamp + 0x80000000 & 0xFFFFFFFF) - 0x80000000
        at = round((base.at - started_at) * RATE) + elapsed
        if at >= 0:
            placed.append((at, g711.decode(packet.payload)))
    track = np.zeros(max((at + len(pcm) for at, pcm in placed), default=0), np.int16)
    for at, pcm in placed:
        track[at : at + len(pcm)] = pcm
    return track


def write_wav(path: Path, pcm: g711.Pcm) -> None:
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(pcm.tobytes())


def read_wav(path: Path) -> g711.Pcm:
    """Read an 8 kHz mono 16-bit file."""
    with wave.open(str(path)) as source:
        if (source.getnchannels(), source.getsampwidth(), source.getframerate()) != (1, 2, RATE):
            raise ValueError(f"{path} is not 8 kHz mono 16 bit")
        return np.frombuffer(source.readframes(source.getnframes()), np.int16)


def messages(log: Sequence[Logged]) -> list[dict[str, object]]:
    """Show the SIP log: who sent what when, with the whole text."""
    return [
        {
            "at": round(entry.at, 6),
            "sent": entry.sent,
            "start_line": entry.message.start_line,
            "cseq": entry.message.get("cseq"),
            "refer_to": entry.message.get("refer-to"),
            "text": entry.message.to_bytes().decode(),
        }
        for entry in log
    ]


@dataclass(frozen=True, slots=True)
class CallReport:
    """Everything about one call."""

    story: str
    caller: str
    called: str
    call_id: str
    invited_at: float
    answered_at: float
    media_at: float
    """When sample 0 of ``heard.wav`` and ``said.wav`` was."""
    first_packet_at: float
    audible_at: list[float]
    """Arrival of each packet that holds sound."""
    ended_at: float
    ended_by: str
    """``gateway``, ``caller`` or ``nobody``."""
    said: list[Said]
    rtp: Stream
    frames_sent: int
    refer_to: str
    notified: list[str]
    messages: list[dict[str, object]]
    failure: str
    """A sentence, empty when the story was played to its end."""


def save(report: CallReport, packets: Sequence[Packet], sent: Sequence[bytes], folder: Path) -> None:
    """Write ``caller.json``, ``heard.wav`` and ``said.wav``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_wav(folder / "heard.wav", reassemble(packets, report.media_at))
    write_wav(folder / "said.wav", g711.decode(b"".join(sent)))
    arrivals = [
        [round(p.at, 6), p.sequence, p.timestamp, p.payload_type, len(p.payload) // (FRAME // 20)]
        for p in packets
    ]
    text = json.dumps({**asdict(report), "arrivals": arrivals}, indent=1)
    (folder / "caller.json").write_text(text)
