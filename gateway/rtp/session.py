"""
One call's RTP and RTCP: everything between datagrams and frames, without a socket or a clock.

The owner feeds datagrams (:meth:`RtpSession.receive`) and calls :meth:`RtpSession.tick` every 20 ms; both
return frames. What happened besides comes out of :meth:`RtpSession.events`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from gateway.rtp.delay import CLOCK_RATE, DEFAULT_LIMITS, JitterLimits
from gateway.rtp.dtmf import DtmfReceiver
from gateway.rtp.level import QUIET_CODES
from gateway.rtp.packet import RtpError, RtpPacket, is_rtcp, parse
from gateway.rtp.receiver import AudioFrame, StreamReceiver
from gateway.rtp.rtcp import RtcpReport, VoipMetrics, build_goodbye, build_report, middle_bits, ntp_time
from gateway.rtp.rtcp import parse as parse_rtcp
from gateway.rtp.sender import StreamSender
from gateway.rtp.source import Address, SourceLock, is_unspecified

_COMFORT_NOISE = frozenset({13, 19})  # 19 was its number in the drafts of RFC 3389
_RTCP_INTERVAL_S = 5.0
_NOTHING: tuple[AudioFrame, ...] = ()


class Agreed(Protocol):
    """What offer and answer agreed on, as far as RTP needs it."""

    @property
    def payload_type(self) -> int: ...
    @property
    def dtmf_payload_type(self) -> int | None: ...
    @property
    def own_dtmf_payload_type(self) -> int | None: ...
    @property
    def remote(self) -> Address: ...
    @property
    def remote_rtcp(self) -> Address: ...
    @property
    def sends(self) -> bool: ...
    @property
    def receives(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class DtmfReceived:
    """A key was pressed; reported once, at its beginning."""

    digit: str


@dataclass(frozen=True, slots=True)
class StreamChanged:
    """Another source took over, or the same one began to count anew."""

    ssrc: int


@dataclass(frozen=True, slots=True)
class MediaLost:
    """No packet has come for a while; reported once for each gap, never on hold."""

    silent_ms: int


@dataclass(frozen=True, slots=True)
class MediaResumed:
    """The first packet after :class:`MediaLost`."""

    silent_ms: int


@dataclass(frozen=True, slots=True)
class HoldExpired:
    """The peer has held the call for too long; reported once for each hold."""

    held_ms: int


RtpEvent: TypeAlias = DtmfReceived | StreamChanged | MediaLost | MediaResumed | HoldExpired


@dataclass(frozen=True, slots=True)
class RemoteStatistics:
    """What the peer says about our stream."""

    expected: int
    """Packets that it should have had, 0 as long as it said nothing."""
    lost: int
    jitter_ms: float
    metrics: VoipMetrics | None
    """Of its last extended report."""


@dataclass(frozen=True, slots=True)
class SessionStatistics:
    """Counters since the beginning of the call."""

    sent: int
    received: int
    expected: int
    """Packets that should have come."""
    lost: int
    """Packets that never came."""
    missing: int
    """Packets that were not there when it was their turn: lost or late."""
    gaps: int
    """In how many pieces they were missing."""
    late: int
    """Packets that came after their turn, or too many at once, and were discarded."""
    duplicates: int
    jitter_ms: float
    buffer_ms: float
    """How long, in the mean, a packet was delayed against the fastest, waiting for others included."""
    target_ms: float
    """How long a missing packet would be waited for at present."""
    audio_ms: int
    """How much of the caller's time was handed out."""
    concealed_ms: int
    refused: int
    """Packets of sources that are not trusted, or that came before media was agreed."""
    source_moves: int
    """How often another address took over without a new description."""
    wrong_type: int
    """Packets with a payload type that was not agreed."""
    garbage: int
    stream_changes: int
    remote: RemoteStatistics
    rtt_ms: float | None


class DtmfNotPossible(Exception):
    """The peer did not agree to telephone-events."""


class RtpSession:
    """
    Args:
        ssrc: Ours; random, as are the next two.
        sequence: Of our first packet.
        timestamp: Of our first packet.
        cname: Who we are, for RTCP.
        wall_offset_s: Wall clock (seconds since 1970) minus the clock of every ``now``.
        draw: Random numbers in [0, 1), for the RTCP interval.
        lost_after_ms: Silence on the wire after which media counts as lost.
        held_after_ms: How long the peer may hold the call.
        limits: How long missing packets are waited for.
        strict: Whether only the signalled host is heard.
        barred: The SSRC that was heard on this port in an older call.
    """

    def __init__(
        self,
        *,
        ssrc: int,
        sequence: int,
        timestamp: int,
        cname: str,
        wall_offset_s: float = 0.0,
        draw: Callable[[], float] = lambda: 0.5,
        lost_after_ms: int = 5_000,
        held_after_ms: int = 1_800_000,
        limits: JitterLimits = DEFAULT_LIMITS,
        strict: bool = False,
        barred: int | None = None,
    ) -> None:
        self._sender = StreamSender(ssrc=ssrc, sequence=sequence, timestamp=timestamp)
        self._receiver = StreamReceiver(limits)
        self._source = SourceLock(strict=strict, barred=barred)
        self._dtmf_in = DtmfReceiver()
        self._cname = cname
        self._wall_offset_s = wall_offset_s
        self._draw = draw
        self._lost_after_s = lost_after_ms / 1000
        self._agreed: Agreed | None = None
        self._payload_type = -1
        self._dtmf_type: int | None = None
        self._dtmf_types: frozenset[int | None] = frozenset()
        self._sends = False
        self._watched = False
        self._events: list[RtpEvent] = []
        self._changes = 0
        self._heard_at = 0.0
        self._lost = False
        self._rtcp_at = 0.0
        self._rtcp_source: Address | None = None
        self._sent_before = 0
        self._refused = 0
        self._wrong_type = 0
        self._garbage = 0
        self._held_after_s = held_after_ms / 1000
        self._held_since: float | None = None
        self._remote = RemoteStatistics(0, 0, 0.0, None)
        self._rtt_s: float | None = None

    def configure(self, agreed: Agreed, now: float) -> None:
        """Take what was agreed, first or anew (re-INVITE); our own stream goes on as it is."""
        if self._source.signal(agreed.remote, now):
            self._receiver.forget_source()
            self._rtcp_source = None
        if self._agreed is None:
            self._rtcp_at = now + _RTCP_INTERVAL_S * (0.25 + self._draw() / 2)
        self._agreed = agreed
        self._payload_type = agreed.payload_type
        self._dtmf_type = agreed.dtmf_payload_type
        # Who answers should use our numbers (RFC 3264 section 6.1); many telephones use their own.
        self._dtmf_types = frozenset({agreed.dtmf_payload_type, agreed.own_dtmf_payload_type})
        self._sends = agreed.sends and not is_unspecified(agreed.remote)
        self._watched = self._sends and agreed.receives
        self._receiver.quiet_codes = QUIET_CODES.get(agreed.payload_type, b"")
        if self._sends:
            self._held_since = None
        elif self._held_since is None:
            self._held_since = now
        self._heard_at = now
        self._lost = False

    # What is agreed.

    @property
    def sends(self) -> bool:
        """Whether we may send audio now."""
        return self._sends

    @property
    def destination(self) -> Address | None:
        """Where audio goes: the locked source, before that the signalled address."""
        return self._source.destination

    @property
    def heard_ssrc(self) -> int | None:
        """Whose packets are heard."""
        return self._receiver.ssrc

    @property
    def takes_events(self) -> bool:
        """Whether telephone-events were agreed on."""
        return self._dtmf_type is not None

    @property
    def latched(self) -> bool:
        """Whether a packet of the peer has shown its real address."""
        return self._source.locked is not None

    # Receiving.

    def receive(self, data: bytes, source: Address, now: float) -> Sequence[AudioFrame]:
        """Take a datagram of the RTP port; return the frames whose turn it is."""
        try:
            packet = parse(data)
        except RtpError:
            self._garbage += 1
            return _NOTHING
        payload_type = packet.payload_type
        if payload_type == self._payload_type:
            is_audio = True
        elif 64 <= payload_type <= 95 and is_rtcp(data):
            self.receive_rtcp(data, source, now)
            return _NOTHING
        else:
            is_audio = False
        if source != self._source.sure and not self._admits(packet, source, now):
            self._refused += 1
            return _NOTHING
        if self._lost:
            self._lost = False
            self._events.append(MediaResumed(round((now - self._heard_at) * 1000)))
        self._heard_at = now
        if not is_audio:
            self._receive_other(packet, now)
        frames = self._receiver.receive(packet, now, is_audio=is_audio)
        if self._receiver.changes != self._changes:
            self._changes = self._receiver.changes
            self._events.append(StreamChanged(packet.ssrc))
        return frames

    def receive_rtcp(self, data: bytes, source: Address, now: float) -> None:
        """Take a datagram of the RTCP port; a goodbye in it does not end the call."""
        destination = self._source.destination
        trusted = destination is not None and source[0] in {
            destination[0],
            self._agreed.remote_rtcp[0] if self._agreed else "",
        }
        if not trusted:
            self._refused += 1
            return
        try:
            report = parse_rtcp(data)
        except RtpError:
            self._garbage += 1
            return
        self._rtcp_source = source
        self._note_report(report, now)

    def tick(self, now: float) -> Sequence[AudioFrame]:
        """Look at the clock, every 20 ms: return frames that were waited for, or silence."""
        receiver = self._receiver
        frames = receiver.expire(now) if receiver.buffer.held else _NOTHING
        if self._watched:
            frames = frames or receiver.fill(now)
            if now - self._heard_at >= self._lost_after_s and not self._lost:
                self._lost = True
                self._events.append(MediaLost(round((now - self._heard_at) * 1000)))
        elif self._held_since is not None and now - self._held_since >= self._held_after_s:
            self._events.append(HoldExpired(round((now - self._held_since) * 1000)))
            self._held_since = float("inf")  # told once
        return frames

    @property
    def has_events(self) -> bool:
        """Whether :meth:`events` has something."""
        return bool(self._events)

    def events(self) -> list[RtpEvent]:
        """Take what has happened."""
        ready, self._events = self._events, []
        return ready

    def _admits(self, packet: RtpPacket, source: Address, now: float) -> bool:
        """Decide about an address that is not locked; only what was agreed can lock one."""
        known = packet.payload_type in {self._payload_type} | self._dtmf_types | _COMFORT_NOISE
        if self._agreed is None or not known:
            return False
        before = self._source.locked
        follows = self._receiver.follows(packet)
        admitted = self._source.admits(
            source, now, ssrc=packet.ssrc, sequence=packet.sequence, follows=follows
        )
        if admitted and before is not None and before != source and not follows:
            self._receiver.forget_source()
        return admitted

    def _receive_other(self, packet: RtpPacket, now: float) -> None:
        if packet.payload_type in self._dtmf_types:
            self._receiver.note_quiet()
            digit = self._dtmf_in.receive(packet.ssrc, packet.timestamp, packet.payload, now)
            if digit is not None:
                self._events.append(DtmfReceived(digit))
        elif packet.payload_type in _COMFORT_NOISE:
            self._receiver.note_quiet()
        else:
            self._wrong_type += 1

    # Sending.

    def build(self, payload: bytes, at: float) -> bytes:
        """Build the audio packet that is due at ``at``."""
        return self._sender.build(self._payload_type, payload, at)

    def send_dtmf(self, digits: str) -> None:
        """
        Queue keys; they go out as events in the place of audio.

        Raises:
            DtmfNotPossible: The peer did not agree to telephone-events.
            ValueError: A character is no key, or too many keys wait.
        """
        if self._dtmf_type is None:
            raise DtmfNotPossible("the peer does not take telephone-events")
        self._sender.dtmf.send(digits)

    @property
    def sending_dtmf(self) -> bool:
        """Whether the next packet belongs to a key press or to the pause after it."""
        return self._sender.dtmf.active

    def build_event(self, at: float) -> bytes | None:
        """Build the event packet that is due at ``at``; ``None`` in the pause between two keys."""
        if self._dtmf_type is None:  # renegotiated away in the middle of a key
            self._sender.dtmf.clear()
            return None
        return self._sender.build_event(self._dtmf_type, at)

    # RTCP.

    @property
    def rtcp_destination(self) -> Address | None:
        """Where reports go: where the peer's come from, before that the signalled address."""
        if self._agreed is None or is_unspecified(self._agreed.remote_rtcp):
            return None
        return self._rtcp_source or self._agreed.remote_rtcp

    def take_report(self, now: float) -> bytes | None:
        """Build the report that is due, about every 5 s (RFC 3550 section 6.2)."""
        if self._agreed is None or now < self._rtcp_at:
            return None
        self._rtcp_at = now + _RTCP_INTERVAL_S * (0.5 + self._draw())
        sender = self._sender
        statistics = self._receiver.statistics
        blocks = (statistics.take_block(now, jitter=self._receiver.delay.jitter),) if statistics else ()
        # Who has sent nothing since the last report writes a receiver report.
        info = sender.info(now, now + self._wall_offset_s) if sender.packets > self._sent_before else None
        self._sent_before = sender.packets
        return build_report(sender.ssrc, self._cname, info, blocks)

    def goodbye(self) -> bytes:
        """Build the last RTCP packet of the call."""
        return build_goodbye(self._sender.ssrc, self._cname)

    def _note_report(self, report: RtcpReport, now: float) -> None:
        statistics = self._receiver.statistics
        if report.sender is not None and statistics is not None and report.ssrc == statistics.ssrc:
            statistics.note_sender_report(middle_bits(report.sender.ntp_time), now)
        metrics = next((each for each in report.metrics if each.ssrc == self._sender.ssrc), None)
        if metrics is not None:
            self._remote = replace(self._remote, metrics=metrics)
        for block in report.blocks:
            if block.ssrc != self._sender.ssrc:
                continue
            self._remote = RemoteStatistics(
                expected=self._sender.expected(block.highest_sequence),
                lost=max(0, block.cumulative_lost),
                jitter_ms=block.jitter * 1000 / CLOCK_RATE,
                metrics=self._remote.metrics,
            )
            if block.last_sr:
                arrived = middle_bits(ntp_time(now + self._wall_offset_s))
                trip = (arrived - block.last_sr - block.delay_since_last_sr) & 0xFFFF_FFFF
                if trip < 30 << 16:  # more than 30 s is a clock that was set, not a trip
                    self._rtt_s = trip / 65536

    def statistics(self) -> SessionStatistics:
        """Count everything up to now."""
        receiver, buffer = self._receiver, self._receiver.buffer
        delay = receiver.delay
        waited_s = buffer.waited_s / max(receiver.received, 1)
        return SessionStatistics(
            sent=self._sender.packets,
            received=receiver.received,
            expected=receiver.expected,
            lost=receiver.lost,
            missing=buffer.lost + receiver.discarded,
            gaps=buffer.gaps,
            late=buffer.late + receiver.discarded,
            duplicates=buffer.duplicates + receiver.repeated,
            jitter_ms=delay.jitter * 1000 / CLOCK_RATE,
            buffer_ms=(delay.mean_s + waited_s) * 1000,
            target_ms=delay.target * 1000,
            audio_ms=receiver.position_ms,
            concealed_ms=receiver.concealed * 1000 // CLOCK_RATE,
            refused=self._refused,
            source_moves=self._source.moves,
            wrong_type=self._wrong_type,
            garbage=self._garbage,
            stream_changes=receiver.changes,
            remote=self._remote,
            rtt_ms=None if self._rtt_s is None else self._rtt_s * 1000,
        )
