"""Retransmissions as they are on the wire: SIPp and phones hide them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.kit import sip_text
from tests.kit.office import NUMBER, Office
from tests.kit.probe import Probe

pytestmark = pytest.mark.peers

TIMERS = {"sip": {"timers": {"t1_ms": 100, "t2_ms": 800, "t4_ms": 500}}}


@pytest.fixture
def probe(office: Office) -> Iterator[Probe]:
    gateway = office.open(server=TIMERS)
    with Probe(gateway.sip, office.ports) as probe:
        yield probe


def invite(probe: Probe) -> tuple[str, bytes]:
    call_id = secrets.token_hex(8)
    return call_id, probe.request("INVITE", NUMBER, call_id=call_id, branch=sip_text.branch())


def is_ok(message: sip_text.Message) -> bool:
    return message.status == 200 and message.answers == "INVITE"


def answer_of(probe: Probe, call_id: str) -> sip_text.Message:
    return probe.wait_for(lambda message: is_ok(message) and message["call-id"] == call_id, 10)


def acknowledge(probe: Probe, ok: sip_text.Message) -> None:
    ack = probe.request(
        "ACK",
        NUMBER,
        call_id=ok["call-id"],
        branch=sip_text.branch(),
        to_tag=ok.tag("to"),
        target=ok.uri("contact"),
    )
    probe.send(ack)


def bye_for(probe: Probe, ok: sip_text.Message) -> bytes:
    return probe.request(
        "BYE",
        NUMBER,
        call_id=ok["call-id"],
        branch=sip_text.branch(),
        cseq=2,
        to_tag=ok.tag("to"),
        target=ok.uri("contact"),
    )


def test_a_repeated_invite_is_one_call(probe):
    """RFC 3261 section 17.2.1: the same answer again, and no second dialog."""
    call_id, request = invite(probe)
    for _ in range(3):
        probe.send(request)
    ok = answer_of(probe, call_id)
    probe.send(request)
    probe.collect(0.3)
    acknowledge(probe, ok)
    probe.collect(0.5)
    tags = {each.message.tag("to") for each in probe.messages(lambda message: message.status > 100)}
    assert tags == {ok.tag("to")}
    probe.send(bye_for(probe, ok))
    probe.wait_for(lambda message: message.answers == "BYE" and message.status == 200)


def test_the_200_is_repeated_until_its_ack(probe):
    """RFC 3261 section 13.3.1.4: after T1, doubling up to T2; nothing more after the ACK."""
    call_id, request = invite(probe)
    probe.send(request)
    ok = answer_of(probe, call_id)
    probe.until(lambda: len(probe.messages(is_ok)) >= 4, 3)
    times = [each.at for each in probe.messages(is_ok)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps[:3] == pytest.approx([0.1, 0.2, 0.4], abs=0.08)
    acknowledge(probe, ok)
    probe.collect(0.2)
    count = len(probe.messages(is_ok))
    probe.collect(1.0)
    assert len(probe.messages(is_ok)) == count
    probe.send(bye_for(probe, ok))
    probe.wait_for(lambda message: message.answers == "BYE" and message.status == 200)


def test_without_an_ack_the_call_is_ended_after_64_t1(probe):
    call_id, request = invite(probe)
    sent = probe.send(request)
    answer_of(probe, call_id)
    bye = probe.wait_for(lambda message: message.method == "BYE", 12)
    at = next(each.at for each in probe.received if each.message.method == "BYE")
    assert 6.0 <= at - sent <= 9.0
    assert bye["call-id"] == call_id
    probe.send(sip_text.respond(bye, 200, "OK"))


def test_a_repeated_bye_is_answered_again(probe):
    call_id, request = invite(probe)
    probe.send(request)
    ok = answer_of(probe, call_id)
    acknowledge(probe, ok)
    bye = bye_for(probe, ok)
    for _ in range(3):
        probe.send(bye)
    probe.collect(0.5)
    answers = probe.messages(lambda message: message.answers == "BYE" and message.status > 0)
    assert [each.message.status for each in answers] == [200, 200, 200]
    new = bye.replace(b"CSeq: 2 BYE", b"CSeq: 3 BYE").replace(b"branch=z9hG4bK", b"branch=z9hG4bKn")
    probe.send(new)
    assert probe.wait_for(lambda message: message.cseq == 3).status == 481


def test_our_bye_is_repeated_until_it_is_answered(probe):
    """The ACK never comes; nor does an answer to the BYE at first (RFC 3261 section 17.1.2, timer E)."""
    call_id, request = invite(probe)
    probe.send(request)
    answer_of(probe, call_id)
    byes = lambda: probe.messages(lambda message: message.method == "BYE")  # noqa: E731
    assert probe.until(lambda: len(byes()) >= 3, 12)
    assert len({each.data for each in byes()}) == 1
    probe.send(sip_text.respond(byes()[0].message, 200, "OK"))
    probe.collect(0.2)
    count = len(byes())
    probe.collect(1.0)
    assert len(byes()) == count


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\r\n\r\n", None),
        (b"hello", None),
        (b"\x80\x00" * 600, None),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", None),
    ],
)
def test_garbage_is_not_answered_and_ends_nothing(probe, data, status):
    call_id, request = invite(probe)
    probe.send(request)
    ok = answer_of(probe, call_id)
    acknowledge(probe, ok)
    probe.collect(0.1)
    probe.received.clear()
    for _ in range(20):
        probe.send(data)
    assert [
        each for each in probe.collect(0.3) if each.message.status != status and each.message.status
    ] == []
    probe.send(bye_for(probe, ok))
    probe.wait_for(lambda message: message.answers == "BYE" and message.status == 200)


def test_an_unknown_method_gets_405_with_allow(probe):
    request = probe.request("DANCE", NUMBER, call_id=secrets.token_hex(8), branch=sip_text.branch())
    probe.send(request)
    answer = probe.wait_for(lambda message: message.answers == "DANCE")
    assert answer.status == 405
    assert "INVITE" in answer["allow"]


def test_a_request_in_a_dialog_that_is_not_there_gets_481(probe):
    request = probe.request("BYE", NUMBER, call_id="nowhere", branch=sip_text.branch(), to_tag="none", cseq=2)
    probe.send(request)
    assert probe.wait_for(lambda message: message.answers == "BYE").status == 481
