"""Keep-alives, floods and scanners, on real sockets."""

import asyncio

from gateway.net.sip_connection import ConnectionLimits
from gateway.net.sip_gate import GateLimits
from gateway.sip.timers import Timers
from tests.gateway.net.rig import Gateway, Phone, answered_call, hang_up, request, tcp_message

SLOW = Timers()


async def test_a_connection_of_ours_is_pinged_and_one_that_stops_to_answer_is_cut():
    limits = ConnectionLimits(ping_after=0.05, pong_after=0.2, idle_after=60)
    async with Gateway(limits=limits, timers=SLOW) as gateway, Phone(gateway) as phone:
        got = asyncio.Queue()

        async def peer(reader, writer):
            answers = 3
            try:
                while data := await reader.read(4096):
                    got.put_nowait(data)
                    if data == b"\r\n\r\n" and answers:
                        answers -= 1
                        writer.write(b"\r\n")
            except ConnectionError:
                pass
            writer.close()

        server = await asyncio.start_server(peer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        call, _ = await answered_call(gateway, phone, contact=f"<sip:me@127.0.0.1:{port};transport=tcp>")
        hang_up(gateway, call)
        async with asyncio.timeout(3):
            assert (await got.get()).startswith(b"BYE")
            for _ in range(3):
                assert await got.get() == b"\r\n\r\n"
            while gateway.endpoint.connections:
                await asyncio.sleep(0.01)
        server.close()
        await server.wait_closed()


async def test_a_peer_that_knows_no_pings_keeps_its_connection():
    limits = ConnectionLimits(ping_after=0.02, pong_after=0.05, idle_after=60)
    async with Gateway(limits=limits, timers=SLOW) as gateway, Phone(gateway) as phone:
        heard = bytearray()

        async def peer(reader, writer):
            while data := await reader.read(4096):
                heard.extend(data)
            writer.close()

        server = await asyncio.start_server(peer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        call, _ = await answered_call(gateway, phone, contact=f"<sip:me@127.0.0.1:{port};transport=tcp>")
        hang_up(gateway, call)
        async with asyncio.timeout(3):
            while not heard.endswith(b"\r\n\r\n" * 5):
                await asyncio.sleep(0.01)
        assert gateway.endpoint.connections == 1
    server.close()
    await server.wait_closed()


async def test_a_flood_of_datagrams_is_dropped_before_it_is_read():
    async with Gateway(gate=GateLimits(messages_per_s=20.0)) as gateway, Phone(gateway) as phone:
        began = gateway.now()
        for number in range(200):
            phone.send(request("OPTIONS", "phone", branch=f"b{number}"))
        for _ in range(40):
            assert (await phone.receive()).status == 200
        while not await phone.silent():
            pass
        allowed = 40 + 20 * (gateway.now() - began)
        assert 200 - allowed <= gateway.endpoint.dropped["flooded"] <= 160


async def test_a_connection_is_read_more_slowly_and_loses_nothing():
    async with Gateway(gate=GateLimits(messages_per_s=20.0)) as gateway:
        reader, writer = await asyncio.open_connection(*gateway.tcp)
        began = gateway.now()
        for number in range(46):
            writer.write(request("OPTIONS", "phone", transport="TCP", branch=f"t{number}"))
            await writer.drain()
            assert (await tcp_message(reader)).status == 200
        assert gateway.now() - began > 0.24  # six more than the burst, but for the first that waits
        writer.close()


async def test_a_scanner_gets_no_answer():
    async with Gateway() as gateway, Phone(gateway) as phone:
        scan = request("OPTIONS", "phone").replace(b"Call-ID", b"User-Agent: friendly-scanner\r\nCall-ID")
        phone.send(scan)
        assert await phone.silent()
        reader, writer = await asyncio.open_connection(*gateway.tcp)
        writer.write(scan + request("OPTIONS", "phone", transport="TCP", branch="real"))
        assert "z9hG4bKreal" in (await tcp_message(reader))["via"]
        writer.close()
        assert gateway.endpoint.dropped["scanned"] == 2
