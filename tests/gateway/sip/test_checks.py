import pytest

from gateway.sip.checks import extensions, inspect
from gateway.sip.parser import parse_message
from gateway.sip.policy import PeerPolicy
from gateway.sip.respond import ALLOW, ALLOWED_METHODS
from tests.gateway.sip.rig import request


def judged(method="INVITE", *, uri="sip:bot@192.0.2.10", **headers):
    extra = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return inspect(parse_message(request(method, uri=uri, extra=extra)))


@pytest.mark.parametrize("method", sorted(ALLOWED_METHODS - {"ACK", "CANCEL"}))
def test_what_allow_names_is_served(method):
    assert judged(method) is None


@pytest.mark.parametrize("method", ["REGISTER", "SUBSCRIBE", "MESSAGE", "PUBLISH", "invite", "!x%"])
def test_other_methods_are_405_with_allow(method):
    refusal = judged(method)

    assert refusal.status == 405
    assert refusal.headers == (("Allow", ALLOW),)


@pytest.mark.parametrize("uri", ["sip:a@h", "SIPS:a@h", "tel:+1212"])
def test_known_schemes(uri):
    assert judged(uri=uri) is None


@pytest.mark.parametrize(
    "uri", ["nobodyKnowsThisScheme:opaque", "soap.beep://192.0.2.103:3002", "urn:service:sos"]
)
def test_other_schemes_are_416(uri):
    assert judged(uri=uri).status == 416


@pytest.mark.report("BR-032")
def test_every_required_extension_that_we_lack_is_named():
    refusal = judged(Require="precondition,100rel, Replaces", Supported="timer")

    assert refusal.status == 420
    assert refusal.headers == (("Unsupported", "precondition, replaces"),)
    assert judged(Proxy_Require="x", Supported="100rel") is None
    assert judged(Require="100rel, Timer") is None


def test_a_peer_with_whom_no_timers_are_spoken_may_not_require_them():
    without = PeerPolicy(session_timers=False)
    message = parse_message(request("INVITE", extra=(("Require", "timer, 100rel"),)))

    assert inspect(message, without).headers == (("Unsupported", "timer"),)
    assert extensions(without) == ("100rel",)
    assert extensions(PeerPolicy()) == ("timer", "100rel")


@pytest.mark.parametrize("name", ["Replaces", "Join", "Target-Dialog"])
def test_a_header_of_an_extension_that_nobody_requires_is_ignored(name):
    """RFC 3891, section 3, and RFC 3911, section 4: who does not know it takes an ordinary call."""
    extra = ((name, "9@h;to-tag=1;from-tag=2"), ("Supported", "replaces, join, tdialog"))

    assert inspect(parse_message(request("INVITE", extra=extra))) is None


@pytest.mark.parametrize(
    "accept", ["application/sdp", "Application/SDP;level=1, x/y", "*/*", "application/*;q=0.1"]
)
def test_sdp_is_welcome(accept):
    assert judged(Accept=accept) is None


def test_who_does_not_accept_sdp_gets_406():
    assert judged(Accept="text/nobodyKnowsThis").status == 406
    assert judged(Accept="").status == 406
    assert judged("OPTIONS", Accept="text/nobodyKnowsThis") is None
