"""RTP packets, checked against aiortc's reading and writing of them."""

from __future__ import annotations

import pytest
from aiortc.rtp import RtpPacket as OraclePacket
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.rtp.packet import RtpError, build, is_rtcp, parse, sequence_delta, timestamp_delta

words = st.integers(0, 0xFFFF_FFFF)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 127), st.integers(0, 0xFFFF), words, words, st.binary(max_size=480), st.booleans())
def test_what_we_build_is_read_the_same_by_aiortc(
    payload_type, sequence, timestamp, ssrc, payload, marker
) -> None:
    data = build(payload_type, sequence, timestamp, ssrc, payload, marker=marker)
    theirs = OraclePacket.parse(data)
    assert (theirs.payload_type, theirs.sequence_number, theirs.timestamp) == (
        payload_type,
        sequence,
        timestamp,
    )
    assert (theirs.ssrc, theirs.payload, bool(theirs.marker)) == (ssrc, payload, marker)
    assert data == theirs.serialize()
    ours = parse(data)
    assert ours == (payload_type, marker, sequence, timestamp, ssrc, payload, ())


@settings(max_examples=100, deadline=None)
@given(
    st.lists(words, max_size=15), st.binary(min_size=1, max_size=160), st.integers(0, 60), st.integers(0, 6)
)
def test_contributors_extension_and_padding_are_stripped_as_aiortc_does(
    csrcs, payload, padding, extension_words
) -> None:
    packet = OraclePacket(payload_type=8, sequence_number=7, timestamp=9, ssrc=11, payload=payload)
    packet.csrc = csrcs
    packet.padding_size = padding
    data = packet.serialize()
    if extension_words:
        head = bytes([data[0] | 0x10]) + data[1 : 12 + 4 * len(csrcs)]
        extension = b"\xab\xcd" + extension_words.to_bytes(2, "big") + bytes(4 * extension_words)
        data = head + extension + data[12 + 4 * len(csrcs) :]
    theirs = OraclePacket.parse(data)
    ours = parse(data)
    assert ours.payload == theirs.payload == payload
    assert list(ours.csrcs) == theirs.csrc == csrcs


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "shorter"),
        (b"\x00", "shorter"),
        (b"\x00\x01" + bytes(18), "version 0"),  # a STUN binding request
        (b"\x8f\x00" + bytes(10), "CSRC"),
        (b"\x90\x00" + bytes(11), "header extension"),
        (b"\x90\x00" + bytes(10) + b"\x00\x00\x00\x09", "longer"),
        (b"\xa0\x00" + bytes(10) + b"\x00", "padding of length 0"),
        (b"\xa0\x00" + bytes(10) + b"\x09", "longer"),
    ],
)
def test_what_is_no_packet_is_refused_with_a_reason(data, reason) -> None:
    with pytest.raises(RtpError, match=reason):
        parse(data)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=64))
def test_garbage_is_parsed_or_refused_but_never_crashes(data) -> None:
    for candidate in (data, b"\xbf\x00" + data):
        try:
            packet = parse(candidate)
        except RtpError:
            continue
        assert len(packet.payload) <= len(candidate) - 12


@pytest.mark.report("BR-067")
def test_rtcp_is_told_from_rtp_by_its_second_byte() -> None:
    for kind in (200, 201, 202, 203, 204):
        assert is_rtcp(bytes([0x80, kind]) + bytes(6))
    assert not is_rtcp(build(0, 1, 2, 3, b"", marker=True))
    assert not is_rtcp(build(101, 1, 2, 3, b"", marker=True))
    assert not is_rtcp(b"\x00\xc8\x00\x00")


@settings(max_examples=100, deadline=None)
@given(words, st.integers(-32768, 32767), st.integers(-0x8000_0000, 0x7FFF_FFFF))
def test_distances_survive_the_wrap(start, step, stride) -> None:
    assert sequence_delta((start + step) & 0xFFFF, start & 0xFFFF) == step
    assert timestamp_delta((start + stride) & 0xFFFF_FFFF, start) == stride
