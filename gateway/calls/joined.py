"""
A caller and a colleague joined by us: from the moment the two hear each other to the end of both lines.

No provider session is left by then. The colleague may pass the caller on (REFER), to the numbers that the
agent may transfer to and nowhere else; the caller hears ringing meanwhile. Whoever hangs up ends the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import TypeAlias

import structlog

from gateway.calls import events as ev
from gateway.calls.dialling import NotReached
from gateway.calls.relay import Relay
from gateway.calls.report import Report
from gateway.calls.routing import spellings
from gateway.legs.base import CallLeg, TransferState
from gateway.sip.uri import Uri

log = structlog.get_logger(__name__)

BRIDGE = "bridge"
"""The method of a transfer that we do ourselves, as records and metrics name it."""

Reach: TypeAlias = Callable[[str, asyncio.Event], Awaitable[CallLeg | NotReached]]
"""Calls a number for the caller who waits, until an event says that the caller is gone."""


@dataclass(slots=True)
class _Referral:
    """The colleague's wish to pass the caller on."""

    number: str
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    found: CallLeg | None = None
    left: bool = False
    """Whether the colleague hung up meanwhile, as one does (RFC 5589, section 6.1)."""


class Joined:
    """
    Two lines that are joined.

    Args:
        caller: The call's own line.
        callee: The colleague's.
        reach: Calls somebody else for the caller.
        numbers: Where the colleague may pass the caller on to.
        report: Takes the call's events.
        limit_s: How long the two may talk.
    """

    def __init__(
        self,
        caller: CallLeg,
        callee: CallLeg,
        *,
        reach: Reach,
        numbers: Collection[str],
        report: Report,
        limit_s: float,
    ) -> None:
        self._caller = caller
        self._reach = reach
        self._numbers = numbers
        self._report = report
        self._limit_s = limit_s
        self._referral: _Referral | None = None
        self._group: asyncio.TaskGroup | None = None
        self._relay = self._join(callee)

    def _join(self, callee: CallLeg) -> Relay:
        """Join the caller and somebody at once."""
        report = self._report
        relay = Relay(
            self._caller,
            callee,
            hears_caller=report.caller_audio,
            on_key=lambda digit: report(ev.DtmfHeard, digit),
            on_transfer=self._asked,
        )
        relay.start()
        return relay

    async def run(self) -> str:
        """Serve both until the end of both; say who ended it: ``caller``, ``callee`` or ``gateway``."""
        try:
            async with asyncio.timeout(self._limit_s), asyncio.TaskGroup() as group:
                self._group = group
                return await self._serve()
        except TimeoutError:
            log.info("call.duration_limit", seconds=self._limit_s)
            return "gateway"
        finally:
            await self.close()

    async def close(self) -> None:
        """Hang up all lines; harmless when they are gone."""
        self._relay.stop()
        if self._referral is not None and self._referral.found is not None:
            await self._referral.found.hang_up()
        await self._relay.callee.hang_up()
        await self._caller.hang_up()

    async def _serve(self) -> str:
        while True:
            leg, end = await self._relay.run()
            referral = self._referral
            if referral is not None:
                if leg is self._caller:
                    referral.gone.set()
                else:
                    referral.left = True
                await referral.done.wait()
                self._referral = None
                if referral.found is not None and leg is not self._caller:
                    self._relay = self._join(referral.found)
                    continue
                if referral.found is not None:
                    await referral.found.hang_up()
            if not end.by_caller:
                return "gateway"
            return "caller" if leg is self._caller else "callee"

    # The colleague passes the caller on.

    def _asked(self, leg: CallLeg, uri: str) -> None:
        number = destination(uri, self._numbers)
        if leg is self._caller or number is None or self._referral is not None:
            log.warning("call.transfer_refused", to=uri[:100])
            leg.answer_transfer(603)
            return
        assert self._group is not None, "lines report nothing before run()"
        leg.answer_transfer(100)
        self._referral = _Referral(number)
        name = f"{self._caller.info.id[:8]} referral"
        self._group.create_task(self._pass_on(self._referral, self._relay), name=name)

    async def _pass_on(self, referral: _Referral, relay: Relay) -> None:
        self._tell(TransferState.REDIRECTING, referral.number)
        relay.stop()
        found = await self._reach(referral.number, referral.gone)
        self._caller.clear()
        if isinstance(found, NotReached):
            self._tell(TransferState.FAILED, referral.number, found.status, found.reason)
            relay.callee.answer_transfer(found.status if found.status >= 300 else 480)
            if not referral.left and not referral.gone.is_set():
                self._referral = None
                relay.start()
        else:
            self._tell(TransferState.CONFIRMED, referral.number, 200)
            referral.found = found
            relay.callee.answer_transfer(200)
            await relay.callee.hang_up()  # which is what ends their relay
        referral.done.set()

    def _tell(self, state: TransferState, number: str, status: int = 0, reason: str = "") -> None:
        self._report(ev.TransferChanged, state.value, number, status, reason, BRIDGE)


def destination(uri: str, numbers: Collection[str]) -> str | None:
    """Return which of the numbers and SIP URIs a Refer-To means; ``None`` for any other."""
    bare = uri.partition("?")[0].partition(";")[0]
    if bare in numbers:
        return bare
    return next((number for number in spellings(Uri(uri).user) if number in numbers), None)
