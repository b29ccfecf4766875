import asyncio
import os
import signal
from pathlib import Path

import httpx2
import pytest
import uvloop

from config.fields import HttpListen
from gateway.telemetry.metrics import Metrics
from gateway.web.app import create_app
from gateway.web.server import WebServer


class Ready:
    def unready(self) -> list[str]:
        return []

    def providers(self) -> dict[str, str]:
        return {}

    def trunks(self) -> list[dict[str, object]]:
        return []


def server(port: int = 0, host: str = "127.0.0.1") -> WebServer:
    return WebServer(create_app(Ready(), Metrics()), HttpListen(host, port))


def open_sockets() -> set[str]:
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return {os.readlink(link) for link in links if link.is_symlink() and "socket" in os.readlink(link)}


async def get(address: HttpListen, path: str) -> int:
    async with httpx2.AsyncClient(trust_env=False) as client:
        return (await client.get(f"http://{address}{path}")).status_code


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_it_serves_beside_other_tasks_and_stops_when_told(factory):
    async def scenario():
        web = server()
        address = web.bind()
        assert address == web.address
        assert address.port > 0
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(web.run())
            assert await get(address, "/healthz") == 200
            assert await get(address, "/readyz") == 200
            assert await get(address, "/metrics") == 200
            web.stop()
        with pytest.raises(OSError):
            await asyncio.open_connection(address.host, address.port)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_cancelled_server_leaves_nothing_open(factory):
    async def scenario():
        before = open_sockets()
        web = server()
        address = web.bind()
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            task = group.create_task(web.run())
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            task.cancel()
        # The kept-alive connection is closed from the other side.
        async with asyncio.timeout(5):
            await reader.read()
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(0.01)
        assert open_sockets() == before

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(scenario())


async def test_a_connection_that_is_kept_alive_does_not_hold_the_stop_up():
    web = server()
    address = web.bind()
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(web.run())
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        web.stop()
    assert b"alive" in await reader.read()
    writer.close()


async def test_signals_stay_with_the_gateway():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    web = server()
    address = web.bind()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(web.run())
        assert await get(address, "/healthz") == 200
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
        web.stop()


async def test_a_taken_port_is_an_error_before_anything_is_served():
    first = server()
    address = first.bind()
    with pytest.raises(OSError, match="in use"):
        server(address.port).bind()
    first.stop()
    async with asyncio.timeout(5):
        await first.run()


async def test_it_listens_on_ipv6():
    web = server(host="::1")
    address = web.bind()
    assert str(address) == f"[::1]:{address.port}"
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(web.run())
        assert await get(address, "/healthz") == 200
        web.stop()


async def test_the_answer_does_not_tell_which_server_it_is():
    web = server()
    address = web.bind()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(web.run())
        async with httpx2.AsyncClient(trust_env=False) as client:
            headers = (await client.get(f"http://{address}/healthz")).headers
        web.stop()
    assert "server" not in headers
