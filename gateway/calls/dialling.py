"""
Call somebody else for a caller who waits: until it is answered, refused, or the caller is gone.

The caller is never left in silence: a tone of ours sounds until the far end sends its own, or answers.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from gateway.calls.relay import OneWay
from gateway.legs.base import GONE, Answered, CallLeg, CannotDial, Dialler, HungUp, Ringing

log = structlog.get_logger(__name__)

WAITING = "waiting"
"""The item of what a waiting caller hears."""
_PAUSE_S = 0.02
"""Between two periods; a line that is gone has reached every mark at once."""


@dataclass(frozen=True, slots=True)
class NotReached:
    """Nobody was reached; ``reason`` as in :class:`TransferProgress`, or as in :class:`CannotDial`."""

    reason: str
    status: int = 0


@dataclass(frozen=True, slots=True)
class Order:
    """Whom to call, and how."""

    number: str
    ours: str
    """Our number: whom the called party sees."""
    trunk: str | None
    """Over which trunk; ``None`` lets the dialler choose."""
    ring_s: float
    """How long it may ring."""
    sound: bytes
    """One period of what the caller hears meanwhile, in its line's format."""
    early_media: bool
    """Whether the far end's own sound takes the place of ours."""


async def reach(
    order: Order, *, caller: CallLeg, dialler: Dialler, gone: asyncio.Event
) -> CallLeg | NotReached:
    """
    Return the answered line, or why there is none; in between the caller hears ``order.sound``.

    The sound is still in the caller's play-out on return: whoever joins the lines, or speaks next, clears
    it. A line that was answered while the caller went away is hung up.

    Args:
        order: Whom to call, and how.
        caller: Who waits.
        dialler: Makes the call.
        gone: Set when the caller is gone; then nobody is called any more.
    """
    try:
        callee = await dialler.dial(
            order.number, caller=caller.info, number=order.ours, line=caller.format, trunk=order.trunk
        )
    except CannotDial as error:
        log.warning("call.cannot_dial", number=order.number, reason=error.reason, detail=str(error))
        return NotReached(error.reason)
    log.info("call.dialled", number=order.number, trunk=callee.info.trunk)
    outcome: CallLeg | NotReached = NotReached(GONE)
    try:
        async with asyncio.timeout(order.ring_s) as scope, asyncio.TaskGroup() as group:
            name = caller.info.id[:8]
            sound = group.create_task(repeat(caller, order.sound), name=f"{name} ring-back")
            watch = group.create_task(_end_when(gone, scope), name=f"{name} gone")
            outcome = await _answered(order, caller, callee, sound)
            sound.cancel()
            watch.cancel()
    except TimeoutError:
        outcome = NotReached("no_answer")
    finally:
        if gone.is_set():
            outcome = NotReached(GONE)
        if isinstance(outcome, NotReached):
            await callee.hang_up()
    return outcome


async def repeat(line: CallLeg, period: bytes) -> None:
    """Play something again and again, until cancelled."""
    while period:
        line.play(period, item_id=WAITING)
        line.finish(WAITING)
        await line.mark()
        await asyncio.sleep(_PAUSE_S)


async def _end_when(gone: asyncio.Event, scope: asyncio.Timeout) -> None:
    await gone.wait()
    scope.reschedule(asyncio.get_running_loop().time())


async def _answered(
    order: Order, caller: CallLeg, callee: CallLeg, sound: asyncio.Task[None]
) -> CallLeg | NotReached:
    early: OneWay | None = None
    try:
        async for event in callee.events():
            match event:
                case Ringing(early_media=True) if order.early_media and early is None:
                    sound.cancel()
                    early = OneWay(callee, caller)
                    early.start()
                case Answered():
                    return callee
                case HungUp(reason=reason, status=status):
                    return NotReached(reason, status)
                case _:
                    pass  # keys and silence of somebody who has not answered
    finally:
        if early is not None:
            early.stop()
    return NotReached("unreachable")
