import asyncio
from decimal import Decimal

from gateway.calls import events as ev
from gateway.calls.bus import EventBus
from gateway.calls.cost import Bill, Line
from gateway.calls.metering import Meter
from gateway.telemetry.metrics import Metrics
from providers.types import PCMU, Usage


def story(call_id: str, trunk: str) -> list[ev.CallEvent]:
    return [
        ev.CallStarted(call_id, 0.0, 1e9, "+1", "+2", trunk, "agent", PCMU),
        ev.CallAnswered(call_id, 0.4, "openai"),
        ev.FirstAudio(call_id, 1.0, 250),
        ev.CallerSaid(call_id, 2.0, "i", "Hello"),
        ev.ToolCalled(call_id, 2.0, "t", "end_call", "{}"),
        ev.ToolAnswered(call_id, 2.1, "t", "end_call", "ok"),
        ev.TransferChanged(call_id, 2.1, "redirecting", "+3", 202, "", "refer"),
        ev.TransferChanged(call_id, 2.2, "failed", "+3", 486, "busy", "refer"),
        ev.TransferChanged(call_id, 2.3, "confirmed", "+3", 200, "", "bridge"),
        ev.BargedIn(call_id, 2.2, "i", 100, 200),
        ev.CallEnded(call_id, 3.0, "end_call", "agent"),
    ]


async def test_the_story_of_a_call_ends_up_in_the_figures():
    metrics = Metrics()
    bus = EventBus()
    with bus.subscribe("metrics", 100) as subscription:
        for first, second in zip(story("a", "carrier"), story("b", "office"), strict=True):
            bus.publish(first)
            bus.publish(second)
    async with asyncio.timeout(5):
        await Meter(metrics).run(subscription)

    read = metrics.registry.get_sample_value
    for trunk in ("carrier", "office"):
        assert read("trunkline_calls_started_total", {"trunk": trunk}) == 1
        assert read("trunkline_calls_answered_total", {"trunk": trunk}) == 1
        assert read("trunkline_calls_ended_total", {"trunk": trunk, "reason": "end_call"}) == 1
    assert read("trunkline_transfers_total", {"method": "refer", "outcome": "busy"}) == 2
    assert read("trunkline_transfers_total", {"method": "bridge", "outcome": "confirmed"}) == 2
    assert read("trunkline_call_setup_seconds_sum") == 0.8
    assert read("trunkline_first_audio_seconds_sum") == 0.5
    assert read("trunkline_tool_calls_total", {"tool": "end_call", "status": "ok"}) == 2
    assert read("trunkline_barge_ins_total") == 2


async def test_a_call_whose_beginning_was_lost_is_counted_without_a_trunk():
    metrics = Metrics()
    Meter(metrics).count(ev.CallEnded("x", 1.0, "bye", "caller"))

    assert (
        metrics.registry.get_sample_value("trunkline_calls_ended_total", {"trunk": "", "reason": "bye"}) == 1
    )


def line(model, usage, cost, *, whole=True):
    return Line("openai", model, usage, Decimal(cost), Decimal(cost) if whole else None)


async def test_what_calls_consume_and_cost_is_counted_by_provider_and_model():
    metrics = Metrics()
    meter = Meter(metrics)
    for added in (
        (line("rt", Usage(audio_in=10, cached_text_in=5), "0.5"), line("scribe", Usage(seconds=3.5), "0.25")),
        (line("rt", Usage(audio_in=7, text_out=2), "0.125", whole=False),),
    ):
        meter.count(ev.CostChanged("x", 1.0, Bill(added), added))

    def read(name, model, **labels):
        found = metrics.registry.get_sample_value(name, {"provider": "openai", "model": model, **labels})
        return found or 0

    assert read("trunkline_model_tokens_total", "rt", kind="audio_in") == 17
    assert read("trunkline_model_tokens_total", "rt", kind="cached_text_in") == 5
    assert read("trunkline_model_tokens_total", "rt", kind="text_out") == 2
    assert read("trunkline_model_seconds_total", "scribe") == 3.5
    assert (read("trunkline_cost_usd_total", "rt"), read("trunkline_cost_usd_total", "scribe")) == (
        0.625,
        0.25,
    )
    assert (read("trunkline_cost_unknown_total", "rt"), read("trunkline_cost_unknown_total", "scribe")) == (
        1,
        0,
    )


async def test_calls_near_and_at_a_limit_are_counted():
    metrics = Metrics()
    meter = Meter(metrics)
    meter.count(ev.LimitTold("x", 1.0, "cost_limit", reached=False, used=0.8, allowed=1.0))
    meter.count(ev.LimitTold("x", 2.0, "cost_limit", reached=True, used=1.0, allowed=1.0))
    read = metrics.registry.get_sample_value
    assert read("trunkline_call_limits_total", {"limit": "cost_limit", "reached": "false"}) == 1
    assert read("trunkline_call_limits_total", {"limit": "cost_limit", "reached": "true"}) == 1


async def test_a_vendor_that_invents_model_names_does_not_fill_the_memory():
    metrics = Metrics()
    meter = Meter(metrics)
    for number in range(300):
        added = (line(f"m{number}", Usage(audio_in=1), "0.5"),)
        meter.count(ev.CostChanged("x", 1.0, Bill(added), added))
    labels = {"provider": "openai", "model": "other"}
    assert metrics.registry.get_sample_value("trunkline_cost_usd_total", labels) == 100.0
