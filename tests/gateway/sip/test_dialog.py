import pytest

from gateway.sip.dialog import Dialog, dialog_key
from gateway.sip.flow import Flow
from gateway.sip.parser import parse_message
from tests.gateway.sip.rig import TCP, UDP, invite, request

SOURCE = Flow("udp", ("203.0.113.77", 21044), ("192.0.2.10", 5060))


def dialog(contact="sip:192.0.2.10:5060", **changes) -> Dialog:
    return Dialog.of_caller(parse_message(invite(**changes)), local_tag="us", contact=contact)


def built(it: Dialog, method="BYE"):
    return parse_message(it.request(method, cseq=it.next_cseq(), branch="b1", transport="udp").to_bytes())


def test_a_request_of_ours_mirrors_the_invite():
    it = dialog()
    bye = built(it)

    assert list(bye.headers)[:-1] == [
        ("Via", "SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bKb1;rport"),
        ("Max-Forwards", "70"),
        ("From", "<sip:+12125550100@192.0.2.10>;tag=us"),
        ("To", '"Alice" <sip:alice@example.com>;tag=f1'),
        ("Call-ID", "call-1"),
        ("CSeq", "1 BYE"),
        ("Contact", "<sip:192.0.2.10:5060>"),
    ]
    assert bye.uri == "sip:alice@198.51.100.7:5060"
    assert built(it, "REFER").cseq.number == 2
    assert it.local_uri == "sip:+12125550100@192.0.2.10"


def test_the_peers_requests_find_the_dialog():
    it = dialog()

    assert dialog_key(parse_message(request("BYE", to_tag="us", cseq=2))) == it.key == ("call-1", "us")


@pytest.mark.report("BR-026")
def test_the_route_set_is_the_record_route_in_order_and_not_the_route():
    it = dialog(
        contact="sip:gw@192.0.2.10",
        extra=(
            ("Route", "<sip:edge.us.example;lr>"),
            ("Record-Route", "<sip:p2.example;lr>"),
            ("Record-Route", "<sip:p1.example;lr>"),
        ),
    )
    bye = built(it)

    assert bye.uri == "sip:alice@198.51.100.7:5060"
    assert bye.headers.get_all("Route") == ["<sip:p2.example;lr>", "<sip:p1.example;lr>"]
    assert it.next_hop().host == "p2.example"
    assert it.record_route == (
        ("Record-Route", "<sip:p2.example;lr>"),
        ("Record-Route", "<sip:p1.example;lr>"),
    )


@pytest.mark.report("BR-026")
def test_a_strict_router_finds_itself_in_the_request_uri():
    it = dialog(extra=(("Record-Route", "<sip:strict.example>, <sip:p1.example;lr>"),))
    bye = built(it)

    assert bye.uri == "sip:strict.example"
    assert bye.headers.get_all("Route") == ["<sip:p1.example;lr>", "<sip:alice@198.51.100.7:5060>"]


def test_a_lower_or_equal_sequence_number_is_not_taken():
    it = dialog(cseq=10)

    assert not it.accept_cseq(parse_message(request("BYE", cseq=9)))
    assert not it.accept_cseq(parse_message(request("BYE", cseq=10)))
    assert it.accept_cseq(parse_message(request("BYE", cseq=15)))
    assert not it.accept_cseq(parse_message(request("BYE", cseq=12)))


def test_the_target_follows_the_peers_contact():
    it = dialog()
    it.refresh_target(
        parse_message(request("UPDATE", cseq=2, contact='"Bob" <sip:bob@198.51.100.9:5080>;x=1'))
    )
    assert built(it).uri == "sip:bob@198.51.100.9:5080"
    it.refresh_target(parse_message(request("UPDATE", cseq=3, contact="")))
    it.refresh_target(parse_message(request("UPDATE", cseq=4, contact="*")))

    assert built(it).uri == "sip:bob@198.51.100.9:5080"


def test_an_invite_without_contact_is_answered_by_its_from():
    assert built(dialog(contact="sip:192.0.2.10", extra=())).uri
    it = Dialog.of_caller(parse_message(invite(contact="")), local_tag="us", contact="sip:192.0.2.10")

    assert built(it).uri == "sip:alice@example.com"


def path(contact: str, flow: Flow, *, back=True, route=""):
    extra = (("Record-Route", route),) if route else ()
    opening = parse_message(invite(contact=contact, extra=extra))
    return Dialog.of_caller(opening, local_tag="us", contact="sip:192.0.2.10").path(
        flow, return_to_source=back
    )


def udp(host, port=5060, flow=SOURCE):
    return Flow("udp", (host, port), flow.local)


def tcp(host, port=5060):
    return Flow("tcp", (host, port), TCP.local)


def test_a_udp_peer_whose_contact_says_tcp_is_reached_at_the_source_where_nobody_listens_for_tcp():
    host, port = SOURCE.remote

    assert path(f"<sip:phone@{host}:{port};transport=tcp>", SOURCE) == (
        Flow("tcp", SOURCE.remote, SOURCE.local),
        SOURCE,
    )


@pytest.mark.report("BR-022")
def test_a_private_contact_behind_nat_is_reached_at_the_source():
    assert path("<sip:phone@192.168.88.15:5060>", SOURCE) == (SOURCE, udp("192.168.88.15"))
    assert path("<sip:phone@192.168.88.15:5060>", SOURCE, back=False) == (udp("192.168.88.15"), SOURCE)


def test_in_one_private_network_the_contact_is_followed():
    lan = Flow("udp", ("10.0.0.5", 5060), ("10.0.0.1", 5060))

    assert path("<sip:phone@192.168.88.15:5062>", lan) == (
        Flow("udp", ("192.168.88.15", 5062), lan.local),
        lan,
    )


def test_the_first_route_is_the_next_hop():
    assert path("<sip:a@192.0.2.99>", SOURCE, route="<sip:203.0.113.1:5070;lr>")[0] == udp(
        "203.0.113.1", 5070
    )
    assert path("<sip:a@192.0.2.99>", SOURCE, route="<sip:h;maddr=203.0.113.2;lr>")[0] == udp("203.0.113.2")


def test_a_contact_that_is_the_source_needs_no_other_way():
    assert path("<sip:a@198.51.100.7:5060>", UDP) == (UDP, None)


def test_what_is_no_sip_uri_is_reached_where_it_came_from():
    assert path("<tel:+1212>", SOURCE) == (SOURCE, None)


def test_a_route_that_nobody_can_read_leads_back_to_the_source():
    assert path("<sip:a@192.0.2.99>", SOURCE, route="rubbish") == (SOURCE, None)
    assert built(dialog(extra=(("Record-Route", "rubbish"),))).headers.get_all("Route") == ["rubbish"]


def test_a_connection_is_used_again_and_the_contact_is_the_second_way():
    assert path("<sip:a@198.51.100.7:5999;transport=tcp>", TCP) == (TCP, tcp("198.51.100.7", 5999))
    assert path("<sip:a@pbx.example:5062>", TCP) == (TCP, tcp("pbx.example", 5062))
    assert path("<sip:a@pbx.example>", TCP) == (TCP, tcp("pbx.example", 0))  # the port is looked up, too
    assert path("<sip:a@10.0.0.9>", TCP) == (TCP, tcp("10.0.0.9"))


def test_another_host_is_connected_to():
    assert path("<sip:a@203.0.113.5>", TCP) == (tcp("203.0.113.5"), TCP)


@pytest.mark.parametrize(
    ("name", "kind"), [("tcp", "tcp"), ("UDP", "udp"), ("tls", "tls"), ("sctp", "udp"), ("", "udp")]
)
def test_the_transport_of_the_contact_is_followed_if_we_speak_it(name, kind):
    assert path(f"<sip:a@203.0.113.5;transport={name}>", SOURCE)[0].transport == kind


@pytest.mark.report("BR-022")
@pytest.mark.parametrize("transport", ["udp", "tcp", "tls", "ws", "wss"])
def test_behind_nat_our_requests_go_to_where_the_peer_is_on_every_transport(transport):
    flow = Flow(transport, ("203.0.113.77", 21044), ("192.0.2.10", 5060), 3)

    assert path("<sip:phone@192.168.88.15:5060>", flow)[0] == flow


def test_a_udp_socket_is_kept_and_a_certificate_asked_for_by_name():
    flow = Flow("udp", ("203.0.113.77", 21044), ("192.0.2.10", 5060), 3)

    assert path("<sip:a@203.0.113.5>", flow)[0] == Flow("udp", ("203.0.113.5", 5060), flow.local, 3)
    tls = path("<sip:a@pbx.example;transport=tls>", flow)[0]
    assert (tls.transport, tls.remote, tls.id, tls.domain) == ("tls", ("pbx.example", 0), 0, "pbx.example")


def test_a_udp_contact_of_a_tcp_caller_is_followed():
    assert path("<sip:a@203.0.113.5;transport=udp>", TCP)[0] == Flow("udp", ("203.0.113.5", 5060), TCP.local)
