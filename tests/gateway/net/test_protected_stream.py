"""A call's protected media over real UDP sockets on loopback, on both event loops."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from aiortc.rtp import RtcpByePacket, RtcpPacket, RtpPacket
from pylibsrtp import Policy, Session

from gateway.net.dtls import own_certificate
from gateway.net.media_guard import MediaFailed
from gateway.net.media_stream import MediaRules
from gateway.rtp.session import MediaLost
from gateway.rtp.srtp import PROFILES
from gateway.sdp import Dtls, Fingerprint, Sdes, Suite, draw_crypto
from tests.gateway.net.stream_line import Line, Peer


class SecurePeer:
    """The other half of the keys, with libsrtp bare."""

    def __init__(self, suite: Suite = Suite.AES_CM_128_HMAC_SHA1_80) -> None:
        number = list(Suite).index(suite)
        ours = draw_crypto(lambda length: bytes(range(length)))[number]
        theirs = draw_crypto(lambda length: bytes(range(100, 100 + length)))[number]
        self.security = Sdes(ours, theirs)
        profile = PROFILES[suite]
        self.out = Session(Policy(theirs.key, Policy.SSRC_ANY_OUTBOUND, srtp_profile=profile))
        self.into = Session(Policy(ours.key, Policy.SSRC_ANY_INBOUND, srtp_profile=profile))

    def send(self, line: Line, payload: bytes, sequence: int, *, peer: Peer | None = None) -> None:
        header = struct.pack("!BBHII", 0x80, 0, sequence & 0xFFFF, 160 * sequence & 0xFFFF_FFFF, 0xBEEF)
        sender = (peer or line.peer).transport
        sender.sendto(self.out.protect(header + payload), ("127.0.0.1", line.stream.port))


@pytest.mark.parametrize("suite", Suite)
async def test_protected_audio_goes_both_ways(line, suite) -> None:
    secure = SecurePeer(suite)
    line.playout.enqueue(b"\x11" * 320, item_id="a")
    line.stream.start(replace(line.media, security=secure.security))
    for number in range(3):
        secure.send(line, bytes([number]) * 160, 65_534 + number)
    await line.peer.until(lambda: len(line.audio) >= 3 and len(line.peer.received) >= 3)
    assert line.audio[:3] == [(bytes([number]) * 160, number * 20) for number in range(3)]
    heard = [RtpPacket.parse(secure.into.unprotect(data)) for data in line.peer.received[:3]]
    assert [packet.payload for packet in heard] == [b"\x11" * 160, b"\x11" * 160, b"\xff" * 160]
    figures = line.stream.stats()
    assert (figures.quality.protection, figures.quality.undecryptable) == (f"sdes {suite}", 0)


@pytest.mark.report("BR-080")
async def test_a_call_goes_on_through_a_reinvite_after_its_numbers_have_wrapped(line) -> None:
    secure = SecurePeer()
    media = replace(line.media, security=secure.security)
    line.stream.start(media)
    secure.send(line, b"\x01" * 160, 65_535)
    secure.send(line, b"\x02" * 160, 65_536)
    await line.peer.until(lambda: len(line.audio) >= 2)
    other = await line.another_peer()
    line.stream.reconfigure(replace(media, remote=other.address))
    secure.send(line, b"\x03" * 160, 65_537, peer=other)
    await line.peer.until(lambda: any(audio == b"\x03" * 160 for audio, _ in line.audio))
    await other.until(lambda: bool(other.received))
    assert secure.into.unprotect(other.received[0])
    assert line.stream.stats().quality.undecryptable == 0


async def test_with_a_wrong_key_there_is_no_audio_and_the_loss_is_told(lines) -> None:
    line = await lines(rules=MediaRules(lost_after_ms=80))
    secure, wrong = SecurePeer(), SecurePeer(Suite.AES_CM_128_HMAC_SHA1_32)
    line.stream.start(replace(line.media, security=secure.security))
    for number in range(5):
        wrong.send(line, b"\x01" * 160, number)
        line.peer.send(line.stream.port, b"\x02" * 160)  # in the clear
    await line.peer.until(lambda: bool(line.events))
    assert [type(event) for event in line.events] == [MediaLost]
    assert line.audio == []
    figures = line.stream.stats()
    assert (figures.quality.undecryptable, figures.quality.statistics.received) == (10, 0)


async def test_reports_share_the_port_of_rtp_where_both_agreed(lines) -> None:
    line = await lines()
    secure = SecurePeer()
    line.stream.start(
        replace(line.media, security=secure.security, rtcp_mux=True, remote_rtcp=line.peer.address)
    )
    report = struct.pack("!BBHI", 0x80, 201, 1, 0xBEEF)
    secure.send(line, b"\x01" * 160, 1)
    line.peer.transport.sendto(secure.out.protect_rtcp(report), ("127.0.0.1", line.stream.port))
    await line.peer.until(lambda: len(line.audio) >= 1)
    line.stream.close()
    await line.peer.until(lambda: bool(line.peer.received) and line.peer.received[-1][1] == 201)
    goodbye = RtcpPacket.parse(secure.into.unprotect_rtcp(line.peer.received[-1]))
    assert isinstance(goodbye[-1], RtcpByePacket)
    assert line.rtcp_peer.received == []


@pytest.mark.parametrize("mux", [True, False])
async def test_two_streams_shake_hands_by_dtls_and_hear_each_other(lines, mux) -> None:
    ours, theirs = await lines(), await lines()
    known = (own_certificate().fingerprint,)
    for line, other, active in ((ours, theirs, True), (theirs, ours, False)):
        remote, remote_rtcp = ("127.0.0.1", other.stream.port), ("127.0.0.1", other.stream.port + 1)
        line.playout.enqueue(b"\x11" * 800, item_id="a")
        line.stream.start(
            replace(
                line.media,
                remote=remote,
                remote_rtcp=remote if mux else remote_rtcp,
                rtcp_mux=mux,
                security=Dtls(known, active),
            )
        )
    for line in (ours, theirs):
        await line.peer.until(lambda line=line: len(line.audio) >= 5)
        assert [audio for audio, _ in line.audio[:5]] == [b"\x11" * 160] * 5  # nothing was said too early
        assert line.stream.stats().quality.protection == "dtls AEAD_AES_256_GCM"


async def test_a_failed_handshake_is_told_and_nothing_is_sent_in_the_clear(lines) -> None:
    ours, theirs = await lines(), await lines()
    for line, other, active in ((ours, theirs, True), (theirs, ours, False)):
        remote = ("127.0.0.1", other.stream.port)
        security = Dtls((Fingerprint("sha-256", bytes(32)),), active)
        line.stream.start(
            replace(line.media, remote=remote, remote_rtcp=remote, rtcp_mux=True, security=security)
        )
    await ours.peer.until(lambda: bool(ours.events))
    (event,) = ours.events
    assert isinstance(event, MediaFailed)
    assert "fingerprint" in event.reason
    assert ours.audio == theirs.audio == []


async def test_a_reinvite_may_begin_and_end_the_protection(line) -> None:
    secure = SecurePeer()
    line.stream.start(line.media)
    await line.peer.until(lambda: len(line.peer.received) >= 2)
    line.stream.reconfigure(replace(line.media, security=secure.security))
    before = len(line.peer.received)
    await line.peer.until(lambda: len(line.peer.received) > before)
    assert secure.into.unprotect(line.peer.received[-1])
    line.stream.reconfigure(line.media)
    before = len(line.peer.received)
    await line.peer.until(lambda: len(line.peer.received) > before)
    assert line.peer.packets()[-1].payload == b"\xff" * 160
