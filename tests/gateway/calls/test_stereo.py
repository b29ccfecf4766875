import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calls.stereo import AGENT, CALLER, StereoTimeline
from gateway.media import g711
from providers.types import PCMA, PCMU, AudioFormat

RATE = 8000
PCM = AudioFormat("pcm16", RATE)
FRAME = 160


def frame(value: int, count: int = FRAME):
    return np.full(count, value, np.int16)


def add(timeline: StereoTimeline, channel: int, at: float, samples) -> None:
    """Add samples whose first one stands at ``at``."""
    if channel == CALLER:
        timeline.add_caller(at + len(samples) / RATE, samples.tobytes())
    else:
        timeline.add_agent(at, samples.tobytes())


def whole(timeline: StereoTimeline, end: float = 0.0):
    blocks = list(timeline.finish(end))
    return np.concatenate(blocks) if blocks else np.zeros((0, 2), np.int16)


def where(channel) -> list[tuple[int, int]]:
    """Return ``(first sample, samples)`` of each run of sound."""
    sound = np.flatnonzero(channel)
    if not len(sound):
        return []
    runs = np.split(sound, np.flatnonzero(np.diff(sound) > 1) + 1)
    return [(int(run[0]), len(run)) for run in runs]


def test_caller_is_left_and_agent_right_on_one_clock():
    timeline = StereoTimeline(PCM)
    add(timeline, CALLER, 1.0, frame(1))
    add(timeline, AGENT, 2.0, frame(2))
    audio = whole(timeline)

    assert where(audio[:, CALLER]) == [(8000, FRAME)]
    assert where(audio[:, AGENT]) == [(16000, FRAME)]
    assert audio.shape == (16000 + FRAME, 2)


def test_frames_that_jitter_follow_each_other_without_a_gap():
    timeline = StereoTimeline(PCM)
    for number in range(50):
        jitter = (-0.015, 0.0, 0.012)[number % 3]
        add(timeline, AGENT, 1.0 + number * 0.02 + jitter, frame(1))

    (run,) = where(whole(timeline)[:, AGENT])
    assert run[1] == 50 * FRAME
    assert abs(run[0] - 8000) <= 0.015 * RATE


def test_a_burst_of_the_agent_is_written_one_after_the_other_from_the_moment_it_was_sent():
    timeline = StereoTimeline(PCM)
    for number in range(10):
        add(timeline, AGENT, 1.0, frame(number + 1))
    audio = whole(timeline)[:, AGENT]

    assert where(audio) == [(8000, 10 * FRAME)]
    assert audio[8000::FRAME].tolist() == list(range(1, 11))


def test_a_burst_of_the_caller_is_put_where_it_was_spoken():
    timeline = StereoTimeline(PCM)
    for number in range(10):
        add(timeline, CALLER, number * 0.02, frame(1))
    # The network holds the next ten frames back and then lets them go at once.
    for _ in range(10):
        add(timeline, CALLER, 0.38, frame(2))
    for number in range(20, 30):
        add(timeline, CALLER, number * 0.02, frame(3))
    audio = whole(timeline)[:, CALLER]

    (run,) = where(audio)
    assert run == (0, 30 * FRAME)
    twos = np.flatnonzero(audio == 2)
    assert abs(twos[0] - 10 * FRAME) <= 0.04 * RATE


def test_silence_is_kept_at_its_length():
    timeline = StereoTimeline(PCM)
    add(timeline, CALLER, 0.0, frame(1))
    add(timeline, CALLER, 5.0, frame(1))

    assert where(whole(timeline)[:, CALLER]) == [(0, FRAME), (40000, FRAME)]


def test_only_what_is_older_than_the_window_is_given_out():
    timeline = StereoTimeline(PCM)
    for number in range(500):
        add(timeline, CALLER, number * 0.02, frame(1))
    blocks = list(timeline.take(10.0))

    assert sum(len(block) for block in blocks) == 8 * RATE
    assert timeline.pending == 2 * RATE
    assert list(timeline.take(10.9)) == []  # not worth a block yet
    assert [len(block) for block in timeline.take(11.0)] == [RATE]


def test_an_hour_of_silence_is_given_out_in_small_blocks():
    timeline = StereoTimeline(PCM)
    sizes = [len(block) for block in timeline.take(3602.0)]

    assert sum(sizes) == 3600 * RATE
    assert max(sizes) == 10 * RATE


def test_a_recording_lasts_at_least_as_long_as_the_call():
    assert len(whole(StereoTimeline(PCM), end=3.0)) == 3 * RATE


def test_a_frame_from_the_past_never_changes_what_was_written():
    timeline = StereoTimeline(PCM)
    add(timeline, AGENT, 0.0, frame(1))
    first = np.concatenate(list(timeline.take(10.0)))
    add(timeline, AGENT, 1.0, frame(2))
    rest = whole(timeline)

    assert where(first[:, AGENT]) == [(0, FRAME)]
    assert where(rest[:, AGENT]) == [(0, FRAME)]


def test_audio_far_ahead_of_its_clock_does_not_fill_the_memory():
    timeline = StereoTimeline(PCM)
    for _ in range(10_000):
        add(timeline, AGENT, 0.0, frame(1))

    assert timeline.pending <= 61 * RATE


@pytest.mark.parametrize("line", [PCMU, PCMA])
def test_coded_audio_is_decoded_and_its_pauses_are_silent(line):
    timeline = StereoTimeline(line)
    audio = g711.encode(line.encoding, frame(1000))
    timeline.add_agent(0.0, audio)
    timeline.add_agent(0.5, audio)
    agent = whole(timeline)[:, AGENT]

    assert agent[:FRAME].tolist() == g711.decode(line.encoding, audio).tolist()
    assert agent[4000:].tolist() == agent[:FRAME].tolist()
    assert np.abs(agent[FRAME:4000]).max() <= 8  # A-law has no zero


def test_half_a_sample_does_not_turn_the_rest_into_noise():
    timeline = StereoTimeline(PCM)
    timeline.add_agent(0.0, frame(1000).tobytes() + b"\x01")
    timeline.add_agent(0.02, frame(1000).tobytes())

    assert set(whole(timeline)[:, AGENT].tolist()) == {1000}


moments = st.lists(
    st.tuples(st.sampled_from([CALLER, AGENT]), st.floats(0, 20), st.integers(1, 480), st.booleans()),
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(moments)
def test_every_sample_is_in_the_recording_exactly_once_and_in_order(events):
    timeline = StereoTimeline(PCM)
    blocks, number = [], {CALLER: 0, AGENT: 0}
    now = 0.0
    for channel, at, count, flush in events:
        now = max(now, at)
        samples = np.arange(number[channel] + 1, number[channel] + count + 1, dtype=np.int16)
        number[channel] += count
        add(timeline, channel, at, samples)
        if flush:
            blocks += timeline.take(now)
        assert timeline.pending < 25 * RATE
    blocks += timeline.finish(now)
    audio = np.concatenate(blocks) if blocks else np.zeros((0, 2), np.int16)

    for channel, count in number.items():
        found = audio[:, channel][audio[:, channel] != 0]
        assert found.tolist() == list(range(1, count + 1))
