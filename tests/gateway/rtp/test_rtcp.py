"""RTCP, checked against aiortc's reading and writing of it."""

from __future__ import annotations

import struct

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


# Extended reports.


def extended(*blocks: bytes, ssrc: int = 7) -> bytes:
    body = struct.pack("!I", ssrc) + b"".join(blocks)
    return struct.pack("!BBH", 0x80, 207, len(body) // 4) + body


def voip(ssrc: int = 1, *, r: int = 88, lq: int = 42, cq: int = 40) -> bytes:
    """VoIP metrics as RFC 3611 section 4.7 draws them: 3 % loss, 2 % discard."""
    return struct.pack(
        "!BBHIBBBBHHHHBBBBBBBBBBHHH",
        7, 0, 8, ssrc, 8, 5, 0, 0, 0, 0, 120, 95, 0, 0, 0, 16, r, 127, lq, cq, 0xB4, 0, 60, 80, 200,
    )  # fmt: skip


def test_voip_metrics_are_read_from_an_extended_report() -> None:
    other = struct.pack("!BBHI", 4, 0, 1, 0)  # a block of another kind, skipped
    (metrics,) = parse(build_report(7, "peer", None, ()) + extended(other, voip())).metrics
    assert (metrics.ssrc, metrics.loss, metrics.discard) == (1, 8 / 256, 5 / 256)
    assert (metrics.round_trip_ms, metrics.end_system_ms, metrics.buffer_ms) == (120, 95, 60)
    assert (metrics.r_factor, metrics.mos_lq, metrics.mos_cq) == (88, 4.2, 4.0)


def test_what_the_peer_does_not_know_is_none() -> None:
    (metrics,) = parse(extended(voip(r=127, lq=127, cq=127))).metrics
    assert (metrics.r_factor, metrics.mos_lq, metrics.mos_cq) == (None, None, None)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 36))
def test_extended_reports_that_are_cut_or_garbled_break_nothing(garbage, cut) -> None:
    body = struct.pack("!I", 7) + voip()[:cut] + garbage
    body += bytes(-len(body) % 4)
    assert len(parse(struct.pack("!BBH", 0x80, 207, len(body) // 4) + body).metrics) <= 3
