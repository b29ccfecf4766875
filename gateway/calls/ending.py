"""
The one terminal action of a call: the end or a transfer, after the caller heard the last word.

The rule (C-8, C-10, U-15): once a request won, what was said before it is played to its end whatever the
caller does; the action follows when the leg's mark says that it was heard. If the mark stays
away for :data:`SAFETY_NET_S`, the action happens all the same. A hang-up waits, within
the same limit, for the caller to finish a sentence that has begun: we never hang up on somebody
who is talking (BR-093).
"""

from __future__ import annotations

import asyncio

import structlog

from gateway.calls import events as ev
from gateway.calls.report import Report
from gateway.calls.state import CallState, State
from gateway.dialogue.policy import CallPolicy
from gateway.legs.base import CallLeg, TransferProgress, TransferState
from providers.base import ProviderSession
from tools.types import EndRequest, TerminalRequest, TransferRequest

log = structlog.get_logger(__name__)

SAFETY_NET_S = 15.0


class Ending:
    """
    Carries out the winning terminal request.

    Args:
        leg: The call's line.
        session: Speaks again when a transfer fails.
        policy: Holds the pending request; released when a transfer fails.
        state: The call's state.
        report: Takes the call's events.
        safety_net_s: How long to wait for a mark; another value is for tests.
    """

    def __init__(
        self,
        *,
        leg: CallLeg,
        session: ProviderSession,
        policy: CallPolicy,
        state: CallState,
        report: Report,
        safety_net_s: float = SAFETY_NET_S,
    ) -> None:
        self._leg = leg
        self._session = session
        self._policy = policy
        self._state = state
        self._report = report
        self._safety_net_s = safety_net_s
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._requested = asyncio.Event()
        self._request: TerminalRequest | None = None
        self.redirecting = False
        """While the line is being transferred, the caller's voice is no longer for the model."""
        self.transferred = False
        """Whether a transfer was confirmed."""

    def caller_started(self) -> None:
        self._quiet.clear()

    def caller_paused(self) -> None:
        self._quiet.set()

    def begin(self, request: TerminalRequest) -> None:
        """Take the request that won its batch; :meth:`run` does the rest."""
        self._request = request
        self._requested.set()

    def end_now(self) -> None:
        """End the call for a reason of our own, unless something terminal is under way."""
        request = EndRequest("gateway")
        if self._policy.claim(request):
            self.begin(request)

    async def run(self) -> None:
        """Wait for requests and carry them out, until one has ended the call."""
        while True:
            await self._requested.wait()
            self._requested.clear()
            match self._request:
                case EndRequest():
                    await self._end()
                    return
                case TransferRequest() as request:
                    if await self._transfer(request):
                        return
                case None:
                    pass  # cannot happen: begin() sets the request before the event

    async def heard(self) -> None:
        """Return when all that was queued was heard, or the safety net is reached."""
        try:
            async with asyncio.timeout(self._safety_net_s):
                await self._leg.mark()
        except TimeoutError:
            log.warning("call.mark_missing", after_s=self._safety_net_s)

    async def _end(self) -> None:
        self._state.enter(State.ENDING)
        try:
            async with asyncio.timeout(self._safety_net_s):
                await self._leg.mark()
                await self._quiet.wait()
        except TimeoutError:
            log.warning("call.mark_missing", after_s=self._safety_net_s)
        await self._leg.hang_up()

    async def _transfer(self, request: TransferRequest) -> bool:
        self._state.enter(State.TRANSFERRING)
        self._report(ev.TransferChanged, "requested", request.number)
        await self.heard()
        self._report(ev.TransferChanged, "announced", request.number)
        self.redirecting = True
        last, last_told = TransferProgress(TransferState.FAILED, reason="unknown"), None
        async for progress in self._leg.transfer(request.number):
            if progress.state is not last_told:
                last_told = progress.state
                self._report(
                    ev.TransferChanged, progress.state.value, request.number, progress.status, progress.reason
                )
            last = progress
        if last.state is TransferState.CONFIRMED:
            self.transferred = True
            await self._leg.hang_up()
            return True
        await self._go_on(request, last)
        return False

    async def _go_on(self, request: TransferRequest, failure: TransferProgress) -> None:
        """Give the caller back to the same agent, with the reason."""
        self.redirecting = False
        self._state.enter(State.TALKING)
        self._policy.release()
        await self._session.send_text(
            f"The transfer to {request.label or request.number} failed: {failure.reason}. The caller is "
            "still on the line and was not transferred. Say so, and ask how to go on.",
            role="system",
        )
        await self._session.respond()
