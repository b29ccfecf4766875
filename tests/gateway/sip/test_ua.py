"""What the user agent does outside of calls, and how it admits one."""

import pytest

from gateway.sip import events as sip
from gateway.sip.errors import LocalProtocolError
from gateway.sip.flow import Flow
from gateway.sip.settings import UaSettings
from tests.gateway.sip.rig import ANSWER, OFFER, PEER, TCP, UDP, US, Rig, invite, request, statuses

CALL = "sip:+12125550100@192.0.2.10"


@pytest.fixture
def rig():
    return Rig()


def test_an_invite_is_answered_100_at_once_and_offered(rig):
    (trying,) = rig.feed(invite())
    (event,) = rig.events()

    assert (trying.status, trying.tag("to")) == (100, "")
    assert isinstance(event, sip.CallOffered)
    assert (event.offer, event.flow) == (OFFER.encode(), UDP)
    assert event.request.uri.user == "+12125550100"
    assert rig.ua.active_calls == rig.ua.dialogs == 1


@pytest.mark.report("BR-018")
def test_options_is_answered_with_contact_and_allow_and_makes_no_call():
    rig = Rig(UaSettings(public_host="gw.example"))
    (ok,) = rig.feed(request("OPTIONS", uri="sip:gw.example:5061"))

    assert ok.status == 200
    assert ok["contact"] == "<sip:gw.example:5060>"
    assert ok["allow"] == "INVITE, ACK, BYE, CANCEL, OPTIONS, NOTIFY, REFER, INFO, UPDATE, PRACK"
    assert "application/sdp" in ok["accept"]
    assert ok["supported"] == "timer, 100rel"
    assert "application/dtmf-relay" in ok["accept"]
    assert ok.tag("to")
    assert rig.ua.active_calls == 0
    assert rig.events() == []


@pytest.mark.report("BR-018")
def test_while_draining_options_and_new_calls_get_503_and_old_calls_go_on(rig):
    made = rig.confirmed()
    rig.ua.drain(True)
    (options,) = rig.feed(request("OPTIONS", branch="o", call_id="ping"))
    (new,) = rig.feed(invite(branch="n", call_id="new"))
    (bye,) = rig.feed(request("BYE", branch="b", to_tag=made.to_tag, cseq=2))

    assert statuses([options, new, bye]) == [503, 503, 200]
    assert options["retry-after"] == new["retry-after"] == "5"
    rig.ua.drain(False)
    assert statuses(rig.feed(request("OPTIONS", branch="p", call_id="ping"))) == [200]


@pytest.mark.parametrize("method", ["BYE", "INFO", "UPDATE", "NOTIFY", "PRACK"])
def test_what_needs_a_dialog_gets_481_without_one(rig, method):
    for to_tag in ("", "nobody"):
        (refused,) = rig.feed(request(method, branch=f"x{to_tag}", to_tag=to_tag, cseq=2))
        assert refused.status == 481


@pytest.mark.parametrize("method", ["INVITE", "OPTIONS"])
def test_a_tag_that_is_not_ours_gets_481(rig, method):
    assert statuses(rig.feed(request(method, to_tag="nobody"))) == [481]


def test_a_refusal_is_reported_once_with_its_source(rig):
    rig.feed(request("MESSAGE"))
    rig.feed(request("MESSAGE"))  # a retransmission: the transaction answers

    assert rig.events() == [sip.RequestRefused("udp:198.51.100.7:5060", 405, "method MESSAGE")]


def test_a_cancel_of_nothing_gets_481(rig):
    assert statuses(rig.feed(request("CANCEL"))) == [481]


def test_an_ack_of_nothing_is_dropped(rig):
    assert rig.feed(request("ACK", to_tag="nobody")) == []
    assert rig.events() == [sip.MessageDropped("udp:198.51.100.7:5060", "an ACK that belongs to no call")]


def test_a_response_to_nothing_is_dropped(rig):
    assert rig.feed(b"SIP/2.0 200 OK\r\n" + request("BYE").partition(b"\r\n")[2]) == []
    assert rig.events() == [
        sip.MessageDropped("udp:198.51.100.7:5060", "a 200 that answers no request of ours")
    ]


@pytest.mark.parametrize("data", [b"", b"\r\n\r\n", b"\0", b"\r\n"])
def test_keep_alives_are_silent(rig, data):
    assert rig.feed(data) == []
    assert rig.events() == []


def test_a_bad_request_gets_400_where_the_via_says(rig):
    data = request("OPTIONS", via="SIP/2.0/UDP 198.51.100.7:5099").replace(b"Call-ID: call-1\r\n", b"")
    (refused,) = rig.feed(data)

    assert refused.status == 400
    assert rig.outgoing[-1].flow == Flow("udp", ("198.51.100.7", 5099), US)
    assert rig.events() == [sip.RequestRefused("udp:198.51.100.7:5060", 400, "Call-ID is missing")]


def test_a_merged_request_gets_482(rig):
    rig.offered()
    (refused,) = rig.feed(invite(branch="other-path"))

    assert refused.status == 482
    assert rig.ua.active_calls == 1


def test_a_copy_that_comes_after_its_transaction_makes_no_second_call(rig):
    made = rig.confirmed()
    rig.advance(100.0)
    (refused,) = rig.feed(invite())

    assert refused.status == 482
    assert rig.ua.active_calls == 1
    assert statuses(rig.feed(request("BYE", branch="b", to_tag=made.to_tag, cseq=2))) == [200]


@pytest.mark.report("BR-020")
def test_a_body_that_is_no_sdp_gets_415_with_accept(rig):
    (refused,) = rig.feed(invite(body="<audio/>", kind="application/unknownformat"))[-1:]

    assert refused.status == 415
    assert "application/sdp" in refused["accept"]
    assert refused["accept-encoding"] == "identity"
    assert rig.ua.active_calls == 0


@pytest.mark.parametrize("extra", [("Contact", "*"), ("Record-Route", '<sip:p;lr>, "open')])
def test_an_invite_that_cannot_make_a_dialog_gets_400(rig, extra):
    data = invite(contact="" if extra[0] == "Contact" else "<sip:a@h>", extra=(extra,))

    assert statuses(rig.feed(data)) == [400]
    assert rig.ua.active_calls == 0


@pytest.mark.report("BR-039")
def test_a_call_with_odd_spacing_and_max_forwards_0_is_taken(rig):
    data = (
        b"INVITE sip:bot@192.0.2.10;unknownparam SIP/2.0\r\nTO :\r\n sip:bot@192.0.2.10\r\n"
        b'FROM   : "J Rosenberg \\\\\\"" <sip:jr@example.com> ; tag = 98asjd8\r\nMax-Forwards: 0\r\n'
        b"Call-ID: wsinv.ndaksdj@192.0.2.1\r\nCSeq: 0009\r\n  INVITE\r\n"
        b"Via  : SIP  /   2.0\r\n /UDP 192.0.2.2;branch=390skdjuw\r\n"
        b"NewFangledHeader:   newfangled value\r\n\r\n"
    )
    (trying,) = rig.feed(data)
    (event,) = rig.events()

    assert trying.status == 100
    assert event.request.from_.display == 'J Rosenberg \\"'
    assert event.offer is None
    assert rig.feed(data)[0].status == 100  # the copy finds its transaction
    assert rig.ua.active_calls == 1


@pytest.mark.report("BR-044")
def test_old_gear_without_a_branch_is_served(rig):
    data = invite().replace(b";branch=z9hG4bK1", b"")
    call = rig.offered(data)
    rig.now = 0.5
    assert statuses(rig.feed(data)) == [100]
    rig.ua.answer(call, ANSWER, now=0.6)
    (ok,) = rig.sent()
    ack = request("ACK", to_tag=ok.tag("to")).replace(b";branch=z9hG4bK1", b"")
    rig.feed(ack)

    assert rig.events() == [sip.CallConfirmed(call, None)]
    bye = request("BYE", to_tag=ok.tag("to"), cseq=2).replace(b";branch=z9hG4bK1", b"")
    assert statuses(rig.feed(bye)) == [200]
    assert statuses(rig.feed(bye)) == [200]


@pytest.mark.report("BR-008")
def test_a_call_in_short_header_names_is_taken(rig):
    data = (
        b"INVITE sip:bot@192.0.2.10 SIP/2.0\r\nv: SIP/2.0/UDP 203.0.113.9;branch=z9hG4bKc1\r\n"
        b"f: <sip:+12025550123@203.0.113.9>;tag=1\r\nt: <sip:bot@192.0.2.10>\r\ni: compact-1\r\n"
        b"CSeq: 1 INVITE\r\nm: <sip:203.0.113.9>\r\nk: timer\r\nx: 1800\r\nc: application/sdp\r\n"
        b"l: %d\r\n\r\n%s"
    ) % (len(OFFER), OFFER.encode())
    call = rig.offered(data)
    rig.ua.answer(call, ANSWER, now=0.0)

    assert statuses(rig.sent()) == [200]


@pytest.mark.report("BR-022")
def test_the_answer_goes_to_the_source_with_received_and_rport():
    rig = Rig()
    flow = Flow("udp", ("203.0.113.77", 21044), US)
    (trying,) = rig.feed(invite(via="SIP/2.0/UDP 192.168.88.15:5060;rport"), flow)

    assert trying["via"].endswith(";branch=z9hG4bK1;rport=21044;received=203.0.113.77")
    assert rig.outgoing[-1].flow == flow


def test_over_tcp_the_answer_goes_back_on_the_connection_or_to_the_via():
    rig = Rig()
    rig.feed(invite(via="SIP/2.0/TCP 198.51.100.7:5090"), TCP)

    assert rig.outgoing[-1].flow == TCP
    assert rig.outgoing[-1].fallback == Flow("tcp", ("198.51.100.7", 5090), US)


def test_too_many_transactions_get_a_stateless_503():
    rig = Rig(UaSettings(max_transactions=2))
    for n in range(2):
        rig.feed(request("OPTIONS", branch=str(n), call_id=str(n)))
    (refused,) = rig.feed(request("OPTIONS", branch="x", call_id="x"))

    assert (refused.status, refused["retry-after"]) == (503, "5")
    assert rig.ua.transactions == 2
    rig.advance(32.0)
    assert statuses(rig.feed(request("OPTIONS", branch="y", call_id="y"))) == [200]


def test_commands_on_a_call_that_is_gone_do_nothing(rig):
    call = rig.offered()
    rig.feed(request("CANCEL"))
    now = rig.now

    assert not rig.ua.ring(call, now=now)
    assert not rig.ua.answer(call, ANSWER, now=now)
    assert not rig.ua.reject(call, 486, now=now)
    assert not rig.ua.bye(call, now=now)
    assert not rig.ua.refer(call, "sip:x@h", now=now)
    assert not rig.ua.answer_reoffer("never-existed", None, now=now)
    assert rig.sent() == []


def test_commands_out_of_order_are_our_own_mistake(rig):
    call = rig.offered()
    for command in (
        lambda: rig.ua.bye(call, now=0.0),
        lambda: rig.ua.refer(call, "sip:x@h", now=0.0),
        lambda: rig.ua.answer(call, b"", now=0.0),
        lambda: rig.ua.reject(call, 200, now=0.0),
    ):
        with pytest.raises(LocalProtocolError):
            command()
    rig.ua.answer(call, ANSWER, now=0.0)
    with pytest.raises(LocalProtocolError, match="cannot answer when answered"):
        rig.ua.answer(call, ANSWER, now=0.0)
    with pytest.raises(LocalProtocolError, match="cannot ring"):
        rig.ua.ring(call, now=0.0)


def test_everything_is_forgotten_in_the_end(rig):
    made = rig.confirmed()
    rig.feed(request("BYE", branch="b", to_tag=made.to_tag, cseq=2))
    assert (rig.ua.active_calls, rig.ua.dialogs) == (0, 0)
    rig.advance(200.0)

    assert rig.ua.transactions == 0
    assert rig.ua.next_timeout() is None


def test_messages_leave_in_the_order_of_their_making(rig):
    rig.ua.receive(invite(), UDP, now=0.0)
    (event,) = rig.events()
    rig.ua.ring(event.call, now=0.0)
    rig.ua.answer(event.call, ANSWER, now=0.0)

    assert statuses(rig.sent()) == [100, 180, 200]
    assert all(each.flow.remote == PEER for each in rig.outgoing)


@pytest.mark.parametrize("below", ['SIP/2.0/UDP h;branch="open', "SIP/2.0/UDP <h", ",", "nonsense"])
def test_a_broken_via_below_the_first_is_not_ours_to_judge(rig, below):
    data = invite(extra=(("Via", below),))
    assert statuses(rig.feed(data)) == [100]
    assert statuses(rig.feed(data)) == [100]
    assert rig.ua.active_calls == 1
    assert rig.feed(b"SIP/2.0 200 OK\r\n" + data.partition(b"\r\n")[2]) == []
