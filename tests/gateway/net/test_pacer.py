"""The process-wide media clock."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.net.pacer import Pacer, TickSchedule


def test_each_slot_is_due_every_20_ms_on_an_absolute_grid() -> None:
    schedule = TickSchedule()
    schedule.start(100.0)
    assert schedule.due(100.004) == []
    seen = [due for step in range(1, 401) for due in schedule.due(100.0 + step * 0.005 + 0.0005)]
    assert len(seen) == 400
    for slot in range(4):
        times = [due.at for due in seen if due.slot == slot]
        assert times == pytest.approx([times[0] + number * 0.02 for number in range(100)], abs=1e-6)
    assert schedule.late_ticks == schedule.skipped == 0


@pytest.mark.report("BR-058")
def test_ten_minutes_of_late_ticks_do_not_drift_and_a_stall_is_skipped() -> None:
    schedule = TickSchedule()
    schedule.start(0.0)
    now, sent = 0.0, []
    while now < 600.0:
        now = max(now, schedule.next_timeout()) + 0.001  # each tick is served 1 ms late
        if 300.0 < now < 300.01:
            now += 5.0
            due = schedule.due(now)
            assert sorted(tick.slot for tick in due) == [0, 1, 2, 3]  # one packet for each call
            assert all(now - tick.at <= 0.02 for tick in due)
        else:
            due = schedule.due(now)
        sent += [tick.at for tick in due if tick.slot == 0]
    assert schedule.skipped == pytest.approx(1000, abs=5)
    assert all(abs(at / 0.02 - round(at / 0.02)) < 0.001 for at in sent)
    assert sent[-1] == pytest.approx(600.0, abs=0.02)
    assert len(sent) == pytest.approx(600 / 0.02 - 250, abs=2)


def test_a_short_delay_is_caught_up_and_counted() -> None:
    schedule = TickSchedule()
    schedule.start(0.0)
    due = schedule.due(0.0505)
    assert [tick.slot for tick in due] == [1, 2, 3, 0, 1, 2, 3, 0, 1, 2]
    assert schedule.late_ticks == 9
    assert schedule.skipped == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.0, 0.5, allow_nan=False), min_size=1, max_size=60))
def test_whatever_happens_ticks_stay_on_the_grid_in_order_and_never_burst(steps) -> None:
    schedule = TickSchedule()
    schedule.start(50.0)
    now, last, served = 50.0, 0, 0
    for step in steps:
        now += step
        due = schedule.due(now)
        numbers = [round((tick.at - 50.0) / 0.005) for tick in due]
        assert numbers == list(range(numbers[0], numbers[0] + len(due))) if due else True
        assert all(tick.slot == number % 4 for tick, number in zip(due, numbers, strict=True))
        assert not due or numbers[0] > last
        assert len(due) <= 13  # 60 ms of catching up
        last = numbers[-1] if due else last
        served += len(due)
        assert schedule.next_timeout() > now
    assert served + schedule.skipped == last


async def test_callbacks_come_every_20_ms() -> None:
    pacer = Pacer()
    seen: dict[int, list[float]] = {0: [], 1: []}
    done = asyncio.Event()

    def record(number: int, at: float) -> None:
        seen[number].append(at)
        if len(seen[1]) == 8:
            done.set()

    handles = [pacer.add(lambda at, number=number: record(number, at)) for number in range(2)]
    async with asyncio.timeout(5):
        await done.wait()
    for handle in handles:
        pacer.remove(handle)
    for times in seen.values():
        distances = [(b - a) / 0.02 for a, b in pairwise(times)]
        assert all(abs(distance - round(distance)) < 0.001 and distance > 0.9 for distance in distances)
    assert (seen[1][0] - seen[0][0]) / 0.005 == pytest.approx(
        round((seen[1][0] - seen[0][0]) / 0.005), abs=0.01
    )


async def test_a_callback_that_raises_is_removed_and_reported_and_hurts_no_other() -> None:
    errors: list[Exception] = []
    pacer = Pacer(on_error=errors.append)
    served = asyncio.Event()
    count = 0

    def broken(at: float) -> None:
        raise ZeroDivisionError

    def good(at: float) -> None:
        nonlocal count
        count += 1
        if count == 4:
            served.set()

    own: list[Exception] = []
    for _ in range(4):
        pacer.add(broken, on_error=own.append)
    handle = pacer.add(good)
    async with asyncio.timeout(5):
        await served.wait()
    assert [type(error) for error in errors] == [ZeroDivisionError] * 4
    assert own == errors
    assert pacer.active == 1
    pacer.remove(handle)


async def test_a_fault_while_a_fault_is_cleared_up_does_not_stop_the_clock() -> None:
    reports: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))
    pacer = Pacer(on_error=lambda error: None)
    served = asyncio.Event()

    def broken(at: float) -> None:
        raise ZeroDivisionError

    def worse(error: Exception) -> None:
        raise KeyError

    for _ in range(4):
        pacer.add(broken, on_error=worse)
    handle = pacer.add(lambda at: served.set() if len(reports) == 4 else None)
    async with asyncio.timeout(5):
        await served.wait()
    assert {type(report["exception"]) for report in reports} == {KeyError}
    pacer.remove(handle)


async def test_without_on_error_the_loop_hears_of_it() -> None:
    reports: list[dict[str, object]] = []
    reported = asyncio.Event()

    def handler(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        reports.append(context)
        reported.set()

    asyncio.get_running_loop().set_exception_handler(handler)
    Pacer().add(lambda at: 1 / 0)
    async with asyncio.timeout(5):
        await reported.wait()
    assert isinstance(reports[0]["exception"], ZeroDivisionError)


async def test_an_idle_pacer_has_no_timer_and_starts_again() -> None:
    pacer = Pacer()
    for _ in range(2):
        assert pacer._timer is None
        called = asyncio.Event()
        handle = pacer.add(lambda at, called=called: called.set())
        async with asyncio.timeout(5):
            await called.wait()
        pacer.remove(handle)
        pacer.remove(handle)
        assert pacer.active == 0


async def test_a_callback_may_remove_itself_and_its_neighbours() -> None:
    pacer = Pacer()
    called: list[str] = []
    done = asyncio.Event()
    handles = {}

    def first(at: float) -> None:
        called.append("first")
        for handle in handles.values():
            pacer.remove(handle)
        done.set()

    handles["first"] = pacer.add(first)
    for number in range(7):
        handles[f"other{number}"] = pacer.add(lambda at: called.append("other"))
    async with asyncio.timeout(5):
        await done.wait()
    assert pacer.active == 0
    assert pacer._timer is None
    before = len(called)
    await asyncio.sleep(0)
    assert len(called) == before
    assert called.count("first") == 1
