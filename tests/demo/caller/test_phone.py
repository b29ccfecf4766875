"""The caller's phone against a peer that is played by the test itself, datagram by datagram."""

import asyncio
import socket

import pytest

from deploy.demo.caller import phone as phone_module
from deploy.demo.caller.message import parse, respond, write_sdp
from deploy.demo.caller.phone import CallFailed, Phone


class Peer:
    """A UDP socket that reads and writes SIP as it is told."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind(("127.0.0.1", 0))
        self.address = self.socket.getsockname()
        self.caller = None

    async def receive(self):
        async with asyncio.timeout(5):
            data, self.caller = await asyncio.get_running_loop().sock_recvfrom(self.socket, 65536)
        return parse(data)

    async def send(self, message):
        await asyncio.get_running_loop().sock_sendto(self.socket, message.to_bytes(), self.caller)

    async def answer(self, request, status="200 OK"):
        host, port = self.address
        await self.send(respond(request, status, tag="gw", extra=(("Contact", f"<sip:gw@{host}:{port}>"),)))

    async def ask(self, phone, method, cseq, *extra):
        """Send an in-dialog request and return the response to it."""
        host, port = self.address
        request = phone.dialog.request(
            method, via=f"SIP/2.0/UDP {host}:{port};branch=z9hG4bK{method}{cseq}", cseq=cseq, extra=extra
        )
        await self.send(request)
        return await self.receive()


@pytest.fixture
def peer():
    it = Peer()
    yield it
    it.socket.close()


@pytest.fixture
async def phone(peer):
    it = Phone(peer.address, host="127.0.0.1", caller="+1", called="+2", patience=5.0)
    it.open()
    yield it
    it.close()


async def in_call(phone, peer):
    async with asyncio.TaskGroup() as group:
        group.create_task(phone.invite(write_sdp("127.0.0.1", 4000)))
        await peer.answer(await peer.receive())
    return await peer.receive()


async def test_an_invite_is_sent_again_until_it_is_answered_and_acknowledged_to_the_contact(
    phone, peer, monkeypatch
):
    monkeypatch.setattr(phone_module, "T1", 0.02)
    async with asyncio.TaskGroup() as group:
        calling = group.create_task(phone.invite(write_sdp("127.0.0.1", 4000)))
        first, second = await peer.receive(), await peer.receive()
        await peer.answer(second)
    ack = await peer.receive()

    assert first.get("via") == second.get("via")
    assert calling.result().status == 200
    assert ack.start_line == f"ACK sip:gw@127.0.0.1:{peer.address[1]} SIP/2.0"
    assert ack.cseq == first.cseq
    assert "tag=gw" in ack.get("to")


async def test_a_provisional_response_stops_the_retransmission(phone, peer, monkeypatch):
    monkeypatch.setattr(phone_module, "T1", 0.02)
    async with asyncio.TaskGroup() as group:
        group.create_task(phone.invite(write_sdp("127.0.0.1", 4000)))
        invite = await peer.receive()
        await peer.answer(invite, "100 Trying")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.15):
                await peer.receive()
        await peer.answer(invite)
    assert (await peer.receive()).method == "ACK"


async def test_a_repeated_200_gets_the_same_ack_again(phone, peer):
    ack = await in_call(phone, peer)
    invite = phone.log[0].message
    await peer.answer(invite)

    assert (await peer.receive()).to_bytes() == ack.to_bytes()


async def test_a_refusal_is_acknowledged_in_its_own_transaction_and_is_a_failure(phone, peer):
    async with asyncio.TaskGroup() as group:

        async def expect_refusal():
            with pytest.raises(CallFailed, match="404 Not Found"):
                await phone.invite(write_sdp("127.0.0.1", 4000))

        group.create_task(expect_refusal())
        invite = await peer.receive()
        await peer.answer(invite, "404 Not Found")
    ack = await peer.receive()

    assert ack.get("via") == invite.get("via")  # RFC 3261, section 17.1.1.3


async def test_a_gateway_that_says_nothing_is_given_up_with_a_sentence(peer):
    impatient = Phone(peer.address, host="127.0.0.1", caller="+1", called="+2", patience=0.05)
    impatient.open()
    with pytest.raises(CallFailed, match=r"did not answer our INVITE within 0.05 s"):
        await impatient.invite(write_sdp("127.0.0.1", 4000))
    impatient.close()


async def test_the_gateways_bye_is_answered_and_ends_the_call(phone, peer):
    await in_call(phone, peer)
    answer = await peer.ask(phone, "BYE", 1)

    assert answer.status == 200
    assert phone.is_over
    assert phone.ended.is_set()


async def test_a_refer_is_accepted_and_its_progress_is_notified(phone, peer):
    await in_call(phone, peer)
    accepted = await peer.ask(phone, "REFER", 1, ("Refer-To", "<sip:+12125551234@127.0.0.1>"))
    async with asyncio.TaskGroup() as group:
        group.create_task(phone.notify("200 OK", final=True))
        notify = await peer.receive()
        await peer.answer(notify)

    assert accepted.status == 202
    assert phone.refer.get("refer-to") == "<sip:+12125551234@127.0.0.1>"
    assert notify.get("event") == "refer"
    assert notify.get("subscription-state").startswith("terminated")
    assert notify.body == "SIP/2.0 200 OK\r\n"


async def test_our_bye_must_be_answered_with_200(phone, peer):
    await in_call(phone, peer)
    async with asyncio.TaskGroup() as group:

        async def expect_failure():
            with pytest.raises(CallFailed, match=r"answered our BYE with 481"):
                await phone.bye()

        group.create_task(expect_failure())
        await peer.answer(await peer.receive(), "481 Call/Transaction Does Not Exist")


@pytest.mark.parametrize(("method", "status"), [("OPTIONS", 200), ("SUBSCRIBE", 405)])
async def test_other_requests_get_a_proper_answer(phone, peer, method, status):
    await in_call(phone, peer)

    assert (await peer.ask(phone, method, 1)).status == status


async def test_a_request_of_another_call_is_481(phone, peer):
    await in_call(phone, peer)
    await peer.send(
        parse(
            b"BYE sip:x SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK9\r\nFrom: <sip:a@h>;tag=1\r\n"
            b"To: <sip:b@h>;tag=2\r\nCall-ID: stranger\r\nCSeq: 1 BYE\r\n\r\n"
        )
    )

    assert (await peer.receive()).status == 481
    assert not phone.is_over
