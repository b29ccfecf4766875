import pytest

from gateway.sip.identity import identity_of
from gateway.sip.message import Headers
from gateway.sip.parameters import MAX_CHOSEN, MAX_VALUE, diversion_parameters, header_parameters
from gateway.sip.parser import parse_message
from tests.gateway.sip.rig import request


def diverted(*values):
    extra = tuple(("Diversion", value) for value in values)
    return diversion_parameters(identity_of(parse_message(request("INVITE", extra=extra))))


@pytest.mark.report("BR-195")
def test_a_forwarded_call_tells_the_original_number_and_the_chain():
    told = diverted(
        "<tel:+12025550111>;reason=unconditional;counter=1;privacy=off",
        '<sip:+12025550122@pbx>;reason="no-answer"',
    )

    assert told == {
        "diverted_from": "+12025550122",
        "diversions": "+12025550111 unconditional, +12025550122 no-answer",
    }


def test_who_hides_is_not_told_and_a_direct_call_tells_nothing():
    assert diverted() == {}
    assert diverted("<tel:+1>;privacy=full", "<sip:anonymous@anonymous.invalid>") == {}


def test_only_the_headers_that_the_trunk_names_are_given():
    headers = Headers(
        [("X-Account", "42"), ("x-account", "43"), ("X-Other", "no"), ("Authorization", "Digest secret")]
    )

    assert header_parameters(headers, ["X-ACCOUNT", "X-Missing", "authorization"]) == {"X-ACCOUNT": "42, 43"}


def test_values_are_safe_and_bounded():
    headers = Headers([("X-A", "a\x00b\udcff"), ("X-B", "y" * 5000)])
    headers_of_many = Headers([(f"X-{n}", "1") for n in range(100)])

    assert header_parameters(headers, ["X-A"]) == {"X-A": "ab\ufffd"}
    assert len(header_parameters(headers, ["X-B"])["X-B"]) == MAX_VALUE
    assert len(header_parameters(headers_of_many, [f"X-{n}" for n in range(100)])) == MAX_CHOSEN
