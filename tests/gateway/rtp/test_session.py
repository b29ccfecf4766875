"""One call's RTP and RTCP without a network."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from aiortc.rtp import RtcpPacket, RtcpRrPacket, RtcpSrPacket
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.rtp.packet import build
from gateway.rtp.rtcp import ReportBlock, SenderInfo, build_goodbye, build_report, middle_bits, ntp_time
from gateway.rtp.session import (
    DtmfNotPossible,
    DtmfReceived,
    MediaLost,
    MediaResumed,
    RtpSession,
    StreamChanged,
)

PEER = ("203.0.113.20", 25540)
STRAY = ("198.51.100.200", 9999)


@dataclass(frozen=True)
class Media:
    payload_type: int = 0
    dtmf_payload_type: int | None = 101
    own_dtmf_payload_type: int | None = None
    remote: tuple[str, int] = PEER
    remote_rtcp: tuple[str, int] = ("203.0.113.20", 25541)
    sends: bool = True
    receives: bool = True


def session_of(media: Media | None = Media(), **options) -> RtpSession:
    session = RtpSession(ssrc=1, sequence=2, timestamp=3, cname="a@b", **options)
    if media is not None:
        session.configure(media, 0.0)
    return session


def packet(number: int, *, payload_type: int = 0, ssrc: int = 7, payload: bytes = b"p" * 160) -> bytes:
    return build(payload_type, number & 0xFFFF, number * 160 & 0xFFFF_FFFF, ssrc, payload)


def hear(session: RtpSession, first: int, count: int, *, source=PEER, ssrc: int = 7, now: float = 0.0) -> int:
    """Send packets; return how many frames with audio came out."""
    frames = []
    for number in range(first, first + count):
        frames += session.receive(packet(number, ssrc=ssrc), source, now + (number - first) * 0.02)
    return sum(bool(frame.payload) for frame in frames)


def test_nothing_is_heard_before_media_is_agreed() -> None:
    session = session_of(None)
    assert hear(session, 0, 5) == 0
    assert session.statistics().refused == 5
    assert session.take_report(100.0) is None
    assert session.rtcp_destination is None


@pytest.mark.report("BR-061")
def test_the_first_source_is_answered_and_a_stray_packet_does_not_move_it() -> None:
    session = session_of(Media(remote=("192.168.1.50", 7078)))
    assert session.destination == ("192.168.1.50", 7078)
    real = ("203.0.113.60", 41822)
    assert hear(session, 0, 3, source=real) == 3
    assert session.latched
    assert session.destination == real
    assert hear(session, 100, 1, source=STRAY, ssrc=99) == 0
    assert session.destination == real
    session.configure(Media(remote=("192.168.1.50", 7090)), 1.0)
    assert session.destination == ("192.168.1.50", 7090)
    new = ("203.0.113.60", 41999)
    assert hear(session, 3, 3, source=new, now=1.0) == 3
    assert session.destination == new


def test_a_stream_that_moves_is_followed() -> None:
    session = session_of()
    hear(session, 0, 10)
    moved = ("203.0.113.20", 30000)
    assert hear(session, 10, 5, source=moved) == 5
    assert session.destination == moved
    assert session.statistics().stream_changes == 0


@pytest.mark.report("BR-170")
def test_an_older_calls_packets_are_not_heard_once_the_peer_sends() -> None:
    session = session_of()
    hear(session, 0, 2)
    assert hear(session, 5000, 50, source=STRAY, ssrc=99) == 0
    assert session.statistics().refused == 50
    assert hear(session, 2, 3) == 3


def test_a_stranger_that_was_first_is_displaced_by_the_signalled_address() -> None:
    session = session_of()
    hear(session, 5000, 3, source=STRAY, ssrc=99)
    assert hear(session, 0, 3) == 3
    assert session.destination == PEER
    assert hear(session, 5003, 3, source=STRAY, ssrc=99) == 0


def test_only_what_was_agreed_can_lock_a_source() -> None:
    session = session_of()
    assert session.receive(packet(1, payload_type=18), STRAY, 0.0) == ()
    assert not session.latched
    assert session.statistics().refused == 1


def test_payload_types_that_were_not_agreed_are_counted_and_not_missed() -> None:
    session = session_of()
    hear(session, 0, 2)
    assert not session.receive(packet(2, payload_type=8), PEER, 0.04)
    assert hear(session, 3, 1, now=0.06) == 1
    statistics = session.statistics()
    assert (statistics.wrong_type, statistics.lost) == (1, 0)


def test_comfort_noise_is_tolerated() -> None:
    session = session_of()
    hear(session, 0, 2)
    assert not session.receive(packet(2, payload_type=13, payload=b"\x40"), PEER, 0.04)
    (frame,) = session.tick(0.05)
    assert (frame.payload, frame.lost) == (b"", False)
    assert session.statistics().wrong_type == 0


@pytest.mark.report("BR-067")
def test_rtcp_stun_and_junk_on_the_rtp_port_touch_nothing() -> None:
    session = session_of()
    report = build_report(7, "peer", SenderInfo(1 << 40, 2, 3, 4), ())
    for number in range(50):
        assert hear(session, number, 1, now=number * 0.02) == 1
        for junk in (report, build_goodbye(7, "peer"), b"\x00\x01" + bytes(18), b"\x00", b""):
            assert session.receive(junk, PEER, number * 0.02) == ()
    assert session.events() == []
    statistics = session.statistics()
    assert (statistics.received, statistics.lost, statistics.stream_changes) == (50, 0, 0)
    assert statistics.garbage == 150
    assert session.destination == PEER


@pytest.mark.report("BR-052")
def test_another_source_of_the_same_peer_is_reported() -> None:
    session = session_of()
    hear(session, 21200, 20, ssrc=0x1111AAAA)
    assert hear(session, 12676, 5, ssrc=0x2222BBBB, now=0.4) == 5
    assert session.events() == [StreamChanged(0x2222BBBB)]
    assert session.events() == []


def test_keys_are_reported_also_from_a_source_of_their_own() -> None:
    session = session_of()
    hear(session, 0, 2)
    key = bytes((5, 10, 0, 160))
    session.receive(packet(2, payload_type=101, payload=key), PEER, 0.04)
    session.receive(packet(900, payload_type=101, payload=b"\x0b" + key[1:], ssrc=55), PEER, 0.06)
    assert session.has_events
    assert session.events() == [DtmfReceived("5"), DtmfReceived("#")]
    assert hear(session, 3, 1, now=0.06) == 1


def test_silence_on_the_wire_is_reported_once_for_each_gap_and_so_is_its_end() -> None:
    session = session_of(lost_after_ms=1000)
    hear(session, 0, 2)
    for tick in range(200):
        session.tick(0.02 + tick * 0.02)
    (lost,) = session.events()
    assert isinstance(lost, MediaLost)
    assert 1000 <= lost.silent_ms <= 1040
    hear(session, 200, 1, now=4.02)
    assert session.events() == [MediaResumed(4000)]


def test_a_peer_that_never_sends_is_reported_too() -> None:
    session = session_of(lost_after_ms=1000)
    assert session.tick(0.99) == ()
    session.tick(1.0)
    assert session.events() == [MediaLost(1000)]


@pytest.mark.report("BR-056")
@pytest.mark.parametrize(
    "held",
    [Media(sends=False), Media(sends=False, receives=False), Media(remote=("0.0.0.0", 30010), sends=False)],
)
def test_a_held_call_is_not_lost_and_is_watched_again_afterwards(held) -> None:
    session = session_of()
    hear(session, 0, 2)
    session.configure(held, 1.0)
    assert not session.sends
    assert session.destination == PEER
    for tick in range(150):
        assert not session.tick(1.0 + tick)
    assert session.events() == []
    session.configure(Media(), 151.0)
    assert session.sends
    session.tick(155.9)
    assert session.events() == []
    session.tick(156.0)
    assert session.events() == [MediaLost(5000)]


def test_nothing_is_reported_to_the_address_of_an_old_hold() -> None:
    session = session_of(Media(remote=("0.0.0.0", 4000), remote_rtcp=("0.0.0.0", 4001), sends=False))
    assert session.rtcp_destination is None
    assert session.destination is None


@pytest.mark.report("BR-050")
def test_after_a_reinvite_the_new_address_gets_the_same_stream() -> None:
    session = session_of()
    hear(session, 0, 3)
    session.build(b"x", 0.0)
    new = ("203.0.113.21", 25446)
    session.configure(replace(Media(), remote=new, payload_type=8), 1.0)
    assert session.destination == new
    data = session.build(b"x", 1.0)
    assert data == build(8, 3, 3 + 8000, 1, b"x", marker=True)
    assert hear(session, 3, 1, source=PEER, now=1.05) == 0  # still on its way from the old address
    frames = session.receive(packet(50, payload_type=8, ssrc=70), new, 1.1)
    assert len(frames) == 1


@pytest.mark.report("BR-144")
def test_keys_are_sent_with_the_agreed_number_or_refused() -> None:
    session = session_of(Media(dtmf_payload_type=96))
    session.send_dtmf("9")
    assert session.sending_dtmf
    data = session.build_event(0.0)
    assert data is not None
    assert data[1] == 96 | 0x80
    session.configure(Media(dtmf_payload_type=None), 1.0)
    assert session.build_event(1.0) is None
    assert not session.sending_dtmf
    with pytest.raises(DtmfNotPossible):
        session.send_dtmf("1")


def test_keys_come_with_the_peers_number_or_with_the_one_that_we_offered() -> None:
    session = session_of(Media(dtmf_payload_type=96, own_dtmf_payload_type=101))
    hear(session, 0, 1)
    for number, (kind, key) in enumerate(((96, 1), (101, 2), (97, 3)), 1):
        session.receive(packet(number, payload_type=kind, payload=bytes((key, 10, 0, 160))), PEER, 0.1)
    assert session.events() == [DtmfReceived("1"), DtmfReceived("2")]
    assert session.statistics().wrong_type == 1


def test_reports_are_due_about_every_five_seconds_and_say_what_was_received() -> None:
    session = session_of(wall_offset_s=1_000_000.0)
    hear(session, 0, 10)
    hear(session, 20, 1, now=0.4)
    assert session.take_report(1.0) is None
    first = session.take_report(2.5)
    assert first is not None
    report = RtcpPacket.parse(first)[0]
    assert isinstance(report, RtcpRrPacket)  # nothing was sent yet
    assert (report.reports[0].ssrc, report.reports[0].packets_lost) == (7, 10)
    session.build(b"x" * 160, 3.0)
    assert session.take_report(7.4) is None
    second = session.take_report(7.5)
    assert second is not None
    report = RtcpPacket.parse(second)[0]
    assert isinstance(report, RtcpSrPacket)
    assert (report.sender_info.packet_count, report.sender_info.octet_count) == (1, 160)
    assert report.sender_info.ntp_timestamp == ntp_time(1_000_007.5)
    assert report.sender_info.rtp_timestamp == 3 + int(4.5 * 8000)


def test_the_round_trip_is_measured_from_the_peers_reports() -> None:
    session = session_of(wall_offset_s=1_000_000.0)
    sent = middle_bits(ntp_time(1_000_010.0))
    block = ReportBlock(1, 0, 12, 0, 80, sent, 65536 // 2)
    session.receive_rtcp(build_report(7, "peer", None, (block,)), ("203.0.113.20", 25541), 10.6)
    statistics = session.statistics()
    assert statistics.rtt_ms == pytest.approx(100, abs=1)
    assert (statistics.remote.lost, statistics.remote.jitter_ms) == (12, 10)
    assert session.rtcp_destination == ("203.0.113.20", 25541)


def test_the_peers_sender_report_is_answered_with_its_time() -> None:
    session = session_of()
    hear(session, 0, 2)
    info = SenderInfo(ntp_time(5000.0), 1, 2, 3)
    session.receive_rtcp(build_report(7, "peer", info, ()), ("203.0.113.20", 25541), 1.0)
    data = session.take_report(3.0)
    assert data is not None
    block = RtcpPacket.parse(data)[0].reports[0]
    assert (block.lsr, block.dlsr) == (middle_bits(ntp_time(5000.0)), 2 * 65536)


def test_strangers_and_garbage_on_the_rtcp_port_are_counted() -> None:
    session = session_of()
    session.receive_rtcp(build_goodbye(7, "peer"), STRAY, 0.0)
    session.receive_rtcp(b"\x80\xc9", ("203.0.113.20", 25541), 0.0)
    assert (session.statistics().refused, session.statistics().garbage) == (1, 1)
    assert session.rtcp_destination == ("203.0.113.20", 25541)


datagrams = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda number, kind, ssrc, payload: packet(number, payload_type=kind, ssrc=ssrc, payload=payload),
        st.integers(0, 80_000),
        st.sampled_from([0, 0, 0, 8, 13, 101, 72, 77]),
        st.sampled_from([7, 8]),
        st.binary(max_size=20) | st.just(b"p" * 160),
    ),
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(datagrams, st.sampled_from([PEER, STRAY]), st.integers(0, 90)), max_size=60),
    st.booleans(),
)
def test_no_input_breaks_the_session(inputs, on_rtcp) -> None:
    session, now = session_of(), 0.0
    for data, source, wait_ms in inputs:
        now += wait_ms / 1000
        if on_rtcp and len(data) % 2:
            session.receive_rtcp(data, source, now)
        frames = [*session.receive(data, source, now), *session.tick(now)]
        assert all(frame.duration_ms >= 0 and frame.at_ms >= 0 for frame in frames)
        assert all(len(frame.payload) // 8 == frame.duration_ms for frame in frames if frame.payload)
        session.events()
        session.take_report(now)
    session.statistics()
    # Whatever came before, the signalled peer is heard with its second packet at the latest.
    assert hear(session, 30_000, 4, ssrc=12345, now=now + 1) >= 3
