import copy

import pytest

from tests.bench.verdict import Run, holds, judge, ratio, ratios, table

GOOD = {
    "n": 120,
    "dropped_calls": 0,
    "bye_unanswered": 0,
    "cpu_s_per_call_min": 0.2,
    "send_lag_ms": {"p99": 1.0},
    "usage": {"cpu_pct": {"server": 40.0}, "foreign_cpu_pct": 3.0, "rss_per_call_mb": 0.1},
    "talk": {
        "turns": 480, "answers": 480, "gaps": 0, "longest_gap_ms": 0.0, "barge_ins": 480,
        "barge_in_missed": 0,
        "first_audio_ms": {"p50": 1.0, "p99": 9.0}, "barge_in_ms": {"p50": 1.0, "p99": 2.0},
    },
    "rtp": {"lost_pct": 0.0, "jitter_ms": {"p99": 0.5}},
}  # fmt: skip


def run(contender="trunkline", **changes):
    result = copy.deepcopy(GOOD)
    for path, value in changes.items():
        *parents, key = path.split("__")
        place = result
        for parent in parents:
            place = place[parent]
        place[key] = value
    return Run(contender, result)


def test_a_good_series_passes():
    assert judge([run(), run("minimal-uvloop", cpu_s_per_call_min=0.6)]) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"dropped_calls": 2}, "2 calls were dropped"),
        ({"bye_unanswered": 1}, "1 BYEs had no answer"),
        ({"talk__answers": 479}, "1 of 480 turns had no answer"),
        ({"talk__gaps": 1, "talk__longest_gap_ms": 30.0}, "1 gaps in the answers, the longest 30.0 ms"),
        ({"talk__barge_in_missed": 3}, "3 of 480 interruptions were not obeyed"),
        ({"talk__first_audio_ms": {"p99": 60.0}}, "first audio p99 is 60.0 ms"),
        ({"talk__first_audio_ms": {"n": 0}}, "first audio p99 is inf ms"),
        ({"rtp__lost_pct": 0.1}, "0.1 % of the RTP packets were lost"),
    ],
)
def test_everything_that_a_caller_notices_fails_the_series(changes, sentence):
    (fault,) = judge([run(**changes)])

    assert sentence in fault


def test_one_good_run_of_several_is_enough_because_only_disturbed_rounds_are_repeated():
    assert judge([run(talk__gaps=1), run()]) == []


def test_a_late_load_proves_nothing():
    (fault,) = judge([run(send_lag_ms={"p99": 9.0})])

    assert "too busy to measure" in fault


def test_a_series_without_trunkline_or_with_fewer_calls_does_not_pass():
    assert judge([run("minimal-uvloop")])
    assert judge([run(n=60)])


def test_a_call_must_not_cost_much_more_than_the_minimal_bridges():
    (fault,) = judge([run(cpu_s_per_call_min=0.9), run("minimal-uvloop", cpu_s_per_call_min=0.6)])

    assert fault == "a call costs 1.5 times what it costs minimal-uvloop, 1.25 times are allowed"


def test_a_call_must_not_cost_much_more_than_the_bare_bridges():
    (fault,) = judge([run(cpu_s_per_call_min=0.4), run("rtp_fast-paced", cpu_s_per_call_min=0.1)])

    assert fault == "a call costs 4.0 times what it costs rtp_fast-paced, 3.5 times are allowed"


def test_trunkline_holds_the_most_calls_that_it_carried_without_a_fault():
    assert holds([run(), run(n=160), run(n=200, talk__gaps=3), run("rtp_fast-paced", n=300)]) == 160
    assert holds([run("rtp_fast-paced")]) == 0


def test_ratios_compare_the_best_runs_at_the_same_number_of_calls():
    runs = [
        run(cpu_s_per_call_min=0.3),
        run(cpu_s_per_call_min=0.2),
        run("rtp_fast-paced", cpu_s_per_call_min=0.1),
        run("minimal-uvloop", n=60),
    ]

    assert ratio(runs, "trunkline", "rtp_fast-paced", 120) == 2.0
    assert ratio(runs, "trunkline", "minimal-uvloop", 120) is None
    assert ratios(runs) == ["CPU for a call, trunkline : rtp_fast-paced = 2.0 : 1 (120 calls)"]


def test_a_run_is_disturbed_by_other_work_or_by_its_own_load():
    assert run(usage__foreign_cpu_pct=30.0).is_disturbed
    assert run(send_lag_ms={"p99": 6.0}).is_disturbed
    assert not run().is_disturbed


def test_the_table_has_a_row_for_each_run():
    lines = table([run(), run("minimal-uvloop")]).splitlines()

    assert len(lines) == 4
    assert len({len(line) for line in lines}) == 1
    assert "480 / 480" in lines[2]
