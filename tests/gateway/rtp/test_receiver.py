"""One incoming stream on the caller's clock."""

from __future__ import annotations

import pytest

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
    caller.wait(2)
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


def test_a_stalled_network_is_filled_and_the_burst_after_it_keeps_its_own_time() -> None:
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
    assert [frame.at_ms for frame in caller.take()] == [60 + 20 * n for n in range(15)]


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
