"""One incoming stream on the caller's clock."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.rtp.level import QUIET_CODES
from gateway.rtp.packet import RtpPacket
from gateway.rtp.receiver import AudioFrame, StreamReceiver


class Caller:
    """Sends packets to a receiver and keeps the frames that come out."""

    def __init__(self, ssrc: int = 1, sequence: int = 65_534, timestamp: int = 0xFFFF_FF60) -> None:
        self.receiver = StreamReceiver()
        self.frames: list[AudioFrame] = []
        self.now = 100.0
        self.restart(ssrc, sequence, timestamp)

    def restart(self, ssrc: int, sequence: int, timestamp: int) -> None:
        self.ssrc, self.sequence, self.timestamp = ssrc, sequence, timestamp

    def packet(self, payload: bytes) -> RtpPacket:
        packet = RtpPacket(0, False, self.sequence, self.timestamp, self.ssrc, payload)
        self.sequence = (self.sequence + 1) & 0xFFFF
        self.timestamp = (self.timestamp + len(payload)) & 0xFFFF_FFFF
        return packet

    def send(self, payload: bytes = b"a" * 160, *, is_audio: bool = True) -> None:
        packet = self.packet(payload)
        if not is_audio:
            self.timestamp = packet.timestamp
        self.frames += self.receiver.receive(packet, self.now, is_audio=is_audio)
        self.now += len(payload) / 8000 if is_audio else 0.02

    def lose(self, count: int = 1) -> None:
        for _ in range(count):
            self.packet(b"a" * 160)
            self.now += 0.02

    def wait(self, ticks: int) -> None:
        for _ in range(ticks):
            self.now += 0.02
            self.frames += self.receiver.expire(self.now) or self.receiver.fill(self.now)

    def take(self) -> list[AudioFrame]:
        frames, self.frames = self.frames, []
        return frames


def position(caller: Caller) -> int:
    return sum(frame.duration_ms for frame in caller.frames)


def clock(caller: Caller) -> int:
    return round((caller.now - 100) * 1000)


def joined(frames: list[AudioFrame]) -> bool:
    """Whether each frame begins where the one before it ends."""
    return all(one.at_ms + one.duration_ms == two.at_ms for one, two in itertools.pairwise(frames))


def places(frames):
    return [(frame.at_ms, frame.duration_ms, bool(frame.payload), frame.lost) for frame in frames]


@pytest.mark.parametrize("length", [80, 160, 240, 480])
def test_packets_of_10_to_60_ms_are_placed_one_behind_the_other(length) -> None:
    caller = Caller()
    for _ in range(5):
        caller.send(b"a" * length)
    assert places(caller.take()) == [(n * length // 8, length // 8, True, False) for n in range(5)]


def test_a_lost_packet_is_a_gap_of_its_own_length() -> None:
    caller = Caller()
    caller.send()
    caller.lose(2)
    caller.send()
    caller.wait(2)
    assert places(caller.take()) == [(0, 20, True, False), (20, 40, False, True), (60, 20, True, False)]
    assert caller.receiver.lost == 2


def test_packets_that_are_no_audio_have_a_place_but_are_not_missed() -> None:
    caller = Caller()
    caller.send()
    caller.send(b"\x05\x0a\x00\xa0", is_audio=False)
    caller.timestamp += 160
    caller.send()
    assert places(caller.take()) == [(0, 20, True, False), (20, 20, False, False), (40, 20, True, False)]
    assert caller.receiver.lost == 0


def test_a_key_pressed_while_the_audio_goes_on_adds_no_time() -> None:
    """A phone that sends both: every event packet has the timestamp at which the key went down."""
    caller = Caller()
    for number in range(40):
        caller.send()
        if 10 <= number < 27:
            event = RtpPacket(
                101, False, caller.sequence, 0xFFFF_FF60 + 10 * 160 & 0xFFFF_FFFF, 1, b"\x05\x0a\0\xa0"
            )
            caller.sequence = (caller.sequence + 1) & 0xFFFF
            caller.frames += caller.receiver.receive(event, caller.now, is_audio=False)
    assert places(caller.take()) == [(20 * n, 20, True, False) for n in range(40)]


def test_audio_that_was_lost_before_a_key_is_a_gap_before_the_next_audio() -> None:
    caller = Caller()
    caller.send()
    caller.lose(1)
    caller.send(b"\x05\x0a\x00\xa0", is_audio=False)
    caller.send()
    caller.wait(1)
    assert places(caller.take()) == [(0, 20, True, False), (20, 20, False, True), (40, 20, True, False)]


def test_silence_suppression_is_filled_with_silence_in_real_time() -> None:
    caller = Caller()
    caller.send()
    caller.receiver.note_quiet()
    caller.wait(50)
    assert len(caller.frames) == pytest.approx(51, abs=1)
    caller.timestamp += 51 * 160
    caller.send()
    frames = caller.take()
    ends = [frame.at_ms + frame.duration_ms for frame in frames]
    assert [frame.at_ms for frame in frames[1:]] == ends[:-1]  # no hole and no overlap
    assert not any(frame.lost for frame in frames)


def test_a_stalled_network_is_filled_and_what_comes_after_it_is_heard_as_well() -> None:
    caller = Caller()
    for _ in range(3):
        caller.send()
    caller.now -= 0.02
    stalled_at = caller.now
    caller.wait(15)
    filled = caller.take()[3:]
    assert len(filled) == 12  # 300 ms less the patience
    assert all(frame.lost for frame in filled)
    for _ in range(15):
        caller.now = stalled_at + 0.3
        caller.send()
    frames = caller.take()
    assert len(frames) == 15
    assert joined([*filled, *frames])
    assert caller.receiver.concealed == 12 * 160


def test_silence_is_left_out_until_the_output_is_on_the_clock_again() -> None:
    caller = Caller()
    caller.receiver.quiet_codes = QUIET_CODES[0]
    for _ in range(3):
        caller.send()
    caller.wait(10)
    for _ in range(10):
        caller.send()
        caller.now -= 0.02
    ahead = position(caller) - clock(caller)
    assert ahead >= 100
    for _ in range(50):
        caller.send(b"\x10" * 160)  # loud: nothing of it is left out
    assert position(caller) - clock(caller) == ahead
    for _ in range(20):
        caller.send(b"\xff" * 160)
    assert abs(position(caller) - clock(caller)) <= 20
    assert joined(caller.frames)
    assert caller.receiver.shortened == pytest.approx(ahead * 8, abs=160)


@pytest.mark.parametrize("parts_per_million", [-300, 300])
def test_a_senders_clock_that_drifts_is_followed_where_there_is_silence(parts_per_million) -> None:
    caller = Caller()
    caller.receiver.quiet_codes = QUIET_CODES[0]
    for number in range(50 * 600):
        caller.send(b"\xff" * 160 if number % 100 < 20 else b"\x10" * 160)
        caller.now += 0.02 * parts_per_million / 1_000_000
        if number % 10 == 0:
            caller.frames += caller.receiver.fill(caller.now - 0.02)
    assert abs(position(caller) - clock(caller)) <= 60  # without it 180 ms
    assert joined(caller.frames)
    assert not any(frame.lost for frame in caller.frames)


def test_too_much_at_once_is_discarded_so_that_the_listener_is_never_far_behind() -> None:
    caller = Caller()
    for _ in range(10):
        caller.send()
    caller.wait(150)
    caller.take()
    for _ in range(150):
        caller.send()
        caller.now -= 0.02
    heard = sum(frame.duration_ms for frame in caller.take())
    assert heard <= 650
    assert caller.receiver.discarded == pytest.approx((3000 - heard) / 20, abs=1)


def test_a_longer_way_is_taken_as_the_new_one() -> None:
    caller = Caller()
    for _ in range(100):
        caller.send()
    caller.take()
    for number in range(400):  # from now on everything takes 150 ms more
        arrives = caller.now + 0.15
        caller.frames += caller.receiver.receive(caller.packet(b"\x10" * 160), arrives, is_audio=True)
        caller.now += 0.02
        caller.frames += caller.receiver.fill(caller.now + 0.13)
        if number == 200:
            concealed = caller.receiver.concealed
    assert sum(bool(frame.payload) for frame in caller.frames) == 400
    assert caller.receiver.concealed == concealed <= 1200


@pytest.mark.parametrize("number_of_its_own", [True, False])
def test_packets_sent_twice_are_heard_once(number_of_its_own) -> None:
    caller = Caller()
    for number in range(50):
        packet = caller.packet(bytes([number]) * 160)
        caller.frames += caller.receiver.receive(packet, caller.now, is_audio=True)
        if number_of_its_own:
            packet = packet._replace(sequence=caller.sequence)
            caller.sequence = (caller.sequence + 1) & 0xFFFF
        caller.frames += caller.receiver.receive(packet, caller.now, is_audio=True)
        caller.now += 0.02
    assert [frame.payload[0] for frame in caller.frames] == list(range(50))
    assert caller.receiver.repeated + caller.receiver.buffer.duplicates == 50
    assert caller.receiver.lost == 0


def test_a_sender_whose_timestamps_stand_still_is_heard() -> None:
    caller = Caller()
    for _ in range(60):
        caller.send()
        caller.timestamp = 1000
    assert sum(bool(frame.payload) for frame in caller.frames) >= 9


@pytest.mark.report("BR-052")
def test_a_new_source_takes_over_with_its_second_packet_and_keeps_wall_clock_position() -> None:
    caller = Caller(0x1111AAAA, 21200, 5000)
    for _ in range(95):
        caller.send()
    caller.take()
    caller.restart(0x2222BBBB, 12676, 400)
    caller.send()
    assert caller.take() == []
    caller.send()
    frames = caller.take()
    assert [bool(frame.payload) for frame in frames] == [True, True]  # nothing is lost
    assert 1900 <= frames[0].at_ms <= 1960
    assert frames[1].at_ms == frames[0].at_ms + 20
    assert (caller.receiver.changes, caller.receiver.ssrc) == (1, 0x2222BBBB)
    caller.restart(0x1111AAAA, 30000, 900_000)
    for _ in range(150):
        caller.send()
    caller.restart(0x2222BBBB, 20000, 77)
    caller.take()
    caller.send()
    caller.send()
    assert len(caller.take()) == 2


@pytest.mark.report("BR-052")
@pytest.mark.parametrize(("jump", "clock"), [(-9000, 160), (20000, 160), (-50, 160), (-9000, 0x7000_0000)])
def test_the_same_source_may_start_to_count_anew(jump, clock) -> None:
    caller = Caller(7, 30000, 1000)
    for _ in range(50):
        caller.send()
    caller.take()
    caller.restart(7, (caller.sequence + jump) & 0xFFFF, caller.timestamp + clock)
    for _ in range(4):
        caller.send()
    frames = caller.take()
    assert len([frame for frame in frames if frame.payload]) == 4
    assert frames[0].at_ms == pytest.approx(1000, abs=60)


def test_one_stray_packet_of_another_source_is_not_heard() -> None:
    caller = Caller(7, 100, 1000)
    for number in range(20):
        caller.send()
        stray = RtpPacket(0, False, 500 + number, number * 160, 8, b"z" * 160)
        assert caller.receiver.receive(stray, caller.now, is_audio=True) == ()
    assert len(caller.take()) == 20
    assert caller.receiver.changes == 0


def test_a_clock_that_jumps_without_a_new_source_is_put_back_to_wall_clock_position() -> None:
    caller = Caller()
    for _ in range(10):
        caller.send()
    caller.timestamp = (caller.timestamp + 0x3000_0000) & 0xFFFF_FFFF
    caller.send()
    caller.send()
    positions = [frame.at_ms for frame in caller.take() if frame.payload]
    assert positions[-2:] == [200, 220]


def test_nothing_is_filled_before_the_first_packet() -> None:
    caller = Caller()
    caller.wait(10)
    assert caller.take() == []


def test_a_packet_that_is_absurdly_long_is_cut() -> None:
    caller = Caller()
    caller.send(b"a" * 9000)
    assert caller.take()[0].duration_ms == 200


# The whole of it on a bad network.


def journey(seed: int, *, loss: float, jitter_ms: float, twice: float, packets: int):
    """Return ``(arrival, packet)`` in the order of arrival, and how many were sent on their way."""
    rng = random.Random(seed)
    sent = []
    for number in range(packets):
        packet = RtpPacket(
            0, False, number & 0xFFFF, number * 160 & 0xFFFF_FFFF, 1, bytes([number % 251 + 1]) * 160
        )
        copies = 0 if number and rng.random() < loss else 2 if rng.random() < twice else 1
        sent += [(100 + number * 0.02 + rng.uniform(0, jitter_ms / 1000), packet) for _ in range(copies)]
    return sorted(sent, key=lambda each: each[0])


def listen(arrivals, *, until: float) -> tuple[StreamReceiver, list[AudioFrame]]:
    """
    Deliver packets when they arrive, with a tick every 20 ms, as a media stream does.

    No packet is held back longer than the longest wait and a tick.
    """
    receiver, frames, tick = StreamReceiver(), [], 100.01
    came: dict[int, float] = {}

    def hand_out(ready, now: float) -> None:
        for frame in ready:
            assert not frame.payload or now - came[id(frame.payload)] <= 0.2205
            frames.append(frame)

    for now, packet in [*arrivals, (until, None)]:
        while tick <= now:
            hand_out(receiver.expire(tick) or receiver.fill(tick), tick)
            tick += 0.02
        if packet is not None:
            came.setdefault(id(packet.payload), now)
            hand_out(receiver.receive(packet, now, is_audio=True), now)
    return receiver, frames


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([0.0, 0.03, 0.1, 0.3]),
    st.sampled_from([0, 20, 60, 150, 400]),
    st.sampled_from([0.0, 0.05]),
)
def test_on_any_network_nothing_is_out_of_order_twice_or_unaccounted_for(
    seed, loss, jitter_ms, twice
) -> None:
    arrivals = journey(seed, loss=loss, jitter_ms=jitter_ms, twice=twice, packets=300)
    receiver, frames = listen(arrivals, until=107.0)
    assert joined(frames)
    order = [frame.payload[0] for frame in frames if frame.payload]
    numbers, last = [], -1
    for value in order:  # the bytes name the packets up to a turn of 251
        last += (value - 1 - last) % 251
        numbers.append(last)
    assert numbers == sorted(set(numbers))
    buffer = receiver.buffer
    assert len(order) + buffer.late + buffer.duplicates + receiver.discarded + receiver.repeated == len(
        arrivals
    )
    assert sum(frame.duration_ms for frame in frames) == receiver.position_ms
    made_up = sum(8 * frame.duration_ms for frame in frames if not frame.payload)
    assert 8 * receiver.position_ms == 160 * len(order) + made_up
    silent_at_the_end = receiver._filled  # nothing came any more that could say what it was
    silent = receiver.shortened + receiver.lengthened + silent_at_the_end
    assert abs(made_up - receiver.concealed) <= silent
    time_ms = (107 - arrivals[0][0]) * 1000
    ahead_ms = frames[-1].at_ms + frames[-1].duration_ms - time_ms
    assert -280 <= ahead_ms <= 520
    assert buffer.held == 0


@pytest.mark.report("BR-179")
def test_half_an_hour_of_loss_and_jitter_has_its_length_at_the_end() -> None:
    arrivals = journey(7, loss=0.02, jitter_ms=60, twice=0.0001, packets=90_000)
    receiver, frames = listen(arrivals, until=100 + 1800)
    heard_ms = sum(frame.duration_ms for frame in frames)
    assert abs(heard_ms - 1_800_000) < 100
    assert joined(frames)
    assert receiver.buffer.late <= 5
    assert receiver.concealed == pytest.approx(receiver.lost * 160, rel=0.02)


def test_after_a_bad_minute_the_wait_is_short_again() -> None:
    bad = journey(1, loss=0.05, jitter_ms=190, twice=0.0, packets=500)
    calm = [
        (100 + number * 0.02, RtpPacket(0, False, number, number * 160, 1, bytes(bytearray(160))))
        for number in range(500, 3000)
    ]
    receiver, frames = listen([*bad, *calm], until=160.0)
    assert receiver.delay.target == 0.04
    assert joined(frames)
