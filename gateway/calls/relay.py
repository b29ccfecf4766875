"""
Two answered lines joined: what one says, the other hears.

The audio passes by function calls: from one line's receiving callback into the other's play-out, which the
process-wide pacer empties; no task and no queue stands between. Keys go on as keys.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

import structlog

from gateway.legs.base import (
    CallLeg,
    DtmfReceived,
    HoldChanged,
    HoldExpired,
    HungUp,
    MediaLost,
    MediaResumed,
    TransferRequested,
)
from gateway.media.backlog import Backlog
from gateway.media.convert import converter

log = structlog.get_logger(__name__)

_numbers: Final = itertools.count(1)


class OneWay:
    """
    One line's voice on its way to another line.

    Args:
        source: Whose frames are taken.
        target: Who hears them, and nothing else: what waits in its play-out is dropped at the start.
        hears: Gets each frame of the source as well, as a recorder does.
    """

    def __init__(
        self, source: CallLeg, target: CallLeg, *, hears: Callable[[bytes], None] | None = None
    ) -> None:
        self._source = source
        self._target = target
        self._hears = hears
        self._convert = converter(source.format, target.format).convert
        self._backlog = Backlog(source.format)
        self._item = f"relay-{next(_numbers)}"
        self._passed_ms = 0.0

    @property
    def dropped(self) -> int:
        """Frames that were left out, so that the delay stays small."""
        return self._backlog.dropped

    def start(self) -> None:
        self.flush()
        self._source.listen(self._take)

    def stop(self) -> None:
        """Hand the source's frames to its reader again."""
        self._source.listen(None)

    def flush(self) -> None:
        """Forget what waits: it is too old by the time that the target hears again."""
        self._target.clear()
        self._item = f"relay-{next(_numbers)}"
        self._passed_ms = 0.0

    def _take(self, audio: bytes) -> None:
        if self._hears is not None:
            self._hears(audio)
        target = self._target
        if not self._backlog.admits(audio, self._passed_ms - target.heard_ms(self._item)):
            return
        converted = self._convert(audio)
        self._passed_ms += len(converted) / target.format.bytes_per_ms
        target.play(converted, item_id=self._item)


class Relay:
    """
    Both directions, from :meth:`start` on; :meth:`run` serves what else happens on the lines.

    Args:
        caller: Answered.
        callee: Answered.
        hears_caller: Gets each frame of the caller, for the recording; the callee's are what the caller is
            sent, which its leg reports.
        on_key: Told of each key that the caller presses.
        on_transfer: Told when one of the two asks to be replaced by somebody else.
    """

    def __init__(
        self,
        caller: CallLeg,
        callee: CallLeg,
        *,
        hears_caller: Callable[[bytes], None],
        on_key: Callable[[str], None],
        on_transfer: Callable[[CallLeg, str], None],
    ) -> None:
        self.caller = caller
        self.callee = callee
        self._to_callee = OneWay(caller, callee, hears=hears_caller)
        self._to_caller = OneWay(callee, caller)
        self._on_key = on_key
        self._on_transfer = on_transfer
        self._silent: set[CallLeg] = set()

    def start(self) -> None:
        """Join the two; whatever else was to be played to them is forgotten."""
        self._to_callee.start()
        self._to_caller.start()

    def stop(self) -> None:
        """Take the two apart; their lines stay."""
        self._to_callee.stop()
        self._to_caller.stop()

    async def run(self) -> tuple[CallLeg, HungUp]:
        """Serve both until one line is gone, and say which; :meth:`start` comes first."""
        ends: list[tuple[CallLeg, HungUp]] = []
        try:
            async with asyncio.timeout(None) as scope, asyncio.TaskGroup() as group:
                for leg, other, way in (
                    (self.caller, self.callee, self._to_caller),
                    (self.callee, self.caller, self._to_callee),
                ):
                    name = f"{self.caller.info.id[:8]} relay"
                    group.create_task(self._serve(leg, other, way, ends, scope), name=name)
        except TimeoutError:
            if not ends:
                raise
        finally:
            self.stop()
            log.info("call.relayed", dropped=self._to_callee.dropped + self._to_caller.dropped)
        return ends[0]

    async def _serve(
        self,
        leg: CallLeg,
        other: CallLeg,
        towards: OneWay,
        ends: list[tuple[CallLeg, HungUp]],
        scope: asyncio.Timeout,
    ) -> None:
        async for event in leg.events():
            match event:
                case DtmfReceived(digit, inband):
                    if leg is self.caller:
                        self._on_key(digit)
                    if not inband:  # else the other side hears it in the audio already
                        _press(other, digit)
                case HoldChanged(held):
                    log.info("call.hold", held=held, by="caller" if leg is self.caller else "callee")
                    towards.flush()
                case HoldExpired(held_ms):
                    log.warning("call.hold_expired", held_ms=held_ms)
                    await leg.hang_up()
                case MediaLost():
                    await self._lost(leg)
                case MediaResumed():
                    self._silent.discard(leg)
                case TransferRequested(destination):
                    self._on_transfer(leg, destination)
                case HungUp():
                    ends.append((leg, event))
                    scope.reschedule(asyncio.get_running_loop().time())
                case _:
                    pass  # ringing and the answer are over

    async def _lost(self, leg: CallLeg) -> None:
        """One silent side may be a muted telephone, and the other hangs up; two are nobody."""
        self._silent.add(leg)
        if len(self._silent) == 2:
            log.warning("call.media_lost")
            await leg.hang_up()


def _press(leg: CallLeg, digit: str) -> None:
    try:
        leg.send_dtmf(digit)
    except ValueError as error:  # somebody leans on the keys
        log.warning("call.key_dropped", error=str(error))
