"""
One call's media sockets: the shell around the RTP session, the playout ledger and the pacer.

Everything happens in two callbacks, without tasks: a datagram comes in, a 20 ms tick goes out.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TypeAlias

from gateway.media.concealment import Concealer
from gateway.media.g711 import PCMA_TO_PCMU, PCMU_TO_PCMA, Law
from gateway.media.keypad import ToneDetector, ToneHeard, tone_frames
from gateway.media.playout import SILENCE_BYTE, Playout
from gateway.media.quality import MediaQuality, judge
from gateway.net.media_guard import Channel, MediaFailed, MediaGuard, PeerMoved
from gateway.net.pacer import Pacer, PacerHandle
from gateway.net.ports import PortLease
from gateway.rtp.delay import DEFAULT_LIMITS, JitterLimits
from gateway.rtp.receiver import AudioFrame
from gateway.rtp.session import MediaLost, RtpEvent, RtpSession
from gateway.sdp import NegotiatedMedia

_BYTES_PER_MS = 8
_DATAGRAM_BYTES = 2048
_OPENING_S = 0.5
_TONE_FRAMES = 64 * 9
"""Of keys that wait to be sent as tones: 64 keys."""


MediaEvent: TypeAlias = RtpEvent | ToneHeard | MediaFailed


@dataclass(frozen=True, slots=True)
class MediaRules:
    """What a trunk's settings say about the audio of its calls."""

    lost_after_ms: int = 30_000
    """Silence on the wire after which media counts as lost; silence suppression sends nothing for long."""
    held_after_ms: int = 1_800_000
    """How long the peer may hold the call."""
    jitter: JitterLimits = DEFAULT_LIMITS
    """How long missing packets are waited for."""
    strict: bool = False
    """Whether only the signalled host is heard."""
    inband: bool = False
    """Whether keys are listened for in the audio even of peers that have telephone-events."""


DEFAULT_RULES = MediaRules()


@dataclass(frozen=True, slots=True)
class MediaStatistics:
    """Figures of one call's media."""

    quality: MediaQuality
    send_errors: int
    underruns: int
    trunk: str = ""
    """Filled in by whoever knows it."""


def _ignore_marks() -> None:
    """For owners that set no marks."""


def _ignore(*_: object) -> None:
    """For what comes after the end."""


class MediaStream:
    """
    RTP and RTCP of one call on a leased pair of ports.

    Nothing is received or sent before :meth:`start`. Made by :meth:`open`.
    """

    def __init__(
        self,
        lease: PortLease,
        session: RtpSession,
        playout: Playout,
        pacer: Pacer,
        on_audio: Callable[[bytes, int], None],
        on_event: Callable[[MediaEvent], None],
        on_marks: Callable[[], None],
        on_sent: Callable[[bytes], None] | None,
        rules: MediaRules = DEFAULT_RULES,
    ) -> None:
        self.send_errors = 0
        """Sends that the network refused; an ICMP error is no reason to end a call."""
        self._lease = lease
        self._session = session
        self._playout = playout
        self._pacer = pacer
        self._on_audio = on_audio
        self._on_event = on_event
        self._on_marks = on_marks
        self._on_sent = on_sent
        self._rtp: asyncio.DatagramTransport | None = None
        self._rtcp: asyncio.DatagramTransport | None = None
        self._handle: PacerHandle | None = None
        self._closed = False
        self._started = False
        law = playout.format.encoding
        if law == "pcm16":
            raise ValueError("a media stream's playout must be in G.711")
        self._law: Law = law
        self._concealer = Concealer(law)
        self._inband = rules.inband
        self._tones: ToneDetector | None = None
        self._tone_frames: deque[bytes] = deque()
        self._silence = b""
        # Translation tables, for a codec that a re-INVITE has changed under the playout.
        self._inward: bytes | None = None
        self._outward: bytes | None = None
        self._halves = 1
        self._opens_at = 0.0
        self._marks_seen = 0
        self._guard: MediaGuard | None = None
        """Where the media is protected by SRTP."""
        self._muxed = False
        self._media: NegotiatedMedia | None = None

    @classmethod
    async def open(
        cls,
        lease: PortLease,
        *,
        host: str,
        playout: Playout,
        pacer: Pacer,
        on_audio: Callable[[bytes, int], None],
        on_event: Callable[[MediaEvent], None],
        on_marks: Callable[[], None] = _ignore_marks,
        on_sent: Callable[[bytes], None] | None = None,
        rules: MediaRules = DEFAULT_RULES,
    ) -> MediaStream:
        """
        Open the sockets of a lease; the stream gives the lease back when it is closed.

        Args:
            lease: The ports; already bound.
            host: Our advertised address, for the CNAME in RTCP (RFC 3550 section 6.5.1).
            playout: What to send, in G.711; a codec that differs from it is converted both ways.
            pacer: The process's clock.
            on_audio: Gets G.711 in the playout's format and its position on the caller's clock in ms. Gaps
                are concealed and silence is filled in, so audio comes for all the time of the call.
            on_event: Gets keys, stream changes, loss and return of media, and ``MediaFailed`` when the peer
                and we do not come to keys for SRTP. After a fault of ours in the
                stream it gets ``MediaLost(0)``, and the stream is closed.
            on_marks: Called when the playout has newly reached marks.
            on_sent: Gets each frame of the playout when it is sent; the silence between is not reported.
            rules: What the settings say.
        """
        session = _session(host, rules, lease.former_ssrc)
        stream = cls(lease, session, playout, pacer, on_audio, on_event, on_marks, on_sent, rules)
        loop = asyncio.get_running_loop()
        rtp, rtcp = lease.take_sockets()
        try:
            stream._rtp, _ = await loop.create_datagram_endpoint(
                lambda: _Receiver(stream._receive, stream._note_error), sock=rtp
            )
            stream._rtcp, _ = await loop.create_datagram_endpoint(
                lambda: _Receiver(stream._receive_rtcp, stream._note_error), sock=rtcp
            )
        except BaseException:  # also when we are cancelled: the sockets are ours by now
            stream.close()
            for transport, sock in ((stream._rtp, rtp), (stream._rtcp, rtcp)):
                if transport is None:
                    sock.close()
            raise
        _limit_reads(stream._rtp)
        _limit_reads(stream._rtcp)
        return stream

    # Life.

    @property
    def port(self) -> int:
        """Our RTP port, for the SDP."""
        return self._lease.port

    def start(self, media: NegotiatedMedia) -> None:
        """
        Begin to listen and to send, with what offer and answer agreed on.

        To a peer whose address is private, and so perhaps not its real one, the playout begins with its
        first packet or after half a second; until then silence goes out (BR-063).
        """
        now = time.monotonic()
        self.reconfigure(media)
        private = ip_address(media.remote[0])
        self._opens_at = now + _OPENING_S if private.is_private and not private.is_loopback else now
        if not self._closed and not self._started:
            self._started = True
            self._handle = self._pacer.add(self._tick, on_error=self._fail)

    def reconfigure(self, media: NegotiatedMedia) -> None:
        """Go on with a new address, direction or codec (re-INVITE); our stream's numbers go on."""
        now = time.monotonic()
        self._media = media
        self._muxed = media.rtcp_mux
        if media.security is None:
            self._guard = None
            self._session.configure(media, now)
        else:
            self._guard = self._guard or MediaGuard()
            self._guard.configure(media, now)
            self._session.configure(self._guard.located(media), now)
            self._carry_handshake(self._guard)
        self._halves = 2 if media.ptime_ms < self._playout.frame_ms else 1
        if self._inband or not self._session.takes_events:
            self._tones = self._tones or ToneDetector(self._law)
        else:
            self._tones = None
        silent_frame = self._playout.frame_ms * _BYTES_PER_MS
        self._silence = (
            SILENCE_BYTE["pcmu"] if media.codec == "PCMU" else SILENCE_BYTE["pcma"]
        ) * silent_frame
        match self._law, media.codec:
            case ("pcmu", "PCMA"):
                self._inward, self._outward = PCMA_TO_PCMU, PCMU_TO_PCMA
            case ("pcma", "PCMU"):
                self._inward, self._outward = PCMU_TO_PCMA, PCMA_TO_PCMU
            case _:
                self._inward = self._outward = None

    def send_dtmf(self, digits: str) -> None:
        """
        Send keys as telephone-events, or as tones where the peer has none; the playout waits meanwhile.

        Raises:
            ValueError: A character is no key, or too many keys wait.
        """
        if self._session.takes_events:
            self._session.send_dtmf(digits)
            return
        frames = tone_frames(digits, self._law)
        if len(self._tone_frames) + len(frames) > _TONE_FRAMES:
            raise ValueError("too many keys wait to be sent")
        self._tone_frames.extend(frames)

    def stats(self) -> MediaStatistics:
        """Count everything up to now."""
        quality, guard = judge(self._session.statistics()), self._guard
        if guard is not None:
            quality = replace(
                quality,
                protection=guard.protection,
                undecryptable=guard.failures,
                replayed=guard.replays,
            )
        return MediaStatistics(quality, self.send_errors, self._playout.underruns)

    def close(self) -> None:
        """Stop, say goodbye in RTCP, and give everything back; harmless when closed."""
        if self._closed:
            return
        self._closed = True
        if self._handle is not None:
            self._pacer.remove(self._handle)
            destination = self._session.rtcp_destination
            if destination is not None:
                self._send_rtcp(self._session.goodbye(), destination)
        for transport in (self._rtp, self._rtcp):
            if transport is not None:
                transport.close()
        self._lease.heard_ssrc = self._session.heard_ssrc
        self._lease.release(time.monotonic())
        # Whoever owns us holds us as well: without these, a call is freed at once and not by the collector.
        self._handle = self._rtp = self._rtcp = self._on_sent = None
        self._on_audio, self._on_event, self._on_marks = _ignore, _ignore, _ignore_marks

    def _fail(self, error: Exception) -> None:
        """Our own fault in a tick: this call's media is over, and its owner hears so."""
        on_event = self._on_event
        self.close()
        on_event(MediaLost(0))

    # Out: one tick.

    def _tick(self, at: float) -> None:
        session, playout, guard = self._session, self._playout, self._guard
        frames = session.tick(at)
        if frames:
            self._deliver(frames)
        destination = session.destination
        if guard is not None:
            guard.tick(at)
            self._carry_handshake(guard)
            destination = self._destination_of(guard)
        if not session.sends or destination is None:
            playout.settle()
        elif session.sending_dtmf:
            playout.settle()
            packet = session.build_event(at)
            if packet is None:
                self._send_audio(self._silence, at, destination)
            else:
                self._send_rtp(packet, destination)
        elif self._tone_frames:
            playout.settle()
            frame = self._tone_frames.popleft()
            self._send_audio(
                frame if self._outward is None else frame.translate(self._outward), at, destination
            )
        else:
            self._send_audio(self._next_audio(at), at, destination)
        report = session.take_report(at)
        if report is not None and (rtcp_destination := session.rtcp_destination) is not None:
            self._send_rtcp(report, rtcp_destination)
        if playout.reached != self._marks_seen:
            self._marks_seen = playout.reached
            self._on_marks()
        self._report_events()

    def _next_audio(self, at: float) -> bytes:
        """Take the frame to send, in the codec of the wire."""
        ready = at >= self._opens_at or self._session.latched
        frame = self._playout.next_frame(at) if ready else None
        if frame is None:
            return self._silence
        if self._on_sent is not None:
            self._on_sent(frame)
        return frame if self._outward is None else frame.translate(self._outward)

    def _send_audio(self, frame: bytes, at: float, destination: tuple[str, int]) -> None:
        if self._halves == 1:
            self._send_rtp(self._session.build(frame, at), destination)
            return
        middle = len(frame) // 2
        self._send_rtp(self._session.build(frame[:middle], at), destination)
        at += self._playout.frame_ms / 2000
        self._send_rtp(self._session.build(frame[middle:], at), destination)

    def _send_rtp(self, packet: bytes, destination: tuple[str, int]) -> None:
        if self._guard is not None:
            packet = self._guard.protect(packet)
        self._send(self._rtp, packet, destination)

    def _send_rtcp(self, packet: bytes, destination: tuple[str, int]) -> None:
        if self._guard is not None:
            packet = self._guard.protect_rtcp(packet)
        self._send(self._rtp if self._muxed else self._rtcp, packet, destination)

    def _send(
        self, transport: asyncio.DatagramTransport | None, data: bytes, destination: tuple[str, int]
    ) -> None:
        if transport is None or transport.is_closing() or not data:
            return
        try:
            transport.sendto(data, destination)
        except (OSError, ValueError):  # ValueError: uvloop, for an address of another family
            self.send_errors += 1

    # In: one datagram.

    def _receive(self, data: bytes, source: tuple[str, int]) -> None:
        if not self._started:
            return  # an older call's packets, or a peer that is ahead of the answer
        now, guard = time.monotonic(), self._guard
        if guard is not None:
            data = guard.open(data, source, now)
            if not data:
                self._carry_handshake(guard)
                return
        frames = self._session.receive(data, source, now)
        if frames:
            self._deliver(frames)
        self._report_events()

    def _receive_rtcp(self, data: bytes, source: tuple[str, int]) -> None:
        if not self._started:
            return
        now, guard = time.monotonic(), self._guard
        if guard is not None:
            data = guard.open(data, source, now, Channel.RTCP)
            self._carry_handshake(guard)
        if data:
            self._session.receive_rtcp(data, source, now)

    # The handshake for SRTP.

    def _carry_handshake(self, guard: MediaGuard) -> None:
        if not guard.has_news:
            return
        for channel, data, destination in guard.to_send():
            self._send(self._rtp if channel is Channel.RTP else self._rtcp, data, destination)
        for event in guard.events():
            match event:
                case PeerMoved() if self._media is not None:
                    self._session.configure(guard.located(self._media), time.monotonic())
                case MediaFailed():
                    self._on_event(event)

    def _destination_of(self, guard: MediaGuard) -> tuple[str, int] | None:
        """Where audio goes once there are keys: until the peer has sent some, where it shook hands from."""
        if not guard.ready:
            return None
        return self._session.destination if self._session.latched else guard.peer or self._session.destination

    def _deliver(self, frames: Sequence[AudioFrame]) -> None:
        concealer = self._concealer
        for payload, at_ms, duration_ms, lost in frames:
            if payload:
                inward = self._inward
                audio = concealer.good(payload if inward is None else payload.translate(inward))
            elif lost:
                audio = concealer.lost(duration_ms)
            else:
                audio = concealer.silence(duration_ms)
            self._on_audio(audio, at_ms)
            if self._tones is not None:
                for digit in self._tones.hear(audio):
                    self._on_event(ToneHeard(digit))

    def _report_events(self) -> None:
        if self._session.has_events:
            for event in self._session.events():
                self._on_event(event)

    def _note_error(self) -> None:
        self.send_errors += 1


def _session(host: str, rules: MediaRules, former_ssrc: int | None) -> RtpSession:
    return RtpSession(
        ssrc=secrets.randbits(32),
        sequence=secrets.randbits(15),
        timestamp=secrets.randbits(32),
        cname=f"{secrets.token_hex(6)}@{host}",
        wall_offset_s=time.time() - time.monotonic(),
        draw=lambda: secrets.randbelow(1000) / 1000,
        lost_after_ms=rules.lost_after_ms,
        held_after_ms=rules.held_after_ms,
        limits=rules.jitter,
        strict=rules.strict,
        barred=former_ssrc,
    )


class _Receiver(asyncio.DatagramProtocol):
    """Hands datagrams on; an IPv6 source is cut to address and port."""

    def __init__(
        self, receive: Callable[[bytes, tuple[str, int]], None], note_error: Callable[[], None]
    ) -> None:
        self._receive = receive
        self._note_error = note_error

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._receive(data, addr if len(addr) == 2 else addr[:2])

    def error_received(self, exc: Exception) -> None:
        self._note_error()


def _limit_reads(transport: asyncio.DatagramTransport) -> None:
    """Read small datagrams only: asyncio's 256 KiB buffer costs three system calls for each packet."""
    if hasattr(transport, "max_size"):
        transport.max_size = _DATAGRAM_BYTES
