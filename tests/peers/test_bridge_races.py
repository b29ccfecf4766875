"""What a carrier does to a call of ours, at the gateway's own wire: answers that repeat, fork and change."""

from __future__ import annotations

import pytest

from tests.kit import sip_text
from tests.kit.colleague import Colleague
from tests.kit.udp import udp
from tests.peers.test_bridge import Scene, scene

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
