"""The ledger of what the caller heard."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.media.playout import ClearedAudio, Playout
from providers.types import PCM16_24K, PCMA, PCMU


def drain(playout: Playout, *, start: float = 0.0, most: int = 10_000) -> list[bytes]:
    frames = []
    for number in range(most):
        frame = playout.next_frame(start + number * 0.02)
        if frame is None:
            break
        frames.append(frame)
    return frames


def test_a_frame_is_heard_when_its_own_duration_has_passed() -> None:
    playout = Playout(PCMU)
    playout.enqueue(bytes(320), item_id="a")
    assert playout.next_frame(0.0) is not None
    assert playout.heard_ms("a") == 0
    assert playout.next_frame(0.02) is not None
    assert playout.heard_ms("a") == 20
    assert playout.next_frame(0.04) is None
    assert playout.heard_ms("a") == 40


def test_a_mark_is_reached_only_after_the_last_frame_was_heard() -> None:
    playout = Playout(PCMU)
    playout.enqueue(bytes(160), item_id="a")
    playout.finish("a")
    mark = playout.mark()
    playout.next_frame(0.0)
    assert playout.reached == 0
    playout.next_frame(0.02)
    assert playout.reached == mark
    assert playout.take_reached() == [mark]
    assert playout.take_reached() == []


def test_a_mark_on_an_empty_line_is_reached_at_once() -> None:
    playout = Playout(PCMU)
    assert playout.mark() == playout.reached == 1


def test_a_mark_behind_a_frame_that_is_still_being_heard_waits_for_it() -> None:
    playout = Playout(PCMU)
    playout.enqueue(bytes(160), item_id="a")
    playout.finish("a")
    playout.next_frame(0.0)
    mark = playout.mark()
    assert playout.reached == 0
    playout.settle()
    assert playout.reached == mark


@pytest.mark.parametrize(
    ("audio_format", "silence"), [(PCMU, b"\xff"), (PCMA, b"\xd5"), (PCM16_24K, b"\x00")]
)
@pytest.mark.report("BR-076")
def test_the_last_partial_frame_of_a_finished_item_is_filled_with_the_codecs_silence(
    audio_format, silence
) -> None:
    playout = Playout(audio_format)
    playout.enqueue(b"\x01" * 6, item_id="a")
    playout.finish("a")
    size = 20 * audio_format.bytes_per_ms
    assert playout.next_frame(0.0) == b"\x01" * 6 + silence * (size - 6)


@pytest.mark.report("BR-072")
def test_a_huge_delta_and_a_tiny_one_come_out_as_whole_frames() -> None:
    playout = Playout(PCMU)
    playout.enqueue(bytes(range(256)) * 50, item_id="a")
    playout.enqueue(b"\x11" * 37, item_id="a")
    playout.finish("a")
    frames = drain(playout)
    assert {len(frame) for frame in frames} == {160}
    assert b"".join(frames) == bytes(range(256)) * 50 + b"\x11" * 37 + b"\xff" * 123
    assert playout.heard_ms("a") == 1604


def test_how_long_the_last_frame_sounds_is_known_until_it_is_cleared() -> None:
    playout = Playout(PCMU)
    assert playout.next_frame(1.0) is None
    assert playout.sounds_until == 0.0
    playout.enqueue(b"\x01" * 320, item_id="a")
    playout.next_frame(1.02)
    playout.next_frame(1.04)
    playout.next_frame(1.06)
    assert playout.sounds_until == pytest.approx(1.06)
    playout.clear()
    assert playout.sounds_until == 0.0


def test_a_frame_may_hold_the_end_of_one_item_and_the_start_of_the_next() -> None:
    playout = Playout(PCMU)
    playout.enqueue(b"\x01" * 100, item_id="a")
    playout.finish("a")
    playout.enqueue(b"\x02" * 220, item_id="b")
    assert playout.next_frame(1.0) == b"\x01" * 100 + b"\x02" * 60
    playout.next_frame(1.02)
    playout.next_frame(1.04)
    assert (playout.heard_ms("a"), playout.heard_ms("b")) == (12, 27)
    assert playout.began_at("a") == pytest.approx(1.0)
    assert playout.began_at("b") == pytest.approx(1.0125)
    assert playout.began_at("c") is None


def test_a_finished_tail_does_not_wait_for_the_next_items_first_samples() -> None:
    playout = Playout(PCMU)
    playout.enqueue(b"\x01" * 100, item_id="a")
    playout.finish("a")
    playout.enqueue(b"\x02" * 10, item_id="b")
    assert playout.next_frame(0.0) == b"\x01" * 100 + b"\xff" * 60


def test_a_talk_spurt_starts_when_the_prebuffer_is_full() -> None:
    playout = Playout(PCMU, prebuffer_ms=60)
    playout.enqueue(bytes(320), item_id="a")
    assert playout.next_frame(0.0) is None
    playout.enqueue(bytes(160), item_id="a")
    assert playout.next_frame(0.02) is not None


def test_what_comes_behind_a_finished_item_is_a_talk_spurt_of_its_own() -> None:
    """Gemini speaks again just when it knows the last words to be played: its first piece was torn off."""
    playout = Playout(PCMU)
    playout.enqueue(b"\x01" * 320, item_id="a")
    playout.finish("a")
    assert len(drain(playout, most=2)) == 2
    playout.enqueue(b"\x02" * 312, item_id="b")
    assert playout.next_frame(0.04) is None
    assert playout.underruns == 0
    playout.enqueue(b"\x02" * 480, item_id="b")
    assert b"".join(drain(playout, start=0.06, most=4)) == b"\x02" * 640


def test_a_short_finished_item_does_not_wait_for_the_prebuffer() -> None:
    playout = Playout(PCMU, prebuffer_ms=60)
    playout.enqueue(bytes(80), item_id="a")
    playout.finish("a")
    assert playout.next_frame(0.0) is not None


def test_audio_whose_item_is_never_finished_waits_for_the_patience_only() -> None:
    playout = Playout(PCMU, patience_ms=100)
    playout.enqueue(b"\x05" * 70, item_id="a")
    frames = [playout.next_frame(n * 0.02) for n in range(6)]
    assert frames == [None] * 5 + [b"\x05" * 70 + b"\xff" * 90]


def test_an_underrun_keeps_the_partial_frame_and_plays_it_in_front_of_what_follows() -> None:
    playout = Playout(PCMU)
    playout.enqueue(b"\x01" * 400, item_id="a")
    assert len(drain(playout)) == 2
    assert playout.underruns == 1
    playout.enqueue(b"\x02" * 240, item_id="a")
    assert playout.next_frame(1.0) == b"\x01" * 80 + b"\x02" * 80


def test_clear_tells_what_was_heard_and_what_was_dropped() -> None:
    playout = Playout(PCMU)
    playout.enqueue(bytes(1600), item_id="a")
    playout.enqueue(bytes(800), item_id="b")
    mark = playout.mark()
    for number in range(3):
        playout.next_frame(number * 0.02)
    assert playout.clear() == ClearedAudio("a", 60, 240)
    assert playout.take_reached() == [mark]
    assert playout.next_frame(0.06) is None
    assert (playout.dropped_ms("a"), playout.dropped_ms("b")) == (140, 100)
    assert playout.queued_ms == 0


def test_clear_before_the_first_frame_names_the_item_of_which_nothing_was_heard() -> None:
    playout = Playout(PCMU)
    assert playout.clear() == ClearedAudio("", 0, 0)
    playout.enqueue(bytes(1600), item_id="greeting")
    assert playout.clear() == ClearedAudio("greeting", 0, 200)


def test_clear_after_everything_was_heard_drops_nothing() -> None:
    playout = Playout(PCMU)
    playout.enqueue(bytes(480), item_id="a")
    playout.finish("a")
    drain(playout)
    assert playout.clear() == ClearedAudio("a", 60, 0)


def test_a_burst_of_a_minute_is_accepted_and_more_than_the_limit_is_counted_as_dropped() -> None:
    playout = Playout(PCMU, limit_ms=60_000)
    playout.enqueue(bytes(480_000), item_id="a")
    assert playout.queued_ms == 60_000
    playout.enqueue(bytes(80), item_id="a")
    assert playout.queued_ms == 60_000
    assert playout.dropped_ms("a") == 10


def test_a_sample_that_arrives_in_two_halves_is_not_cut() -> None:
    playout = Playout(PCM16_24K)
    audio = bytes(range(240)) * 8
    for start in range(0, len(audio), 7):
        playout.enqueue(audio[start : start + 7], item_id="a")
    playout.finish("a")
    assert b"".join(drain(playout))[: len(audio)] == audio


def test_an_item_began_when_its_first_sample_was_sent_whatever_pauses_follow() -> None:
    playout = Playout(PCMU)
    playout.enqueue(bytes(800), item_id="a")
    assert playout.began_at("a") is None
    playout.finish("a")
    drain(playout, start=0.5)
    playout.enqueue(bytes(480), item_id="a")
    playout.finish("a")
    drain(playout, start=2.0)
    assert playout.began_at("a") == pytest.approx(0.5)


def test_the_history_of_a_long_call_is_bounded() -> None:
    playout = Playout(PCMU)
    for number in range(3000):
        playout.enqueue(bytes(160), item_id=f"item{number}")
        playout.finish(f"item{number}")
        playout.next_frame()
    playout.next_frame()
    assert playout.heard_ms("item2999") == 20
    assert playout.heard_ms("item0") == 0
    assert len(playout._items) <= 257


actions = st.lists(
    st.one_of(
        st.tuples(st.just("enqueue"), st.sampled_from("abc"), st.integers(0, 700)),
        st.tuples(st.just("finish"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("mark"), st.just(""), st.just(0)),
        st.tuples(st.just("clear"), st.just(""), st.just(0)),
        st.tuples(st.just("frame"), st.just(""), st.integers(1, 8)),
    ),
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(actions=actions, wide=st.booleans())
def test_heard_and_dropped_are_enqueued_and_order_and_marks_hold(actions, wide) -> None:
    playout = Playout(PCM16_24K if wide else PCMU)
    enqueued = dict.fromkeys("abc", 0)
    expected: list[int] = []  # what must come out, in order
    played: list[int] = []
    marks: dict[int, int] = {}
    position = 0
    seen: list[int] = []
    for name, item, count in actions:
        match name:
            case "enqueue":
                count *= 2
                # no byte of the audio is a silence byte, so padding can be told apart
                audio = bytes(1 + (position + index) % 200 for index in range(count))
                position += count
                expected.extend(audio)
                enqueued[item] += count
                playout.enqueue(audio, item_id=item)
            case "finish":
                playout.finish(item)
            case "mark":
                marks[playout.mark()] = len(expected)
            case "clear":
                queued = playout.queued_ms
                cleared = playout.clear()
                assert cleared.dropped_ms == queued
                assert playout.reached == max(marks, default=0)
                del expected[len(played) :]
            case "frame":
                for _ in range(count):
                    frame = playout.next_frame()
                    if frame is not None:
                        assert len(frame) == 20 * playout.format.bytes_per_ms
                        padding = b"\x00" if wide else b"\xff"
                        played.extend(frame.rstrip(padding))
        assert played == expected[: len(played)]
        heard = sum(item_.heard for item_ in playout._items.values())
        for mark in playout.take_reached():
            assert name == "clear" or heard >= marks[mark]
            seen.append(mark)
    assert seen == sorted(set(seen))
    silent = 0
    while silent < 10:  # longer than the patience
        frame = playout.next_frame()
        silent = silent + 1 if frame is None else 0
        played.extend((frame or b"").rstrip(b"\x00" if wide else b"\xff"))
    seen += playout.take_reached()
    assert played == expected
    assert seen == sorted(marks)
    for key in "abc":
        item_ = playout._items.get(key)
        if item_ is not None:
            assert item_.heard + item_.dropped == item_.enqueued == enqueued[key]


def test_a_queue_of_very_many_items_costs_each_of_them_the_same() -> None:
    def cost(items: int) -> float:
        playout = Playout(PCMU)
        began = time.process_time()
        for number in range(items):
            playout.enqueue(b"\x11" * 160, item_id=f"item-{number}")
        return time.process_time() - began

    cost(1000)
    assert cost(16_000) < 24 * cost(2000)  # 64 times where all are looked at
