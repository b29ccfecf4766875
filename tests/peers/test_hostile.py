"""Crafted messages, each at a gateway that has a call: it is refused in SIP's terms, and the call goes on."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.kit import sip_text
from tests.kit.office import NUMBER, Office
from tests.kit.probe import Probe

pytestmark = pytest.mark.peers

SDP = [
    "v=0", "o=- 1 1 IN IP4 127.0.0.1", "s=-", "c=IN IP4 127.0.0.1", "t=0 0", "m=audio 5000 RTP/AVP 0 101",
    "a=rtpmap:0 PCMU/8000", "a=rtpmap:101 telephone-event/8000",
]  # fmt: skip


def changed(kind: str, line: str) -> list[str]:
    return [line if each.startswith(f"{kind}=") else each for each in SDP]


DESCRIPTIONS = {
    "NUL in an attribute": [*SDP, "a=fmtp\0:101 0-16"],
    "port of six digits": changed("m", "m=audio 99999 RTP/AVP 0"),
    "two streams": changed("m", "m=audio 5000/2 RTP/AVP 0"),
    "payload type 999": [*SDP, "a=rtpmap:999 X/0"],
    "empty rtpmap": [*SDP, "a=rtpmap:"],
    "no address": changed("c", "c=IN IP4 300.1.1.1"),
    "no time": changed("t", "t=-"),
    "10000 attributes": [*SDP, *["a=x"] * 10_000],
}
HEADERS = {
    "CSeq of eleven digits": (b"CSeq: 1 INVITE", b"CSeq: 99999999999 INVITE"),
    "Content-Length 1e9": (b"Content-Length: ", b"Content-Length: 1e9\r\nX-Was: "),
}


@pytest.fixture
def probe(fake_office: Office) -> Iterator[Probe]:
    gateway = fake_office.open()
    with Probe(gateway.sip, fake_office.ports) as probe:
        yield probe


def invite(probe: Probe, name: str) -> bytes:
    call_id = secrets.token_hex(8)
    data = probe.request("INVITE", NUMBER, call_id=call_id, branch=sip_text.branch())
    if name in HEADERS:
        return data.replace(*HEADERS[name])
    head = data.partition(b"\r\nContent-Type")[0].decode()
    start, *lines = head.split("\r\n")
    headers = [(key, value.strip()) for key, _, value in (line.partition(":") for line in lines)]
    return sip_text.write(start, headers, "\r\n".join([*DESCRIPTIONS[name], ""]))


def dialog_request(probe: Probe, method: str, ok: sip_text.Message, cseq: int) -> bytes:
    return probe.request(
        method,
        NUMBER,
        call_id=ok["call-id"],
        branch=sip_text.branch(),
        cseq=cseq,
        to_tag=ok.tag("to"),
        target=ok.uri("contact"),
    )


def final_of(probe: Probe, data: bytes) -> sip_text.Message:
    """Send an INVITE and return its final answer, acknowledged."""
    sent = sip_text.read(data)
    probe.send(data)
    final = probe.wait_for(lambda it: it["call-id"] == sent["call-id"] and it.status >= 200, 10)
    branch = sent["via"].partition("branch=")[2] if final.status >= 300 else sip_text.branch()
    ack = probe.request(
        "ACK", NUMBER, call_id=sent["call-id"], branch=branch, cseq=final.cseq, to_tag=final.tag("to")
    )
    probe.send(ack)
    return final


@pytest.mark.report("BR-163")
def test_each_crafted_message_is_refused_and_the_call_beside_it_goes_on(probe: Probe):
    call_id = secrets.token_hex(8)
    ok = final_of(probe, probe.request("INVITE", NUMBER, call_id=call_id, branch=sip_text.branch()))
    assert ok.status == 200
    for cseq, name in enumerate([*DESCRIPTIONS, *HEADERS], start=2):
        refused = final_of(probe, invite(probe, name))
        assert refused.status in {400, 488}, name
        probe.send(dialog_request(probe, "OPTIONS", ok, cseq))
        alive = probe.wait_for(
            lambda it, cseq=cseq: it["call-id"] == call_id and it["cseq"] == f"{cseq} OPTIONS", 5
        )
        assert alive.status == 200
    probe.send(dialog_request(probe, "BYE", ok, 99))
    assert probe.wait_for(lambda it: it["call-id"] == call_id and it.answers == "BYE", 5).status == 200
