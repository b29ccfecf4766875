"""What a caller gets when the call cannot be served: never silence (``on_unavailable``)."""

from __future__ import annotations

import asyncio

import structlog

from config.models import OnUnavailable
from gateway.calls import events as ev
from gateway.calls.prompts import PromptError, Prompts
from gateway.calls.report import Report
from gateway.calls.transfers import Outcome, Transfers
from gateway.legs.base import CallLeg, HangupCause, HungUp, TransferRequested

log = structlog.get_logger(__name__)

PROMPT_LIMIT_S = 60.0
"""A recording that was not heard after so long is given up."""


async def turn_away(
    leg: CallLeg, policy: OnUnavailable, prompts: Prompts, report: Report, transfers: Transfers
) -> str:
    """
    Refuse the call, or answer it to say why and perhaps to transfer it.

    Returns how it ended: ``rejected``, ``said``, ``transferred`` or ``transfer_failed``; the lines may be
    joined then (``transfers.joined``), and theirs is the rest of the call. Raises :exc:`LegGone` when the
    caller gives up first.
    """
    if policy.say is None and policy.transfer is None:
        await leg.hang_up(HangupCause.UNAVAILABLE)
        return "rejected"
    await leg.answer()
    report(ev.CallAnswered, "")
    if policy.say is not None:
        await _say(leg, policy, prompts)
    if policy.transfer is None:
        await leg.hang_up()
        return "said"
    outcome = await _hand_over(leg, policy.transfer, transfers)
    if transfers.joined is None:
        await leg.hang_up()
    return "transferred" if outcome.confirmed else "transfer_failed"


async def _hand_over(leg: CallLeg, number: str, transfers: Transfers) -> Outcome:
    """Transfer the call, and give up when the caller does."""
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(_watch(leg, transfers.gone), name=f"{leg.info.id[:8]} line")
        outcome = await transfers.cold(number)
        watch.cancel()
    return outcome


async def _watch(leg: CallLeg, gone: asyncio.Event) -> None:
    async for event in leg.events():
        match event:
            case HungUp():
                gone.set()
            case TransferRequested():
                leg.answer_transfer(603)
            case _:
                pass  # nobody is there to hear keys


async def _say(leg: CallLeg, policy: OnUnavailable, prompts: Prompts) -> None:
    assert policy.say is not None
    try:
        audio = await prompts.load(policy.say, leg.format)
    except PromptError as error:
        log.error("prompt.unreadable", error=str(error))  # noqa: TRY400 - the sentence says it all
        return
    leg.play(audio, item_id="unavailable")
    leg.finish("unavailable")
    try:
        async with asyncio.timeout(PROMPT_LIMIT_S):
            await leg.mark()
    except TimeoutError:
        log.warning("call.mark_missing", after_s=PROMPT_LIMIT_S)
