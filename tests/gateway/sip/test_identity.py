import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sip.identity import DEFAULT_ORDER, MAX_VALUES, CallerSource, identity_of
from gateway.sip.parser import parse_message
from tests.gateway.sip.rig import request

FROM_ONLY = (CallerSource.FROM,)


def read(*extra, uri="sip:+12025550100@gw", from_='"Trunk 42" <sip:trunk42@sipgate.example>;tag=1', to=None):
    data = request("INVITE", uri=uri, extra=extra)
    lines = [f"From: {from_}".encode() if line.startswith(b"From:") else line for line in data.split(b"\r\n")]
    if to is not None:
        lines = [f"To: {to}".encode() if line.startswith(b"To:") else line for line in lines]
    return identity_of(parse_message(b"\r\n".join(lines)))


PAI = (
    "P-Asserted-Identity",
    '"Ann Example" <sip:+493023125017@sipgate.example;user=phone>, <tel:+493023125017>',
)
RPID = ("Remote-Party-ID", '"A" <sip:+493023125999@x>;party=calling;screen=no;privacy=off')
PPI = ("P-Preferred-Identity", "<sip:+19005550100@x>")


@pytest.mark.report("BR-192")
def test_the_order_of_the_trunk_decides_who_calls():
    identity = read(PAI, RPID, PPI)

    assert [each.number for each in identity.asserted] == ["+493023125017", "+493023125017"]
    assert identity.caller(DEFAULT_ORDER).number == "+493023125017"
    assert identity.caller(DEFAULT_ORDER).display == "Ann Example"
    assert identity.caller(FROM_ONLY).number == "trunk42"  # from an untrusted source
    assert identity.caller((CallerSource.UNSCREENED, CallerSource.ASSERTED)).number == "+493023125999"
    # A Remote-Party-ID that nobody has screened is worth less than From.
    assert read(RPID, PPI).caller(DEFAULT_ORDER).number == "trunk42"


def test_a_screened_remote_party_id_counts_and_one_of_the_called_party_does_not():
    called = ("Remote-Party-ID", "<sip:1@x>;party=called;screen=yes")
    screened = ("Remote-Party-ID", '"B" <sip:+12@x>;screen="YES";privacy=full-network')

    assert read(called).caller().number == "trunk42"
    identity = read(called, ("Remote-Party-ID", "<sip:+12@x>;screen=yes"))
    assert identity.caller().number == "+12"
    (hidden,) = read(screened).remote_parties
    assert (hidden.screened, hidden.privacy) == (True, {"full"})
    assert read(screened).withheld


@pytest.mark.report("BR-188")
def test_tel_uris_everywhere():
    asserted = ("P-Asserted-Identity", "<tel:+12025550123>")
    identity = read(
        asserted,
        uri="tel:+12025550100",
        from_='"Ann" <tel:+1-202-555-0123>;tag=1',
        to="<tel:4012;phone-context=example.com>",
    )

    assert identity.caller(FROM_ONLY).number == "+12025550123"
    assert identity.caller().number == "+12025550123"
    assert (identity.to.number, identity.to.context) == ("4012", "example.com")
    assert identity.called.number == "+12025550100"


@pytest.mark.parametrize("value", ["id", "user;critical", "header, id", "ID"])
def test_a_caller_who_asks_for_privacy_is_not_told(value):
    identity = read(PAI, ("Privacy", value))

    assert identity.withheld
    assert identity.caller() is None


def test_privacy_none_hides_nothing():
    assert read(PAI, ("Privacy", "none")).caller().number == "+493023125017"


def test_an_anonymous_from_gives_way_to_what_the_network_asserts():
    hidden = '"Anonymous" <sip:anonymous@anonymous.invalid>;tag=1'

    assert read(from_=hidden).caller() is None
    assert read(PAI, from_=hidden).caller().number == "+493023125017"


@pytest.mark.report("BR-195")
def test_the_chain_of_diversions_in_order():
    identity = read(
        ("Diversion", "<tel:+12025550111>;reason=unconditional;counter=1;privacy=off"),
        ("Diversion", '<sip:+12025550122@pbx>;reason="no-answer"'),
        (
            "History-Info",
            "<sip:+12025550133@x?Reason=SIP%3Bcause%3D302>;index=1, <sip:+12025550100@gw>;index=1.1",
        ),
    )

    assert [(each.party.number, each.reason) for each in identity.diversions] == [
        ("+12025550111", "unconditional"),
        ("+12025550122", "no-answer"),
    ]
    assert [(each.party.number, each.index, each.left_for) for each in identity.history] == [
        ("+12025550133", "1", "302"),
        ("+12025550100", "1.1", ""),
    ]
    assert identity.forwarded == identity.diversions


def test_diversions_in_one_line_and_a_comma_in_a_name():
    identity = read(("Diversion", '"Doe, Ann" <sip:1@a,b>;reason=deflection , <sip:2@h>;privacy=full'))

    assert [each.party.display for each in identity.diversions] == ["Doe, Ann", ""]
    assert [each.private for each in identity.diversions] == [False, True]


def test_forwarding_read_from_history_info_alone():
    identity = read(
        ("History-Info", "<sip:+1@x?Reason=SIP%3Bcause%3D486%3Btext%3D%22Busy%22&Privacy=history>;index=1"),
        ("History-Info", "<sip:+2@x>;index=1.1,<sip:+3@x;cause=408>;index=1.1.1;mp=1.1"),
        ("History-Info", "<sip:+4@gw>;index=1.1.1.1;rc=1.1.1"),
    )

    assert [(each.party.number, each.reason, each.private) for each in identity.forwarded] == [
        ("+2", "no-answer", False),
        ("+1", "user-busy", True),
    ]


def test_broken_values_are_left_out_and_spoil_nothing():
    identity = read(
        ("P-Asserted-Identity", '"open <sip:1@x>'),
        ("P-Asserted-Identity", "<sip:1@x, , nonsense, <tel:+2>"),
        ("P-Asserted-Identity", "nonsense, <tel:+3>"),
        ("Remote-Party-ID", "<>"),
        ("Diversion", ";;;"),
        ("History-Info", "<x>"),
        ("Privacy", ""),
    )

    assert [each.number for each in identity.asserted] == ["+3"]
    assert identity.remote_parties == identity.diversions == identity.history == ()
    assert identity.caller().number == "+3"


def test_a_flood_of_values_is_cut():
    many = ",".join("<tel:+1>" for _ in range(500))

    assert len(read(("Diversion", many), ("Diversion", many)).diversions) == MAX_VALUES
    assert len(read(*[("History-Info", "<tel:+1>")] * 100).history) == MAX_VALUES


HEADERS = ["P-Asserted-Identity", "Remote-Party-ID", "Privacy", "Diversion", "History-Info"]
VALUES = st.text(st.sampled_from("<>\"'\\,;:?&=%@+123abesiptl. \0\x7f\u00e9\udcff"), max_size=60)


@given(st.lists(st.tuples(st.sampled_from(HEADERS), VALUES), max_size=6))
def test_nothing_that_a_peer_writes_raises(extra):
    message = parse_message(request("INVITE"))
    for name, value in extra:
        message.headers.add(name, value)
    identity = identity_of(message)

    assert identity.from_.number == "alice"
    for each in identity.forwarded:
        each.party.number.encode()
