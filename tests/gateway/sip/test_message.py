import pytest

from gateway.sip.errors import UnsafeText
from gateway.sip.message import Headers, Request, Response
from gateway.sip.uri import Uri


def test_names_are_compared_whole_without_case_and_in_long_form():
    headers = Headers(
        [
            ("v", "SIP/2.0/UDP a"),
            ("Allow", "INVITE, ACK"),
            ("VIA", "SIP/2.0/UDP b"),
            ("Viability", "none"),
            ("l", "3"),
        ]
    )

    assert headers.get_all("Via") == ["SIP/2.0/UDP a", "SIP/2.0/UDP b"]
    assert headers.get("via") == headers.get("V") == "SIP/2.0/UDP a"
    assert headers.get("a") is None
    assert headers.get("Content-Length") == "3"
    assert "To" not in headers
    assert next(iter(headers)) == ("Via", "SIP/2.0/UDP a")


def test_replace_first_keeps_the_others():
    headers = Headers([("Via", "1"), ("Via", "2")])
    headers.replace_first("v", "0")

    assert headers.get_all("Via") == ["0", "2"]
    with pytest.raises(KeyError):
        headers.replace_first("To", "x")


def test_list_headers_are_split_over_all_lines():
    headers = Headers([("Record-Route", '<sip:a,b@h;lr>, "x, y" <sip:c@h>'), ("Record-Route", "<sip:d@h>,")])

    assert headers.elements("Record-Route") == ["<sip:a,b@h;lr>", '"x, y" <sip:c@h>', "<sip:d@h>"]


def test_tokens_are_lenient():
    headers = Headers([("Accept", 'Application/SDP;level=1, "broken'), ("Accept", " ,text/*")])

    assert headers.tokens("Accept") == ["application/sdp", '"broken', "text/*"]


def test_a_copy_is_independent():
    first = Headers([("A", "1")])
    second = first.copy()
    second.add("B", "2")

    assert len(first) == 1
    assert len(second) == 2
    assert first != second


@pytest.mark.parametrize(
    ("name", "value"), [("X", "a\r\nB: c"), ("X\r\nB", "c"), ("X", "a\n"), ("", "c"), ("A B", "c")]
)
def test_nothing_that_could_start_a_header_is_taken(name, value):
    with pytest.raises(UnsafeText):
        Headers().add(name, value)


def test_content_length_is_always_that_of_the_body():
    request = Request(
        Headers([("To", "<sip:a@h>"), ("Content-Length", "999")]), b"12345", "INFO", Uri("sip:a@h")
    )

    assert request.to_bytes() == b"INFO sip:a@h SIP/2.0\r\nTo: <sip:a@h>\r\nContent-Length: 5\r\n\r\n12345"


@pytest.mark.parametrize(
    ("method", "uri"), [("IN VITE", "sip:a@h"), ("INVITE", "sip:a@h SIP/2.0\r\nX: y"), ("", "sip:a@h")]
)
def test_no_request_line_can_be_forged(method, uri):
    with pytest.raises(UnsafeText):
        Request(Headers(), b"", method, Uri(uri)).to_bytes()


def test_no_status_line_can_be_forged():
    with pytest.raises(UnsafeText):
        Response(Headers(), b"", 200, "OK\r\nX: y").to_bytes()
    assert (
        Response(Headers(), b"", 486, "Busy").to_bytes() == b"SIP/2.0 486 Busy\r\nContent-Length: 0\r\n\r\n"
    )
