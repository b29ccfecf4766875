"""What a caller gets when the call cannot be served: never silence (``on_unavailable``)."""

from __future__ import annotations

import asyncio

import structlog

from config.models import OnUnavailable
from gateway.calls import events as ev
from gateway.calls.prompts import PromptError, Prompts
from gateway.calls.report import Report
from gateway.legs.base import CallLeg, HangupCause, TransferProgress, TransferState

log = structlog.get_logger(__name__)

PROMPT_LIMIT_S = 60.0
"""A recording that was not heard after so long is given up."""


async def turn_away(leg: CallLeg, policy: OnUnavailable, prompts: Prompts, report: Report) -> str:
    """
    Refuse the call, or answer it to say why and perhaps to transfer it.

    Returns how it ended: ``rejected``, ``said``, ``transferred`` or ``transfer_failed``. Raises
    :exc:`LegGone` when the caller gives up first.
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
    progress = TransferProgress(TransferState.FAILED, reason="unknown")
    async for progress in leg.transfer(policy.transfer):
        report(ev.TransferChanged, progress.state.value, policy.transfer, progress.status, progress.reason)
    await leg.hang_up()
    return "transferred" if progress.state is TransferState.CONFIRMED else "transfer_failed"


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
