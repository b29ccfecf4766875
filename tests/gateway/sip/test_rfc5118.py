"""RFC 5118: IPv6 in SIP, with messages of our own against a real user agent over IPv6."""

from ipaddress import ip_address

import pytest

from gateway.legs.description import CallDescription
from gateway.sip.parser import ParseError, parse_message
from tests.gateway.sip.conformance import IPV6, UDP6, final_answer, judge, load, show
from tests.gateway.sip.rig import Rig, request

CASES = load(IPV6, ".msg")
DATA = {case.name: case.data for case in CASES}
SECTIONS = {"4.1", "4.2", "4.3", "4.4", "4.5", "4.6", "4.7", "4.8", "4.9", "4.10"}


def described(name):
    body = parse_message(DATA[name]).body
    return CallDescription.for_offer(body, host="2001:db8::10", port=20000, codecs=("PCMU",))


def test_all_messages_at_one_user_agent():
    results = judge(CASES, UDP6)
    show(results)

    assert [result.verdict for result in results] == ["right"] * len(CASES)
    assert {case.section for case in CASES} == SECTIONS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_message_alone(case):
    assert final_answer(Rig(), case.data, UDP6) in case.answers


@pytest.mark.parametrize(
    ("name", "host", "port"),
    [
        ("reference_in_the_uri", "2001:db8::10", None),
        ("port_inside_the_brackets", "2001:db8::10:5070", None),
        ("port_behind_the_brackets", "2001:db8::10", 5070),
        ("one_colon_too_many", "2001:db8:::192.0.2.1", None),
    ],
)
def test_host_and_port_of_a_reference(name, host, port):
    uri = parse_message(DATA[name]).uri

    assert (uri.sip.host, uri.sip.port) == (host, port)
    assert str(uri.sip) == uri


def test_an_address_without_brackets_is_no_uri():
    with pytest.raises(ParseError):
        parse_message(DATA["uri_without_brackets"])


@pytest.mark.parametrize("name", ["received_with_brackets", "received_without_brackets"])
def test_both_forms_of_received_are_kept_as_they_came(name):
    (answer,) = Rig().feed(DATA[name], UDP6)
    line = next(line for line in DATA[name].decode().split("\r\n") if "received=" in line)

    assert answer.all("via")[1] == line.removeprefix("Via: ")


def test_our_own_received_has_no_brackets():
    data = request("OPTIONS", via="SIP/2.0/UDP [2001:db8::77]:5062;rport")
    (answer,) = Rig().feed(data, UDP6)

    assert answer["via"].endswith(";rport=5060;received=2001:db8::9:1")
    assert answer["contact"] == "<sip:[2001:db8::10]:5060>"


def test_hops_of_both_families_are_sent_back_in_order():
    answers = Rig().feed(DATA["both_families_in_via"], UDP6)

    assert [via.split(";")[0] for via in answers[0].all("via")] == [
        "SIP/2.0/UDP [2001:db8::9:1]:5060",
        "SIP/2.0/UDP 192.0.2.1",
        "SIP/2.0/TCP [2001:db8::9:255]",
    ]


@pytest.mark.parametrize("name", ["addresses_in_sdp", "both_families_in_sdp"])
def test_the_answer_names_our_address_in_the_family_of_the_offer(name):
    description = described(name)

    assert description.media.remote == ("2001:db8::9:1", 24500)
    assert b"c=IN IP6 2001:db8::10\r\n" in description.local()


def test_a_refused_line_of_the_other_family_is_answered_with_port_0():
    assert b"m=video 0 RTP/AVP 31\r\n" in described("both_families_in_sdp").local()


def test_a_mapped_address_is_spoken_to_as_it_is_written():
    host, port = described("mapped_addresses").media.remote

    assert (ip_address(host), port) == (ip_address("::ffff:192.0.2.10"), 24500)
