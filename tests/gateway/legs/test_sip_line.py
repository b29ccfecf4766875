"""What a call is known as once the line has read it: the reports on numbers and callers, end to end."""

import itertools

import orjson
import pytest

from config.models import Settings
from config.trunks import TrunkSettings
from gateway.app import trunks as wiring
from gateway.calls.routing import Routed, Router
from gateway.legs.base import CallInfo
from gateway.legs.refusal import Refusal
from gateway.legs.sip_line import LineSettings, SipLine, takes_refer
from gateway.legs.trunks import TrunkTable
from gateway.net.pacer import Pacer
from gateway.net.ports import PortPool
from gateway.net.sip_endpoint import EndpointSettings
from gateway.sip.flow import Flow
from gateway.sip.message import Headers, Request
from gateway.sip.settings import UaSettings
from gateway.sip.target import Target
from gateway.sip.ua import UserAgent
from gateway.sip.uri import Uri
from tests.kit import sip_text

HOST = "203.0.113.7"
SDP = (
    "v=0\r\no=- 1 1 IN IP4 203.0.113.7\r\ns=-\r\nc=IN IP4 203.0.113.7\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n"
)


class House:
    """A line with one trunk, from its configuration; calls are noted and refused."""

    def __init__(self, **trunk):
        settings = Settings(trunks={"pbx": TrunkSettings(**{"allow": [HOST], **trunk})})
        tokens = itertools.count()
        self.ua = UserAgent(UaSettings(), lambda: f"token{next(tokens)}")
        self.names = frozenset()
        self.calls, self.count = [], itertools.count()
        self.refusal = Refusal(486, "Busy Here", "test")
        self.line = SipLine(
            ua=self.ua,
            pool=PortPool(20000, 20010),
            pacer=Pacer(on_error=lambda error: None),
            clock=lambda: 0.0,
            trunks=TrunkTable(wiring.entries(settings)),
            settings=LineSettings(
                codecs={"pbx": ("PCMU",)},
                parties=wiring.party_rules(settings),
                credentials=wiring.credentials(settings),
            ),
            admit=self._note,
            on_leg=lambda leg: None,
            on_media=lambda figures: None,
            network=EndpointSettings(),
        )

    def _note(self, info):
        self.calls.append(info)
        return self.refusal

    def receive(self, data, host=HOST):
        flow = Flow("udp", (host, 5060), ("192.0.2.1", 5060), names=self.names)
        self.ua.receive(data, flow, now=0.0)
        for event in self.ua.events():
            self.line.handle(event)

    def call(
        self, *headers, uri="sip:+12025550100@gw", from_="<sip:+12025550123@x>;tag=1", to=None, host=HOST
    ):
        """Receive an INVITE; return what the line made of it, or the status of its refusal."""
        count = next(self.count)
        lines = [
            f"INVITE {uri} SIP/2.0",
            f"Via: SIP/2.0/UDP {HOST};branch=z9hG4bK{count}",
            f"From: {from_}",
            f"To: {to or f'<{uri}>'}",
            f"Call-ID: {count}@x",
            "CSeq: 1 INVITE",
            f"Contact: <sip:{HOST}>",
            "Max-Forwards: 70",
            *headers,
            "Content-Type: application/sdp",
            f"Content-Length: {len(SDP)}",
            "",
            SDP,
        ]
        before = len(self.calls)
        self.receive("\r\n".join(lines).encode("utf-8", "surrogateescape"), host)
        if len(self.calls) > before:
            return self.calls[-1]
        return int(self.ua.to_send()[-1].data.split()[1])


@pytest.mark.report("BR-187")
@pytest.mark.parametrize(
    ("trunk", "user", "caller"),
    [
        ({"country": "DE"}, "00919876543210", "+919876543210"),
        ({"country": "DE"}, "00493023125017", "+493023125017"),
        ({"country": "US"}, "011441632960123", "+441632960123"),
        ({"country": "DE"}, "+00493023125017", "+00493023125017"),
        ({"number_rules": [{"strip": "49", "prefix": "+49"}]}, "493023125017", "+493023125017"),
    ],
)
def test_caller_and_called_have_one_form_and_keep_the_one_they_came_in(trunk, user, caller):
    info = House(**trunk).call(from_=f"<sip:{user}@x>;tag=1", uri=f"sip:{user}@gw")
    assert (info.caller, info.parameters["caller_raw"]) == (caller, user)
    assert (info.called, info.parameters["called_raw"]) == (caller, user)


@pytest.mark.report("BR-187")
@pytest.mark.parametrize("number", ["+493023125017", "00493023125017", "03023125017"])
@pytest.mark.parametrize("configured", ["+493023125017", "00493023125017", "03023125017"])
def test_a_number_is_routed_by_the_form_it_came_in_and_by_the_one_we_give_it(number, configured):
    info = House(country="DE").call(uri=f"sip:{number}@gw")
    found = Router({configured: "agent"}).route(info.parameters["called_raw"], info.called)
    assert isinstance(found, Routed) == (configured in {number, "+493023125017"})


@pytest.mark.report("BR-188")
def test_tel_uris_are_read_and_a_blank_in_a_user_part_is_answered_400_or_read():
    house = House(trusted=True)
    info = house.call(
        "P-Asserted-Identity: <tel:+12025550123>",
        from_='"Ann" <tel:+1-202-555-0123>;tag=1',
        to="<tel:4012;phone-context=example.com>",
        uri="tel:+12025550100",
    )
    assert (info.caller, info.called) == ("+12025550123", "+12025550100")
    answer = house.call(from_="<sip:202 555 0199@203.0.113.5>;tag=1")
    assert answer == 400 or answer.caller == "2025550199"


@pytest.mark.report("BR-192")
def test_the_configured_order_decides_who_calls_and_trust_whether_pai_counts():
    headers = (
        'P-Asserted-Identity: "Ann Example" <sip:+493023125017@sipgate.example>, <tel:+493023125017>',
        'Remote-Party-ID: "A" <sip:+493023125999@x>;party=calling;screen=no;privacy=off',
        "P-Preferred-Identity: <sip:+19005550100@x>",
    )
    from_ = '"Trunk 42" <sip:trunk42@sipgate.example>;tag=1'
    for trunk, caller in (
        ({"trusted": True}, "+493023125017"),
        ({}, "trunk42"),
        ({"trusted": True, "caller_id": ["from", "pai"]}, "trunk42"),
        ({"trusted": True, "caller_id": ["rpid", "from"]}, "trunk42"),
    ):
        assert House(**trunk).call(*headers, from_=from_).caller == caller


@pytest.mark.report("BR-193")
@pytest.mark.parametrize(
    ("country", "user", "caller"),
    [
        ("IT", "0612345678", "+390612345678"),
        ("IT", "+390612345678", "+390612345678"),
        ("FR", "0612345678", "+33612345678"),
        ("US", "0015551234", "0015551234"),
        ("RU", "89161234567", "+79161234567"),
        ("HU", "06301234567", "+36301234567"),
        ("MX", "+5215512345678", "+5215512345678"),
        ("AR", "+5491123456789", "+5491123456789"),
    ],
)
def test_leading_zeros_are_the_countrys_business(country, user, caller):
    assert House(country=country).call(from_=f"<sip:{user}@x>;tag=1").caller == caller


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
def test_any_user_part_is_read_or_nobody(from_, caller):
    assert House().call(from_=from_).caller == caller


@pytest.mark.report("BR-195")
def test_a_forwarded_call_names_everybody_who_forwarded_it():
    info = House().call(
        "Diversion: <tel:+12025550111>;reason=unconditional;counter=1;privacy=off",
        'Diversion: <sip:+12025550122@pbx>;reason="no-answer"',
    )
    assert info.parameters["forwarded_from"] == "+12025550111, +12025550122"


@pytest.mark.report("BR-196")
@pytest.mark.parametrize(
    ("from_", "caller", "extension"),
    [
        ("<sip:+44%20(0)%2020%207946%200958@x>;tag=1", "+442079460958", None),
        ("<sip:+1-202-555-0100%20ext.%2012@x>;tag=1", "+12025550100", "12"),
        ("<sip:+1.202.555.0100@x>;tag=1", "+12025550100", None),
        ("<tel:+1-202-555-0100;ext=12>;tag=1", "+12025550100", "12"),
        ("<sip:٠٢٠٧٩٤٦٠٩٥٨@x>;tag=1", "+442079460958", None),
        ("<sip:＋12025550100@x>;tag=1", "+12025550100", None),
        ("<sip:+1%20202%20555%20O100@x>;tag=1", "+1 202 555 O100", None),
        ("<sip:+12025550100@trunk>;tag=1", "+12025550100", None),
    ],
)
def test_separators_look_alikes_and_extensions(from_, caller, extension):
    info = House(country="GB").call(from_=from_)
    assert (info.caller, info.parameters.get("caller_extension")) == (caller, extension)


@pytest.mark.report("BR-198")
@pytest.mark.parametrize(
    ("headers", "from_", "caller", "name"),
    [
        ((), '"Łukasz Żółć 李明" <sip:+12025550123@203.0.113.9>;tag=1', "+12025550123", "Łukasz Żółć 李明"),
        ((), "Müller <sip:1@x>;tag=2", "1", "Müller"),
        ((), '"M\udcfcller" <sip:1@x>;tag=3', "1", "M\ufffdller"),
        (
            ('P-Asserted-Identity: "\udcff\udcfe" <tel:+12025550123>',),
            "<sip:x@y>;tag=4",
            "+12025550123",
            "\ufffd\ufffd",
        ),
        ((), '"A\\\0nn" <sip:1@x>;tag=5', "1", "Ann"),
    ],
)
def test_a_display_name_of_any_bytes_is_text_that_can_be_stored(headers, from_, caller, name):
    info = House(trusted=True).call(*headers, from_=from_)
    assert (info.caller, info.parameters["caller_name"]) == (caller, name)
    assert orjson.loads(orjson.dumps(dict(info.parameters))) == info.parameters


def test_configured_headers_are_parameters_of_a_trusted_trunk():
    info = House(trusted=True, headers=["X-Account-Id"]).call("X-Account-ID: 4711", "X-Other: 1")
    assert info.parameters["x-account-id"] == "4711"
    assert "x-other" not in info.parameters


def test_a_trunk_with_a_certificate_takes_calls_with_that_certificate_alone():
    house = House(certificate="Peer.example")
    assert house.call() == 403
    house.names = frozenset({"another.example"})
    assert house.call() == 403
    house.names = frozenset({"peer.example"})
    assert house.call().trunk == "pbx"


def test_a_caller_cannot_choose_the_trunk_with_a_header():
    house = House(register="sip:200@pbx.example", username="200", password="secret")
    house.line.trunks.set_contact("pbx", "t0k3n")
    assert house.call(uri="sip:t0k3n@192.0.2.1", host="198.51.100.9") == 403
    assert house.call(uri="sip:t0k3n@192.0.2.1", to="<sip:+12025550100@pbx>").called == "+12025550100"


class Dialled:
    """As much of a leg as the line needs of one that it has dialled."""

    info = CallInfo("1-a", "+12025550100", "+12025551234", "pbx")

    def handle(self, event):
        self.heard = event


def test_a_call_of_ours_counts_for_its_trunk_until_it_is_over():
    house = House(address=f"sip:{HOST}")
    flow = Flow("udp", (HOST, 5060), ("192.0.2.1", 5060))
    target = Target(uri=f"sip:+12025551234@{HOST}", from_="<sip:+12025550100@gw>", flows=(flow,))
    leg = Dialled()
    house.line.invite(leg, target, SDP.encode())
    assert (house.line.dialled_on("pbx"), house.line.dialled_on("other")) == (1, 0)

    invite = sip_text.read(house.ua.to_send()[-1].data)
    house.receive(sip_text.respond(invite, 486, "Busy Here", tag="b"))
    assert leg.heard.status == 486
    assert house.line.dialled_on("pbx") == 0


def test_a_challenge_to_our_bye_is_answered_with_the_trunks_credentials():
    house = House(username="trunk42", password="s3cret")
    house.refusal = None
    house.call()
    [call] = house.line._legs
    house.ua.answer(call, SDP.encode(), now=0.0)
    ok = sip_text.read(house.ua.to_send()[-1].data)
    dialog = [("From", ok["from"]), ("To", ok["to"]), ("Call-ID", ok["call-id"])]
    via = ("Via", f"SIP/2.0/UDP {HOST};branch=z9hG4bKack")
    ack = [via, *dialog, ("CSeq", "1 ACK"), ("Max-Forwards", "70")]
    house.receive(sip_text.write(f"ACK {ok.uri('contact')} SIP/2.0", ack))
    house.line.bye(call)

    bye = sip_text.read(house.ua.to_send()[-1].data)
    assert (bye.method, bye["proxy-authorization"]) == ("BYE", "")
    challenge = (
        "Proxy-Authenticate",
        'Digest realm="pbx.example", nonce="n1", qop="auth", algorithm=SHA-256',
    )
    house.receive(sip_text.respond(bye, 407, "Proxy Authentication Required", extra=(challenge,)))
    again = sip_text.read(house.ua.to_send()[-1].data)
    assert (again.method, again.cseq) == ("BYE", bye.cseq + 1)
    assert 'username="trunk42", realm="pbx.example"' in again["proxy-authorization"]
    assert "s3cret" not in again["proxy-authorization"]


@pytest.mark.parametrize(
    ("allow", "takes"),
    [
        ((), True),
        ((("Allow", "INVITE, ACK, REFER"),), True),
        ((("Allow", "INVITE, ACK"), ("Allow", "refer")), True),
        ((("Allow", "INVITE, ACK, BYE"),), False),
    ],
)
def test_only_an_allow_without_refer_says_that_a_peer_does_not_transfer(allow, takes):
    assert takes_refer(Request(Headers(allow), b"", "INVITE", Uri("sip:a@h"))) is takes
