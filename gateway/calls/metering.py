"""Counts what happens in calls: a listener of the event bus that feeds the metrics."""

from __future__ import annotations

from gateway.calls.bus import Subscription
from gateway.calls.cost import TOKENS
from gateway.calls.events import (
    BargedIn,
    CallAnswered,
    CallEnded,
    CallerWasSilent,
    CallEvent,
    CallStarted,
    CostChanged,
    FirstAudio,
    LimitTold,
    RecoveryStepTaken,
    ReplyHeard,
    ReplyMissed,
    ToolAnswered,
    TransferChanged,
)
from gateway.telemetry.metrics import Metrics

QUEUE_SIZE = 4096
"""Events that may wait while the loop is busy; a second of some hundred calls."""
_CALLS = 50_000
"""Calls whose trunk is remembered."""


class Meter:
    """
    Feeds the metrics from events.

    Args:
        metrics: What is fed.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._trunks: dict[str, str] = {}

    async def run(self, subscription: Subscription) -> None:
        """Count until the subscription is closed."""
        async for event in subscription:
            self.count(event)

    def count(self, event: CallEvent) -> None:
        """Count one event."""
        metrics = self._metrics
        match event:
            case CallStarted():
                if len(self._trunks) >= _CALLS:  # only if their ends were lost
                    self._trunks.pop(next(iter(self._trunks)))
                self._trunks[event.call_id] = event.trunk
                metrics.call_started(event.trunk)
            case CallAnswered():
                metrics.call_answered(self._trunks.get(event.call_id, ""), setup_s=event.at)
            case CallEnded():
                metrics.call_ended(self._trunks.pop(event.call_id, ""), reason=event.reason)
            case FirstAudio():
                metrics.first_audio(latency_ms=event.latency_ms)
            case ToolAnswered():
                metrics.tool_answered(event.tool, str(event.status))
            case BargedIn():
                metrics.barged_in()
            case CostChanged():
                for line in event.added:
                    tokens = {name: getattr(line.usage, name) for name in TOKENS}
                    metrics.consumed(
                        line.provider,
                        line.model,
                        tokens=tokens,
                        seconds=line.usage.seconds,
                        usd=float(line.known),
                        priced=line.cost is not None,
                    )
            case LimitTold():
                metrics.limit_told(event.limit, reached=event.reached)
            case RecoveryStepTaken():
                metrics.recovery_step(event.step, event.reason, after_ms=event.after_ms)
            case ReplyMissed():
                metrics.reply_missed(event.fault)
            case ReplyHeard():
                metrics.reply_heard(event.fault, after_s=event.after_ms / 1000)
            case CallerWasSilent():
                metrics.caller_was_silent(event.act)
            case TransferChanged(state="confirmed" | "failed"):
                metrics.transferred(event.method, event.reason or event.state)
            case _:
                pass  # what was said is not for metrics
