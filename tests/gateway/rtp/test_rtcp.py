"""RTCP, checked against aiortc's reading and writing of it."""

from __future__ import annotations

import pytest
from aiortc.rtp import (
    RtcpByePacket,
    RtcpPacket,
    RtcpReceiverInfo,
    RtcpRrPacket,
    RtcpSdesPacket,
    RtcpSenderInfo,
    RtcpSourceInfo,
    RtcpSrPacket,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.rtp.packet import RtpError
from gateway.rtp.rtcp import (
    ReportBlock,
    SenderInfo,
    build_goodbye,
    build_report,
    middle_bits,
    ntp_time,
    parse,
)

words = st.integers(0, 0xFFFF_FFFF)
blocks = st.builds(
    ReportBlock,
    words,
    st.integers(0, 255),
    st.integers(-0x80_0000, 0x7F_FFFF),
    words,
    words,
    words,
    words,
)
infos = st.builds(SenderInfo, st.integers(0, 2**64 - 1), words, words, words)
names = st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=60)


@settings(max_examples=100, deadline=None)
@given(words, names, st.none() | infos, st.lists(blocks, max_size=3))
def test_our_reports_are_read_the_same_by_aiortc_and_by_us(ssrc, cname, sender, reported) -> None:
    data = build_report(ssrc, cname, sender, tuple(reported))
    report, description = RtcpPacket.parse(data)
    assert report.ssrc == ssrc
    assert isinstance(report, RtcpRrPacket if sender is None else RtcpSrPacket)
    if sender is not None:
        theirs = report.sender_info
        assert (theirs.ntp_timestamp, theirs.rtp_timestamp) == (sender.ntp_time, sender.rtp_timestamp)
        assert (theirs.packet_count, theirs.octet_count) == (sender.packets, sender.octets)
    for ours, block in zip(reported, report.reports, strict=True):
        assert (ours.ssrc, ours.fraction_lost, ours.cumulative_lost) == (
            block.ssrc,
            block.fraction_lost,
            block.packets_lost,
        )
        assert (ours.highest_sequence, ours.jitter) == (block.highest_sequence, block.jitter)
        assert (ours.last_sr, ours.delay_since_last_sr) == (block.lsr, block.dlsr)
    assert isinstance(description, RtcpSdesPacket)
    assert description.chunks == [RtcpSourceInfo(ssrc=ssrc, items=[(1, cname.encode())])]
    again = parse(data)
    assert (again.ssrc, again.sender, again.blocks, again.cname) == (ssrc, sender, tuple(reported), cname)


def test_aiortcs_reports_are_read_by_us() -> None:
    block = RtcpReceiverInfo(
        ssrc=9, fraction_lost=3, packets_lost=-2, highest_sequence=70_000, jitter=5, lsr=6, dlsr=7
    )
    sender = RtcpSenderInfo(ntp_timestamp=1 << 63, rtp_timestamp=2, packet_count=3, octet_count=4)
    data = bytes(RtcpSrPacket(ssrc=1, sender_info=sender, reports=[block])) + bytes(
        RtcpByePacket(sources=[1, 2])
    )
    report = parse(data)
    assert report.sender == SenderInfo(1 << 63, 2, 3, 4)
    assert report.blocks == (ReportBlock(9, 3, -2, 70_000, 5, 6, 7),)
    assert report.goodbyes == (1, 2)


def test_our_goodbye_is_a_whole_compound_packet() -> None:
    report, description, goodbye = RtcpPacket.parse(build_goodbye(77, "a@b"))
    assert isinstance(report, RtcpRrPacket)
    assert isinstance(description, RtcpSdesPacket)
    assert isinstance(goodbye, RtcpByePacket)
    assert goodbye.sources == [77]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x80\xc9", "cut off"),
        (b"\x00\xc9\x00\x00", "version 0"),
        (b"\x80\xc9\x00\x09" + bytes(4), "longer than"),
        (b"\x81\xc9\x00\x01" + bytes(4), "shorter than its blocks"),
    ],
)
def test_broken_reports_are_refused(data, reason) -> None:
    with pytest.raises(RtpError, match=reason):
        parse(data)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80), st.sampled_from([200, 201, 202, 203, 204]), st.integers(0, 31))
def test_garbage_is_parsed_or_refused_but_never_crashes(body, kind, count) -> None:
    words_ = len(body) // 4
    for data in (body, bytes([0x80 | count, kind]) + words_.to_bytes(2, "big") + body[: 4 * words_]):
        try:
            report = parse(data)
        except RtpError:
            continue
        assert len(report.blocks) <= 31


def test_ntp_time_counts_from_1900() -> None:
    assert ntp_time(0.0) == 2_208_988_800 << 32
    assert middle_bits(ntp_time(1.5)) == ((2_208_988_801 & 0xFFFF) << 16) + 0x8000
