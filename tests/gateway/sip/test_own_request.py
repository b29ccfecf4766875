"""OPTIONS and REGISTER of ours."""

import pytest

from gateway.sip import events as sip
from gateway.sip.errors import LocalProtocolError
from gateway.sip.flow import Flow
from gateway.sip.own_request import Series
from tests.gateway.sip.out_rig import CREDENTIALS, FIRST, SECOND, OutRig, target
from tests.gateway.sip.rig import US

MD5 = 'Digest realm="carrier.example", nonce="n1", algorithm=MD5, qop="auth"'


@pytest.fixture
def rig():
    return OutRig()


def ask(rig, method="OPTIONS", to=None, **more):
    handle = rig.ua.request(method, to or target(), now=rig.now, **more)
    (sent,) = rig.sent()
    return handle, sent


def answers(rig):
    events = rig.events()
    return [
        (each.request, each.status, each.reason) for each in events if isinstance(each, sip.RequestAnswered)
    ]


def test_an_options_and_its_answer(rig):
    handle, sent = ask(rig, headers=(("Accept", "application/sdp"),))

    assert sent.start == "OPTIONS sip:+12025550177@carrier.example SIP/2.0"
    assert sent["to"] == "<sip:+12025550177@carrier.example>"
    assert sent["from"].startswith('"Sales" <sip:+12025550100@gw.example>;tag=')
    assert (sent["cseq"], sent["contact"]) == ("1 OPTIONS", "<sip:192.0.2.10:5060>")
    assert (sent["accept"], sent["max-forwards"]) == ("application/sdp", "70")
    rig.response(sent, 200, extra=(("Allow", "INVITE, ACK"),))
    (event,) = rig.events()
    assert (event.request, event.status, event.headers.get("Allow")) == (handle, 200, "INVITE, ACK")
    rig.response(sent, 200)
    rig.advance(60.0)
    assert (rig.events(), rig.ua.transactions, rig.ua.next_timeout()) == ([], 0, None)


def test_a_provisional_answer_is_not_told(rig):
    handle, sent = ask(rig)
    rig.response(sent, 100, "Trying")
    assert rig.events() == []
    rig.response(sent, 404, "Not Found")

    assert answers(rig) == [(handle, 404, "Not Found")]


@pytest.mark.parametrize("failure", ["timeout", "transport"])
def test_nobody_answers(rig, failure):
    handle, _ = ask(rig)
    if failure == "transport":
        rig.ua.transport_failed(FIRST, now=0.1)
    else:
        rig.advance(32.0)

    assert answers(rig) == [(handle, 408, failure)]
    rig.advance(100.0)
    assert (rig.events(), rig.ua.transactions) == ([], 0)


@pytest.mark.parametrize("failure", ["503", "transport", "silence"])
def test_the_next_address_is_asked(rig, failure):
    handle, first = ask(rig, to=target(FIRST, SECOND))
    if failure == "503":
        (second,) = rig.response(first, 503)
    elif failure == "transport":
        rig.ua.transport_failed(FIRST, now=0.1)
        (second,) = rig.sent()
    else:
        second = rig.advance(6.0)[-1][1]

    assert (second["cseq"], second["call-id"]) == (first["cseq"], first["call-id"])
    assert second["via"] != first["via"]
    assert rig.outgoing[-1].flow == SECOND
    rig.response(second, 200)
    rig.response(first, 200)  # too late
    assert answers(rig) == [(handle, 200, "OK")]


def test_registrations_go_on_with_call_id_cseq_and_nonce(rig):
    series = Series(rig.ua._token)
    registrar = target(credentials=CREDENTIALS, to="<sip:200@pbx.example>", user="200")
    more = {"headers": (("Expires", "600"),), "series": series}
    handle, first = ask(rig, "REGISTER", registrar, **more)
    assert (first["contact"], first["expires"]) == ("<sip:200@192.0.2.10:5060>", "600")
    assert first["to"] == "<sip:200@pbx.example>"
    (second,) = rig.response(first, 401, extra=(("WWW-Authenticate", MD5),))
    assert (second["cseq"], second["call-id"]) == ("2 REGISTER", first["call-id"])
    assert "nc=00000001" in second["authorization"]
    rig.response(second, 200)
    later, third = ask(rig, "REGISTER", registrar, **more)

    assert later != handle
    assert (third["cseq"], third["call-id"]) == ("3 REGISTER", first["call-id"])
    assert third.tag("from") == first.tag("from")
    assert "nc=00000002" in third["authorization"]
    assert answers(rig) == [(handle, 200, "OK")]


def test_without_a_series_each_request_stands_alone(rig):
    assert ask(rig)[1]["call-id"] != ask(rig)[1]["call-id"]


def test_a_refused_password_is_reported(rig):
    handle, first = ask(rig, "REGISTER", target(credentials=CREDENTIALS))
    (second,) = rig.response(first, 401, extra=(("WWW-Authenticate", MD5),))
    rig.response(second, 401, "Unauthorized", extra=(("WWW-Authenticate", MD5),))

    assert answers(rig) == [(handle, 401, "Unauthorized")]


def test_a_contact_of_the_applications_takes_the_place_of_ours(rig):
    _, sent = ask(rig, "REGISTER", headers=(("Contact", "*"), ("Expires", "0")))

    assert sent.all("contact") == ["*"]


def test_over_tls_via_and_contact_say_so(rig):
    _, sent = ask(rig, to=target(Flow("tls", ("198.51.100.7", 5061), US)))

    assert sent["via"].startswith("SIP/2.0/TLS ")
    assert sent["contact"] == "<sip:192.0.2.10:5060;transport=tls>"


@pytest.mark.parametrize("method", ["INVITE", "BYE", "CANCEL", "ACK", "REFER"])
def test_what_belongs_to_a_dialog_is_no_request_of_its_own(rig, method):
    with pytest.raises(LocalProtocolError):
        rig.ua.request(method, target(), now=0.0)


def test_what_cannot_be_written_leaves_nothing(rig):
    with pytest.raises(LocalProtocolError):
        rig.ua.request("OPTIONS", target(), headers=(("X", "a\r\nb: c"),), now=0.0)

    assert (rig.sent(), rig.ua.transactions, vars(rig.ua)["_requests"]) == ([], 0, {})
