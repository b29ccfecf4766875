"""Which addresses a call of ours goes to, one after the other (RFC 3263, section 4.3)."""

import pytest

from gateway.sip import events as sip
from gateway.sip.flow import Flow
from tests.gateway.sip.out_rig import FIRST, NOTHING, SDP, SECOND, OutRig, idle, target
from tests.gateway.sip.rig import US


@pytest.fixture
def rig():
    return OutRig()


@pytest.mark.parametrize("failure", ["503", "transport", "silence"])
def test_the_next_address_is_tried_with_a_new_branch(rig, failure):
    first = rig.dial(target(FIRST, SECOND))
    if failure == "503":
        ack, second = rig.reply(503, "Service Unavailable")
        assert (ack.method, ack["via"]) == ("ACK", first["via"])
    elif failure == "transport":
        rig.ua.transport_failed(FIRST, now=0.1)
        (second,) = rig.sent()
    else:
        (at, second) = rig.advance(6.0)[-1]
        assert at == 6.0

    assert rig.outgoing[-1].flow == SECOND
    assert second["via"] != first["via"]
    for header in ("call-id", "cseq", "from", "to"):
        assert second[header] == first[header]
    assert rig.events() == []
    rig.reply(200, to=second, body=SDP)
    assert rig.events() == [sip.CallAccepted(rig.call, SDP.encode())]


def test_a_late_answer_of_an_address_that_was_given_up_gets_ack_and_bye(rig):
    first = rig.dial(target(FIRST, SECOND))
    second = rig.advance(6.0)[-1][1]
    rig.reply(200, to=second, body=SDP)
    rig.events()

    assert [message.method for message in rig.reply(200, to=first, tag="R9", body=SDP)] == ["ACK", "BYE"]
    assert rig.events() == []


def test_the_last_address_decides(rig):
    rig.dial(target(FIRST, SECOND))
    _, second = rig.reply(503, "Service Unavailable")
    rig.reply(503, "No Circuit", to=second)

    assert rig.events() == [
        sip.CallEnded(rig.call, by_peer=True, reason="rejected", status=503, phrase="No Circuit")
    ]


def test_a_rejection_other_than_503_is_not_tried_elsewhere(rig):
    rig.dial(target(FIRST, SECOND))

    assert len(rig.reply(486, "Busy Here")) == 1
    assert [end.status for end in rig.ends()] == [486]


def test_a_cancelled_call_is_not_tried_elsewhere(rig):
    rig.dial(target(FIRST, SECOND))
    rig.ua.cancel(rig.call, now=0.1)
    rig.sent()

    assert [message.method for message in rig.reply(503, "Service Unavailable")] == ["ACK"]
    assert idle(rig) == NOTHING


def test_via_and_contact_name_the_transport_of_each_address(rig):
    tcp = Flow("tcp", ("198.51.100.8", 5060), US)
    rig.dial(target(FIRST, tcp))
    _, second = rig.reply(503, "Service Unavailable")

    assert second["via"].startswith("SIP/2.0/TCP ")
    assert second["contact"] == "<sip:192.0.2.10:5060;transport=tcp>"


def test_an_outbound_proxy_is_a_route(rig):
    invite = rig.dial(target(routes=("<sip:proxy.example;lr>",)))

    assert invite.start.split()[1] == "sip:+12025550177@carrier.example"
    assert invite["route"] == "<sip:proxy.example;lr>"
    rig.reply(180)
    rig.ua.cancel(rig.call, now=1.0)
    assert rig.sent()[0]["route"] == "<sip:proxy.example;lr>"


def test_an_address_that_was_given_up_and_answers_after_all_wins_and_the_next_one_is_cancelled(rig):
    first = rig.dial(target(FIRST, SECOND))
    second = rig.advance(6.0)[-1][1]
    rig.reply(180, to=second, tag="R2")
    rig.events()
    ack, cancel = rig.reply(200, to=first, body=SDP)

    assert (ack.method, ack.tag("to")) == ("ACK", "R1")
    assert (cancel.method, cancel["via"]) == ("CANCEL", second["via"])
    assert cancel["reason"] == 'SIP;cause=200;text="Call completed elsewhere"'
    assert rig.outgoing[-1].flow == SECOND
    rig.reply(487, "Request Terminated", to=second, tag="R2")
    assert rig.events() == [sip.CallAccepted(rig.call, SDP.encode())]
    rig.ua.bye(rig.call, now=rig.now)
    (bye,) = rig.sent()
    assert bye.tag("to") == "R1"
    rig.response(bye, 200)
    assert idle(rig) == NOTHING


def test_the_next_address_that_never_answers_its_cancel_is_given_up_and_the_call_goes_on(rig):
    first = rig.dial(target(FIRST, SECOND))
    second = rig.advance(6.0)[-1][1]
    rig.reply(180, to=second, tag="R2")
    rig.reply(200, to=first, body=SDP)
    rig.advance(100.0)

    assert rig.ua.active_calls == 1
    assert rig.ua.transactions == 0


def test_an_address_of_ipv6_stands_in_brackets(rig):
    flow = Flow("udp", ("2001:db8::7", 5060), ("2001:db8::10", 5060))
    invite = rig.dial(target(flow))
    (ack,) = rig.reply(200, extra=(("Contact", "<sip:bob@[2001:db8::7]:5070>"),), body=SDP)

    assert invite["via"].startswith("SIP/2.0/UDP [2001:db8::10]:5060;branch=")
    assert invite["contact"] == "<sip:[2001:db8::10]:5060>"
    assert ack.start == "ACK sip:bob@[2001:db8::7]:5070 SIP/2.0"
    assert rig.outgoing[-1].flow.remote == ("2001:db8::7", 5070)
