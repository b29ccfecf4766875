"""
One SIP call as a :class:`gateway.legs.base.CallLeg`.

Signalling comes in through :meth:`SipLeg.handle`, called by the line that owns the user agent;
audio flows between the call's :class:`~gateway.net.media_stream.MediaStream` and the feeds here. The leg owns
no task.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import structlog

from gateway.legs.base import (
    GONE,
    CallerAudio,
    CallInfo,
    Cleared,
    DtmfReceived,
    HangupCause,
    HoldChanged,
    HoldExpired,
    HungUp,
    LegEvent,
    LegGone,
    MediaLost,
    MediaResumed,
    TransferProgress,
    TransferRequested,
    TransferState,
)
from gateway.legs.feed import Feed
from gateway.legs.keys import Keys, KeyWay
from gateway.legs.transfer_failure import refer_failure, transfer_failure
from gateway.media.keypad import ToneHeard
from gateway.media.playout import Playout
from gateway.media.quality import MediaQuality
from gateway.net.media_guard import MediaFailed
from gateway.net.media_stream import DEFAULT_RULES, MediaEvent, MediaRules, MediaStatistics, MediaStream
from gateway.net.pacer import Pacer
from gateway.net.ports import PortLease
from gateway.rtp import session as rtp
from gateway.sdp import NegotiatedMedia, NotAcceptable, SdpError
from gateway.sip import events as sip
from providers.types import PCMA, PCMU, AudioFormat

log = structlog.get_logger(__name__)

FORMATS = {"PCMU": PCMU, "PCMA": PCMA}

_AUDIO_WAITING = 50  # one second of 20 ms frames: more is too late to be useful
_AHEAD_S = 3.0  # a caller's audio is as long as the time in which it comes; more is a flood
_BYTES_PER_S = 8000  # G.711
_EVENTS_WAITING = 64
PEER_BUFFER_S = 0.2
"""What a telephone's jitter buffer may hold of what was sent, and would never play once it is hung up."""

_STATUS = {
    HangupCause.NORMAL: (480, "Temporarily Unavailable"),
    HangupCause.BUSY: (486, "Busy Here"),
    HangupCause.DECLINED: (603, "Decline"),
    HangupCause.NOT_FOUND: (404, "Not Found"),
    HangupCause.OVERLOADED: (503, "Service Unavailable"),
    HangupCause.UNAVAILABLE: (503, "Service Unavailable"),
    HangupCause.FAILED: (500, "Server Internal Error"),
}


class Signalling(Protocol):
    """What a leg asks of the user agent; each method acts at once and never waits."""

    def answer(self, call: str, sdp: bytes) -> None: ...

    def reject(self, call: str, status: int, reason: str) -> None: ...

    def bye(self, call: str) -> None: ...

    def refer(self, call: str, destination: str) -> None: ...

    def answer_reoffer(self, call: str, sdp: bytes | None, why: str = "") -> None: ...

    def answer_refer(self, call: str, status: int) -> None:
        """Accept or refuse the peer's REFER, or tell how it went; see :meth:`CallLeg.answer_transfer`."""
        ...


class Description(Protocol):
    """The local half of the call's session descriptions."""

    @property
    def media(self) -> NegotiatedMedia | None:
        """What was agreed; ``None`` while a late offer waits for its answer."""
        ...

    def local(self) -> bytes:
        """Our answer, or our offer where the INVITE had none."""
        ...

    def accept(self, answer: bytes) -> NegotiatedMedia:
        """Take the answer to our offer; raises ``SdpError`` or ``NotAcceptable``."""
        ...

    def reanswer(self, offer: bytes | None) -> tuple[bytes, NegotiatedMedia | None]:
        """Answer a re-INVITE; raises ``SdpError`` or ``NotAcceptable``."""
        ...


class SipLeg:
    """
    A ringing or answered SIP call.

    Args:
        info: What is known of the call.
        call: The user agent's handle.
        signalling: Commands to the user agent.
        description: Offer and answer of this call.
        lease: The call's ports; given back when the line is gone.
        clock: Seconds, monotonic.
        format: The format of frames and play-out, whatever the peer chooses later.
        local_host: Our address in the session description.
        pacer: The process-wide clock.
        prebuffer_ms: Audio to collect at the start of each talk spurt.
        on_media: Takes the figures of the media when it is over.
        rules: What the settings say about the media.
        takes_refer: Whether the peer says that it can be asked to transfer (RFC 3261, section 20.5).
    """

    def __init__(
        self,
        *,
        info: CallInfo,
        call: str,
        signalling: Signalling,
        description: Description,
        lease: PortLease,
        clock: Callable[[], float],
        format: AudioFormat,  # noqa: A002 - the seam's word
        local_host: str,
        pacer: Pacer,
        prebuffer_ms: int,
        on_media: Callable[[MediaStatistics], None],
        rules: MediaRules = DEFAULT_RULES,
        takes_refer: bool = True,
    ) -> None:
        self._info = info
        self._call = call
        self._signalling = signalling
        self._description = description
        self._lease = lease
        self._format = format
        self._clock = clock
        self._local_host = local_host
        self._pacer = pacer
        self._playout = Playout(format, prebuffer_ms=prebuffer_ms)
        self._on_media = on_media
        self._rules = rules
        self._takes_refer = takes_refer
        self._keys = Keys()
        self._quality: MediaQuality | None = None
        self._stream: MediaStream | None = None
        self._frames: Feed[CallerAudio] = Feed(_AUDIO_WAITING)
        self._events: Feed[LegEvent] = Feed(_EVENTS_WAITING)
        self._progress: Feed[TransferProgress] | None = None
        self._refer_accepted = False
        self._marks: dict[int, asyncio.Future[None]] = {}
        self._answered: asyncio.Future[bool] | None = None
        """Whether the ACK came before the line was gone."""
        self._gone = False
        self._fault = ""  # why we hung up by ourselves
        self._held = False
        self._heard_until = 0.0
        self._flooded = 0
        self._on_sent: Callable[[bytes], None] | None = None
        self._listener: Callable[[bytes], None] | None = None

    # The seam.

    @property
    def info(self) -> CallInfo:
        return self._info

    @property
    def format(self) -> AudioFormat:
        return self._format

    @property
    def quality(self) -> MediaQuality | None:
        return self._quality if self._gone or self._stream is None else self._stream.stats().quality

    @property
    def takes_transfer(self) -> bool:
        return self._takes_refer

    @property
    def dropped_frames(self) -> int:
        """Caller audio that nobody took in time, or that was more than time had passed."""
        return self._frames.dropped + self._flooded

    async def answer(self) -> None:
        """Send the 200 and return when its ACK is here; raises :exc:`LegGone` when none comes."""
        await self._open_stream()
        self._require_line("the caller gave up while the line rang")
        self._answered = asyncio.get_running_loop().create_future()
        self._signalling.answer(self._call, self._description.local())
        media = self._description.media
        if media is not None:
            self._start(media)
        if not await self._answered:
            raise LegGone("the answer was never acknowledged")

    async def _open_stream(self) -> None:
        self._require_line("the caller gave up while the line rang")
        self._stream = await MediaStream.open(
            self._lease,
            host=self._local_host,
            playout=self._playout,
            pacer=self._pacer,
            on_audio=self._heard,
            on_event=self._media_event,
            on_marks=self._marks_reached,
            on_sent=self._on_sent,
            rules=self._rules,
        )

    def frames(self) -> AsyncIterator[CallerAudio]:
        return aiter(self._frames)

    def listen(self, listener: Callable[[bytes], None] | None) -> None:
        self._listener = listener

    def events(self) -> AsyncIterator[LegEvent]:
        return aiter(self._events)

    def play(self, audio: bytes, *, item_id: str) -> None:
        if not self._gone:
            self._playout.enqueue(audio, item_id=item_id)

    def finish(self, item_id: str) -> None:
        self._playout.finish(item_id)

    async def mark(self) -> None:
        mark = self._playout.mark()
        if not self._gone and mark > self._playout.reached:
            future = self._marks[mark] = asyncio.get_running_loop().create_future()
            await future
        after = self._playout.sounds_until + PEER_BUFFER_S - self._clock()
        if after > 0 and not self._gone:
            await asyncio.sleep(after)

    def clear(self) -> Cleared:
        cleared = self._playout.clear()
        self._marks_reached()
        return Cleared(cleared.item_id, cleared.heard_ms, cleared.dropped_ms)

    def heard_ms(self, item_id: str) -> int:
        return self._playout.heard_ms(item_id)

    def began_at(self, item_id: str) -> float | None:
        return self._playout.began_at(item_id)

    def send_dtmf(self, digits: str) -> None:
        if self._stream is not None:
            self._stream.send_dtmf(digits)

    async def hang_up(self, cause: HangupCause = HangupCause.NORMAL) -> None:
        if self._gone:
            return
        if self._answered is None:
            status, reason = _STATUS[cause]
            self._signalling.reject(self._call, status, reason)
        else:
            self._signalling.bye(self._call)

    async def transfer(self, destination: str) -> AsyncIterator[TransferProgress]:
        """Send a REFER and yield what its NOTIFYs tell; see :meth:`CallLeg.transfer`."""
        if self._gone:
            yield TransferProgress(TransferState.FAILED, reason=GONE)
            return
        progress = self._progress = Feed(_EVENTS_WAITING)
        self._refer_accepted = False
        self._signalling.refer(self._call, destination)
        try:
            async for step in progress:
                yield step
                if step.state is not TransferState.REDIRECTING:
                    return
        finally:
            self._progress = None

    def answer_transfer(self, status: int) -> None:
        self._signalling.answer_refer(self._call, status)

    # What the call's recorder may listen to.

    def listen_to_sent(self, listener: Callable[[bytes], None]) -> None:
        """Hand every frame that is really sent to ``listener``; to be called before :meth:`answer`."""
        self._on_sent = listener

    # Signalling, from the line.

    def handle(self, event: sip.SipEvent) -> None:
        """Take one event of this call from the user agent."""
        match event:
            case sip.CallConfirmed():
                self._confirmed(event.answer)
            case sip.CallReoffered():
                self._reoffered(event.offer)
            case sip.InfoReceived():
                self._key(event.digit, KeyWay.INFO)
            case sip.ReferAnswered():
                self._refer_answered(event.status)
            case sip.ReferProgressed():
                self._refer_progressed(event)
            case sip.ReofferAnswered(sdp=answer) if answer is not None:
                self._answered_late(answer)
            case sip.ReferReceived():
                self._events.put(TransferRequested(event.target))
            case sip.CallEnded():
                self._ended(event)
            case _:
                pass  # the rest concerns no single call

    def _confirmed(self, answer: bytes | None) -> None:
        if self._answered is None:
            return
        if self._answered.done():
            self._answered_late(answer)
            return
        if self._description.media is None:
            try:
                if answer is None:
                    raise SdpError("the ACK carries no answer to our offer")  # noqa: TRY301 - one way to end the call
                self._start(self._description.accept(answer))
            except (SdpError, NotAcceptable):
                self._signalling.bye(self._call)
                return
        self._answered.set_result(True)

    def _reoffered(self, offer: bytes | None) -> None:
        before = self._description.media
        try:
            sdp, media = self._description.reanswer(offer)
        except (SdpError, NotAcceptable) as error:
            self._signalling.answer_reoffer(self._call, None, str(error))
            return
        self._signalling.answer_reoffer(self._call, sdp)
        if media is not None:
            self._reconfigure(media, before)

    def _answered_late(self, answer: bytes | None) -> None:
        """Take the answer to an offer of ours in the call; a bad one or one without news changes nothing."""
        before = self._description.media
        with suppress(SdpError, NotAcceptable):
            if answer is not None and (media := self._description.accept(answer)) != before:
                self._reconfigure(media, before)

    def _reconfigure(self, media: NegotiatedMedia, before: NegotiatedMedia | None) -> None:
        if self._stream is None:
            return
        if before is not None and before.security is not None and media.security is None:
            # Allowed where the trunk's SRTP is optional: a PBX hands over to a plain telephone.
            log.warning("call.media_unprotected", call_id=self._info.id)
        self._stream.reconfigure(media)
        self._keys.forget()
        held = not media.sends
        if held != self._held:
            self._held = held
            self._events.put(HoldChanged(held))

    def _refer_answered(self, status: int) -> None:
        if self._progress is None:
            return
        if 200 <= status < 300:
            self._refer_accepted = True
            self._progress.put(TransferProgress(TransferState.REDIRECTING, status))
        else:
            self._progress.put(TransferProgress(TransferState.FAILED, status, refer_failure(status)))

    def _refer_progressed(self, event: sip.ReferProgressed) -> None:
        if self._progress is None:
            return
        if not event.final:
            self._progress.put(TransferProgress(TransferState.REDIRECTING, event.status))
        elif 200 <= event.status < 300:
            self._progress.put(TransferProgress(TransferState.CONFIRMED, event.status))
        else:
            reason = transfer_failure(event.status) if event.status else event.reason
            self._progress.put(TransferProgress(TransferState.FAILED, event.status, reason))

    def _ended(self, event: sip.CallEnded) -> None:
        if self._gone:
            return
        self._gone = True
        if self._progress is not None:
            # A trunk that takes the caller over may say so with BYE alone (RFC 5589, section 6.1).
            taken_over = self._refer_accepted and event.by_peer
            state = TransferState.CONFIRMED if taken_over else TransferState.FAILED
            self._progress.put(TransferProgress(state, reason="" if taken_over else GONE))
        if self._stream is not None:
            figures = self._stream.stats()
            self._quality = figures.quality
            log.info(
                "call.media",
                call_id=self._info.id,
                underruns=figures.underruns,
                dropped=self.dropped_frames,
                **figures.quality.figures(),
            )
            self._on_media(replace(figures, trunk=self._info.trunk))
            self._stream.close()
        else:
            self._lease.release(self._clock())
        self._events.put(self._hung_up(event))
        self._events.close()
        self._frames.close()
        self._listener = None
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(False)
        self._marks_reached()

    def _hung_up(self, event: sip.CallEnded) -> HungUp:
        return HungUp(by_caller=event.by_peer, reason=self._fault or event.reason)

    def _require_line(self, otherwise: str) -> None:
        if self._gone:
            if self._stream is not None:
                self._stream.close()
            raise LegGone(otherwise)

    # Media, from the stream.

    def _start(self, media: NegotiatedMedia) -> None:
        assert self._stream is not None
        self._stream.start(media)

    def _heard(self, audio: bytes, at_ms: int) -> None:
        """Hand audio on, at the speed of time: the model's owner pays for every second of it."""
        now = self._clock()
        until = max(self._heard_until, now) + len(audio) / _BYTES_PER_S
        if until - now > _AHEAD_S:
            self._flooded += 1
            return
        self._heard_until = until
        if self._listener is None:
            self._frames.put(CallerAudio(audio, at_ms))
        else:
            self._listener(audio)

    def _key(self, digit: str, way: KeyWay) -> None:
        if self._keys.takes(digit, way, now=self._clock()):
            self._events.put(DtmfReceived(digit, inband=way is KeyWay.INBAND))

    def _media_event(self, event: MediaEvent) -> None:
        match event:
            case MediaFailed():
                log.warning("call.media_failed", call_id=self._info.id, why=event.reason)
                self._fault = "media_insecure"
                self._signalling.bye(self._call)
            case rtp.DtmfReceived():
                self._key(event.digit, KeyWay.RFC4733)
            case ToneHeard():
                self._key(event.digit, KeyWay.INBAND)
            case rtp.HoldExpired():
                self._events.put(HoldExpired(event.held_ms))
            case rtp.MediaLost():
                if not self._held:
                    self._events.put(MediaLost(event.silent_ms))
            case rtp.MediaResumed():
                self._events.put(MediaResumed())
            case rtp.StreamChanged():
                pass  # the same caller, from another place

    def _marks_reached(self) -> None:
        reached = list(self._marks) if self._gone else self._playout.take_reached()
        for mark in reached:
            future = self._marks.pop(mark, None)
            if future is not None and not future.done():
                future.set_result(None)
