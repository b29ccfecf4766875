import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sip.party import MAX_TEXT, clean, parse_party, party_of
from gateway.sip.uri import Uri


def party(uri):
    return party_of(Uri(uri))


@pytest.mark.report("BR-188")
def test_tel_uris_give_a_number_without_separators_and_its_context():
    caller, address = parse_party('"Ann" <tel:+1-202-555-0123>;tag=1')
    called, _ = parse_party("<tel:4012;phone-context=example.com>")
    asserted, _ = parse_party("<tel:+12025550123>")

    assert (caller.number, caller.display, caller.host, address.tag) == ("+12025550123", "Ann", "", "1")
    assert (called.number, called.context) == ("4012", "example.com")
    assert asserted.number == "+12025550123"
    assert caller.uri == "tel:+1-202-555-0123"  # as written, for comparison


def test_extension_and_subaddress_of_a_tel_uri():
    read = party("tel:+1(202)555.0123;ext=12-34;isub=7%41;x=y")

    assert (read.number, read.extension, read.subaddress) == ("+12025550123", "1234", "7A")
    assert read.params == (("x", "y"),)


@pytest.mark.report("BR-194")
@pytest.mark.parametrize(
    ("uri", "number"),
    [
        ("sip:**1@192.0.2.1", "**1"),
        ("sip:%2B12025550123@x", "+12025550123"),
        ("sip:%23%2A31#@x", "#*31#"),
        ("sip:+12025550123;npdi;rn=+12025550000@gw;user=phone", "+12025550123"),
        ("sip:203.0.113.5", ""),
        ("sip:@carrier.example", ""),
        ("sip:a%00b@x", ""),
    ],
)
def test_odd_user_parts(uri, number):
    read = party(uri)

    assert read.number == number
    assert read.is_known == bool(number)
    assert read.uri == uri


def test_parameters_of_the_user_part_are_split_off():
    read = party("sip:+12025550123;npdi;rn=+12025550000@gw;user=phone")

    assert read.params == (("npdi", None), ("rn", "+12025550000"))
    assert read.host == "gw"


def test_escapes_are_decoded_once():
    assert party("sip:%252B1@x").number == "%2B1"


@pytest.mark.parametrize(
    ("uri", "number"),
    [
        ("sip:+1-202-555-0123@gw", "+12025550123"),
        ("sip:202-555-0123@gw;user=phone", "2025550123"),
        ("sip:room-12@gw", "room-12"),
        ("sip:12-a@gw", "12-a"),
        ("tel:alice", "alice"),
        ("tel:--", "--"),
    ],
)
def test_only_numbers_lose_their_separators(uri, number):
    assert party(uri).number == number


@pytest.mark.parametrize(
    "uri",
    [
        "sip:anonymous@anonymous.invalid",
        "sip:x@ANONYMOUS.invalid",
        "sip:Restricted@gw",
        "sip:unavailable@gw",
        "sips:unknown@gw",
    ],
)
def test_anonymous_forms(uri):
    assert party(uri).is_anonymous
    assert not party(uri).is_known


@pytest.mark.parametrize("uri", ["urn:service:sos", "sip:a@b@c:99999", "http://x/"])
def test_other_uris_name_nobody(uri):
    assert party(uri).number == ""


def test_names_become_safe_text():
    assert clean("A\x00n\x1bn\udcff\t") == "Ann\ufffd"
    assert len(clean("x" * 1000)) == MAX_TEXT


def test_a_number_of_unreasonable_length_is_none():
    assert party(f"tel:{'1' * 60_000}").number == ""
    assert party(f"sip:+{'1' * 60_000}x@h;user=phone").number == ""


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused_and_gives_storable_text(text):
    try:
        read, _ = parse_party(text)
    except ValueError:
        return
    for shown in (read.number, read.display, read.context, read.extension, read.subaddress):
        shown.encode()
        assert "\0" not in shown
