"""Keys as telephone-events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.rtp.dtmf import DIGITS, DtmfReceiver, DtmfSender


def event(number: int, duration: int, *, end: bool = False) -> bytes:
    return bytes((number, (0x80 if end else 0) | 10)) + duration.to_bytes(2, "big")


def press(number: int, timestamp: int, *, packets: int = 10, ends: int = 3):
    """Packets of one press: (timestamp, payload)."""
    updates = [(timestamp, event(number, 160 * (n + 1))) for n in range(packets)]
    return updates + [(timestamp, event(number, 160 * packets + 160, end=True))] * ends


def digits_of(packets, *, ssrc: int = 1, start: float = 0.0, step: float = 0.02) -> str:
    receiver = DtmfReceiver()
    found = ""
    for number, (timestamp, payload) in enumerate(packets):
        found += receiver.receive(ssrc, timestamp, payload, start + number * step) or ""
    return found


def test_each_key_is_found_once() -> None:
    packets = [packet for number in range(16) for packet in press(number, number * 4000)]
    assert digits_of(packets) == "0123456789*#ABCD"


@pytest.mark.report("BR-141")
def test_end_packets_with_moved_timestamps_belong_to_their_press() -> None:
    first = [*press(1, 16000, ends=1), (16160, event(1, 1600, end=True)), (16320, event(1, 1600, end=True))]
    assert digits_of([*first, *press(1, 24000)]) == "11"


def test_lost_starts_and_lost_ends_lose_no_key() -> None:
    only_end = press(7, 1000)[-1:]
    no_end = press(8, 9000, ends=0)
    assert digits_of([*only_end, *no_end, *press(8, 20000)[3:]]) == "788"


def test_the_same_key_twice_in_a_row_is_two_presses() -> None:
    assert digits_of([*press(5, 1000), *press(5, 3400)]) == "55"


def test_a_press_of_twenty_seconds_is_one() -> None:
    packets, timestamp = [], 500
    for _ in range(2):
        packets += [(timestamp, event(3, duration)) for duration in (160, 30000, 0xFFFF)]
        timestamp += 0xFFFF
    packets += [(timestamp, event(3, 20000)), (timestamp, event(3, 20160, end=True))]
    assert digits_of(packets) == "3"


def test_a_relay_that_moves_every_timestamp_makes_one_press_of_one() -> None:
    packets = [(1000 + 160 * n, event(4, 160 * (n + 1), end=n == 7)) for n in range(8)]
    assert digits_of([*packets, *press(4, 9000)]) == "44"


def test_reordered_packets_of_an_older_press_are_no_new_one() -> None:
    first, second = press(1, 1000), press(2, 5000)
    assert digits_of([*first[:-1], second[0], first[-1], *second[1:]]) == "12"


def test_the_timestamp_may_wrap() -> None:
    assert digits_of([*press(1, 0xFFFF_FF00), *press(2, 2000)]) == "12"


def test_another_source_presses_for_itself() -> None:
    receiver = DtmfReceiver()
    assert receiver.receive(1, 1000, event(1, 160), 0.0) == "1"
    assert receiver.receive(2, 1000, event(1, 160), 0.02) == "1"


@pytest.mark.parametrize("payload", [b"", b"\x01\x0a\x00", event(16, 160), event(36, 160)])
def test_what_is_no_key_is_nothing(payload) -> None:
    assert DtmfReceiver().receive(1, 1000, payload, 0.0) is None


@settings(max_examples=100, deadline=None)
@given(
    st.text("0123456789*#ABCD", min_size=1, max_size=6),
    st.data(),
)
def test_any_loss_that_leaves_a_packet_of_each_press_leaves_each_key_once(digits, data) -> None:
    packets, timestamp = [], data.draw(st.integers(0, 0xFFFF_FFFF))
    for digit in digits:
        whole = press(DIGITS.index(digit), timestamp, packets=5)
        kept = data.draw(st.sets(st.integers(0, 7), min_size=1))
        packets += [packet if n in kept else None for n, packet in enumerate(whole)] + [None] * 5
        timestamp = (timestamp + 160 * 13) & 0xFFFF_FFFF
    receiver = DtmfReceiver()
    found = ""
    for number, packet in enumerate(packets):
        if packet is not None:
            found += receiver.receive(1, *packet, number * 0.02) or ""
    assert found == digits


@pytest.mark.report("BR-145")
def test_a_sent_key_is_five_updates_two_more_ends_and_a_pause() -> None:
    sender = DtmfSender()
    sender.send("2#")
    packets = []
    while sender.active:
        packets.append(sender.next_packet())
    assert len(packets) == 18
    first = packets[:9]
    assert [packet.marker for packet in first[:7]] == [True] + [False] * 6
    assert [packet.payload for packet in first[:7]] == [
        event(2, 160),
        event(2, 320),
        event(2, 480),
        event(2, 640),
        event(2, 800, end=True),
        event(2, 800, end=True),
        event(2, 800, end=True),
    ]
    assert first[7:] == [None, None]
    assert packets[9].payload[0] == 11
    assert sender.next_packet() is None


def test_sent_keys_are_understood_by_our_own_receiver() -> None:
    sender = DtmfSender()
    sender.send("11#*dA9")
    receiver, found, now, timestamp = DtmfReceiver(), "", 0.0, 0
    while sender.active:
        packet = sender.next_packet()
        now += 0.02
        if packet is not None:
            timestamp = int(now * 8000) if packet.marker else timestamp
            found += receiver.receive(1, timestamp, packet.payload, now) or ""
    assert found == "11#*DA9"


def test_what_is_no_key_and_too_many_keys_are_refused() -> None:
    sender = DtmfSender()
    with pytest.raises(ValueError, match="not a telephone key: 'x'"):
        sender.send("12x")
    assert not sender.active
    sender.send("1" * 64)
    with pytest.raises(ValueError, match="64"):
        sender.send("1")
    sender.next_packet()
    sender.clear()
    assert not sender.active
    assert sender.next_packet() is None
