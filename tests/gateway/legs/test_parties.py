import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.legs.numbers import NumberPlan
from gateway.legs.parties import PartyRules, describe
from gateway.sip.identity import DEFAULT_ORDER, CallerSource
from gateway.sip.parser import ParseError, parse_message

HISTORY = (
    "History-Info: <sip:+12025550133@x?Reason=SIP%3Bcause%3D302>;index=1, <sip:+12025550100@gw>;index=1.1"
)
TRUSTED = PartyRules(order=DEFAULT_ORDER)


def invite(*headers, uri="sip:+12025550100@gw.example.com", from_="<sip:+12025550123@x>;tag=1", to=None):
    lines = [
        f"INVITE {uri} SIP/2.0",
        "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1",
        f"From: {from_}",
        f"To: {to or f'<{uri}>'}",
        "Call-ID: 1@x",
        "CSeq: 1 INVITE",
        "Contact: <sip:192.0.2.1>",
        *headers,
        "Content-Length: 0",
        "",
        "",
    ]
    return parse_message("\r\n".join(lines).encode("utf-8", "surrogateescape"), stream=False)


def parties(*headers, rules=TRUSTED, registered_as="", **request):
    return describe(invite(*headers, **request), rules, registered_as=registered_as)


@pytest.mark.report("BR-192")
def test_the_caller_is_who_a_trusted_trunk_says_and_from_an_untrusted_one_who_calls():
    headers = (
        (
            'P-Asserted-Identity: "Ann Example" <sip:+493023125017@sipgate.example;user=phone>,'
            " <tel:+493023125017>"
        ),
        'Remote-Party-ID: "A" <sip:+493023125999@x>;party=calling;screen=no;privacy=off',
        "P-Preferred-Identity: <sip:+19005550100@x>",
    )
    from_ = '"Trunk 42" <sip:trunk42@sipgate.example>;tag=1'

    trusted = parties(*headers, from_=from_)
    assert trusted.caller == "+493023125017"
    assert trusted.parameters["caller_name"] == "Ann Example"
    assert parties(*headers, from_=from_, rules=PartyRules()).caller == "trunk42"
    without = parties(*headers[1:], from_=from_)
    assert without.caller == "trunk42"
    screened = parties(headers[1].replace("screen=no", "screen=yes"), from_=from_)
    assert screened.caller == "+493023125999"
    own_order = PartyRules(order=(CallerSource.FROM, CallerSource.ASSERTED))
    assert parties(*headers, from_=from_, rules=own_order).caller == "trunk42"


@pytest.mark.report("BR-188")
def test_tel_uris_name_caller_and_called():
    found = parties(
        "P-Asserted-Identity: <tel:+12025550123>",
        from_='"Ann" <tel:+1-202-555-0123>;tag=1',
        to="<tel:4012;phone-context=example.com>",
        uri="tel:+12025550100",
    )
    assert (found.caller, found.called, found.parameters["to"]) == ("+12025550123", "+12025550100", "4012")
    untrusted = parties(from_='"Ann" <tel:+1-202-555-0123>;tag=1', rules=PartyRules())
    assert (untrusted.caller, untrusted.parameters["caller_raw"]) == ("+12025550123", "+1-202-555-0123")

    local = parties(uri="tel:4012;phone-context=example.com")
    assert (local.called, local.parameters["called_context"]) == ("4012", "example.com")
    assert parties(uri="tel:5550100;phone-context=+1202").called == "+12025550100"


@pytest.mark.report("BR-194")
@pytest.mark.parametrize(
    ("from_", "caller"),
    [
        ("<sip:**1@192.0.2.1>;tag=a", "**1"),
        ("<sip:%2B12025550123@x>;tag=a", "+12025550123"),
        ("<sip:%23%2A31#@x>;tag=a", "#*31#"),
        ("<sip:+12025550123;npdi;rn=+12025550000@gw;user=phone>;tag=a", "+12025550123"),
        ("<sip:203.0.113.5>;tag=a", ""),
        ("<sip:@carrier.example>;tag=a", ""),
        ("<sip:a%00b@x>;tag=a", ""),
    ],
)
def test_escapes_and_parameters_of_the_user_part_are_read_and_nobody_is_nobody(from_, caller):
    found = parties(from_=from_)
    assert found.caller == caller
    assert "" not in found.parameters.values()


@pytest.mark.report("BR-195")
def test_everybody_who_forwarded_the_call_is_named_the_most_recent_first():
    diverted = parties(
        "Diversion: <tel:+12025550111>;reason=unconditional;counter=1;privacy=off",
        'Diversion: <sip:+12025550122@pbx>;reason="no-answer"',
        HISTORY,
    )
    assert diverted.parameters["forwarded_from"] == "+12025550111, +12025550122"
    history = parties(HISTORY)
    assert history.parameters["forwarded_from"] == "+12025550133"
    assert "forwarded_from" not in parties().parameters


def test_a_forwarding_party_that_asks_for_privacy_is_not_named():
    found = parties("Diversion: <sip:+12025550111@x>;reason=unconditional;privacy=full")
    assert found.parameters["forwarded_from"] == "private"


@pytest.mark.report("BR-196")
@pytest.mark.parametrize(
    ("user", "country", "caller", "extension"),
    [
        ("+44%20(0)%2020%207946%200958", "", "+442079460958", None),
        ("+1-202-555-0100%20ext.%2012", "", "+12025550100", "12"),
        ("+1.202.555.0100", "", "+12025550100", None),
        ("٠٢٠٧٩٤٦٠٩٥٨", "GB", "+442079460958", None),
        ("＋12025550100", "", "+12025550100", None),
        ("+1%20202%20555%20O100", "", "+1 202 555 O100", None),
        ("12025550100", "US", "+12025550100", None),
    ],
)
def test_a_callers_number_is_read_however_it_is_written(user, country, caller, extension):
    rules = PartyRules(plan=NumberPlan(country))
    found = parties(from_=f"<sip:{user}@trunk>;tag=1", rules=rules)
    assert found.caller == caller
    assert found.parameters.get("caller_extension") == extension


@pytest.mark.report("BR-196")
def test_an_extension_in_a_tel_uri_is_kept_apart():
    found = parties(from_="<tel:+1-202-555-0100;ext=12>;tag=1")
    assert (found.caller, found.parameters["caller_extension"]) == ("+12025550100", "12")


@pytest.mark.parametrize(
    "headers",
    [
        ("Privacy: id", "P-Asserted-Identity: <sip:+12025550123@x>"),
        ("Remote-Party-ID: <sip:+1@x>;privacy=full",),
    ],
)
def test_a_caller_who_withholds_the_number_stays_unknown(headers):
    found = parties(*headers)
    assert found.caller == ""
    assert "caller_raw" not in found.parameters
    assert parties(from_='"Anonymous" <sip:anonymous@anonymous.invalid>;tag=1').caller == ""


def test_of_a_registered_contact_the_called_is_whom_the_caller_dialled():
    found = parties(uri="sip:t0k3n@192.0.2.1", to="<sip:+12025550100@pbx>", registered_as="200")
    assert (found.called, found.parameters["registered_as"]) == ("+12025550100", "200")
    assert parties(uri="sip:t0k3n@192.0.2.1", to="<sip:pbx.example>", registered_as="200").called == "200"


def test_a_trusted_registrar_says_itself_whom_the_caller_dialled():
    request = {"uri": "sip:t0k3n@192.0.2.1", "to": "<sip:+12025550199@pbx>", "registered_as": "200"}
    header = "P-Called-Party-ID: <sip:+12025550100@pbx;user=phone>"
    assert parties(header, rules=PartyRules(trusted=True), **request).called == "+12025550100"
    assert parties(header, rules=PartyRules(), **request).called == "+12025550199"
    assert (
        parties("P-Called-Party-ID: <broken", rules=PartyRules(trusted=True), **request).called
        == "+12025550199"
    )


PIECES = st.lists(
    st.sampled_from(
        ["<", ">", "sip:", "tel:", "+1202", "٣", "%", "%00", "%ff", "\udcff", ";", "ext", "=", "0", "@",
         "x", " ", '"', ",", "(0)", "phone-context", "anonymous", "?", "Reason=", "\u202e", "：", "//"]
    ),
    max_size=12,
).map("".join)  # fmt: skip


@given(st.lists(PIECES, min_size=6, max_size=6), st.sampled_from(["", "DE", "US", "IT"]))
@settings(max_examples=100, deadline=None)
def test_whatever_an_invite_says_is_read_without_an_error_into_text_that_can_be_stored(pieces, country):
    names = ("P-Asserted-Identity", "Diversion", "History-Info", "P-Called-Party-ID", "X-Note")
    headers = [f"{name}: {piece}" for name, piece in zip(names, pieces, strict=False)]
    from_ = f"<sip:{pieces[5]}@x>;tag=1"
    rules = PartyRules(NumberPlan(country), DEFAULT_ORDER, trusted=True, headers=("x-note",))
    for registered_as in ("", "200"):
        try:
            request = invite(*headers, from_=from_)
        except ParseError:
            request = invite(*headers)
        found = describe(request, rules, registered_as=registered_as)
        for text in (found.caller, found.called, *found.parameters.values()):
            text.encode()
            assert "\x00" not in text
            assert "\n" not in text


def test_configured_headers_become_parameters_without_what_could_break_a_line():
    rules = PartyRules(headers=("x-account-id", "x-missing"))
    found = parties("X-Account-ID: 4711\x01", "x-account-id: 4712", "X-Other: 1", rules=rules)
    assert found.parameters["x-account-id"] == "4711, 4712"
    assert not {"x-missing", "x-other"} & set(found.parameters)
    assert len(parties(f"X-Account-Id: {'9' * 3000}", rules=rules).parameters["x-account-id"]) == 256
