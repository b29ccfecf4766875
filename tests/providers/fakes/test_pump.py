"""Frames and time between a connection and a session that has neither."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosedError

from providers.fakes.pump import Close, Pump, hold_pongs, now


class Echo:
    """Says what it heard, a while later; ``bye`` ends it."""

    def __init__(self, after=0.0):
        self.after = after
        self.closing = None
        self.heard = []
        self.due = []

    def receive(self, frame, at):
        self.heard.append(frame)
        self.due.append((at + self.after, frame))

    def next_timeout(self):
        return min((at for at, _ in self.due), default=None)

    def handle_timeout(self, at):
        self.ready = [frame for due, frame in self.due if due <= at]
        self.due = [(due, frame) for due, frame in self.due if due > at]

    def to_send(self):
        ready, self.ready = self.ready, []
        if "bye" in ready:
            self.closing = Close(4001, "good bye")
        if "cut" in ready:
            self.closing = Close(1006)
        return [frame.encode() for frame in ready]


@asynccontextmanager
async def pumping(session, *, text=True, read_delay=0.0, pong_after=-1.0):
    over = asyncio.Event()

    async def converse(connection):
        if pong_after != -1.0:
            hold_pongs(connection, pong_after)
        await Pump(connection, session, text=text, read_delay=read_delay).run()
        over.set()

    async with serve(converse, "127.0.0.1", 0, ping_interval=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with connect(f"ws://127.0.0.1:{port}", proxy=None, ping_interval=None) as client:
            yield client, over


@pytest.mark.parametrize("text", [True, False])
async def test_frames_leave_as_text_or_as_bytes(text):
    async with pumping(Echo(), text=text) as (client, _):
        await client.send("hello")
        assert await client.recv() == ("hello" if text else b"hello")


async def test_what_is_due_later_comes_later_and_nobody_polls():
    async with pumping(Echo(after=0.1)) as (client, _):
        begun = now()
        await client.send("hello")
        await client.recv()
        assert now() - begun >= 0.1


@pytest.mark.parametrize(("word", "code"), [("bye", 4001), ("cut", 1006)])
async def test_a_session_that_ends_is_sent_to_its_last_frame(word, code):
    async with pumping(Echo()) as (client, over):
        await client.send(word)
        assert await client.recv() == word
        with pytest.raises(ConnectionClosedError) as closed:
            await client.recv()
        assert (closed.value.rcvd.code if closed.value.rcvd else 1006) == code
        async with asyncio.timeout(5):
            await over.wait()


async def test_a_client_that_leaves_ends_the_pump_even_while_it_dawdles():
    session = Echo()
    async with pumping(session, read_delay=60.0) as (client, over):
        await client.send("hello")
        await client.recv()
        client.transport.abort()
        async with asyncio.timeout(5):
            await over.wait()
        assert session.heard == ["hello"]


@pytest.mark.parametrize(("after", "answered"), [(None, False), (0.05, True)])
async def test_pongs_are_held_back(after, answered):
    async with pumping(Echo(), pong_after=after) as (client, _):
        begun = now()
        pong = await client.ping()
        done, _ = await asyncio.wait([pong], timeout=0.3 if answered else 0.1)
        assert bool(done) is answered
        assert now() - begun >= 0.05
        await client.send("hello")
        assert await client.recv() == "hello"
        pong.cancel()
