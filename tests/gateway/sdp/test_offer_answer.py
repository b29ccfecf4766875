"""Offer and answer, from our side of the call."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sdp import (
    Dtls,
    Fingerprint,
    Local,
    LocalSecurity,
    NotAcceptable,
    Protection,
    Sdes,
    SdpError,
    Setup,
    SrtpPolicy,
    accept,
    answer,
    draw_crypto,
    make_offer,
    parse,
)

LOCAL = Local(host="192.0.2.10", port=20000, codecs=("PCMU", "PCMA"), session_id=77, version=1)
HEAD = "v=0\r\no=sbc 7001 7002 IN IP4 203.0.113.20\r\ns=-\r\nc=IN IP4 203.0.113.20\r\nt=0 0\r\n"


def offer(*lines: str, head: str = HEAD):
    return parse((head + "".join(f"{line}\r\n" for line in lines)).encode())


def answered(*lines: str, local: Local = LOCAL, head: str = HEAD):
    body, agreed = answer(offer(*lines, head=head), local)
    return body.decode().split("\r\n"), agreed


def test_a_usual_offer_is_answered() -> None:
    lines, agreed = answered("m=audio 25540 RTP/AVP 8 0 101", "a=rtpmap:101 telephone-event/8000")
    assert lines == [
        "v=0",
        "o=trunkline 77 1 IN IP4 192.0.2.10",
        "s=-",
        "c=IN IP4 192.0.2.10",
        "t=0 0",
        "m=audio 20000 RTP/AVP 0 101",
        "a=rtpmap:0 PCMU/8000",
        "a=rtpmap:101 telephone-event/8000",
        "a=fmtp:101 0-15",
        "a=ptime:20",
        "a=sendrecv",
        "",
    ]
    assert (agreed.codec, agreed.payload_type, agreed.dtmf_payload_type) == ("PCMU", 0, 101)
    assert (agreed.remote, agreed.remote_rtcp) == (("203.0.113.20", 25540), ("203.0.113.20", 25541))
    assert agreed.sends
    assert agreed.receives
    assert agreed.ptime_ms == 20


def test_the_trunks_preference_decides_among_the_offered_codecs() -> None:
    _, agreed = answered("m=audio 4000 RTP/AVP 0 8", local=replace(LOCAL, codecs=("PCMA", "PCMU")))
    assert agreed.codec == "PCMA"
    _, agreed = answered("m=audio 4000 RTP/AVP 0", local=replace(LOCAL, codecs=("PCMA", "PCMU")))
    assert agreed.codec == "PCMU"


@pytest.mark.report("BR-144")
def test_the_peers_own_payload_numbers_are_used() -> None:
    lines, agreed = answered(
        "m=audio 20000 RTP/AVP 97 96",
        "a=rtpmap:97 PCMU/8000",
        "a=rtpmap:96 telephone-event/8000",
        "a=fmtp:96 0-15",
    )
    assert "m=audio 20000 RTP/AVP 97 96" in lines
    assert (agreed.payload_type, agreed.dtmf_payload_type) == (97, 96)
    _, agreed = answered("m=audio 20000 RTP/AVP 8")
    assert agreed.dtmf_payload_type is None


@pytest.mark.report("BR-146")
def test_telephone_events_with_the_audio_clock_are_chosen() -> None:
    lines, agreed = answered(
        "m=audio 20000 RTP/AVP 102 8 103 101",
        "a=rtpmap:102 opus/48000/2",
        "a=rtpmap:8 PCMA/8000",
        "a=rtpmap:103 telephone-event/48000",
        "a=rtpmap:101 telephone-event/8000",
    )
    assert agreed.dtmf_payload_type == 101
    assert "m=audio 20000 RTP/AVP 8 101" in lines


@pytest.mark.report("BR-147")
def test_telephone_events_on_a_static_number_are_answered_on_it() -> None:
    _, agreed = answered("m=audio 20000 RTP/AVP 0 8 10", "a=rtpmap:10 telephone-event/8000")
    assert agreed.dtmf_payload_type == 10


@pytest.mark.report("BR-056")
@pytest.mark.report("BR-002")
@pytest.mark.parametrize(
    ("attribute", "host", "direction", "sends", "receives"),
    [
        ("a=sendrecv", "203.0.113.20", "a=sendrecv", True, True),
        ("a=sendonly", "203.0.113.20", "a=recvonly", False, True),
        ("a=recvonly", "203.0.113.20", "a=sendonly", True, False),
        ("a=inactive", "203.0.113.20", "a=inactive", False, False),
        ("a=sendrecv", "0.0.0.0", "a=recvonly", False, True),
        ("a=recvonly", "0.0.0.0", "a=inactive", False, False),
    ],
)
def test_directions_are_mirrored_and_nothing_is_sent_to_the_address_of_an_old_hold(
    attribute, host, direction, sends, receives
) -> None:
    lines, agreed = answered("m=audio 30010 RTP/AVP 0", f"c=IN IP4 {host}", attribute)
    assert direction in lines
    assert (agreed.sends, agreed.receives) == (sends, receives)


def test_a_direction_of_the_session_counts_too() -> None:
    lines, agreed = answered("m=audio 30010 RTP/AVP 0", head=HEAD + "a=inactive\r\n")
    assert "a=inactive" in lines
    assert not agreed.sends


def test_every_line_is_answered_in_order_and_what_we_cannot_do_gets_port_zero() -> None:
    lines, agreed = answered(
        "m=image 49170 udptl t38",
        "a=T38FaxVersion:0",
        "m=video 5000 RTP/AVP 31",
        "m=audio 4000 RTP/AVP 8 18",
        "m=audio 4002 RTP/AVP 0",
        "m=application 9 TCP/MSRP *",
    )
    assert [line for line in lines if line.startswith("m=")] == [
        "m=image 0 udptl t38",
        "m=video 0 RTP/AVP 31",
        "m=audio 20000 RTP/AVP 8",
        "m=audio 0 RTP/AVP 0",
        "m=application 0 TCP/MSRP *",
    ]
    assert agreed.remote == ("203.0.113.20", 4000)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["m=audio 4000 RTP/AVP 18 3"], "no common audio codec"),
        (["m=audio 4000 RTP/AVP 97", "a=rtpmap:97 PCMU/16000"], "no common audio codec"),
        (["m=audio 4000 RTP/XYZ 0"], "RTP/XYZ is not supported"),
        (["m=audio 0 RTP/AVP 0"], "port 0"),
        (["m=image 4000 udptl t38"], "no audio line"),
        (["m=audio 4000 RTP/AVP 0", "c=IN IP4 media.example.com"], "IP address"),
        (["m=audio 4000 RTP/AVP 0", "c=IN IP6 2001:db8::77"], "IPv6"),
        (["m=audio 4000 RTP/AVP 0", "c=IN IP4 224.2.1.1/127"], "multicast"),
        (["m=audio 4000 RTP/AVP 0", "c=IN IP4 255.255.255.255"], "broadcast"),
        (["m=audio 4000 RTP/AVP 0", "c=IN IP4 240.0.0.1"], "broadcast"),
    ],
)
def test_an_offer_without_usable_audio_is_refused_with_the_reason(lines, reason) -> None:
    with pytest.raises(NotAcceptable, match=reason):
        answer(offer(*lines), LOCAL)


def test_an_offer_without_any_address_is_refused() -> None:
    head = "v=0\r\no=sbc 1 1 IN IP4 203.0.113.20\r\ns=-\r\nt=0 0\r\n"
    with pytest.raises(NotAcceptable, match="c= line"):
        answer(offer("m=audio 4000 RTP/AVP 0", head=head), LOCAL)


@pytest.mark.report("BR-051")
def test_ipv6_media_is_answered_when_our_address_is_ipv6() -> None:
    local = replace(LOCAL, host="2001:db8::10")
    lines, agreed = answered("m=audio 20000 RTP/AVP 8", "c=IN IP6 2001:db8::77", local=local)
    assert "c=IN IP6 2001:db8::10" in lines
    assert agreed.remote == ("2001:db8::77", 20000)


def test_the_address_of_a_rtcp_attribute_is_used() -> None:
    _, agreed = answered("m=audio 4000 RTP/AVP 0", "a=rtcp:53020 IN IP4 203.0.113.21")
    assert agreed.remote_rtcp == ("203.0.113.21", 53020)
    lines, agreed = answered("m=audio 4000 RTP/AVP 0", "a=rtcp:53020")
    assert agreed.remote_rtcp == ("203.0.113.20", 53020)
    assert not any("rtcp-mux" in line for line in lines)


def test_rtcp_shares_the_port_where_the_peer_offers_it() -> None:
    lines, agreed = answered("m=audio 4000 RTP/AVP 0", "a=rtcp:53020", "a=rtcp-mux")
    assert "a=rtcp-mux" in lines
    assert agreed.rtcp_mux
    assert agreed.remote_rtcp == agreed.remote == ("203.0.113.20", 4000)


def test_rtcp_shares_the_port_of_our_offer_only_if_we_asked_and_the_answer_agrees() -> None:
    asking = replace(LOCAL, rtcp_mux=True)
    assert b"a=rtcp-mux\r\n" in make_offer(asking)
    assert accept(offer("m=audio 24500 RTP/AVP 0", "a=rtcp-mux"), asking).rtcp_mux
    assert not accept(offer("m=audio 24500 RTP/AVP 0"), asking).rtcp_mux
    assert not accept(offer("m=audio 24500 RTP/AVP 0", "a=rtcp-mux"), LOCAL).rtcp_mux


def test_comfort_noise_is_agreed_to_where_it_is_offered() -> None:
    lines, _ = answered("m=audio 4000 RTP/AVP 0 13 101", "a=rtpmap:101 telephone-event/8000")
    assert "m=audio 20000 RTP/AVP 0 13 101" in lines
    assert "a=rtpmap:13 CN/8000" in lines
    lines, _ = answered("m=audio 4000 RTP/AVP 0 101", "a=rtpmap:101 telephone-event/8000")
    assert not any("CN" in line for line in lines)
    lines, _ = answered("m=audio 4000 RTP/AVP 0 13", "a=rtpmap:13 X-other/8000")
    assert "m=audio 20000 RTP/AVP 0" in lines
    assert b" 13" not in make_offer(LOCAL)


def test_the_names_of_lines_are_kept_and_bundles_are_not_joined() -> None:
    lines, _ = answered(
        "m=audio 4000 RTP/AVP 0",
        "a=mid:a1",
        "m=video 4000 RTP/AVP 31",
        "a=mid:v1",
        head=HEAD + "a=group:BUNDLE a1 v1\r\n",
    )
    assert "a=mid:a1" in lines
    assert "m=video 0 RTP/AVP 31" in lines
    assert not any("group" in line or "v1" in line for line in lines)


@pytest.mark.parametrize(
    ("version", "host"), [("IP4", "hold.invalid"), ("IP6", "hold.invalid"), ("IP6", "::")]
)
def test_an_address_that_cannot_be_is_a_hold(version, host) -> None:
    local = replace(LOCAL, host="2001:db8::10" if version == "IP6" else "192.0.2.10")
    _, agreed = answered("m=audio 4000 RTP/AVP 0", f"c=IN {version} {host}", local=local)
    assert not agreed.sends
    assert agreed.receives


@pytest.mark.parametrize(
    ("attribute", "ptime"),
    [("a=ptime:30", 20), ("a=ptime:10", 10), ("a=maxptime:10", 10), ("a=maxptime:40", 20)],
)
def test_we_send_20_ms_unless_the_peer_cannot_take_that_much(attribute, ptime) -> None:
    lines, agreed = answered("m=audio 4000 RTP/AVP 0", attribute)
    assert agreed.ptime_ms == ptime
    assert f"a=ptime:{ptime}" in lines


@pytest.mark.report("BR-050")
def test_a_second_offer_is_answered_with_the_next_version_and_the_new_address() -> None:
    lines, agreed = answered(
        "m=audio 25446 RTP/AVP 9 0 101",
        "c=IN IP4 203.0.113.21",
        local=replace(LOCAL, version=2),
    )
    assert "o=trunkline 77 2 IN IP4 192.0.2.10" in lines
    assert agreed.remote == ("203.0.113.21", 25446)


@pytest.mark.report("BR-001")
def test_a_late_offer_holds_our_codecs_and_its_answer_is_read() -> None:
    ours = parse(make_offer(replace(LOCAL, codecs=("PCMA", "PCMU"))))
    (media,) = ours.media
    assert [(codec.payload_type, codec.name) for codec in media.codecs] == [
        (8, "PCMA"),
        (0, "PCMU"),
        (101, "TELEPHONE-EVENT"),
    ]
    agreed = accept(offer("m=audio 24500 RTP/AVP 0 8 101", "a=rtpmap:101 telephone-event/8000"), LOCAL)
    assert (agreed.codec, agreed.dtmf_payload_type, agreed.remote[1]) == ("PCMU", 101, 24500)
    agreed = accept(offer("m=audio 24500 RTP/AVP 8 0"), LOCAL)
    assert agreed.codec == "PCMA"
    agreed = accept(offer("m=audio 24500 RTP/AVP 0 96", "a=rtpmap:96 telephone-event/8000"), LOCAL)
    assert (agreed.dtmf_payload_type, agreed.own_dtmf_payload_type) == (96, 101)
    with pytest.raises(NotAcceptable):
        accept(offer("m=audio 0 RTP/AVP 0"), LOCAL)


numbers = st.integers(0, 127)
KEY = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIz"
attributes = st.sampled_from(
    [
        "a=sendonly",
        "a=inactive",
        "c=IN IP4 0.0.0.0",
        "c=IN IP4 nowhere.invalid",
        "c=IN IP6 ::1",
        "a=ptime:60",
        "a=maxptime:10",
        "a=rtcp:9",
        "a=rtcp-mux",
        "a=mid:1",
        "a=rtpmap:101 telephone-event/8000",
        "a=rtpmap:96 PCMA/8000",
        "a=rtpmap:13 CN/8000",
        f"a=crypto:7 AES_CM_128_HMAC_SHA1_80 inline:{KEY}|2^20|1:4",
        f"a=crypto:3 AES_CM_128_HMAC_SHA1_32 inline:{KEY} KDR=1",
        f"a=crypto:2 AEAD_AES_128_GCM inline:{KEY[:-4]}= WSH=64",
        "a=crypto:1",
        "a=fingerprint:sha-256 " + ":".join(["AB"] * 32),
        "a=setup:actpass",
        "a=setup:holdconn",
        "a=tls-id:0123456789",
    ]
)
media_lines = st.builds(
    lambda kind, port, protocol, formats, extra: [
        f"m={kind} {port} {protocol} {' '.join(map(str, formats))}",
        *extra,
    ],
    st.sampled_from(["audio", "audio", "video", "image", "text"]),
    st.integers(0, 65535),
    st.sampled_from(
        ["RTP/AVP", "RTP/SAVP", "rtp/savpf", "UDP/TLS/RTP/SAVP", "UDP/TLS/RTP/SAVPF", "udptl", "rtp/avp"]
    ),
    st.lists(numbers | st.just(0), min_size=1, max_size=5),
    st.lists(attributes, max_size=8),
)
securities = st.builds(
    LocalSecurity,
    policy=st.sampled_from(SrtpPolicy),
    crypto=st.just(()) | st.builds(lambda: draw_crypto(bytes)),
    fingerprint=st.none() | st.just(Fingerprint("sha-256", bytes(32))),
    tls_id=st.just("ours-0123456789"),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(media_lines, min_size=1, max_size=5), securities)
def test_any_offer_gets_a_fitting_answer_with_as_many_lines_or_a_reason(sections, security) -> None:
    try:
        theirs = offer(*(line for section in sections for line in section))
        body, agreed = answer(theirs, replace(LOCAL, security=security))
    except (SdpError, NotAcceptable):
        return
    ours = parse(body)
    assert not ours.skipped
    assert [media.kind for media in ours.media] == [media.kind for media in theirs.media]
    assert [media.protocol for media in ours.media] == [media.protocol for media in theirs.media]
    (active,) = [index for index, media in enumerate(ours.media) if media.port]
    mine, offered = ours.media[active], theirs.media[active]
    assert set(mine.formats) <= set(offered.formats)
    assert mine.direction.sends == agreed.sends
    assert mine.direction.receives == agreed.receives
    assert agreed.remote[1] == offered.port
    assert mine.rtcp_mux <= offered.rtcp_mux
    if security.policy is SrtpPolicy.REQUIRED or "SAVP" in offered.protocol.upper():
        assert agreed.security
    if security.policy is SrtpPolicy.OFF:
        assert not agreed.security
    assert len(mine.crypto) == isinstance(agreed.security, Sdes)
    assert bool(mine.fingerprints) == isinstance(agreed.security, Dtls)
    if mine.crypto:
        assert (mine.crypto[0].tag, mine.crypto[0].suite) in {
            (line.tag, line.suite) for line in offered.crypto
        }
        assert not mine.crypto[0].mki
    if mine.fingerprints:
        assert {mine.setup, offered.setup or Setup.ACTIVE} in (
            {Setup.ACTIVE, Setup.PASSIVE},
            {Setup.ACTIVE, Setup.ACTPASS},
            {Setup.PASSIVE, Setup.ACTPASS},
        )


@settings(max_examples=100, deadline=None)
@given(st.lists(media_lines, min_size=1, max_size=3), securities, st.sampled_from(Protection))
def test_any_answer_to_our_offer_is_what_we_offered_or_refused(sections, security, offers) -> None:
    if (offers is Protection.DTLS and not security.fingerprint) or (
        offers is Protection.SDES and not security.crypto
    ):
        return
    local = replace(LOCAL, security=replace(security, offers=offers))
    (offered,) = parse(make_offer(local)).media
    try:
        agreed = accept(offer(*(line for section in sections for line in section)), local)
    except (SdpError, NotAcceptable):
        return
    match agreed.security:
        case None:
            assert offers is Protection.NONE
        case Sdes(ours, theirs):
            assert ours in offered.crypto
            assert (ours.tag, ours.suite) == (theirs.tag, theirs.suite)
        case Dtls():
            assert offers is Protection.DTLS


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=200),
    st.sampled_from([b"m=audio 4000 RTP/SAVP 0\n", b"a=crypto:", b"a=fingerprint:", b"v=0\n"]),
)
def test_no_bytes_make_the_negotiation_fail_otherwise(noise, piece) -> None:
    data = HEAD.encode() + noise + b"\n" + piece + noise + b"\nm=audio 4000 RTP/AVP 0\n" + piece
    try:
        answer(parse(data), LOCAL)
    except (SdpError, NotAcceptable):
        return
