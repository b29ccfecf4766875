"""
The warm transfer: a colleague is asked before the caller is handed over.

The caller waits and hears that somebody is still there. The agent's voice turns to the colleague, says what
it is about, and hears the colleague; key 1 accepts, key 2 declines, and so does what the colleague says: the
agent then calls transfer_call once more, or end_call. The two are joined, or the agent turns back to the
caller with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import structlog

from gateway.calls.dialling import NotReached, repeat
from gateway.calls.transfers import Outcome, Transfers
from gateway.legs.base import GONE, CallLeg, DtmfReceived, HungUp, TransferRequested, TransferState
from tools.types import TransferRequest

log = structlog.get_logger(__name__)

WARM = "warm"
ACCEPT, DECLINE = "1", "2"


class Speaker(Protocol):
    """The agent's voice and ears."""

    async def spoken(self) -> None:
        """Return when the agent has finished what it is saying: no more audio of that will come."""
        ...

    async def turn_to(self, colleague: CallLeg, briefing: str) -> None:
        """Speak to a colleague from now on, and listen to nobody else; begin with the briefing."""
        ...

    async def turn_back(self) -> None:
        """Speak to the caller again; what was not said yet is not said any more."""
        ...


class WarmTransfer:
    """
    One warm transfer.

    Args:
        transfers: The call's transfers.
        speaker: The agent.
        hold: What the caller hears meanwhile: one period, in the line's format.
    """

    def __init__(self, transfers: Transfers, speaker: Speaker, *, hold: bytes) -> None:
        self._transfers = transfers
        self._speaker = speaker
        self._hold = hold
        self._said: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def decide(self, *, accepted: bool) -> None:
        """Take what the colleague said to the agent; the first word counts."""
        if not self._said.done():
            self._said.set_result("" if accepted else "declined")

    async def run(self, request: TransferRequest) -> Outcome:
        """Call the colleague, ask, and join or return; reports each step."""
        transfers = self._transfers
        transfers.tell(TransferState.REDIRECTING, request.number, WARM)
        colleague = await transfers.reach(request.number, transfers.gone, hold=self._hold)
        if isinstance(colleague, NotReached):
            outcome = Outcome(confirmed=False, method=WARM, status=colleague.status, reason=colleague.reason)
        else:
            outcome = await self._ask(colleague, request)
        state = TransferState.CONFIRMED if outcome.confirmed else TransferState.FAILED
        transfers.tell(state, request.number, WARM, outcome.status, outcome.reason)
        return outcome

    async def _ask(self, colleague: CallLeg, request: TransferRequest) -> Outcome:
        """Brief the colleague and wait for the decision; a colleague who is not joined is hung up."""
        refusal = GONE
        try:
            async with self._waiting():
                await self._speaker.turn_to(colleague, briefing(request))
                answer = await self._decision(colleague)
            if not answer:
                self._transfers.join(colleague)
            refusal = answer
            await self._speaker.turn_back()
        finally:
            if refusal:
                await colleague.hang_up()
        if refusal:
            return Outcome(confirmed=False, method=WARM, reason=refusal)
        return Outcome(confirmed=True, method=WARM, status=200)

    @asynccontextmanager
    async def _waiting(self) -> AsyncIterator[None]:
        """Let the caller hear that somebody is still there."""
        leg = self._transfers.leg
        async with asyncio.TaskGroup() as group:
            sound = group.create_task(repeat(leg, self._hold), name=f"{leg.info.id[:8]} hold")
            try:
                yield
            finally:
                sound.cancel()

    async def _decision(self, colleague: CallLeg) -> str:
        """Return an empty word when the colleague accepts, else why the two are not joined."""
        name = f"{self._transfers.leg.info.id[:8]} decision"
        answer = "no_decision"
        try:
            async with asyncio.timeout(self._transfers.plan.decide_s), asyncio.TaskGroup() as group:
                waiting = {
                    group.create_task(self._key(colleague), name=name),
                    group.create_task(self._word(), name=name),
                    group.create_task(self._left(), name=name),
                }
                done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in others:
                    task.cancel()
                answer = next(iter(done)).result()
        except TimeoutError:
            pass  # nobody decided anything
        return GONE if self._transfers.gone.is_set() else answer

    async def _word(self) -> str:
        return await self._said

    async def _left(self) -> str:
        await self._transfers.gone.wait()
        return GONE

    async def _key(self, colleague: CallLeg) -> str:
        async for event in colleague.events():
            match event:
                case DtmfReceived(digit) if digit == ACCEPT:
                    return ""
                case DtmfReceived(digit) if digit == DECLINE:
                    return "declined"
                case TransferRequested():
                    colleague.answer_transfer(603)
                case HungUp():
                    return "hung_up"
                case _:
                    pass  # other keys; a colleague may hold the line
        return "hung_up"


def briefing(request: TransferRequest) -> str:
    """Tell the model whom it speaks to now, and what to say."""
    about = request.summary or "Say in one sentence what the caller wants."
    return (
        f"You now speak to a colleague, {request.label or request.number}, and not to the caller, who waits "
        f"and does not hear you. Tell the colleague in one or two sentences who calls and why: {about} Then "
        "ask whether to put the caller through: press one to take the call, two to decline, or just say so. "
        "Answer questions shortly. If the colleague agrees, call transfer_call with the number "
        f"{request.number} at once; if the colleague declines, call end_call: the caller's line stays."
    )
