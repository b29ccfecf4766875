"""What a carrier does to a call of ours, at the gateway's own wire: answers that repeat, fork and change."""

from __future__ import annotations

import hashlib
import re

import pytest

from tests.kit import sip_text
from tests.kit.colleague import Colleague, together
from tests.kit.udp import udp
from tests.peers.test_bridge import BRIDGE, Scene, scene

pytestmark = pytest.mark.peers

RELIABLE = ("Require", "100rel")


def answer(
    colleague: Colleague,
    status: int,
    *extra: tuple[str, str],
    tag: str = "colleague",
    media_port: int = 0,
) -> None:
    """Answer the INVITE as no plan of the telephone does; ``media_port`` adds a description."""
    assert colleague.invite is not None
    assert colleague.source is not None
    contact = ("Contact", f"<sip:colleague@127.0.0.1:{colleague.port}>")
    data = sip_text.respond(colleague.invite, status, "As planned", tag=tag, extra=(contact, *extra))
    if media_port:
        body = sip_text.offer("127.0.0.1", media_port).encode()
        kind = b"Content-Type: application/sdp\r\nContent-Length: %d\r\n\r\n" % len(body)
        data = data.replace(b"Content-Length: 0\r\n\r\n", kind + body)
    colleague.sip.sendto(data, colleague.source)


def count(colleague: Colleague, method: str, tag: str = "colleague") -> int:
    messages = [each.message for each in colleague.received if each.message.method == method]
    return sum(message.tag("to") == tag for message in messages)


def end(call: Scene) -> None:
    call.phone.hang_up()
    call.colleague.wait_for_bye(5)
    call.nothing_is_left()


@pytest.mark.report("BR-024")
def test_each_repeated_answer_gets_its_ack_and_the_call_goes_on(fake_office):
    with scene(fake_office) as call:
        call.ask_for_sales()
        call.colleague.until_answered()
        for seen in (1, 2):
            call.colleague.say_status(200)
            call.colleague.until(lambda seen=seen: count(call.colleague, "ACK") > seen, 5, "another ACK")
        call.talk()
        assert "BYE" not in call.colleague.methods()
        end(call)


@pytest.mark.report("BR-024")
def test_a_second_telephone_that_answers_too_is_hung_up_and_the_first_one_talks(fake_office):
    with scene(fake_office) as call:
        call.ask_for_sales()
        call.colleague.until_answered()
        answer(call.colleague, 200, tag="other", media_port=call.colleague.rtp.getsockname()[1])
        call.colleague.until(lambda: count(call.colleague, "BYE", "other"), 5, "the BYE of the second one")
        assert count(call.colleague, "ACK", "other") == 1
        assert count(call.colleague, "BYE") == 0
        call.talk()
        call.phone.hang_up()
        call.colleague.until(lambda: count(call.colleague, "BYE"), 5, "the BYE of the first one")
        call.nothing_is_left()


@pytest.mark.report("BR-045")
def test_reliable_ringing_is_acknowledged_step_by_step(fake_office):
    with scene(fake_office, plan=()) as call:
        call.ask_for_sales()
        port = call.colleague.rtp.getsockname()[1]
        for step, status in ((10, 183), (11, 180)):
            answer(call.colleague, status, RELIABLE, ("RSeq", str(step)), media_port=port)
            prack = call.colleague.wait_for(
                lambda message, step=step: message["rack"] == f"{step} 1 INVITE", 5, "PRACK"
            )
            assert prack.method == "PRACK"
        call.colleague.say_status(200)
        call.colleague.until_answered()
        call.talk()
        end(call)


@pytest.mark.report("BR-078")
def test_the_audio_follows_the_answer_of_the_200_not_that_of_the_183(fake_office):
    with scene(fake_office, plan=()) as call, udp(fake_office.ports.take(2)) as elsewhere:
        call.ask_for_sales()
        answer(call.colleague, 183, media_port=elsewhere.getsockname()[1])
        call.phone.listen(0.5)
        call.colleague.say_status(200)
        call.colleague.until_answered()
        call.talk()
        end(call)


@pytest.mark.report("BR-037")
def test_a_trunk_that_asks_for_a_digest_gets_it_in_the_same_call(fake_office):
    with Colleague(fake_office.ports, plan=()) as colleague:
        account = {"username": "gw", "password": "correct horse"}
        trunk = {"address": colleague.address, "trusted": True, **account}
        gateway = fake_office.open("handover", trunk=trunk, agent=BRIDGE)
        phone = fake_office.phone(gateway)
        with together(phone, colleague):
            call = Scene(fake_office, colleague, gateway, phone)
            call.ask_for_sales()
            first = colleague.invite
            answer(
                colleague,
                407,
                ("Proxy-Authenticate", 'Digest realm="carrier", nonce="n1", algorithm=SHA-256, qop="auth"'),
                ("Proxy-Authenticate", 'Digest realm="carrier", nonce="n2", algorithm=MD5, qop="auth"'),
            )
            colleague.invite, colleague.plan = None, ((0.0, 180), (0.3, 200))
            second = colleague.wait_for(lambda message: message["proxy-authorization"], 5, "credentials")
            refused = colleague.wait_for(lambda message: message.method == "ACK", 5, "the ACK of the 407")
            colleague.acknowledged = False
            colleague.until_answered()
            call.talk()
            end(call)

    assert first is not None
    assert (refused["via"], refused.cseq) == (first["via"], first.cseq)
    assert (second["call-id"], second["from"], second["to"]) == (first["call-id"], first["from"], first["to"])
    assert (second.cseq, second["via"] == first["via"]) == (first.cseq + 1, False)
    said = dict(re.findall(r'(\w+)="?([^",]+)"?', second["proxy-authorization"]))
    assert (said["algorithm"], said["nonce"], said["nc"]) == ("SHA-256", "n1", "00000001")
    one = sha256(f"gw:carrier:{account['password']}")
    two = sha256(f"INVITE:{second.start.split()[1]}")
    assert said["response"] == sha256(f"{one}:n1:{said['nc']}:{said['cnonce']}:auth:{two}")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
