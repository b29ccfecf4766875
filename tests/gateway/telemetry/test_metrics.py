import asyncio
import os
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from gateway.telemetry.metrics import Metrics, TrunkFigures


def figures(metrics: Metrics) -> dict[str, float]:
    """Return each sample as ``name{label=value,...}``."""
    found = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_calls_are_counted_by_trunk_and_reason():
    metrics = Metrics()
    for reason in ("bye", "bye", "end_call"):
        metrics.call_started("carrier")
        metrics.call_answered("carrier", setup_s=0.25)
        metrics.call_ended("carrier", reason=reason)
    metrics.call_started("office")
    found = figures(metrics)

    assert found["trunkline_calls_started_total{trunk=carrier}"] == 3
    assert found["trunkline_calls_started_total{trunk=office}"] == 1
    assert found["trunkline_calls_answered_total{trunk=carrier}"] == 3
    assert found["trunkline_calls_ended_total{reason=bye,trunk=carrier}"] == 2
    assert found["trunkline_calls_ended_total{reason=end_call,trunk=carrier}"] == 1
    assert found["trunkline_call_setup_seconds_count{}"] == 3
    assert found["trunkline_call_setup_seconds_sum{}"] == 0.75
    assert found["trunkline_call_setup_seconds_bucket{le=0.3}"] == 3
    assert found["trunkline_call_setup_seconds_bucket{le=0.2}"] == 0


def test_what_happens_in_calls_is_counted():
    metrics = Metrics()
    metrics.first_audio(latency_ms=50)
    metrics.tool_answered("end_call", "ok")
    metrics.tool_answered("end_call", "denied")
    metrics.barged_in()
    metrics.rtp_finished(
        received=10,
        sent=20,
        lost=3,
        late=1,
        refused=200,
        concealed_ms=60,
        underruns=2,
        undecryptable=4,
        protection="sdes",
    )
    metrics.rtp_finished(
        received=1,
        sent=2,
        lost=0,
        late=0,
        refused=0,
        concealed_ms=0,
        underruns=0,
        undecryptable=0,
        protection="none",
    )
    metrics.call_heard("carrier", "caller", mos=4.36, missing=0.03, jitter_ms=12.0, delay_ms=80.0)
    metrics.event_dropped("recorder")
    found = figures(metrics)

    assert found["trunkline_first_audio_seconds_bucket{le=0.06}"] == 1
    assert found["trunkline_first_audio_seconds_bucket{le=0.04}"] == 0
    assert found["trunkline_tool_calls_total{status=ok,tool=end_call}"] == 1
    assert found["trunkline_tool_calls_total{status=denied,tool=end_call}"] == 1
    assert found["trunkline_barge_ins_total{}"] == 1
    assert found["trunkline_rtp_packets_total{direction=in}"] == 11
    assert found["trunkline_rtp_packets_total{direction=out}"] == 22
    assert found["trunkline_rtp_packets_lost_total{}"] == 3
    assert found["trunkline_calls_media_total{protection=sdes}"] == 1
    assert found["trunkline_calls_media_total{protection=none}"] == 1
    assert found["trunkline_srtp_packets_undecryptable_total{}"] == 4
    assert found["trunkline_rtp_packets_late_total{}"] == 1
    assert found["trunkline_rtp_packets_refused_total{}"] == 200
    assert found["trunkline_rtp_concealed_seconds_total{}"] == 0.06
    assert found["trunkline_call_mos_bucket{le=4.4,trunk=carrier,voice=caller}"] == 1
    assert found["trunkline_call_mos_bucket{le=4.2,trunk=carrier,voice=caller}"] == 0
    assert found["trunkline_call_missing_ratio_bucket{le=0.03,trunk=carrier,voice=caller}"] == 1
    assert found["trunkline_call_jitter_seconds_bucket{le=0.01,voice=caller}"] == 0
    assert found["trunkline_call_delay_seconds_bucket{le=0.1,voice=caller}"] == 1
    assert found["trunkline_playout_underruns_total{}"] == 2
    assert found["trunkline_events_dropped_total{listener=recorder}"] == 1


def watch_nothing(metrics):
    metrics.watch(
        active_calls=lambda: 0,
        leased_ports=lambda: 0,
        pacer_late_ticks=lambda: 0,
        sip_connections=lambda: 0,
        sip_dialogs=lambda: 0,
        sip_transactions=lambda: 0,
        sip_dropped=lambda: {"denied": 0},
    )


async def test_what_is_is_read_when_somebody_asks():
    metrics = Metrics()
    owner = {"calls": 1.0, "ports": 2.0, "late": 3.0, "connections": 4.0, "denied": 5.0}
    owner |= {"dialogs": 6.0, "transactions": 7.0}
    metrics.watch(
        active_calls=lambda: owner["calls"],
        leased_ports=lambda: owner["ports"],
        pacer_late_ticks=lambda: owner["late"],
        sip_connections=lambda: owner["connections"],
        sip_dialogs=lambda: owner["dialogs"],
        sip_transactions=lambda: owner["transactions"],
        sip_dropped=lambda: {"denied": owner["denied"], "flooded": 0},
    )
    found = figures(metrics)
    assert found["trunkline_calls_active{}"] == 1
    assert found["trunkline_rtp_ports_leased{}"] == 2
    assert found["trunkline_pacer_late_ticks_total{}"] == 3
    assert found["trunkline_sip_connections{}"] == 4
    assert found["trunkline_sip_dialogs{}"] == 6
    assert found["trunkline_sip_transactions{}"] == 7
    assert found["trunkline_sip_dropped_total{reason=denied}"] == 5
    assert found["trunkline_sip_dropped_total{reason=flooded}"] == 0

    owner.update(calls=0.0, ports=0.0, late=4.0)
    found = figures(metrics)
    assert found["trunkline_calls_active{}"] == 0
    assert found["trunkline_rtp_ports_leased{}"] == 0
    assert found["trunkline_pacer_late_ticks_total{}"] == 4


def test_of_each_trunk_what_is_known_is_shown_and_nothing_else():
    metrics = Metrics()
    metrics.watch_trunks(
        lambda: [TrunkFigures("office", 2, 1.0, None), TrunkFigures("carrier", 0, None, 0.0)]
    )
    found = figures(metrics)
    assert {name: value for name, value in found.items() if name.startswith("trunkline_trunk_")} == {
        "trunkline_trunk_calls{trunk=office}": 2,
        "trunkline_trunk_calls{trunk=carrier}": 0,
        "trunkline_trunk_registered{trunk=office}": 1,
        "trunkline_trunk_reachable{trunk=carrier}": 0,
    }


async def test_a_task_and_a_descriptor_more_are_seen_and_gone_again():
    metrics = Metrics()
    watch_nothing(metrics)

    def leaks():
        found = figures(metrics)
        assert found["process_resident_memory_bytes{}"] > 1_000_000
        return found["trunkline_asyncio_tasks{}"], found["process_open_fds{}"]

    tasks, fds = leaks()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(asyncio.Event().wait())
        pipe = os.pipe()
        assert leaks() == (tasks + 1, fds + 2)
        for end in pipe:
            os.close(end)
        task.cancel()
    assert leaks() == (tasks, fds)


def test_a_model_that_invents_tool_names_does_not_fill_the_memory():
    metrics = Metrics()
    for number in range(1000):
        metrics.tool_answered(f"tool{number}", "failed")
    series = [name for name in figures(metrics) if name.startswith("trunkline_tool_calls_total")]

    assert len(series) == 101
    assert figures(metrics)["trunkline_tool_calls_total{status=failed,tool=other}"] == 900


def test_two_gateways_in_one_process_have_their_own_figures():
    first, second = Metrics(), Metrics()
    first.barged_in()

    assert figures(second)["trunkline_barge_ins_total{}"] == 0


async def test_every_figure_is_in_the_documentation_and_nothing_else_is():
    metrics = Metrics()
    watch_nothing(metrics)
    families = text_string_to_metric_families(metrics.render().decode())
    exported = {
        f.name + ("_total" if f.type == "counter" else "")
        for f in families
        if f.name.startswith("trunkline") and not f.name.endswith("_created")  # the client library's own
    }
    page = (Path(__file__).parents[3] / "docs" / "observability.md").read_text(encoding="utf-8")

    assert set(re.findall(r"^\| `(trunkline_\w+)`", page, re.MULTILINE)) == exported
