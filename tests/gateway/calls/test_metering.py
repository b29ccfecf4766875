import asyncio

from gateway.calls import events as ev
from gateway.calls.bus import EventBus
from gateway.calls.metering import Meter
from gateway.telemetry.metrics import Metrics
from providers.types import PCMU


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
