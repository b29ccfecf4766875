"""Calls that are refused, each in SIP's own terms and with a line in the log."""

from __future__ import annotations

import secrets

import pytest

from tests.kit import sip_text
from tests.kit.office import KEY, NUMBER
from tests.kit.probe import Probe

pytestmark = pytest.mark.peers


def test_an_unknown_number_gets_404_and_the_log_names_the_nearest(fake_office):
    gateway = fake_office.open()
    phone = fake_office.phone(gateway, called="+12125550101")
    assert phone.dial_and_be_refused().status == 404
    gateway.until(lambda: "+12125550101" in gateway.log, 2, "logged")
    assert any("+12125550101" in line and NUMBER in line for line in gateway.log.splitlines())


def test_one_call_too_many_gets_503_with_retry_after(fake_office):
    gateway = fake_office.open(server={"sip": {"max_calls": 2}})
    phones = [fake_office.phone(gateway) for _ in range(3)]
    for phone in phones[:2]:
        phone.call()
    refusal = phones[2].dial_and_be_refused()
    assert refusal.status == 503
    assert int(refusal["retry-after"]) > 0
    phones[0].hang_up()
    gateway.until(lambda: gateway.metrics()["trunkline_calls_active"] == 1, 5, "free again")
    again = fake_office.phone(gateway)
    again.call()
    again.hang_up()
    phones[1].hang_up()


def test_a_trunk_has_a_limit_of_its_own(fake_office):
    gateway = fake_office.open(trunk={"max_calls": 1})
    first, second = fake_office.phone(gateway), fake_office.phone(gateway)
    first.call()
    refusal = second.dial_and_be_refused()
    assert refusal.status == 503
    assert int(refusal["retry-after"]) > 0
    first.hang_up()


def test_without_a_free_port_a_call_gets_503(fake_office):
    gateway = fake_office.open(rtp_ports=4)
    phones = [fake_office.phone(gateway) for _ in range(3)]
    for phone in phones[:2]:
        phone.call()
    refusal = phones[2].dial_and_be_refused()
    assert refusal.status == 503
    assert int(refusal["retry-after"]) > 0
    for phone in phones[:2]:
        phone.hang_up()


def test_who_is_no_trunk_gets_no_answer(fake_office):
    gateway = fake_office.open(trunk={"allow": ["127.0.0.77"]})
    with Probe(gateway.sip, fake_office.ports) as probe:
        for method in ("INVITE", "OPTIONS", "REGISTER"):
            probe.send(probe.request(method, NUMBER, call_id=secrets.token_hex(8), branch=sip_text.branch()))
        probe.send(b"INVITE sip:x SIP/2.0\r\n\r\n")
        assert probe.collect(0.7) == []


def test_a_codec_that_we_have_not_gets_488(fake_office):
    gateway = fake_office.open()
    with Probe(gateway.sip, fake_office.ports) as probe:
        request = probe.request("INVITE", NUMBER, call_id=secrets.token_hex(8), branch=sip_text.branch())
        head, _, body = request.partition(b"\r\n\r\n")
        body = body.replace(b"RTP/AVP 0 101", b"RTP/AVP 18 101").replace(b"0 PCMU/8000", b"18 G729/8000")
        length = f"Content-Length: {len(body)}".encode()
        head = b"\r\n".join(
            length if line.startswith(b"Content-Length") else line for line in head.split(b"\r\n")
        )
        probe.send(head + b"\r\n\r\n" + body)
        answer = probe.wait_for(lambda message: message.answers == "INVITE" and message.status >= 200)
        assert answer.status == 488


def test_a_secret_stands_in_no_log_line_and_on_no_page(openai_office):
    gateway = openai_office.open()
    phone = openai_office.phone(gateway)
    phone.call()
    phone.listen(0.5)
    phone.hang_up()
    pages = "".join(gateway.get(path)[1] for path in ("/healthz", "/readyz", "/metrics"))
    assert KEY not in gateway.log + pages
