import asyncio
import socket

import pytest

from gateway.net.sip_connection import ConnectionLimits
from gateway.net.sip_connections import Connections
from gateway.net.sip_gate import Gate
from gateway.net.tls import TlsContexts
from gateway.sip.flow import Flow

MESSAGE = b"OPTIONS sip:a@h SIP/2.0\r\nContent-Length: 0\r\n\r\n"


class Server:
    """A listening pool and what it heard."""

    def __init__(self, *, allow=True, **limits):
        self.heard: list[tuple[bytes, Flow]] = []
        self.news = asyncio.Event()
        self.gate = Gate(lambda host: allow, asyncio.get_running_loop().time)
        self.pool = Connections(
            gate=self.gate,
            advertise=lambda listener, remote, local: local,
            on_message=self.take,
            limits=ConnectionLimits(**limits),
            tls=TlsContexts(),
        )

    def take(self, data, flow):
        self.heard.append((data, flow))
        self.news.set()

    async def __aenter__(self):
        self.address = await self.pool.listen("tcp", "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_):
        await self.pool.close()

    async def client(self):
        return await asyncio.open_connection(*self.address)

    async def until(self, count: int):
        async with asyncio.timeout(2):
            while len(self.heard) < count:
                self.news.clear()
                await self.news.wait()


async def gone(reader, writer) -> bytes:
    """Read until the other side closes."""
    async with asyncio.timeout(2):
        try:
            rest = await reader.read()
        except ConnectionResetError:
            rest = b""
    writer.close()
    return rest


async def test_messages_and_answers_go_over_one_connection():
    async with Server() as server:
        reader, writer = await server.client()
        writer.write(MESSAGE + b"\r\n\r\n" + MESSAGE[:9])
        await server.until(1)
        writer.write(MESSAGE[9:])
        await server.until(2)
        (data, flow), _ = server.heard

        assert data == MESSAGE
        assert flow.remote == writer.get_extra_info("sockname")[:2]
        assert flow.local == server.address
        assert server.pool.find(flow).send(b"answer")
        assert server.pool.find(Flow("tcp", flow.remote, flow.local)) is server.pool.find(flow)
        assert await reader.readexactly(8) == b"\r\nanswer"  # the pong came first
        writer.close()


async def test_others_are_cut_off_before_a_byte_is_read():
    async with Server(allow=False) as server:
        reader, writer = await server.client()
        writer.write(MESSAGE)

        assert await gone(reader, writer) == b""
        assert server.gate.dropped["denied"] == 1
        assert server.heard == []
        assert len(server.pool) == 0


async def test_there_is_a_cap_on_connections():
    async with Server(max_connections=1) as server:
        _, first = await server.client()
        first.write(MESSAGE)
        await server.until(1)
        second = await server.client()

        assert await gone(*second) == b""
        assert len(server.pool) == 1
        assert server.gate.dropped["full"] == 1
        first.close()


async def test_a_stream_without_frames_is_answered_and_closed():
    async with Server() as server:
        server.take = None
        server.pool.on_message = lambda data, flow: server.pool.find(flow).send(b"400 for " + data)
        reader, writer = await server.client()
        writer.write(b"BYE x\r\n\r\n" + MESSAGE)

        assert await gone(reader, writer) == b"400 for BYE x\r\n\r\n"


async def test_a_peer_that_does_not_read_is_cut_off():
    async with Server(write_buffer=100_000) as server:
        reader, writer = await server.client()
        writer.write(MESSAGE)
        await server.until(1)
        connection = server.pool.find(server.heard[0][1])
        sent = 0
        while connection.send(b"x" * 50_000):
            sent += 1
            assert sent < 1000

        assert not connection.send(b"x")
        async with asyncio.timeout(2):
            await connection.closed.wait()
        assert len(server.pool) == 0
        writer.close()
        del reader


@pytest.mark.report("BR-171")
@pytest.mark.parametrize("half_closes", [True, False])
async def test_what_waits_for_a_peer_that_does_not_read_waits_within_a_limit(half_closes):
    """
    Reported of a carrier's WebSocket: its peer closes its own side, or stops reading, and the socket stays.

    Here it is a SIP peer over TCP, with less waiting for it than the cap, so that only time can tell.
    """
    async with Server(write_buffer=8_000_000, stalled_after=0.3) as server:
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect(server.address)
        peer.sendall(MESSAGE)
        await server.until(1)
        connection = server.pool.find(server.heard[0][1])
        while connection.unread_since is None:
            assert connection.send(b"x" * 64_000)
            await asyncio.sleep(0)
        if half_closes:
            peer.shutdown(socket.SHUT_WR)

        async with asyncio.timeout(3):
            await connection.closed.wait()
        assert len(server.pool) == 0
        peer.close()


async def test_a_peer_that_reads_slowly_keeps_its_connection():
    async with Server(write_buffer=8_000_000, stalled_after=5.0) as server:
        reader, writer = await server.client()
        writer.write(MESSAGE)
        await server.until(1)
        connection = server.pool.find(server.heard[0][1])
        reading = 0
        while connection.unread_since is None:
            assert connection.send(b"x" * 64_000)
            reading += 64_000
            await asyncio.sleep(0)
        await reader.readexactly(reading)

        assert connection.unread_since is None
        assert connection.send(b"still here")
        assert await reader.readexactly(10) == b"still here"
        writer.close()


@pytest.mark.parametrize(
    ("limits", "data"),
    [({"idle_after": 0.05}, b""), ({"partial_after": 0.05}, b"OPTIONS sip:")],
    ids=["idle", "half a message"],
)
async def test_a_connection_that_does_nothing_is_closed(limits, data):
    async with Server(**limits) as server:
        reader, writer = await server.client()
        writer.write(data)

        assert await gone(reader, writer) == b""


async def test_we_can_connect_too():
    async with Server() as server, Server() as other:
        connection = await other.pool.connect("tcp", server.address)
        assert connection.send(MESSAGE)
        await server.until(1)
        # Our end of that connection is a passing port: peers reach us where we listen.
        assert connection.flow.local == other.address
        assert server.pool.find(server.heard[0][1]).send(MESSAGE)
        await other.until(1)

        assert other.heard == [(MESSAGE, connection.flow)]


async def test_where_we_connect_to_others_may_only_answer():
    response = MESSAGE.replace(b"OPTIONS sip:a@h SIP/2.0", b"SIP/2.0 200 OK")
    async with Server() as server, Server(allow=False) as other:
        connection = await other.pool.connect("tcp", server.address)
        connection.send(MESSAGE)
        await server.until(1)
        back = server.pool.find(server.heard[0][1])
        back.send(MESSAGE + response)
        await other.until(1)
        assert other.heard == [(response, connection.flow)]
        back.send(b"no frames\r\n\r\n")
        async with asyncio.timeout(2):
            await connection.closed.wait()

        assert len(other.heard) == 1
        assert other.gate.dropped["denied"] == 0


async def test_a_connection_that_fails_is_none():
    async with Server() as server:
        host, port = server.address
    async with Server(connect_after=1.0) as other:
        assert await other.pool.connect("tcp", (host, port)) is None


async def test_the_cap_holds_for_connections_of_ours():
    async with Server() as server, Server(max_connections=0) as other:
        assert await other.pool.connect("tcp", server.address) is None
