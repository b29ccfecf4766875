"""
The leg seam: what a telephone line can do, whatever carries it.

A leg is born ringing. The call answers it or hangs it up; from then on audio flows until
:class:`HungUp` comes out of :meth:`CallLeg.events`, exactly once, whoever hung up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

from gateway.media.quality import MediaQuality
from providers.types import AudioFormat


class CallerAudio(NamedTuple):
    """A piece of the caller's voice in :attr:`CallLeg.format`, in call order, gaps concealed."""

    audio: bytes
    at_ms: int
    """Position on the caller's media clock since the first packet."""


class HangupCause(StrEnum):
    """Why we hang up; each transport says it in its own terms."""

    NORMAL = "normal"
    BUSY = "busy"
    DECLINED = "declined"
    NOT_FOUND = "not_found"
    OVERLOADED = "overloaded"
    """Full: the caller may try again in a while."""
    UNAVAILABLE = "unavailable"
    """The call cannot be served: the model did not open, the tools could not be collected."""
    FAILED = "failed"
    """A fault of ours."""


@dataclass(frozen=True, slots=True)
class CallInfo:
    """What is known of a call before it is answered."""

    id: str
    """Ours: unique, safe as a file name, in every log line."""
    caller: str
    """The caller's number or address; empty when withheld."""
    called: str
    trunk: str
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DtmfReceived:
    digit: str
    inband: bool = False
    """Its tones are in the audio, too, for whoever hears that."""


@dataclass(frozen=True, slots=True)
class HoldChanged:
    held: bool


@dataclass(frozen=True, slots=True)
class MediaLost:
    """No packet from the caller for ``silent_ms``; reported once for each gap."""

    silent_ms: int


@dataclass(frozen=True, slots=True)
class MediaResumed:
    """A packet came after :class:`MediaLost`."""


@dataclass(frozen=True, slots=True)
class Ringing:
    """The line that we dialled rings there."""

    early_media: bool = False
    """Whether its sound comes already: the far end's own ring-back, or an announcement."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The line that we dialled was answered; the contract of :class:`CallLeg` holds from here on."""


@dataclass(frozen=True, slots=True)
class TransferRequested:
    """The peer asks us to connect its partner with somebody else; say what comes of it."""

    destination: str
    """The Refer-To: a URI."""


@dataclass(frozen=True, slots=True)
class HoldExpired:
    """The peer has held the call for longer than it may."""

    held_ms: int


@dataclass(frozen=True, slots=True)
class HungUp:
    """The line is gone."""

    by_caller: bool
    """Whether the other end of this line did it."""
    reason: str
    """
    A short stable word: ``bye``, ``cancel``, ``ack_timeout``, ``local``, ``media_lost``,
    ``media_insecure`` (no keys for SRTP), ``hold_timeout``, ``refused``. For a line that we dialled
    and that was not answered also ``busy``, ``declined``, ``no_answer`` or ``unreachable``.
    """
    status: int = 0
    """The SIP status with which a line that we dialled was refused, 0 where there is none."""


LegEvent: TypeAlias = (
    DtmfReceived
    | HoldChanged
    | HoldExpired
    | MediaLost
    | MediaResumed
    | Ringing
    | Answered
    | TransferRequested
    | HungUp
)


class TransferState(StrEnum):
    """The ladder of C-6, as far as a leg can see it."""

    REDIRECTING = "redirecting"
    CONFIRMED = "confirmed"
    FAILED = "failed"


GONE = "gone"
UNSUPPORTED = "unsupported"
"""The reason of a transfer that the peer does not do at all: somebody else may still connect the two."""


@dataclass(frozen=True, slots=True)
class TransferProgress:
    state: TransferState
    status: int = 0
    """The SIP status of the last word heard, 0 where there is none."""
    reason: str = ""
    """
    For a failure: ``busy``, ``declined``, ``no_answer``, ``refused``, ``timeout``, ``unknown``,
    :data:`UNSUPPORTED`, or :data:`GONE` when the line itself went away.
    """


class Cleared(NamedTuple):
    """What a :meth:`CallLeg.clear` cut off."""

    item_id: str
    """The item that was being heard, or the last one that was; empty when nothing was ever played."""
    heard_ms: int
    dropped_ms: int
    """Audio thrown away over all items; 0 when everything had been heard."""


class CallLeg(Protocol):
    """One telephone line."""

    @property
    def info(self) -> CallInfo: ...

    @property
    def format(self) -> AudioFormat:
        """The format of both directions; fixed once the leg exists."""
        ...

    @property
    def quality(self) -> MediaQuality | None:
        """How the media went up to now; ``None`` before the answer, and where nothing is measured."""
        ...

    @property
    def takes_transfer(self) -> bool:
        """Whether the peer says that it can transfer; many that can do not say so."""
        ...

    async def answer(self) -> None:
        """Answer the ringing line. Raises :exc:`LegGone` when the caller gave up first."""
        ...

    def frames(self) -> AsyncIterator[CallerAudio]:
        """Yield caller audio until the line is gone; the oldest is dropped if nobody takes it."""
        ...

    def listen(self, listener: Callable[[bytes], None] | None) -> None:
        """
        Hand the caller's audio to ``listener`` as it comes, in the place of :meth:`frames`.

        The listener is called in the loop and must not block; ``None`` goes back to :meth:`frames`.
        """
        ...

    def events(self) -> AsyncIterator[LegEvent]:
        """Yield everything else; ends after :class:`HungUp`. One reader at a time."""
        ...

    def play(self, audio: bytes, *, item_id: str) -> None:
        """Queue audio in :attr:`format` behind what is queued; never blocks."""
        ...

    def finish(self, item_id: str) -> None:
        """Say that no more audio comes for an item, so that its last partial frame goes out."""
        ...

    async def mark(self) -> None:
        """Return when everything queued before this call was heard, was cleared, or the line is gone."""
        ...

    def clear(self) -> Cleared:
        """Drop what was not played and say how much of the current item was heard."""
        ...

    def heard_ms(self, item_id: str) -> int:
        """How much of an item the caller has heard so far."""
        ...

    def began_at(self, item_id: str) -> float | None:
        """When the caller began to hear an item, on the clock of the call; ``None`` when not yet."""
        ...

    def listen_to_sent(self, listener: Callable[[bytes], None]) -> None:
        """Hand each frame that is really sent to ``listener``; to be set before :meth:`answer`."""
        ...

    def send_dtmf(self, digits: str) -> None:
        """Press keys, in whatever way the peer takes them; raises ``ValueError`` when too many wait."""
        ...

    async def hang_up(self, cause: HangupCause = HangupCause.NORMAL) -> None:
        """Refuse a ringing line or end an answered one; harmless when it is gone."""
        ...

    def transfer(self, destination: str) -> AsyncIterator[TransferProgress]:
        """
        Let the peer transfer the line to a number or SIP URI (REFER); the last progress is confirmed
        or failed.
        """
        ...

    def answer_transfer(self, status: int) -> None:
        """
        Say what comes of a :class:`TransferRequested`, in SIP's terms.

        The first word accepts (below 200) or refuses it (300 and above); after an acceptance the last word
        is the final status of the new call.
        """
        ...


class Dialler(Protocol):
    """Makes calls, over configured trunks only."""

    def has_route(self, came_over: str, trunk: str | None) -> bool:
        """
        Whether calls can be made for a caller at all.

        Args:
            came_over: The trunk of the caller.
            trunk: The trunk that was asked for, as in :meth:`dial`.
        """
        ...

    async def dial(
        self, destination: str, *, caller: CallInfo, number: str, line: AudioFormat, trunk: str | None
    ) -> CallLeg:
        """
        Call a number or SIP URI, and return the line while it is being set up.

        Its events are :class:`Ringing` (perhaps several times), then :class:`Answered`, or :class:`HungUp`
        when nobody answered. Hanging up before gives the attempt up.

        Args:
            destination: Whom to call.
            caller: The call for which this is done.
            number: Ours, the one that was dialled: whom the called party sees.
            line: The format of the new leg's frames and play-out.
            trunk: Over which trunk; ``None`` takes the one that the caller came over, else the only one
                that takes calls of ours.

        Raises:
            CannotDial: Nothing was sent.
        """
        ...


class CannotDial(Exception):
    """
    A call that could not be begun.

    Args:
        reason: A short stable word: ``no_route``, ``unreachable`` or ``overloaded``.
        detail: For the log.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class LegGone(Exception):
    """The line went away before the operation could be done."""
