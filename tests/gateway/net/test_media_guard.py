"""The guard of one call's media, against another one."""

from __future__ import annotations

import struct
from dataclasses import replace

from aioice import stun

from gateway.net.dtls import GIVE_UP_S, own_certificate
from gateway.net.media_guard import Channel, MediaFailed, MediaGuard, PeerMoved
from gateway.sdp import Dtls, Fingerprint, Ice, IceCredentials, NegotiatedMedia, Sdes, draw_crypto

OURS = draw_crypto(lambda length: bytes(range(length)))
THEIRS = draw_crypto(lambda length: bytes(range(100, 100 + length)))
PLAIN = NegotiatedMedia(
    codec="PCMU",
    payload_type=0,
    dtmf_payload_type=101,
    remote=("203.0.113.1", 4000),
    remote_rtcp=("203.0.113.1", 4001),
    sends=True,
    receives=True,
    ptime_ms=20,
)
A, B = ("203.0.113.1", 4000), ("198.51.100.1", 5000)
A_RTCP, B_RTCP = ("203.0.113.1", 4001), ("198.51.100.1", 5001)
SAME = (own_certificate().fingerprint,)  # both ends of these tests are one process


def rtp(sequence: int) -> bytes:
    return struct.pack("!BBHII", 0x80, 0, sequence & 0xFFFF, 160 * sequence, 0xBEEF) + b"audio" * 32


RTCP = struct.pack("!BBHI", 0x80, 201, 1, 0xBEEF)


def sdes(number: int = 2, *, theirs=THEIRS, remote=A) -> NegotiatedMedia:
    return replace(PLAIN, security=Sdes(OURS[number], theirs[number]), remote=remote)


class Pair:
    """Two guards and the wire between them."""

    def __init__(self, *, mux: bool, fingerprints=SAME, **change) -> None:
        self.ours, self.theirs = MediaGuard(), MediaGuard()
        self.mux = mux
        media = replace(PLAIN, rtcp_mux=mux, **change)
        self.active = replace(media, remote=B, remote_rtcp=B_RTCP, security=Dtls(fingerprints, active=True))
        self.passive = replace(media, remote=A, remote_rtcp=A_RTCP, security=Dtls(SAME, active=False))
        self.ours.configure(self.active, 0.0)
        self.theirs.configure(self.passive, 0.0)

    def carry(self, now: float = 0.0, *, lost: Channel | None = None) -> None:
        while self.ours.has_news or self.theirs.has_news:
            sent = False
            for end, other, sources in (
                (self.ours, self.theirs, (A, A_RTCP)),
                (self.theirs, self.ours, (B, B_RTCP)),
            ):
                for channel, data, _ in end.to_send():
                    sent = True
                    if channel is not lost:
                        assert other.open(data, sources[channel], now, channel) == b""
            if not sent:
                return


def test_by_sdes_media_flows_at_once_both_ways() -> None:
    ours, theirs = MediaGuard(), MediaGuard()
    ours.configure(sdes(), 0.0)
    theirs.configure(replace(PLAIN, security=Sdes(THEIRS[2], OURS[2])), 0.0)
    assert ours.ready
    assert ours.protection == "sdes AES_CM_128_HMAC_SHA1_80"
    assert theirs.open(ours.protect(rtp(1)), A, 0.0) == rtp(1)
    assert theirs.open(ours.protect_rtcp(RTCP), A, 0.0) == RTCP  # on the port of RTP (RFC 5761)
    assert theirs.open(ours.protect_rtcp(RTCP), A, 0.0, Channel.RTCP) == RTCP
    assert ours.open(theirs.protect(rtp(1)), B, 0.0) == rtp(1)
    assert not ours.has_news
    assert ours.peer is None


def test_what_is_no_srtp_or_has_another_key_does_not_come_through() -> None:
    ours, other = MediaGuard(), MediaGuard()
    ours.configure(sdes(), 0.0)
    other.configure(sdes(theirs=OURS), 0.0)
    for data in (
        b"",
        b"\x00\x01",
        b"\x16\xfe\xfd",
        rtp(1),
        RTCP,
        other.protect(rtp(1)),
        other.protect_rtcp(RTCP),
    ):
        assert ours.open(data, A, 0.0) == b""
    assert ours.failures == 4


def test_a_moved_peer_with_the_same_keys_keeps_its_counters_and_what_was_counted_stays() -> None:
    ours, theirs = MediaGuard(), MediaGuard()
    ours.configure(sdes(), 0.0)
    theirs.configure(replace(PLAIN, security=Sdes(THEIRS[2], OURS[2])), 0.0)
    for sequence in (65_535, 65_536):
        assert ours.open(theirs.protect(rtp(sequence)), B, 0.0)
    ours.open(rtp(1), B, 0.0)
    ours.configure(sdes(remote=("203.0.113.9", 6000)), 1.0)
    assert ours.open(theirs.protect(rtp(65_537)), B, 1.0) == rtp(65_537)
    ours.configure(sdes(0), 2.0)
    assert ours.open(theirs.protect(rtp(65_538)), B, 2.0) == b""
    assert ours.failures == 2
    assert ours.protection == "sdes AEAD_AES_256_GCM"


def test_dtls_on_one_port_serves_rtp_and_rtcp() -> None:
    pair = Pair(mux=True)
    assert not pair.ours.ready
    assert pair.ours.protect(rtp(1)) == b""
    assert pair.ours.protect_rtcp(RTCP) == b""
    pair.carry()
    assert pair.ours.ready
    assert pair.ours.protection == "dtls AEAD_AES_256_GCM"
    assert pair.theirs.open(pair.ours.protect(rtp(1)), A, 0.0) == rtp(1)
    assert pair.ours.open(pair.theirs.protect_rtcp(RTCP), B, 0.0) == RTCP
    assert pair.ours.peer == B


def test_dtls_on_two_ports_makes_keys_for_each() -> None:
    pair = Pair(mux=False)
    pair.carry()
    assert pair.theirs.open(pair.ours.protect(rtp(1)), A, 0.0) == rtp(1)
    report = pair.ours.protect_rtcp(RTCP)
    assert pair.theirs.open(report, A_RTCP, 0.0, Channel.RTCP) == RTCP
    assert pair.theirs.open(pair.ours.protect_rtcp(RTCP), A, 0.0) == b""  # not with the key of RTP


def test_without_keys_for_rtcp_a_call_is_still_a_call() -> None:
    pair = Pair(mux=False)
    pair.carry(lost=Channel.RTCP)
    assert pair.ours.ready
    assert pair.ours.protect_rtcp(RTCP) == b""
    pair.ours.tick(GIVE_UP_S)
    assert pair.ours.events() == []


def test_a_handshake_that_fails_is_told_once() -> None:
    pair = Pair(mux=True, fingerprints=(Fingerprint("sha-256", bytes(32)),))
    pair.carry()
    (event,) = pair.ours.events()
    assert isinstance(event, MediaFailed)
    assert "fingerprint" in event.reason
    pair.ours.tick(1.0)
    assert pair.ours.events() == []
    assert not pair.ours.ready


def test_a_peer_that_never_answers_fails_the_media_after_a_while() -> None:
    pair = Pair(mux=True)
    pair.theirs.tick(GIVE_UP_S - 1)
    assert pair.theirs.events() == []
    pair.theirs.tick(GIVE_UP_S)
    assert pair.theirs.events() == [MediaFailed("no handshake in time")]


def test_a_handshake_is_answered_where_it_comes_from_and_a_third_address_cannot_disturb_it() -> None:
    pair = Pair(mux=True)
    nat, stranger = ("192.0.2.7", 7000), ("192.0.2.66", 6666)
    ((_, hello, _),) = pair.ours.to_send()
    pair.theirs.open(hello, nat, 0.0)
    assert pair.theirs.peer == nat
    pair.theirs.open(hello, stranger, 0.0)
    assert pair.theirs.peer == nat
    assert {destination for _, _, destination in pair.theirs.to_send()} == {nat}
    pair.theirs.open(hello, A, 0.0)  # the address that was signalled may always speak
    assert pair.theirs.peer == A


def test_an_association_goes_on_through_a_description_that_repeats_it() -> None:
    pair = Pair(mux=True)
    pair.carry()
    for sequence in (65_535, 65_536):
        assert pair.theirs.open(pair.ours.protect(rtp(sequence)), A, 0.0)
    pair.theirs.configure(replace(pair.passive, sends=False), 1.0)
    pair.ours.configure(replace(pair.active, receives=False), 1.0)
    assert not pair.ours.has_news
    assert pair.theirs.open(pair.ours.protect(rtp(65_537)), A, 1.0) == rtp(65_537)


def test_a_new_association_takes_over_when_it_is_up_and_the_old_keys_serve_until_then() -> None:
    pair = Pair(mux=True)
    pair.carry()
    moved = ("198.51.100.1", 5500)
    pair.ours.configure(replace(pair.active, remote=moved, remote_rtcp=moved), 1.0)
    assert pair.theirs.open(pair.ours.protect(rtp(1)), A, 1.0) == rtp(1)
    old = pair.ours.protect(rtp(2))
    pair.theirs.configure(replace(pair.passive, remote=A_RTCP, remote_rtcp=A_RTCP), 1.0)
    pair.carry(1.0)
    assert pair.theirs.open(old, A, 1.0) == b""
    assert pair.theirs.open(pair.ours.protect(rtp(3)), A, 1.0) == rtp(3)
    assert pair.theirs.failures == 1


def check(ice: Ice, *, nominates: bool) -> bytes:
    message = stun.Message(message_method=stun.Method.BINDING, message_class=stun.Class.REQUEST)
    message.attributes["USERNAME"] = f"{ice.ours.ufrag}:{ice.theirs.ufrag}"
    if nominates:
        message.attributes["USE-CANDIDATE"] = None
    message.add_message_integrity(ice.ours.password.encode())
    return bytes(message)


def test_a_peer_that_keeps_to_its_association_is_heard_when_a_new_one_fails() -> None:
    pair = Pair(mux=True)
    pair.carry()
    moved = ("198.51.100.1", 5500)
    pair.ours.configure(replace(pair.active, remote=moved, remote_rtcp=moved), 1.0)
    pair.ours.to_send()  # which nobody answers
    pair.ours.tick(1.0 + GIVE_UP_S)
    assert pair.ours.events() == []
    assert pair.ours.open(pair.theirs.protect(rtp(9)), moved, 12.0) == rtp(9)


def test_with_ice_the_peer_is_where_it_says_so_with_its_password() -> None:
    ice = Ice(IceCredentials("ours", "o" * 22), IceCredentials("them", "t" * 22))
    nowhere = ("0.0.0.0", 9)
    change = {"rtcp_mux": True, "remote": nowhere, "remote_rtcp": nowhere, "ice": ice}
    media = replace(PLAIN, security=Dtls(SAME, active=False), **change)
    guard, other = MediaGuard(), MediaGuard()
    guard.configure(media, 0.0)
    other.configure(replace(PLAIN, rtcp_mux=True, remote=B, security=Dtls(SAME, active=True)), 0.0)
    assert guard.located(media) == media
    ((_, hello, _),) = other.to_send()
    guard.open(hello, A, 0.0)
    assert not guard.has_news  # nobody has proved yet that the peer is there
    guard.open(check(ice, nominates=False), A, 0.0)
    assert [destination for _, _, destination in guard.to_send()] == [A]
    assert guard.events() == []
    guard.open(check(ice, nominates=True), A, 0.0)
    guard.open(check(ice, nominates=True), A, 0.0)
    assert len(guard.to_send()) == 2
    assert guard.events() == [PeerMoved()]
    assert (guard.located(media).remote, guard.located(media).remote_rtcp) == (A, A)
    guard.open(hello, A, 0.0)
    assert {destination for _, _, destination in guard.to_send()} == {A}
    guard.configure(replace(media, sends=False), 1.0)
    assert guard.located(media).remote == A
    guard.open(check(ice, nominates=True), B, 1.0)
    assert guard.located(media).remote == B
    guard.configure(replace(media, ice=None, remote=A_RTCP), 2.0)
    assert guard.located(replace(media, ice=None, remote=A_RTCP)).remote == A_RTCP


def test_our_hello_waits_until_ice_has_found_the_peer() -> None:
    ice = Ice(IceCredentials("ours", "o" * 22), IceCredentials("them", "t" * 22))
    nowhere = ("0.0.0.0", 9)
    change = {"rtcp_mux": True, "remote": nowhere, "remote_rtcp": nowhere, "ice": ice}
    guard = MediaGuard()
    guard.configure(replace(PLAIN, security=Dtls(SAME, active=True), **change), 0.0)
    assert guard.to_send() == []
    guard.tick(GIVE_UP_S)
    assert guard.events() == [MediaFailed("no handshake in time")]
