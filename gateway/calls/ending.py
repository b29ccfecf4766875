"""
The one terminal action of a call: the end or a transfer, after the caller heard the last word.

The rule (C-8, C-10, U-15): once a request won, what was said before it is played to its end whatever the
caller does; the action follows when the leg's mark says that it was heard. If the mark stays
away for :data:`SAFETY_NET_S`, or longer than what is still to be heard can take, the action happens
all the same. A hang-up then waits, for :data:`SAFETY_NET_S` at most, for the caller to finish a sentence
that has begun: we never hang up on somebody who is talking (BR-093).

The gateway ends calls by the same way (:meth:`Ending.end`): when the agent is lost, or the time is over. A
transfer that is under way goes on; only when it fails the call ends instead of going on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from gateway.calls import events as ev
from gateway.calls.report import Report
from gateway.calls.state import CallState, State
from gateway.calls.transfers import Outcome, Transfers
from gateway.calls.warm import Speaker, WarmTransfer
from gateway.dialogue.policy import CallPolicy
from gateway.legs.base import GONE, CallLeg, HangupCause
from tools.types import EndRequest, TerminalRequest, TransferRequest

log = structlog.get_logger(__name__)

SAFETY_NET_S = 15.0
LONGEST_S = 30.0
"""What is still to be heard is waited for at most so long: no goodbye is longer."""
MARGIN_S = 3.0
"""How much later than computed a mark may come."""


@dataclass(frozen=True, slots=True)
class OwnEnd:
    """Why the gateway itself ends the call."""

    reason: str
    """A short stable word for the record."""
    cause: HangupCause = HangupCause.NORMAL
    apology: bytes | None = None
    """Audio in the line's format in the place of an agent who cannot speak any more."""
    fallback: str | None = None
    """Whom the caller is transferred to instead; the apology follows where that fails."""
    connecting: bytes = b""
    """Said before that transfer."""


OWN = "gateway"
"""Stands in a request for the tool call that there is none of."""


class Model(Protocol):
    """What is said to the agent when a transfer fails."""

    async def send_text(self, text: str, *, role: str = "user") -> None: ...

    async def respond(self, *, instructions: str | None = None, tools: bool = True) -> None: ...


class Ending:
    """
    Carries out the winning terminal request.

    Args:
        leg: The call's line.
        model: Speaks again when a transfer fails.
        policy: Holds the pending request; released when a transfer fails.
        state: The call's state.
        report: Takes the call's events.
        transfers: Hands the caller over.
        hold: What a caller hears who waits for a warm transfer: one period, in the line's format.
        on_transfer: Told how each transfer ended; for the audit.
        unheard_ms: How much of what the agent said is still to be heard.
        safety_net_s: How long to wait for a mark; another value is for tests.
    """

    def __init__(
        self,
        *,
        leg: CallLeg,
        model: Model,
        policy: CallPolicy,
        state: CallState,
        report: Report,
        transfers: Transfers,
        hold: bytes,
        on_transfer: Callable[[TransferRequest, Outcome], None],
        unheard_ms: Callable[[], float],
        safety_net_s: float = SAFETY_NET_S,
    ) -> None:
        self._leg = leg
        self._model = model
        self._policy = policy
        self._state = state
        self._report = report
        self._transfers = transfers
        self._hold = hold
        self._on_transfer = on_transfer
        self._speaker: Speaker | None = None
        self._warm: WarmTransfer | None = None
        self._unheard_ms = unheard_ms
        self._safety_net_s = safety_net_s
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._requested = asyncio.Event()
        self._request: TerminalRequest | None = None
        self._own: OwnEnd | None = None
        self._prompt = b""
        """What we said ourselves."""
        self.redirecting = False
        """While the line is being transferred, the caller's voice is no longer for the model."""
        self.transferred = False
        """Whether a transfer was confirmed."""
        self.reason = ""
        """Why the gateway itself ended the call, if it did."""

    @property
    def joined(self) -> bool:
        """Whether the caller talks to somebody else by now, over lines of ours."""
        return self._transfers.joined is not None

    def caller_started(self) -> None:
        self._quiet.clear()

    def caller_paused(self) -> None:
        self._quiet.set()

    def line_gone(self) -> None:
        """Note that nobody is there any more to whom the agent could go on talking."""
        self._transfers.gone.set()

    def speaks_with(self, speaker: Speaker) -> None:
        """Name who can turn to a colleague; before :meth:`run`."""
        self._speaker = speaker

    def decided(self, *, accepted: bool) -> None:
        """Take what a colleague said who is asked to take the call."""
        if self._warm is not None:
            self._warm.decide(accepted=accepted)

    def begin(self, request: TerminalRequest) -> None:
        """Take the request that won its batch; :meth:`run` does the rest."""
        self._request = request
        self._requested.set()

    def end(self, own: OwnEnd) -> bool:
        """
        End the call for a reason of our own; ``False`` when something else ends it.

        A request that is pending goes on: its end is as good, and a transfer may still succeed.
        """
        if own.apology is not None:
            self._quiet.set()  # whoever told us that the caller speaks tells us no more
        if self._own is None or self._policy.pending is None:
            self._own = own
        return self._end_own(self._own)

    def _end_own(self, own: OwnEnd) -> bool:
        request: TerminalRequest = EndRequest(OWN)
        prompt = own.apology
        if own.fallback is not None:
            request, prompt = TransferRequest(OWN, own.fallback), own.connecting
        if not self._policy.claim(request):
            return False
        self.reason = own.reason
        if prompt is not None:
            self._prompt = prompt
            self._leg.clear()
            self._leg.play(prompt, item_id="apology")
            self._leg.finish("apology")
        self.begin(request)
        return True

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

    async def _heard(self) -> None:
        """Return when all that was queued was heard, or when it cannot take any longer."""
        unheard_s = (self._unheard_ms() + len(self._prompt) / self._leg.format.bytes_per_ms) / 1000
        limit_s = max(self._safety_net_s, min(unheard_s + MARGIN_S, LONGEST_S))
        try:
            async with asyncio.timeout(limit_s):
                if self._speaker is not None:  # a model that speaks in real time may call a tool in mid-word
                    await self._speaker.spoken()
                await self._leg.mark()
        except TimeoutError:
            log.warning("call.mark_missing", after_s=round(limit_s, 3))

    async def _end(self) -> None:
        self._state.enter(State.ENDING)
        await self._heard()
        try:
            async with asyncio.timeout(self._safety_net_s):
                await self._quiet.wait()
        except TimeoutError:
            log.warning("call.caller_talks_on", after_s=self._safety_net_s)
        cause = self._own.cause if self._own is not None and self.reason else HangupCause.NORMAL
        await self._leg.hang_up(cause)

    async def _transfer(self, request: TransferRequest) -> bool:
        self._state.enter(State.TRANSFERRING)
        self._report(ev.TransferChanged, "requested", request.number)
        await self._heard()
        if self._transfers.gone.is_set():
            return True
        self._report(ev.TransferChanged, "announced", request.number)
        self.redirecting = True
        outcome = await self._hand_over(request)
        self._on_transfer(request, outcome)
        if outcome.confirmed:
            self.transferred = True
            if self._transfers.joined is not None:
                self._state.enter(State.JOINED)
            else:
                await self._leg.hang_up()
            return True
        if outcome.reason == GONE:
            return True
        await self._go_on(request, outcome)
        return False

    async def _hand_over(self, request: TransferRequest) -> Outcome:
        if not request.warm:
            return await self._transfers.cold(request.number)
        assert self._speaker is not None, "speaks_with() comes first"
        self._warm = WarmTransfer(self._transfers, self._speaker, hold=self._hold)
        try:
            return await self._warm.run(request)
        finally:
            self._warm = None

    async def _go_on(self, request: TransferRequest, failure: Outcome) -> None:
        """Give the caller back to the same agent, with the reason; or end what can only end."""
        self._leg.clear()  # the ringing, or the music
        self.redirecting = False
        self._state.enter(State.TALKING)
        self._policy.release()
        if self._own is not None:
            if request.tool_call_id == OWN:
                self._own = replace(self._own, fallback=None)
            self._end_own(self._own)
            return
        await self._model.send_text(
            f"The transfer to {request.label or request.number} failed: {failure.reason}. The caller is "
            "still on the line and was not transferred. Say so, and ask how to go on.",
            role="system",
        )
        await self._model.respond()
