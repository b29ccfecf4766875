"""SRTP of one call, against libsrtp used bare as the other side."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pylibsrtp import Policy, Session

from gateway.rtp.srtp import PROFILES, Srtp

LENGTHS = {
    "AEAD_AES_256_GCM": 44,
    "AEAD_AES_128_GCM": 28,
    "AES_CM_128_HMAC_SHA1_80": 30,
    "AES_CM_128_HMAC_SHA1_32": 30,
}
USUAL = "AES_CM_128_HMAC_SHA1_80"


@dataclass(frozen=True)
class Key:
    suite: str
    key: bytes
    lifetime: int = 2**48
    mki: bytes = b""


def key(seed: int, suite: str = USUAL, **more) -> Key:
    return Key(suite, bytes([seed]) * LENGTHS[suite], **more)


def rtp(sequence: int, *, ssrc: int = 0xBEEF, payload: bytes = b"hello" * 32) -> bytes:
    return struct.pack("!BBHII", 0x80, 0, sequence & 0xFFFF, sequence * 160 & 0xFFFFFFFF, ssrc) + payload


def rtcp(ssrc: int = 0xBEEF) -> bytes:
    return struct.pack("!BBHI", 0x80, 201, 1, ssrc)


class Peer:
    """The other side: two bare contexts."""

    def __init__(self, ours: Key, theirs: Key) -> None:
        self.out = Session(Policy(ours.key, Policy.SSRC_ANY_OUTBOUND, srtp_profile=PROFILES[ours.suite]))
        self.into = Session(Policy(theirs.key, Policy.SSRC_ANY_INBOUND, srtp_profile=PROFILES[theirs.suite]))


@pytest.mark.parametrize("suite", LENGTHS)
def test_both_directions_are_understood_with_each_suite(suite) -> None:
    ours, theirs = key(1, suite), key(2, suite)
    srtp, peer = Srtp(ours, theirs), Peer(theirs, ours)
    sent = srtp.protect(rtp(1))
    assert b"hello" not in sent
    assert peer.into.unprotect(sent) == rtp(1)
    assert srtp.unprotect(peer.out.protect(rtp(7))) == rtp(7)
    report = srtp.protect_rtcp(rtcp())
    assert peer.into.unprotect_rtcp(report) == rtcp()
    assert srtp.unprotect_rtcp(peer.out.protect_rtcp(rtcp())) == rtcp()
    # RFC 4568 section 6.2: the tags of SRTCP keep their length; the index takes four bytes.
    assert len(report) - len(rtcp()) == (20 if "GCM" in suite else 14)


def test_a_wrong_key_is_counted_and_never_raised() -> None:
    srtp, peer = Srtp(key(1), key(2)), Peer(key(3), key(1))
    for sequence in range(5):
        assert srtp.unprotect(peer.out.protect(rtp(sequence))) == b""
    assert srtp.unprotect_rtcp(peer.out.protect_rtcp(rtcp())) == b""
    assert srtp.unprotect(rtp(9)) == b""
    assert (srtp.failures, srtp.replays) == (7, 0)


def test_a_packet_that_comes_again_is_a_replay_and_no_failure() -> None:
    srtp, peer = Srtp(key(1), key(2)), Peer(key(2), key(1))
    packets = [peer.out.protect(rtp(sequence)) for sequence in range(300)]
    assert srtp.unprotect(packets[1])
    assert srtp.unprotect(packets[1]) == b""
    assert srtp.unprotect(packets[0])  # out of order is no replay
    assert srtp.unprotect(packets[299])
    assert srtp.unprotect(packets[2]) == b""  # older than the window
    assert (srtp.failures, srtp.replays) == (0, 2)


@pytest.mark.report("BR-080")
def test_the_roll_over_counter_is_kept_when_a_description_repeats_the_keys() -> None:
    ours, theirs = key(1), key(2)
    srtp, peer = Srtp(ours, theirs), Peer(theirs, ours)
    for sequence in (65_534, 65_535, 65_536):  # minute 22: the sequence passes 65535
        assert peer.into.unprotect(srtp.protect(rtp(sequence))) == rtp(sequence)
        assert srtp.unprotect(peer.out.protect(rtp(sequence))) == rtp(sequence)
    srtp.rekey(replace(ours), replace(theirs))  # minute 23: the same keys, another port
    for sequence in range(65_537, 65_540):
        assert peer.into.unprotect(srtp.protect(rtp(sequence))) == rtp(sequence)
        assert srtp.unprotect(peer.out.protect(rtp(sequence))) == rtp(sequence)
    assert srtp.failures == 0


@pytest.mark.report("BR-080")
def test_new_keys_begin_a_new_context_in_the_direction_that_they_are_for() -> None:
    ours, theirs = key(1), key(2)
    srtp, peer = Srtp(ours, theirs), Peer(theirs, ours)
    for sequence in (65_535, 65_536):
        srtp.unprotect(peer.out.protect(rtp(sequence)))
        peer.into.unprotect(srtp.protect(rtp(sequence)))
    srtp.rekey(key(3), key(4))
    renewed = Peer(key(4), key(3))  # whose counters are 0, as those of any new context
    for sequence in range(65_537, 65_550):
        assert srtp.unprotect(renewed.out.protect(rtp(sequence))) == rtp(sequence)
        assert renewed.into.unprotect(srtp.protect(rtp(sequence))) == rtp(sequence)
    assert (srtp.failures, srtp.replays) == (0, 0)
    srtp.rekey(key(3), key(5))  # only the peer's is new: our own direction goes on
    assert renewed.into.unprotect(srtp.protect(rtp(65_550))) == rtp(65_550)
    assert srtp.unprotect(Peer(key(5), key(3)).out.protect(rtp(65_550))) == rtp(65_550)


@pytest.mark.parametrize("suite", LENGTHS)
@pytest.mark.parametrize("writes", [True, False])
def test_an_mki_is_cut_out_whether_the_peer_writes_it_or_only_announces_it(suite, writes) -> None:
    mki = b"\0\0\0\1"
    srtp, peer = Srtp(key(1, suite), key(2, suite, mki=mki)), Peer(key(2, suite), key(1, suite))
    for packet, unprotect, tag in (
        (peer.out.protect(rtp(1)), srtp.unprotect, {"80": 10, "32": 4}.get(suite[-2:], 0)),
        (peer.out.protect_rtcp(rtcp()), srtp.unprotect_rtcp, 0 if "GCM" in suite else 10),
    ):
        end = len(packet) - tag
        assert unprotect(packet[:end] + mki + packet[end:] if writes else packet)
    assert srtp.failures == 0


def test_a_key_is_not_used_beyond_its_lifetime() -> None:
    srtp, peer = Srtp(key(1), key(2, lifetime=3)), Peer(key(2), key(1))
    heard = [srtp.unprotect(peer.out.protect(rtp(sequence))) for sequence in range(5)]
    assert [bool(packet) for packet in heard] == [True] * 3 + [False] * 2
    assert srtp.failures == 2


def test_a_peer_that_makes_up_streams_takes_no_memory() -> None:
    srtp, peer = Srtp(key(1), key(2)), Peer(key(2), key(1))
    for ssrc in range(1, 200):
        assert srtp.unprotect(peer.out.protect(rtp(1, ssrc=ssrc)))
        assert srtp.unprotect_rtcp(peer.out.protect_rtcp(rtcp(ssrc)))
    assert len(srtp._in._ssrcs) == 16
    assert srtp.unprotect(peer.out.protect(rtp(2, ssrc=199)))


def test_a_datagram_that_is_too_long_is_dropped() -> None:
    srtp = Srtp(key(1), key(2))
    assert srtp.unprotect(bytes(2048)) == b""
    assert srtp.unprotect_rtcp(bytes(2048)) == b""
    assert srtp.failures == 2


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=2048), st.sampled_from(list(LENGTHS)), st.booleans())
def test_no_datagram_is_too_odd(data, suite, with_mki) -> None:
    srtp = Srtp(key(1, suite), key(2, suite, mki=b"\x01" if with_mki else b""))
    assert srtp.unprotect(data) == b""
    assert srtp.unprotect_rtcp(data) == b""
    assert srtp.failures + srtp.replays == 2


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=80), st.integers(0, 65_535))
def test_lost_late_and_doubled_packets_come_out_once_and_as_they_were(order, start) -> None:
    srtp, peer = Srtp(key(1), key(2)), Peer(key(2), key(1))
    packets = [peer.out.protect(rtp(start + number)) for number in range(61)]
    srtp.unprotect(packets[0])
    heard = [number for number in order if srtp.unprotect(packets[number]) == rtp(start + number)]
    assert heard == [number for number in dict.fromkeys(order) if number]
    assert srtp.failures == 0
