import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sip.errors import UnsafeText
from gateway.sip.uri import NameAddr, SipUri, Uri, join_host_port, scheme_of, split_host_port

ODD_USER = "1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*"


def test_all_parts_of_a_uri():
    uri = SipUri.parse("SIPS:bob:secret@Example.COM:5061;transport=TCP;lr?Subject=x&Replaces=a%40b")

    assert uri == SipUri(
        scheme="sips",
        user="bob",
        password="secret",
        host="Example.COM",
        port=5061,
        params=(("transport", "TCP"), ("lr", None)),
        headers="Subject=x&Replaces=a%40b",
    )
    assert (uri.transport, uri.loose) == ("tcp", True)
    assert str(uri) == "sips:bob:secret@Example.COM:5061;transport=TCP;lr?Subject=x&Replaces=a%40b"


def test_the_user_part_may_hold_what_ends_a_host():
    uri = SipUri.parse(f"sip:{ODD_USER}:&it+has=1,weird!*pas$wo~d_too.(doesn't-it)@example.com")

    assert (uri.user, uri.host) == (ODD_USER, "example.com")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("[2001:db8::1]:5080", "2001:db8::1", 5080),
        ("[2001:db8::1]", "2001:db8::1", None),
        ("under_score.example", "under_score.example", None),
        ("192.0.2.1:5060", "192.0.2.1", 5060),
    ],
)
def test_host_and_port_round_trip(text, host, port):
    assert split_host_port(text) == (host, port)
    assert join_host_port(host, port) == text


@pytest.mark.parametrize(
    "text", ["", "a b", "h:0", "h:65536", "h:x", "[::1", "2001:db8::1", "h:", "a@b", "ä.de"]
)
def test_what_is_no_host(text):
    with pytest.raises(ValueError, match="not a"):
        split_host_port(text)


@pytest.mark.parametrize(
    "text", ["", "sip:", "sip", "http://x", "sip: a@b", "sip:a@", "<sip:a@b>", "sip:a@b\r\nX: y", "9sip:a@b"]
)
def test_what_is_no_sip_uri(text):
    with pytest.raises(ValueError, match="not a"):
        SipUri.parse(text)


def test_schemes():
    assert scheme_of("Tel:+1-212") == "tel"
    assert scheme_of("soap.beep://192.0.2.103:3002") == "soap.beep"
    with pytest.raises(ValueError, match="not a URI"):
        scheme_of("no scheme")


@pytest.mark.parametrize(
    ("uri", "user"),
    [
        ("sip:+12125550100@gw.example", "+12125550100"),
        ("sip:%2B1212;phone-context=x@gw.example;user=phone", "+1212"),
        ("tel:+1-212-555;phone-context=example.com", "+1-212-555"),
        ("sip:gw.example", ""),
        ("sip:caf%C3%A9@gw.example", "café"),
        ("urn:service:sos", ""),
        ("http://x/y@z", ""),
    ],
)
def test_the_user_of_a_uri(uri, user):
    assert Uri(uri).user == user


@pytest.mark.report("BR-194")
@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("<sip:**1@192.0.2.1>;tag=a", "**1"),
        ("<sip:%2B12025550123@x>", "+12025550123"),
        ("<sip:%23%2A31#@x>", "#*31#"),
        ("<sip:+12025550123;npdi;rn=+12025550000@gw;user=phone>", "+12025550123"),
        ("<sip:203.0.113.5>", ""),
        ("<sip:@carrier.example>", ""),
        ("<sip:a%00b@x>", "a\0b"),
    ],
)
def test_odd_users_are_read_and_kept_as_written(text, user):
    addr = NameAddr.parse(text)

    assert addr.uri.user == user
    assert addr.uri in text


@pytest.mark.parametrize(
    ("text", "display", "uri", "params"),
    [
        ('"J \\"R\\" \\\\" <sip:j@h>;tag=1', 'J "R" \\', "sip:j@h", (("tag", "1"),)),
        ("caller<sip:c@h>;tag=323", "caller", "sip:c@h", (("tag", "323"),)),
        ("Bell, Alexander <sip:a@h>;tag=43", "Bell, Alexander", "sip:a@h", (("tag", "43"),)),
        ('"W" < sip:t@h >', "W", "sip:t@h", ()),
        ("sip:w@h;tag=D", "", "sip:w@h", (("tag", "D"),)),
        ("<sip:w@h;lr;x=1>", "", "sip:w@h;lr;x=1", ()),
        ("<sip:w@h?Route=%3Csip:x%3E>", "", "sip:w@h?Route=%3Csip:x%3E", ()),
        ("isbn:2983792873", "", "isbn:2983792873", ()),
        ("<http://www.example.com>;tag=3", "", "http://www.example.com", (("tag", "3"),)),
        ("sip:v@h ;   tag    = 19n", "", "sip:v@h", (("tag", "19n"),)),
        ("<sip:joe@h>;;;;", "", "sip:joe@h", ()),
    ],
)
def test_name_addr_forms(text, display, uri, params):
    assert NameAddr.parse(text) == NameAddr(Uri(uri), display, params)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '"Mr. J. User <sip:j@h>',
        "sip:u@h?Route=x",
        "sip:u@h,x",
        "<sip:u@h",
        "<>",
        '"a" "b" <sip:u@h>',
        "<sip:u@h> x",
        "*",
        '"only a name"',
    ],
)
def test_what_is_no_name_addr(text):
    with pytest.raises(ValueError):
        NameAddr.parse(text)


def test_a_name_addr_is_written_quoted():
    addr = NameAddr.parse("A B<sip:a@h>;Tag=x")

    assert addr.tag == "x"
    assert str(addr) == '"A B" <sip:a@h>;Tag=x'


def test_a_line_break_never_leaves_in_a_uri():
    with pytest.raises(UnsafeText):
        str(SipUri("h", user="a\r\nX: y"))
    with pytest.raises(UnsafeText):
        str(NameAddr(Uri("sip:a@h"), display="a\r\nX: y"))


_word = st.from_regex(r"[A-Za-z0-9._~*+!-]{1,12}", fullmatch=True)


@given(
    st.builds(
        SipUri,
        host=st.from_regex(r"[a-z0-9]{1,8}(\.[a-z0-9]{1,8}){0,2}", fullmatch=True),
        user=st.one_of(st.just(""), _word),
        port=st.one_of(st.none(), st.integers(1, 65535)),
        scheme=st.sampled_from(["sip", "sips"]),
        params=st.lists(st.tuples(_word, st.one_of(st.none(), _word)), max_size=3).map(tuple),
        headers=st.one_of(st.just(""), st.from_regex(r"[a-z]{1,6}=[a-z0-9]{1,6}", fullmatch=True)),
    )
)
def test_any_uri_survives_writing_and_reading(uri):
    assert SipUri.parse(str(uri)) == uri


@given(st.text())
def test_any_text_is_a_name_addr_or_a_value_error(text):
    try:
        addr = NameAddr.parse(text)
    except ValueError:
        return
    assert addr.uri
