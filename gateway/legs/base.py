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
class HungUp:
    """The line is gone."""

    by_caller: bool
    reason: str
    """A short stable word: ``bye``, ``cancel``, ``ack_timeout``, ``local``, ``media_lost``, ``refused``."""


LegEvent: TypeAlias = DtmfReceived | HoldChanged | MediaLost | MediaResumed | HungUp


class TransferState(StrEnum):
    """The ladder of C-6, as far as a leg can see it."""

    REDIRECTING = "redirecting"
    CONFIRMED = "confirmed"
    FAILED = "failed"


GONE = "gone"


@dataclass(frozen=True, slots=True)
class TransferProgress:
    state: TransferState
    status: int = 0
    """The SIP status of the last word heard, 0 where there is none."""
    reason: str = ""
    """
    For a failure: ``busy``, ``declined``, ``no_answer``, ``refused``, ``timeout``, ``unknown``, or
    :data:`GONE` when the line itself went away.
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

    async def answer(self) -> None:
        """Answer the ringing line. Raises :exc:`LegGone` when the caller gave up first."""
        ...

    def frames(self) -> AsyncIterator[CallerAudio]:
        """Yield caller audio until the line is gone; the oldest is dropped if nobody takes it."""
        ...

    def events(self) -> AsyncIterator[LegEvent]:
        """Yield everything else; ends after :class:`HungUp`."""
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

    def send_dtmf(self, digits: str) -> None: ...

    async def hang_up(self, cause: HangupCause = HangupCause.NORMAL) -> None:
        """Refuse a ringing line or end an answered one; harmless when it is gone."""
        ...

    def transfer(self, destination: str) -> AsyncIterator[TransferProgress]:
        """Cold-transfer to a number or SIP URI; the last progress is confirmed or failed."""
        ...


class LegGone(Exception):
    """The line went away before the operation could be done."""
