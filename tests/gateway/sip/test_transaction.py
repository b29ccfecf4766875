import pytest

from gateway.sip.parser import parse_message
from gateway.sip.transaction import cancelled_key, client_key, server_key


def message(
    method="INVITE", *, via="SIP/2.0/UDP h:5060;branch=z9hG4bKa", to="<sip:b@h>", cseq=1, uri="sip:b@h"
):
    return parse_message(
        f"{method} {uri} SIP/2.0\r\nVia: {via}\r\nFrom: <sip:a@h>;tag=1\r\nTo: {to}\r\n"
        f"Call-ID: c\r\nCSeq: {cseq} {method}\r\n\r\n".encode()
    )


OLD = "SIP/2.0/UDP 203.0.113.61:5060"


@pytest.mark.parametrize("via", ["SIP/2.0/UDP h:5060;branch=z9hG4bKa", OLD], ids=["RFC 3261", "RFC 2543"])
def test_an_ack_and_a_cancel_find_their_invite(via):
    invite = message(via=via)

    assert server_key(message("ACK", via=via, to="<sip:b@h>;tag=ours")) == server_key(invite)
    assert cancelled_key(message("CANCEL", via=via)) == server_key(invite)
    assert server_key(message("CANCEL", via=via)) != server_key(invite)


@pytest.mark.parametrize(
    "other",
    [
        message(via="SIP/2.0/UDP h:5060;branch=z9hG4bKb"),
        message(via="SIP/2.0/UDP other:5060;branch=z9hG4bKa"),
        message(via="SIP/2.0/UDP h:5061;branch=z9hG4bKa"),
        message("OPTIONS"),
    ],
)
def test_branch_sent_by_and_method_tell_transactions_apart(other):
    assert server_key(other) != server_key(message())


def test_parameters_and_case_of_the_via_do_not():
    assert server_key(message(via="SIP/2.0/TCP H;branch=Z9HG4BKA;rport")) == server_key(message())


@pytest.mark.report("BR-044")
def test_without_a_branch_the_rules_of_rfc_2543_hold():
    first = server_key(message(via=OLD))

    assert server_key(message(via=OLD)) == first
    assert server_key(message(via=OLD, cseq=2)) != first
    assert server_key(message(via=OLD, uri="sip:c@h")) != first
    assert server_key(message(via="SIP/2.0/UDP 203.0.113.62")) != first


def test_a_response_is_matched_by_branch_and_method():
    bye = message("BYE")
    ok = parse_message(
        b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKa\r\nFrom: <sip:a@h>;tag=1\r\n"
        b"To: <sip:b@h>;tag=2\r\n"
        b"Call-ID: c\r\nCSeq: 1 BYE\r\n\r\n"
    )

    assert client_key(ok) == client_key(bye) != client_key(message("REFER"))
