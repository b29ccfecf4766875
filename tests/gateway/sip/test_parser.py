import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.sip.message import Headers, Request, Response
from gateway.sip.parser import Limits, ParseError, parse_message, salvage_via
from gateway.sip.uri import Uri

GOOD = (
    b"INVITE sip:bot@192.0.2.10 SIP/2.0\r\n"
    b"Via: SIP/2.0/UDP 203.0.113.9;branch=z9hG4bKc1\r\n"
    b"From: <sip:+12025550123@203.0.113.9>;tag=1\r\n"
    b"To: <sip:bot@192.0.2.10>\r\n"
    b"Call-ID: c1\r\n"
    b"CSeq: 1 INVITE\r\n"
    b"Contact: <sip:203.0.113.9>\r\n"
    b"Content-Length: 4\r\n"
    b"\r\n"
    b"v=0\n"
)


def changed(old: bytes, new: bytes) -> bytes:
    assert old in GOOD
    return GOOD.replace(old, new)


def refused(data: bytes, **options) -> ParseError:
    with pytest.raises(ParseError) as caught:
        parse_message(data, **options)
    return caught.value


def test_a_request_is_read():
    request = parse_message(GOOD)

    assert isinstance(request, Request)
    assert (request.method, request.uri, request.uri.user) == ("INVITE", "sip:bot@192.0.2.10", "bot")
    assert (request.call_id, request.cseq.number, request.from_.tag, request.to.tag) == ("c1", 1, "1", "")
    assert request.via.sent_by == ("203.0.113.9", 5060)
    assert request.contact is not None
    assert request.contact.uri == "sip:203.0.113.9"
    assert request.body == b"v=0\n"


def test_a_response_is_read():
    head = GOOD.partition(b"\r\n")[2]
    response = parse_message(b"SIP/2.0 486 Busy Here\r\n" + head)

    assert isinstance(response, Response)
    assert (response.status, response.reason) == (486, "Busy Here")
    for start, reason in ((b"SIP/2.0 100 ", ""), (b"SIP/2.0 100", ""), (b"sip/2.0 200 caf\xe9", "caf\udce9")):
        assert parse_message(start + b"\r\n" + head).reason == reason


@pytest.mark.report("BR-008")
def test_short_header_names_are_the_same_as_long_ones():
    short = (
        b"INVITE sip:bot@192.0.2.10 SIP/2.0\r\n"
        b"v: SIP/2.0/UDP 203.0.113.9;branch=z9hG4bKc1\r\n"
        b"Via: SIP/2.0/UDP 203.0.113.10;branch=z9hG4bKc0\r\n"
        b"f: <sip:+12025550123@203.0.113.9>;tag=1\r\n"
        b"t: <sip:bot@192.0.2.10>\r\n"
        b"i: compact-1\r\nCSeq: 1 INVITE\r\nm: <sip:203.0.113.9>\r\nk: timer\r\nx: 1800\r\n"
        b"c: application/sdp\r\ns: hi\r\nr: <sip:r@h>\r\nb: <sip:b@h>\r\ne: identity\r\n"
        b"o: talk\r\nu: talk\r\n"
        b"a: *\r\nd: proxy\r\nj: *\r\nn: <x>\r\ny: z\r\nl: 4\r\n\r\nv=0\nrest"
    )
    request = parse_message(short)

    assert [name for name, _ in request.headers] == [
        "Via", "Via", "From", "To", "Call-ID", "CSeq", "Contact", "Supported", "Session-Expires",
        "Content-Type", "Subject", "Refer-To", "Referred-By", "Content-Encoding", "Event", "Allow-Events",
        "Accept-Contact", "Request-Disposition", "Reject-Contact", "Identity-Info", "Identity",
        "Content-Length",
    ]  # fmt: skip
    assert request.via.branch == "z9hg4bkc1"
    assert request.body == b"v=0\n"


@pytest.mark.report("BR-012")
def test_folded_headers_are_joined_with_one_blank():
    folded = (
        b"SIP/2.0 401 Unauthorized\r\n"
        b"Via: SIP/2.0/UDP\r\n 192.0.2.10:5060;branch=z9hG4bKx1\r\n"
        b"From:\r\n\t<sip:a@h>;tag=1\r\nTo: <sip:b@h>;tag=2\r\nCall-ID: c\r\nCSeq: 1\r\n  INVITE\r\n"
        b'WWW-Authenticate: Digest realm="ims.example",\r\n nonce="Zm9sZGVk",\r\n'
        b'\tqop="auth",\r\n algorithm=MD5\r\n'
        b"Subject: first line\r\n   second line\r\nContent-Length: 0\r\n\r\n"
    )
    response = parse_message(folded)

    assert response.headers.get("WWW-Authenticate") == (
        'Digest realm="ims.example", nonce="Zm9sZGVk", qop="auth", algorithm=MD5'
    )
    assert response.headers.get("Subject") == "first line second line"
    assert response.via.sent_by == ("192.0.2.10", 5060)
    assert response.cseq.method == "INVITE"
    assert response.from_.tag == "1"


@pytest.mark.report("BR-036")
def test_exotic_headers_cannot_fail_a_call():
    exotic = (
        b'P-Charging-Vector: icid-value="a;b=c,d";icid-generated-at=203.0.113.7\r\n'
        b'Reason: Q.850;cause=16;text="Terminated"\r\nDate: Tue, 31 Foo 2026 25:61:00 GMT\r\n'
        b'User-Agent: (unbalanced "quote\r\nno colon at all\r\n'
        b"bad name: x\r\n: y\r\nX-Raw: \x00\x80\xff\r\nCall-ID: c1"
    )
    request = parse_message(changed(b"Call-ID: c1", exotic))

    assert request.headers.get("User-Agent") == '(unbalanced "quote'
    assert b"X-Raw: \x00\x80\xff\r\n" in request.to_bytes()
    assert len(request.headers) == 12


@pytest.mark.report("BR-049")
def test_names_are_not_recognised_by_their_beginning():
    request = parse_message(
        changed(
            b"Content-Length: 4",
            b"Allow: INVITE, ACK, CANCEL, BYE\r\nAllow-Events: talk\r\nViability: none\r\n"
            b"Content-Language: de\r\nTo-Do: x\r\nContent-Length:4",
        )
    )

    assert request.headers.get_all("Via") == ["SIP/2.0/UDP 203.0.113.9;branch=z9hG4bKc1"]
    assert request.headers.get("Allow") == "INVITE, ACK, CANCEL, BYE"
    assert request.headers.get("To") == "<sip:bot@192.0.2.10>"
    assert request.body == b"v=0\n"


@pytest.mark.report("BR-034")
@pytest.mark.parametrize(
    ("length", "body"),
    [(b"Content-Length: 2", b"v="), (b"Content-Length:    4", b"v=0\n"), (b"X-None: 1", b"v=0\n")],
    ids=["too small cuts", "several blanks", "missing takes all"],
)
def test_content_length_of_a_datagram(length, body):
    assert parse_message(changed(b"Content-Length: 4", length)).body == body


@pytest.mark.report("BR-034")
@pytest.mark.report("BR-022")
@pytest.mark.parametrize(
    "length", [b"5", b"900", b"-5", b"4x", b"", b"+4", "٤".encode(), b"4\r\nContent-Length: 5", b"9" * 30]
)
def test_a_content_length_that_cannot_be_is_refused(length):
    assert refused(changed(b"Content-Length: 4", b"Content-Length: " + length)).status == 400


def test_a_stream_needs_a_content_length():
    assert refused(changed(b"Content-Length: 4", b"X-None: 1"), stream=True).status == 400


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        (b" SIP/2.0\r\nVia", b" SIP/7.0\r\nVia", 505),
        (b"INVITE sip:", b"INVITE  sip:", 400),
        (b"10 SIP/2.0", b"10  SIP/2.0", 400),
        (b"10 SIP/2.0", b"10 SIP/2.0 ", 400),
        (b"10 SIP/2.0", b"10; lr SIP/2.0", 400),
        (b"sip:bot@192.0.2.10 SIP", b"<sip:bot@192.0.2.10> SIP", 400),
        (b"sip:bot@192.0.2.10 SIP", b"bot SIP", 400),
        (b"CSeq: 1 INVITE", b"CSeq: 1 OPTIONS", 400),
        (b"CSeq: 1 INVITE", b"CSeq: 1 invite", 400),
        (b"CSeq: 1 INVITE", b"CSeq: 2147483648 INVITE", 400),
        (b"CSeq: 1 INVITE\r\n", b"", 400),
        (b"Call-ID: c1\r\n", b"", 400),
        (b"Call-ID: c1", b"Call-ID: ", 400),
        (b"Call-ID: c1", b"Call-ID: a b", 400),
        (b"Call-ID: c1", b"Call-ID: c1\r\nCall-ID: c2", 400),
        (b"Call-ID: c1", b"Call-ID: c1\r\nMax-Forwards: 1\r\nMax-Forwards: 2", 400),
        (b"To: <sip:bot@192.0.2.10>", b'To: "Bot <sip:bot@192.0.2.10>', 400),
        (b"From: <sip:+12025550123@203.0.113.9>;tag=1\r\n", b"", 400),
        (b"Contact: <sip:203.0.113.9>", b"Contact: sip:a@h?Route=x", 400),
        (b";branch=z9hG4bKc1", b";;branch=z9hG4bKc1", 400),
        (b";branch=z9hG4bKc1", b";branch=z9hG4bKc1,", 400),
        (b"Call-ID: c1", b"Call-ID: c1\rX: y", 400),
        (b"\r\nVia", b"\r\n folded\r\nVia", 400),
    ],
)
def test_what_is_refused_can_be_answered(old, new, status):
    error = refused(changed(old, new))

    assert (error.status, error.method, error.answerable) == (status, "INVITE", True)
    assert salvage_via(error.headers).sent_by == ("203.0.113.9", 5060)


def test_a_broken_via_is_salvaged_for_the_answer():
    error = refused(changed(b"203.0.113.9;branch=z9hG4bKc1", b"203.0.113.9:5062;;,;,,"))

    assert error.answerable
    assert error.headers.get("Via") == "SIP/2.0/UDP 203.0.113.9:5062;;,;,,"
    assert salvage_via(error.headers).sent_by == ("203.0.113.9", 5062)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n\r\n",
        b"\x00\x01\x00\x00!\x12\xa4B",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        GOOD.replace(b"INVITE", b"ACK").replace(b"CSeq: 1", b"CSeq: x"),
        changed(b"Via: SIP/2.0/UDP 203.0.113.9;branch=z9hG4bKc1\r\n", b""),
        changed(b"Via: SIP/2.0/UDP 203.0.113.9;branch=z9hG4bKc1", b"Via: rubbish"),
        b"SIP/2.0 4294967301 x\r\n" + GOOD.partition(b"\r\n")[2],
        b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP h\r\n\r\n",
    ],
)
def test_what_must_be_dropped_silently(data):
    assert not refused(data).answerable


def test_leading_line_breaks_and_lines_without_cr_are_tolerated():
    assert parse_message(b"\r\n\r\n" + GOOD) == parse_message(GOOD)
    assert parse_message(GOOD.replace(b"\r\n", b"\n")) == parse_message(GOOD)


def test_a_message_may_end_without_an_empty_line():
    head = GOOD.partition(b"Content-Length")[0]

    assert parse_message(head).body == b""


@pytest.mark.report("BR-031")
def test_a_very_long_invite_is_read():
    extra = b"".join(b"X-Meta-%02d: %s\r\n" % (n, b"m" * 120) for n in range(40))
    extra += b"Identity: " + b"p" * 2400 + b";info=<https://c.example/c.pem>;alg=ES256\r\n"
    extra += b"Record-Route: <sip:p.example;lr>\r\n" * 8 + b"Via: SIP/2.0/UDP h\r\n" * 5
    request = parse_message(changed(b"Call-ID: c1\r\n", b"Call-ID: c1\r\n" + extra))

    assert len(request.headers.get_all("Record-Route")) == 8
    assert len(request.to_bytes()) > 8_000


@pytest.mark.report("BR-031")
@pytest.mark.parametrize(
    ("data", "limits", "status"),
    [
        (changed(b"Call-ID: c1", b"X: y\r\n" * 300 + b"Call-ID: c1"), Limits(), 513),
        (changed(b"Call-ID: c1", b"X: " + b"y" * 2000 + b"\r\nCall-ID: c1"), Limits(max_head=1000), 513),
        (GOOD, Limits(max_body=3), 413),
    ],
    ids=["headers", "head", "body"],
)
def test_above_a_cap_the_message_is_too_large_or_its_body_is(data, limits, status):
    error = refused(data, limits=limits)

    assert error.status == status
    assert error.answerable or limits.max_head == 1000


def test_an_overlong_head_is_still_answered_if_its_beginning_tells_where():
    error = refused(changed(b"Content-Length: 4", b"X: " + b"y" * 70_000), limits=Limits())

    assert (error.status, error.answerable) == (513, True)


@given(st.binary(max_size=400))
@example(b"INVITE")
@example(b"SIP/2.0 ")
def test_rubbish_raises_nothing_but_parse_error(data):
    statuses = set()
    for stream in (False, True):
        try:
            parse_message(data, stream=stream)
        except ParseError as error:
            statuses.add(error.status)
    assert statuses <= {400, 413, 505, 513}


@given(st.integers(0, len(GOOD)), st.integers(0, 12), st.binary(max_size=12))
@settings(max_examples=100)
def test_a_damaged_message_raises_nothing_but_parse_error(at, cut, junk):
    try:
        message = parse_message(GOOD[:at] + junk + GOOD[at + cut :])
    except ParseError:
        return
    # What was accepted can be used: nothing of it raises later.
    assert message.via.sent_by
    assert message.from_.uri
    assert message.to.uri
    assert message.cseq.method


_names = st.sampled_from(["Subject", "X-One", "Record-Route", "Via", "Accept"])
_values = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=30
).map(lambda text: text.strip(" \t"))


@given(
    st.lists(st.tuples(_names, _values), max_size=8),
    st.binary(max_size=60),
    st.from_regex(r"[A-Z]{1,8}", fullmatch=True),
)
def test_any_request_survives_writing_and_reading(extra, body, method):
    headers = Headers(
        [
            ("Via", "SIP/2.0/UDP 192.0.2.1:5061;branch=z9hG4bKx;rport"),
            ("From", "<sip:a@h>;tag=1"),
            ("To", "<sip:b@h>"),
            ("Call-ID", "c"),
            ("CSeq", f"7 {method}"),
            *extra,
        ]
    )
    request = Request(headers, body, method, Uri("sip:b@h"))
    again = parse_message(request.to_bytes())

    assert isinstance(again, Request)
    assert list(again.headers) == [*headers, ("Content-Length", str(len(body)))]
    assert (again.method, again.uri, again.body) == (method, "sip:b@h", body)
