"""One outgoing stream."""

from __future__ import annotations

import pytest

from gateway.rtp.packet import parse
from gateway.rtp.sender import StreamSender


def sender_of(**values) -> StreamSender:
    return StreamSender(**{"ssrc": 9, "sequence": 65_535, "timestamp": 0xFFFF_FFFF} | values)


def test_numbers_and_clock_wrap_and_only_the_first_packet_is_marked() -> None:
    sender = sender_of()
    packets = [parse(sender.build(0, b"x" * 160, 50.0 + n * 0.02)) for n in range(4)]
    assert [packet.sequence for packet in packets] == [65_535, 0, 1, 2]
    assert [packet.timestamp for packet in packets] == [0xFFFF_FFFF, 159, 319, 479]
    assert [packet.marker for packet in packets] == [True, False, False, False]
    assert (sender.packets, sender.octets) == (4, 640)


@pytest.mark.report("BR-058")
def test_missed_slots_leave_a_gap_in_the_time_but_none_in_the_numbers() -> None:
    sender = sender_of(sequence=10, timestamp=0)
    packets = [parse(sender.build(0, b"", at)) for at in (0.0, 0.02, 5.02, 5.04)]
    assert [packet.sequence for packet in packets] == [10, 11, 12, 13]
    assert [packet.timestamp for packet in packets] == [0, 160, 40_160, 40_320]
    assert [packet.marker for packet in packets] == [True, False, True, False]


def test_an_hour_of_packets_stays_on_the_grid() -> None:
    sender = sender_of(timestamp=0)
    start = 123_456.789
    sender.build(0, b"", start)
    for number in (1, 90_000, 179_999):
        assert parse(sender.build(0, b"", start + number * 0.02)).timestamp == number * 160


def test_the_senders_report_has_the_clock_of_now() -> None:
    sender = sender_of(timestamp=0)
    sender.build(0, b"x" * 160, 10.0)
    info = sender.info(11.0, 0.0)
    assert (info.rtp_timestamp, info.packets, info.octets) == (8000, 1, 160)
