import pytest

from gateway.sip.body import UnsupportedBody, find_sdp, sipfrag_status
from gateway.sip.message import Headers

SDP = b"v=0\r\no=UAC 7718 4751 IN IP4 203.0.113.40\r\ns=-\r\nm=audio 5770 RTP/AVP 8 101\r\n"
ISUP = bytes([1, 0, 0x49, 0, 0x0A, 0xFF, 0, 0x0D, 0x0A])


def headers(kind: str, **extra: str) -> Headers:
    return Headers(
        [("Content-Type", kind), *((name.replace("_", "-"), value) for name, value in extra.items())]
    )


def test_no_body_is_no_offer():
    assert find_sdp(Headers(), b"") is None
    assert find_sdp(headers("application/isup"), b"\r\n") is None


def test_sdp_is_found_whatever_the_spelling():
    assert find_sdp(headers("Application / SDP ; charset=utf-8"), SDP) == SDP
    assert find_sdp(Headers(), SDP) == SDP


@pytest.mark.parametrize(
    "kind", ["application/unknownformat", "text/plain", "multipart/mixed", 'multipart/mixed;boundary="']
)
def test_anything_else_is_unsupported(kind):
    with pytest.raises(UnsupportedBody):
        find_sdp(headers(kind), b"<audio/>")


def test_an_encoded_body_is_unsupported():
    with pytest.raises(UnsupportedBody, match="encoded"):
        find_sdp(headers("application/sdp", Content_Encoding="gzip"), b"\x1f\x8b")
    assert find_sdp(headers("application/sdp", Content_Encoding="Identity"), SDP) == SDP


def test_an_optional_body_that_we_do_not_know_is_skipped():
    assert find_sdp(headers("text/plain", Content_Disposition="render;handling=optional"), b"hello") is None


def sip_i(handling: str) -> bytes:
    return (
        b"preamble\r\n--sonus delim\r\n"
        b"Content-Disposition: session; handling=required\r\n"
        b"content-type: application/SDP; charset=utf-8\r\n\r\n" + SDP + b"\r\n--sonus delim\r\n"
        b"Content-Type: application/isup; version=itu-t92+\r\n"
        b"Content-Disposition: signal; handling="
        + handling.encode()
        + b"\r\n\r\n"
        + ISUP
        + b"\r\n--sonus delim--\r\n"
    )


@pytest.mark.report("BR-020")
def test_sdp_beside_binary_isup_is_used_and_the_isup_ignored():
    kind = headers('multipart/mixed;boundary="sonus delim"')

    assert find_sdp(kind, sip_i("optional")) == SDP
    with pytest.raises(UnsupportedBody, match="application/isup"):
        find_sdp(kind, sip_i("required"))


@pytest.mark.report("BR-033")
def test_sdp_is_found_behind_a_location():
    body = (
        b"--b1\r\nContent-Type: application/pidf+xml\r\nContent-ID: <loc1@example.com>\r\n\r\n<presence/>\r\n"
        b"--b1\r\nContent-Type: application/sdp\r\nContent-ID: <sdp1@x>\r\n\r\n" + SDP + b"\r\n--b1--"
    )

    assert (
        find_sdp(headers('multipart/related; boundary=b1; type="application/sdp"; start="<sdp1@x>"'), body)
        == SDP
    )


def test_one_known_form_of_an_alternative_is_enough():
    body = (
        b"--b\r\nContent-Type: text/html\r\n\r\nx\r\n--b\r\nContent-Type: application/sdp\r\n\r\n"
        + SDP
        + b"\r\n--b--"
    )

    assert find_sdp(headers("multipart/alternative;boundary=b"), body) == SDP
    with pytest.raises(UnsupportedBody):
        find_sdp(headers("multipart/mixed;boundary=b"), body)


def test_a_part_with_broken_headers_is_unsupported():
    with pytest.raises(UnsupportedBody, match="malformed"):
        find_sdp(headers("multipart/mixed;boundary=b"), b"--b\r\n folded: x\r\n\r\n" + SDP + b"\r\n--b--")


def test_nesting_has_an_end():
    body = SDP
    kind = "application/sdp"
    for depth in range(5):
        mark = f"b{depth}"
        body = f"--{mark}\r\nContent-Type: {kind}\r\n\r\n".encode() + body + f"\r\n--{mark}--".encode()
        kind = f"multipart/mixed;boundary={mark}"
    with pytest.raises(UnsupportedBody):
        find_sdp(headers(kind), body)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"SIP/2.0 100 Trying", (100, "Trying")),
        (b"SIP/2.0 200 OK\r\n", (200, "OK")),
        (b"\r\nsip/2.0 486\r\nContact: <sip:x@h>\r\n", (486, "")),
        (b"SIP/2.0 603 \xd0\x9d\xd0\xb5\xd1\x82\r\n", (603, "Нет")),
        (b"", None),
        (b"SIP/2.0 999 x", None),
        (b"INVITE sip:a@h SIP/2.0", None),
    ],
)
def test_the_status_of_a_fragment(body, told):
    assert sipfrag_status(body) == told
