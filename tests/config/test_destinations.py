import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.destinations import destination_fault


@pytest.mark.parametrize(
    "text",
    [
        "+12125551234",
        "+442079460958",
        "+77273300000",
        "+4930123456",
        "sip:desk@pbx.example.com",
        "sip:+12125551234@192.0.2.1:5070;transport=tcp;user=phone",
        "SIPS:desk@[2001:db8::1]:5061",
    ],
)
def test_numbers_and_sip_uris_that_can_be_dialled(text):
    assert destination_fault(text) is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("2125551234", "is not an E.164 number or a SIP URI"),
        ("", "is not an E.164 number or a SIP URI"),
        ("0042", "is not an E.164 number or a SIP URI"),
        ("tel:+12125551234", "is not an E.164 number or a SIP URI"),
        ("+1 212 555 1234", "has characters in it that are not digits"),
        ("+1212555CALL", "has characters in it that are not digits"),
        ("+", "has characters in it that are not digits"),
        ("+1212", "is too short for its country"),
        ("+121255512345678", "has a wrong length for its country"),
        ("+9991234567", "has no country code that exists"),
        ("+0123456789", "has no country code that exists"),
        ("+12125551234\n", "has characters in it that are not digits"),
        ("sip:pbx.example.com", "is not a SIP URI"),
        ("sip:@pbx", "is not a SIP URI"),
        ("sip:desk@", "is not a SIP URI"),
        ("sip:desk@pbx:0", "is not a SIP URI"),
        ("sip:desk@pbx:70000", "is not a SIP URI"),
        ("sip:desk@pbx\r\nEvil: 1", "is not a SIP URI"),
        ("sip:desk@pbx>", "is not a SIP URI"),
        ("sip:desk@pbx?Replaces=x", "is not a SIP URI"),
    ],
)
def test_what_cannot_be_dialled_and_why(text, what):
    fault = destination_fault(text)

    assert fault is not None
    assert fault[0] == f"{{value}} {what}"
    assert fault[1]


@settings(max_examples=100, deadline=None)
@given(
    st.text(max_size=40)
    | st.from_regex(r"\+[0-9]{0,20}", fullmatch=True)
    | st.text(max_size=20).map("sip:".__add__)
)
def test_what_is_accepted_never_holds_anything_that_breaks_a_header(text):
    if destination_fault(text) is None:
        assert text.isascii()
        assert not set(text) & set(' \r\n\t<>"')
