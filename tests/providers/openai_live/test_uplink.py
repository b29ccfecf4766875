"""The model's clock goes on when nothing comes from the caller."""

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.openai_live.uplink import PATIENCE, STEP_MS, Uplink


def run(uplink: Uplink, until: float, now: float = 0.0) -> tuple[float, int]:
    """Let time pass; returns the time and the silence that was sent."""
    sent = 0
    while (at := uplink.next_timeout()) is not None and at <= until:
        now = max(now, at)
        sent += uplink.fill(now)
    return now, sent


def talk(uplink: Uplink, start: float, seconds: float) -> float:
    for index in range(round(seconds * 50)):
        uplink.sent(20, start + index * 0.02)
    return start + seconds


def test_nothing_is_sent_before_somebody_listens():
    uplink = Uplink()
    assert uplink.next_timeout() is None
    assert uplink.fill(100.0) == 0


def test_audio_in_time_needs_no_silence():
    uplink = Uplink()
    uplink.begin(0.0)
    for index in range(500):
        now = index * 0.02
        assert uplink.fill(now) == 0
        uplink.sent(20, now)


def test_a_line_on_hold_gets_silence_in_real_time():
    uplink = Uplink()
    uplink.begin(0.0)
    end = talk(uplink, 0.0, 2.0)
    _, silence_ms = run(uplink, end + 10.0)
    assert 9_900 <= silence_ms <= 10_050


def test_silence_comes_in_small_steps_so_that_the_voice_does_not_stutter():
    uplink = Uplink()
    uplink.begin(0.0)
    run(uplink, 1.0)
    sizes = [uplink.fill(uplink.next_timeout()) for _ in range(50)]
    assert set(sizes) <= {0, STEP_MS, 2 * STEP_MS}


def test_packets_that_are_a_little_late_are_not_filled():
    uplink = Uplink()
    end = talk(uplink, 0.0, 1.0)
    assert run(uplink, end + PATIENCE - 0.021)[1] == 0


def test_what_came_late_on_top_of_the_silence_is_made_up_for_but_not_for_ever():
    uplink = Uplink()
    end = talk(uplink, 0.0, 1.0)
    now, silence_ms = run(uplink, end + 5.0)
    for _ in range(250):  # five seconds that the network held back
        uplink.sent(20, now)
    _, after_ms = run(uplink, now + 2.0, now)
    assert silence_ms >= 4_900
    assert 1_500 <= after_ms <= 2_000


def test_after_standing_still_ourselves_not_everything_is_sent_at_once():
    uplink = Uplink()
    uplink.begin(0.0)
    assert uplink.fill(60.0) == 400


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["audio", "wait"]), st.integers(1, 200)), max_size=60))
def test_the_clock_never_stands_still_for_long_nor_runs_far_ahead(steps):
    uplink = Uplink()
    uplink.begin(0.0)
    now = total_ms = 0.0
    for kind, count in steps:
        for _ in range(count):
            now += 0.02
            if kind == "audio":
                total_ms += 20
                uplink.sent(20, now)
            while (at := uplink.next_timeout()) is not None and at <= now:
                total_ms += uplink.fill(now)
        assert now * 1000 - total_ms <= PATIENCE * 1000 + 2 * STEP_MS
        assert total_ms - now * 1000 <= 420
