"""The short way of a text frame to the wire, against a real server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosedError

from providers.websocket import Socket


class Pair:
    """A socket and the frames that its server received."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[str | bytes] = asyncio.Queue(1000)
        self.opened: list[Socket] = []
        self.server_side = None

    async def hear(self, connection) -> None:
        self.server_side = connection
        async for frame in connection:
            self.received.put_nowait(frame)


@asynccontextmanager
async def paired(**options):
    made = Pair()
    async with serve(made.hear, "127.0.0.1", 0, max_size=None, close_timeout=0.1) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        factory = partial(Socket, opened=made.opened.append, **options)
        async with connect(f"ws://127.0.0.1:{port}", proxy=None, create_connection=factory, compression=None):
            yield made


@pytest.fixture
async def pair():
    async with paired() as made:
        yield made


def fill(pair) -> None:
    """Send until neither the network nor our buffer takes more, as the server reads nothing."""
    [socket] = pair.opened
    pair.server_side.transport.pause_reading()
    for _ in range(1000):
        if socket.paused:
            return
        socket.protocol.send_text(bytes(64_000))
        socket.send_data()
    raise AssertionError("the socket took everything")


async def test_a_payload_arrives_as_one_text_frame_in_order(pair) -> None:
    [socket] = pair.opened
    for n in range(20):
        await socket.send_text(f'{{"n":{n},"text":"Қоңырау"}}'.encode())
        await socket.send(f"between {n}")
    frames = [await pair.received.get() for _ in range(40)]
    assert frames[::2] == [f'{{"n":{n},"text":"Қоңырау"}}' for n in range(20)]
    assert frames[1::2] == [f"between {n}" for n in range(20)]


async def test_a_payload_does_not_break_into_a_fragmented_message(pair) -> None:
    [socket] = pair.opened
    half_sent, go_on = asyncio.Event(), asyncio.Event()

    async def pieces():
        yield "first "
        half_sent.set()
        await go_on.wait()
        yield "second"

    async with asyncio.TaskGroup() as group:
        group.create_task(socket.send(pieces()))
        await half_sent.wait()
        group.create_task(socket.send_text(b"after"))
        await asyncio.sleep(0)
        go_on.set()
    assert [await pair.received.get(), await pair.received.get()] == ["first second", "after"]


async def test_a_full_socket_makes_the_sender_wait(pair) -> None:
    [socket] = pair.opened
    fill(pair)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(socket.send_text(b"last"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        pair.server_side.transport.resume_reading()
    while await pair.received.get() != "last":
        pass


async def test_a_closed_socket_says_so(pair) -> None:
    [socket] = pair.opened
    await pair.server_side.close(1011, "gone")
    with pytest.raises(ConnectionClosedError):
        await socket.send_text(b"too late")


@pytest.mark.report("BR-171")
@pytest.mark.parametrize("send", [lambda socket: socket.send_text(b"x"), lambda socket: socket.ping()])
async def test_a_server_that_stopped_reading_is_left_within_the_limit(send) -> None:
    """Reported of a carrier's WebSocket; the provider's is the same kind of peer."""
    async with paired(stalled_after=0.1) as pair:
        [socket] = pair.opened
        await asyncio.sleep(0)
        fill(pair)
        waiting = socket.transport.get_write_buffer_size()
        async with asyncio.timeout(5):
            try:
                await send(socket)
            except ConnectionClosedError:
                pass  # a ping says so; audio leaves it to the reader
            with pytest.raises(ConnectionClosedError):
                await socket.recv()
        assert waiting < 1_000_000
        assert socket.transport.get_write_buffer_size() == 0


async def test_a_connection_that_breaks_while_we_wait_for_room_is_told_to_the_reader_alone(pair) -> None:
    [socket] = pair.opened
    fill(pair)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(socket.send_text(b"x"))
        await asyncio.sleep(0)
        pair.server_side.transport.abort()
    with pytest.raises(ConnectionClosedError):
        await socket.recv()
