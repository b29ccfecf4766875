"""Reading session descriptions."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sdp import Direction, SdpError, parse

PLAIN = b"v=0\r\no=sbc 7001 7002 IN IP4 203.0.113.20\r\ns=call\r\nc=IN IP4 203.0.113.20\r\nt=0 0\r\n"


def media_of(*lines: str, head: bytes = PLAIN):
    return parse(head + "".join(f"{line}\r\n" for line in lines).encode()).media


def test_the_session_is_read() -> None:
    description = parse(PLAIN + b"a=sendonly\r\nm=audio 4000 RTP/AVP 0\r\n")
    assert (description.session_id, description.session_version, description.name) == ("7001", "7002", "call")
    assert description.attributes == (("sendonly", ""),)
    assert description.skipped == 0


@pytest.mark.report("BR-051")
def test_the_media_lines_address_wins_over_the_sessions_and_the_origin_is_never_used() -> None:
    first, second = media_of("m=audio 20000 RTP/AVP 8", "c=IN IP4 203.0.113.99", "m=audio 20002 RTP/AVP 8")
    assert (first.host, second.host) == ("203.0.113.99", "203.0.113.20")
    head = b"v=0\r\no=sbc 1 1 IN IP6 2001:db8::1\r\ns=-\r\nt=0 0\r\n"
    (only,) = media_of("m=audio 20000 RTP/AVP 8", "c=IN IP4 203.0.113.99", head=head)
    assert only.host == "203.0.113.99"
    (none,) = media_of("m=audio 20000 RTP/AVP 8", head=head)
    assert none.host is None


@pytest.mark.report("BR-054")
def test_static_payload_types_need_no_rtpmap_and_names_have_no_case() -> None:
    (media,) = media_of("m=audio 34391 RTP/AVP 0 8 18 9")
    assert [(codec.name, codec.clock_rate) for codec in media.codecs] == [
        ("PCMU", 8000),
        ("PCMA", 8000),
        ("G729", 8000),
        ("G722", 8000),
    ]
    (media,) = media_of("m=audio 34391 RTP/AVP 0", "a=rtpmap:0 pcmu/8000/1")
    assert (media.codecs[0].name, media.codecs[0].channels) == ("PCMU", 1)


@pytest.mark.report("BR-147")
def test_an_explicit_rtpmap_wins_over_the_static_table() -> None:
    (media,) = media_of("m=audio 20000 RTP/AVP 0 8 10", "a=rtpmap:10 telephone-event/8000", "a=fmtp:10 0-16")
    assert media.codecs[2].name == "TELEPHONE-EVENT"
    assert media.codecs[2].fmtp == "0-16"


@pytest.mark.report("BR-077")
def test_mangled_lines_are_skipped_when_the_rest_is_usable() -> None:
    body = (
        b"v=0\no=- 39 39 IN IP4 203.0.113.2\ns=x\n:=17\nt=0 0\na=X-nat:0\nm=audio 4000 RTP/AVP 96 9 8 0 101\n"
        b"c=IN IP4 203.0.113.2\n:=6000\na=rtcp:4001 IN IP4 203.0.113.2\n"
        b"a=rtpmap:101 telephone-event/8000\n\0\n"
    )
    description = parse(body)
    (media,) = description.media
    assert description.skipped == 2
    assert (media.host, media.rtcp) == ("203.0.113.2", (4001, "203.0.113.2"))
    assert [codec.name for codec in media.codecs] == ["G722", "PCMA", "PCMU", "TELEPHONE-EVENT"]


def test_the_media_lines_direction_wins_over_the_sessions() -> None:
    first, second = media_of(
        "m=audio 4000 RTP/AVP 0",
        "m=audio 4002 RTP/AVP 0",
        "a=inactive",
        head=PLAIN + b"a=sendonly\r\n",
    )
    assert first.direction is Direction.SENDONLY
    assert second.direction is Direction.INACTIVE
    assert media_of("m=audio 4000 RTP/AVP 0")[0].direction is Direction.SENDRECV


def test_lines_that_are_not_rtp_are_kept_in_order() -> None:
    lines = media_of(
        "m=image 49170 udptl t38",
        "m=audio 4000/2 RTP/AVP 0",
        "a=ptime:20",
        "a=maxptime:150",
        "m=video 0 RTP/AVP 31",
        "m=application 9 TCP/MSRP *",
    )
    assert [line.kind for line in lines] == ["image", "audio", "video", "application"]
    assert (lines[1].port, lines[1].ports, lines[1].ptime_ms, lines[1].maxptime_ms) == (4000, 2, 20, 150)
    assert lines[0].ports == 1
    assert lines[3].formats == ("*",)


def test_a_broken_rtpmap_or_ptime_is_as_if_it_were_not_there() -> None:
    (media,) = media_of(
        "m=audio 4000 RTP/AVP 0 97 98 300 x",
        "a=rtpmap:97",
        "a=rtpmap:98 PCMU/zero",
        "a=ptime:many",
        "a=maxptime:-3",
        "a=rtcp:port",
    )
    assert [codec.payload_type for codec in media.codecs] == [0]
    assert (media.ptime_ms, media.maxptime_ms, media.rtcp) == (None, None, None)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "v=0"),
        (b"o=a 1 1 IN IP4 1.1.1.1\r\nm=audio 1 RTP/AVP 0\r\n", "v=0"),
        (b"v=0\r\nm=audio 4000 RTP/AVP 0\r\n", "o="),
        (PLAIN, "no m="),
        (PLAIN + b"m=audio\r\n", "incomplete"),
        (PLAIN + b"m=audio 70000 RTP/AVP 0\r\n", "port"),
        (PLAIN + "m=audio ４０００ RTP/AVP 0\r\n".encode(), "port"),
        (PLAIN + b"m=audio 4000 RTP/AVP" + b" 0" * 65 + b"\r\n", "formats"),
        (PLAIN + b"m=audio 4000 RTP/AVP 0\r\na=fmtp\0:101 0-16\r\n", "NUL"),
        (PLAIN + b"m=audio 4000 RTP/AVP 0\r\na=rtpmap:999 X/0\r\n", "payload type"),
        (PLAIN + b"m=audio 4000 RTP/AVP 0\r\na=rtpmap:\r\n", "payload type"),
        (PLAIN + b"t=-\r\nm=audio 4000 RTP/AVP 0\r\n", "no time"),
        (PLAIN + b"m=audio 4000 RTP/AVP 0\r\n" * 33, "m= lines"),
        (PLAIN + b"a=x\r\n" * 1024, "lines"),
        (PLAIN + b"a" * 65_536, "larger"),
    ],
)
def test_an_unusable_description_is_refused_with_a_reason(body, reason) -> None:
    with pytest.raises(SdpError, match=reason):
        parse(body)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_garbage_is_parsed_or_refused_but_never_crashes(garbage) -> None:
    for body in (garbage, PLAIN + b"m=audio 4000 RTP/AVP 0 8\r\n" + garbage, PLAIN + b"m=" + garbage):
        try:
            description = parse(body)
        except SdpError:
            continue
        assert description.media


LINES = (
    b"v=0|o=- 1 1 IN IP4 10.0.0.1|c=IN IP4 10.0.0.1|m=audio 4000 RTP/AVP 0 8 101|a=sendonly|a=ptime:|a=rtcp:|"
    b"a=rtpmap:101 telephone-event/8000|m=audio 0 RTP/SAVP 0|a=fmtp:101"
)
lines = st.sampled_from(LINES.split(b"|"))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(lines, st.integers(0, 40), st.sampled_from([b"\r\n", b"\n", b"\r"])), max_size=12))
def test_shuffled_and_cut_lines_never_crash(parts) -> None:
    body = b"".join(line[: len(line) - cut % len(line)] + end for line, cut, end in parts)
    with suppress(SdpError):
        assert parse(body).media
