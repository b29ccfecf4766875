"""The shell over real sockets on loopback, with the short timers of a test."""

import asyncio
import socket

import pytest

from gateway.net.sip_connection import ConnectionLimits
from gateway.sip import events as sip
from gateway.sip.flow import Flow
from gateway.sip.timers import Timers
from tests.gateway.net.rig import ANSWER, Gateway, Phone, request, tcp_message
from tests.kit import sip_text


async def test_a_whole_call_over_udp():
    async with Gateway(timers=Timers()) as gateway:
        async with Phone(gateway) as phone:
            place = f"{phone.host}:{phone.port}"
            phone.send(request("INVITE", place, body="v=0\r\n"))
            trying, ringing, ok = [await phone.receive() for _ in range(3)]
            assert [trying.status, ringing.status, ok.status] == [100, 180, 200]
            assert ok["contact"] == f"<sip:127.0.0.1:{gateway.udp[1]}>"
            phone.send(request("ACK", place, branch="2", to_tag=ok.tag("to")))
            confirmed = await gateway.until(sip.CallConfirmed)
            gateway.ua.bye(confirmed.call, now=gateway.now())
            gateway.endpoint.settle()
            bye = await phone.receive()
            assert bye.start.startswith(f"BYE sip:me@{place}")
            phone.send(sip_text.respond(bye, 200, "OK"))

            assert await phone.silent()
            assert gateway.ua.dialogs == 0


async def test_the_timer_runs_by_itself():
    async with Gateway() as gateway:
        async with Phone(gateway) as phone:
            phone.send(request("INVITE", f"{phone.host}:{phone.port}"))
            ended = await gateway.until(sip.CallEnded)  # 64 * 20 ms without an ACK
            got = [await phone.receive() for _ in range(8)]

            assert ended.reason == "ack_timeout"
            assert [message.status for message in got[:6]] == [100, 180, 200, 200, 200, 200]


async def test_a_stranger_gets_no_service_and_no_answer():
    async with Gateway(allow=False) as gateway:
        async with Phone(gateway) as phone:
            phone.send(request("OPTIONS", "phone"))
            assert await phone.silent()
        reader, writer = await asyncio.open_connection(*gateway.tcp)
        writer.write(request("OPTIONS", "phone", transport="TCP"))
        async with asyncio.timeout(2):
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass
        writer.close()

        assert gateway.endpoint.dropped["denied"] == 2
        assert gateway.events == []


@pytest.mark.parametrize(("wildcard", "host"), [("0.0.0.0", "127.0.0.1"), ("::", "::1")])
async def test_behind_a_wildcard_the_contact_is_the_address_that_the_peer_reached(wildcard, host):
    async with Gateway() as gateway:
        await gateway.endpoint.listen("udp", wildcard, 0)
        port = gateway.endpoint.addresses[-1][2]
        async with Phone(gateway, host) as phone:
            phone.send(request("OPTIONS", "phone"), (host, port))
            ok = await phone.receive()

        shown = f"[{host}]" if ":" in host else host
        assert ok["contact"] == f"<sip:{shown}:{port}>"


async def test_a_whole_call_over_one_tcp_connection():
    async with Gateway() as gateway:
        reader, writer = await asyncio.open_connection(*gateway.tcp)
        writer.write(request("INVITE", "phone", transport="TCP", body="v=0\r\n"))
        *_, ok = [await tcp_message(reader) for _ in range(3)]
        writer.write(request("ACK", "phone", transport="TCP", branch="2", to_tag=ok.tag("to")))
        confirmed = await gateway.until(sip.CallConfirmed)
        gateway.ua.bye(confirmed.call, now=gateway.now())
        gateway.endpoint.settle()
        while (bye := await tcp_message(reader)).method != "BYE":
            pass  # a 200 that crossed the ACK
        writer.write(sip_text.respond(bye, 200, "OK"))
        writer.write(b"\r\n\r\n")
        async with asyncio.timeout(2):
            assert await reader.readexactly(2) == b"\r\n"

        assert gateway.ua.dialogs == 0
        assert gateway.endpoint.connections == 1
        writer.close()


@pytest.mark.parametrize(
    "broken",
    [
        b"BYE sip:a@h SIP/2.0\r\nVia: SIP/2.0/TCP h;branch=z9hG4bKq\r\nCSeq: 1 BYE\r\n\r\n",
        request("OPTIONS", "phone", transport="TCP").replace(b"Content-Length: 0", b"Content-Length: -5"),
    ],
    ids=["missing length", "negative length"],
)
@pytest.mark.report("BR-046")
async def test_a_stream_that_lost_its_frames_gets_400_and_is_closed(broken):
    async with Gateway() as gateway:
        reader, writer = await asyncio.open_connection(*gateway.tcp)
        writer.write(broken)

        assert (await tcp_message(reader)).status == 400
        async with asyncio.timeout(2):
            assert await reader.read() == b""
        writer.close()


class Listener:
    """A TCP server of the peer."""

    async def __aenter__(self):
        self.arrived: asyncio.Queue = asyncio.Queue()
        self.writers: list[asyncio.StreamWriter] = []
        self.server = await asyncio.start_server(self.take, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def take(self, reader, writer):
        self.writers.append(writer)
        try:
            while True:
                self.arrived.put_nowait(await tcp_message(reader))
        except (asyncio.IncompleteReadError, TimeoutError, ConnectionError):
            writer.close()

    async def __aexit__(self, *_):
        self.server.close()
        for writer in self.writers:
            writer.close()
        await self.server.wait_closed()


async def test_when_the_connection_is_gone_the_answer_goes_to_the_via():
    async with Gateway(answer=False) as gateway, Listener() as peer:
        _, writer = await asyncio.open_connection(*gateway.tcp)
        writer.write(request("INVITE", f"127.0.0.1:{peer.port}", transport="TCP"))
        offered = await gateway.until(sip.CallOffered)
        writer.transport.abort()
        async with asyncio.timeout(2):
            while gateway.endpoint.connections:
                await asyncio.sleep(0)
        gateway.ua.answer(offered.call, ANSWER, now=gateway.now())
        gateway.endpoint.settle()
        async with asyncio.timeout(2):
            ok = await peer.arrived.get()

        assert ok.status == 200
        assert gateway.endpoint.connections == 1


async def test_when_nothing_can_be_reached_the_call_ends():
    async with Gateway(answer=False) as gateway:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            dead = taken.getsockname()[1]
        _, writer = await asyncio.open_connection(*gateway.tcp)
        writer.write(request("INVITE", f"127.0.0.1:{dead}", transport="TCP"))
        offered = await gateway.until(sip.CallOffered)
        writer.transport.abort()
        async with asyncio.timeout(2):
            while gateway.endpoint.connections:
                await asyncio.sleep(0)
        gateway.ua.answer(offered.call, ANSWER, now=gateway.now())
        gateway.endpoint.settle()

        assert await gateway.until(sip.CallEnded) == sip.CallEnded(
            offered.call, by_peer=False, reason="transport"
        )


async def test_a_request_follows_a_tcp_contact_of_a_udp_caller():
    async with Gateway() as gateway, Listener() as peer:
        async with Phone(gateway) as phone:
            contact = f"<sip:me@127.0.0.1:{peer.port};transport=tcp>"
            phone.send(request("INVITE", f"127.0.0.1:{phone.port}", contact=contact))
            *_, ok = [await phone.receive() for _ in range(3)]
            phone.send(request("ACK", f"127.0.0.1:{phone.port}", branch="2", to_tag=ok.tag("to")))
            confirmed = await gateway.until(sip.CallConfirmed)
            gateway.ua.bye(confirmed.call, now=gateway.now())
            gateway.endpoint.settle()
            async with asyncio.timeout(2):
                bye = await peer.arrived.get()

            assert bye.method == "BYE"
            assert bye["via"].startswith("SIP/2.0/TCP")


async def test_messages_wait_in_order_for_a_connection_and_the_last_place_is_not_exceeded(monkeypatch):
    monkeypatch.setattr("gateway.net.sip_outbox._WAITING", 2)
    async with Gateway(timers=Timers()) as gateway, Listener() as peer, Phone(gateway) as phone:
        calls = []
        for n in range(3):
            invite = request(
                "INVITE",
                f"127.0.0.1:{phone.port}",
                branch=f"i{n}",
                contact=f"<sip:me{n}@127.0.0.1:{peer.port};transport=tcp>",
            ).replace(b"Call-ID: c1", b"Call-ID: c%d" % n)
            phone.send(invite)
            *_, ok = [await phone.receive() for _ in range(3)]
            ack = request("ACK", f"127.0.0.1:{phone.port}", branch=f"a{n}", to_tag=ok.tag("to"))
            phone.send(ack.replace(b"Call-ID: c1", b"Call-ID: c%d" % n))
            calls.append(gateway.events[-1].call)
            async with asyncio.timeout(2):
                while not isinstance(gateway.events[-1], sip.CallConfirmed):
                    gateway.news.clear()
                    await gateway.news.wait()
        for call in calls:
            gateway.ua.bye(call, now=gateway.now())
        gateway.endpoint.settle()
        async with asyncio.timeout(2):
            first, second = await peer.arrived.get(), await peer.arrived.get()

        assert [first["call-id"], second["call-id"]] == ["c0", "c1"]
        third = await phone.receive()  # no place left: it goes the other way
        assert (third.method, third["call-id"]) == ("BYE", "c2")
        assert gateway.endpoint.connections == 1


@pytest.mark.parametrize(("name", "found"), [("localhost", True), ("host.invalid", False)])
async def test_a_contact_that_is_a_name_is_looked_up_or_the_source_is_used(name, found):
    async with Gateway(timers=Timers()) as gateway:
        async with Phone(gateway) as phone, Phone(gateway) as target:
            contact = f"<sip:me@{name}:{target.port}>"
            phone.send(request("INVITE", f"127.0.0.1:{phone.port}", contact=contact))
            *_, ok = [await phone.receive() for _ in range(3)]
            phone.send(request("ACK", f"127.0.0.1:{phone.port}", branch="2", to_tag=ok.tag("to")))
            confirmed = await gateway.until(sip.CallConfirmed)
            gateway.ua.bye(confirmed.call, now=gateway.now())
            gateway.endpoint.settle()
            bye = await (target if found else phone).receive()

            assert bye.method == "BYE"


async def test_rubbish_does_not_stop_the_service():
    async with Gateway() as gateway:
        async with Phone(gateway) as phone:
            for data in (
                b"",
                b"\0" * 2000,
                b"INVITE",
                b"\xff" * 60_000,
                b"SIP/2.0 200 OK\r\n\r\n",
                b"\r\n\r\n",
            ):
                phone.send(data)
            phone.send(request("OPTIONS", f"127.0.0.1:{phone.port}"))

            assert (await phone.receive()).status == 200


async def test_a_handler_that_fails_loses_no_other_event_and_no_answer():
    async with Gateway() as gateway:
        loop = asyncio.get_running_loop()
        raised = []
        loop.set_exception_handler(lambda _, context: raised.append(context["exception"]))
        take = gateway.endpoint._on_event

        def fail_once(event):
            gateway.endpoint._on_event = take
            raise RuntimeError("a bug of the application")

        gateway.endpoint._on_event = fail_once
        async with Phone(gateway) as phone:
            phone.send(request("MESSAGE", f"127.0.0.1:{phone.port}"))
            refused = await phone.receive()

        assert refused.status == 405
        assert [str(error) for error in raised] == ["a bug of the application"]


async def test_close_leaves_nothing_behind():
    gateway = Gateway(limits=ConnectionLimits(connect_after=30.0))
    async with gateway:
        reader, writer = await asyncio.open_connection(*gateway.tcp)
        writer.write(request("OPTIONS", "phone", transport="TCP"))
        assert (await tcp_message(reader)).status == 200
        async with Phone(gateway) as phone:
            phone.send(
                request("INVITE", f"127.0.0.1:{phone.port}", contact="<sip:a@192.0.2.1:9;transport=tcp>")
            )
            *_, ok = [await phone.receive() for _ in range(3)]
            phone.send(request("ACK", f"127.0.0.1:{phone.port}", branch="2", to_tag=ok.tag("to")))
            confirmed = await gateway.until(sip.CallConfirmed)
        gateway.ua.bye(confirmed.call, now=gateway.now())
        gateway.endpoint.settle()  # starts to connect to an address that never answers
    writer.close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
        again.bind(tuple(gateway.udp))

    assert {task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("sip ")} == set()
    gateway.endpoint.settle()  # harmless after the end


async def test_an_endpoint_that_never_listened_can_be_closed():
    gateway = Gateway()
    gateway.endpoint.settle()
    await gateway.endpoint.close()

    assert gateway.endpoint.addresses == []


async def test_audio_of_the_other_family_gets_our_address_of_that_one():
    """RFC 6157: signalling over IPv4 may set up audio over IPv6, and the other way round."""
    async with Gateway() as gateway:
        four = Flow("udp", ("127.0.0.1", 5060), ("127.0.0.1", 5070))
        six = Flow("udp", ("::1", 5060), ("::1", 5070))
        assert gateway.endpoint.flow_of_media(four, "127.0.0.9") is four
        assert gateway.endpoint.flow_of_media(four, "::1").local == ("::1", 5070)
        assert gateway.endpoint.flow_of_media(six, "127.0.0.1").local == ("127.0.0.1", 5070)
        assert gateway.endpoint.media_host(gateway.endpoint.flow_of_media(four, "::1")) == "::"


async def test_every_message_is_shown_to_the_tap_and_nothing_without_one():
    async with Gateway() as gateway, Phone(gateway) as phone:
        phone.send(request("OPTIONS", f"127.0.0.1:{phone.port}"))
        await phone.receive()
        seen = []
        gateway.endpoint.tap = lambda data, flow, *, sent, now: seen.append((data.split(b" ")[0], sent, flow))
        phone.send(request("OPTIONS", f"127.0.0.1:{phone.port}", branch="2"))
        await phone.receive()
        gateway.endpoint.tap = None
        phone.send(request("OPTIONS", f"127.0.0.1:{phone.port}", branch="3"))
        await phone.receive()
    assert [(word, sent, flow.remote[1]) for word, sent, flow in seen] == [
        (b"OPTIONS", False, phone.port),
        (b"SIP/2.0", True, phone.port),
    ]
