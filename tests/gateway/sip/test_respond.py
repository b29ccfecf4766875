import pytest

from gateway.sip.flow import Flow
from gateway.sip.message import Headers
from gateway.sip.parser import ParseError, parse_message
from gateway.sip.respond import Responder, contact_uri, way_back, with_source
from gateway.sip.settings import UaSettings
from tests.gateway.sip.rig import TCP, UDP, US, invite

RESPONDER = Responder(UaSettings(user_agent="Trunkline/1"))


def test_what_a_response_copies():
    request = parse_message(
        invite(extra=(("Via", "SIP/2.0/UDP second;branch=z9hG4bK2"), ("Timestamp", "54.3"), ("Subject", "x")))
    )
    response = RESPONDER.build(
        request, 200, tag="us", contact="sip:gw@h", extra=(("Allow", "ACK"),), body=b"v=0\r\n"
    )

    assert response.to_bytes().decode() == (
        "SIP/2.0 200 OK\r\n"
        "Via: SIP/2.0/UDP 198.51.100.7:5060;branch=z9hG4bK1\r\n"
        "Via: SIP/2.0/UDP second;branch=z9hG4bK2\r\n"
        'From: "Alice" <sip:alice@example.com>;tag=f1\r\n'
        "To: <sip:+12125550100@192.0.2.10>;tag=us\r\n"
        "Call-ID: call-1\r\n"
        "CSeq: 1 INVITE\r\n"
        "Contact: <sip:gw@h>\r\n"
        "Allow: ACK\r\n"
        "Server: Trunkline/1\r\n"
        "Content-Type: application/sdp\r\n"
        "Content-Length: 5\r\n\r\n"
        "v=0\r\n"
    )


def test_a_100_echoes_the_timestamp_and_has_no_tag():
    response = RESPONDER.build(parse_message(invite(extra=(("Timestamp", "54.3"),))), 100)

    assert response.headers.get("Timestamp") == "54.3"
    assert response.to.tag == ""


def test_a_tag_that_is_there_stays_the_only_one():
    response = RESPONDER.build(parse_message(invite(to_tag="known")), 200, tag="other")

    assert response.headers.get("To") == "<sip:+12125550100@192.0.2.10>;tag=known"


def test_the_phrase_may_be_our_own():
    request = parse_message(invite())

    assert RESPONDER.build(request, 480, reason="Agent asleep").reason == "Agent asleep"
    assert RESPONDER.build(request, 699).reason == "Unknown"


@pytest.mark.parametrize(
    ("settings", "flow", "uri"),
    [
        (UaSettings(), UDP, "sip:192.0.2.10:5060"),
        (UaSettings(), TCP, "sip:192.0.2.10:5060;transport=tcp"),
        (UaSettings(public_host="gw.example"), UDP, "sip:gw.example:5060"),
        (UaSettings(), Flow("udp", ("2001:db8::7", 5060), ("2001:db8::1", 5070)), "sip:[2001:db8::1]:5070"),
    ],
)
def test_our_contact(settings, flow, uri):
    assert contact_uri(settings, flow) == uri


@pytest.mark.parametrize(
    ("transport", "scheme", "uri"),
    [
        ("tls", "sip", "sip:192.0.2.10:5061;transport=tls"),
        ("tls", "sips", "sips:192.0.2.10:5061"),
        ("ws", "sip", "sip:192.0.2.10:5061;transport=ws"),
        ("wss", "sip", "sip:192.0.2.10:5061;transport=ws"),
        ("wss", "sips", "sips:192.0.2.10:5061;transport=ws"),
    ],
)
def test_our_contact_names_transport_and_scheme(transport, scheme, uri):
    flow = Flow(transport, ("198.51.100.7", 40000), ("192.0.2.10", 5061), 7)

    assert contact_uri(UaSettings(), flow, scheme=scheme) == uri


@pytest.mark.parametrize(
    ("via", "transport", "fallback"),
    [
        (
            "SIP/2.0/TLS pbx.example;branch=b",
            "tls",
            Flow("tls", ("198.51.100.7", 5061), US, 0, "pbx.example"),
        ),
        ("SIP/2.0/TLS 10.0.0.1:5071;branch=b", "tls", Flow("tls", ("198.51.100.7", 5071), US, 0, "10.0.0.1")),
        ("SIP/2.0/WSS df7jal23ls0d.invalid;branch=b", "wss", None),
    ],
)
def test_the_way_back_when_a_connection_is_gone(via, transport, fallback):
    flow = Flow(transport, ("198.51.100.7", 40000), US, 7)

    assert way_back(Headers([("Via", via)]), flow) == (flow, fallback)


def test_the_source_is_noted_in_the_first_hop_only():
    headers = Headers([("Via", 'SIP/2.0/UDP a;x=",";rport, SIP/2.0/UDP b'), ("Via", "SIP/2.0/UDP c")])

    assert with_source(headers, UDP) == (
        'SIP/2.0/UDP a;x=",";rport=5060;received=198.51.100.7, SIP/2.0/UDP b'
    )
    assert with_source(Headers([("Via", "SIP/2.0/UDP a;;,")]), UDP) == "SIP/2.0/UDP a;;,"


@pytest.mark.parametrize(
    ("via", "flow", "back"),
    [
        ("SIP/2.0/UDP 10.0.0.1:5071;branch=b;rport", UDP, (UDP, None)),
        ("SIP/2.0/UDP 10.0.0.1:5071;branch=b", UDP, (Flow("udp", ("198.51.100.7", 5071), US), None)),
        ("SIP/2.0/UDP h;maddr=203.0.113.66", UDP, (Flow("udp", ("198.51.100.7", 5060), US), None)),
        ("SIP/2.0/TCP h:5099;rport", TCP, (TCP, Flow("tcp", ("198.51.100.7", 5099), US))),
    ],
    ids=["rport", "port of the Via", "maddr is not followed", "the connection"],
)
@pytest.mark.report("BR-022")
def test_where_a_response_goes(via, flow, back):
    assert way_back(Headers([("Via", via)]), flow) == back


def unreadable(*lines: str, status: int = 400) -> ParseError:
    headers = Headers([tuple(line.split(": ", 1)) for line in lines])
    return ParseError("because", status=status, method="OPTIONS", headers=headers)


def test_an_unreadable_request_gets_the_same_tag_every_time():
    error = unreadable(
        "Via: SIP/2.0/UDP 198.51.100.7;branch=z9hG4bK1;rport", "To: <sip:a@h>", "CSeq: x", status=505
    )
    first, second = (RESPONDER.to_unreadable(error, UDP) for _ in range(2))

    assert first == second
    assert (first.status, first.reason) == (505, "Version Not Supported")
    assert len(first.to.tag) == 16
    assert first.via.wants_rport
    assert first.headers.get("CSeq") == "x"
    assert "From" not in first.headers


def test_without_a_place_to_answer_there_is_no_answer():
    assert RESPONDER.to_unreadable(unreadable("Via: rubbish"), UDP) is None
    assert RESPONDER.to_unreadable(unreadable("To: <sip:a@h>"), UDP) is None
