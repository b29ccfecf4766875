"""What the hot path's benchmark measures, and what it makes of it."""

import json
from dataclasses import asdict

import pytest

from tests.bench.hot_path import Conversion, Cost, HotPath, measure, providers

CHEAP = Cost("cheap", down_us=1.0, up_us=2.0, sdk_down_us=20.0, sdk_up_us=60.0)
DEAR = Cost("dear", down_us=4.0, up_us=2.0, sdk_down_us=16.0, sdk_up_us=60.0)
RESAMPLING = Conversion("up", 8.0)


def test_a_path_that_is_not_five_times_cheaper_is_a_fault():
    assert list(HotPath((CHEAP,), ()).faults()) == []
    [fault] = HotPath((CHEAP, DEAR), ()).faults()
    assert fault.startswith("dear, down: the SDK's path costs 4.0 times")


def test_the_page_has_ratios_and_no_microseconds():
    page = HotPath((CHEAP,), (RESAMPLING,)).page()
    assert "| cheap | 20.0 | 30.0 |" in page
    assert "| up | 4.0 times |" in page
    assert "µs" not in page


def test_figures_survive_the_way_between_processes():
    found = HotPath((CHEAP, DEAR), (RESAMPLING,))
    assert HotPath.read(json.dumps(asdict(found))) == found


@pytest.mark.parametrize("provider", list(providers()))
def test_every_provider_is_measured_beside_its_sdk(provider):
    found = measure(200, [provider])
    [cost] = found.costs
    assert min(cost.down_us, cost.up_us, cost.sdk_down_us, cost.sdk_up_us) > 0
    assert len(found.conversions) == 3
    assert found.table().count("\n") == 4
