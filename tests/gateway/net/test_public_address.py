import asyncio
import socket

import pytest
import structlog

from gateway.net import public_address, stun
from gateway.net.public_address import OfInterface, PublicAddresses, SeenByStun, source_of

V4, V6 = "198.51.100.7", "2001:db8::7"


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


async def nobody(host):
    raise AssertionError(f"nothing is to be looked up, but {host} was")


def address(setting, clock=None):
    clock = clock or Clock()
    return PublicAddresses(setting, clock, nobody)


def test_a_fixed_address_is_told_to_its_family_only():
    fixed = address("203.0.113.5")
    assert fixed.towards(None, V4, "0.0.0.0") == "203.0.113.5"
    assert fixed.towards(None, V4, "10.0.0.1") == "203.0.113.5"
    assert fixed.towards(None, V6, "2001:db8::9") == "2001:db8::9"
    assert address("2001:db8::5").towards(None, V6, "::") == "2001:db8::5"


@pytest.mark.parametrize("remote", ["127.0.0.1", "::1"])
def test_without_a_setting_the_routing_table_decides(remote):
    assert address("auto").towards(None, remote, "::" if ":" in remote else "0.0.0.0") == remote
    assert address("auto").towards(None, remote, "::") == remote  # the socket's family does not matter


def test_a_socket_of_one_address_is_told_as_it_is():
    assert address("auto").towards(None, "127.0.0.1", "127.0.0.2") == "127.0.0.2"


@pytest.mark.parametrize("remote", ["255.255.255.255", "ff02::1%9", "0.0.0.0", "::"])
def test_a_wildcard_is_never_told(remote):
    told = address("auto").towards(None, remote.partition("%")[0], "::" if ":" in remote else "0.0.0.0")
    assert told not in {"0.0.0.0", "::"}


async def test_a_listener_may_have_a_setting_of_its_own():
    told, lan = address("203.0.113.5"), ("udp", "10.0.0.1", 5060)
    assert await told.set(lan, "auto") is None
    assert told.towards(lan, "10.0.0.9", "10.0.0.1") == "10.0.0.1"
    assert told.towards(("udp", "10.0.0.1", 5062), "10.0.0.9", "10.0.0.1") == "203.0.113.5"


def test_the_address_of_an_interface():
    lo = address("auto:lo")
    assert lo.towards(None, V4, "0.0.0.0") == "127.0.0.1"
    assert lo.towards(None, V6, "2001:db8::9") == "::1"


def test_an_interface_without_address_is_told_of_and_asked_again(monkeypatch):
    clock = Clock()
    source = OfInterface("none9", clock)
    with structlog.testing.capture_logs() as logs:
        assert source.address(V4) is None
        assert source.address(V4) is None
    assert [entry["event"] for entry in logs] == ["sip.no_address"]
    monkeypatch.setattr(public_address, "_ipv4_of", lambda name: "10.0.0.9")
    assert source.address(V4) is None
    clock.now += 61
    assert source.address(V4) == "10.0.0.9"


class StunServer(asyncio.DatagramProtocol):
    """Answers with what it is told to see."""

    def __init__(self, seen="203.0.113.9", drop=0, error=False):
        self.seen, self.drop, self.error = seen, drop, error
        self.requests = []

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        self.requests.append(data)
        if len(self.requests) <= self.drop:
            return
        if self.error:
            refusal = b"\x01\x11\x00\x08" + data[4:20] + bytes.fromhex("0009000400000414")
            self.transport.sendto(refusal, addr)
            return
        self.transport.sendto(b"SIP/2.0 200 OK\r\n\r\n", addr)  # rubbish is passed over
        self.transport.sendto(stun.binding_response(data, (self.seen, 1234)), addr)

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        self.address = transport.get_extra_info("sockname")
        return self

    async def __aexit__(self, *_):
        self.transport.close()
        await asyncio.sleep(0)


async def here(host):
    return ["127.0.0.1"]


def by_stun(server):
    source = source_of(f"stun:stun.test:{server.address[1]}", Clock(), here)
    assert isinstance(source, SeenByStun)
    return source


async def test_what_a_stun_server_sees_is_told_to_the_world_but_not_to_the_neighbours():
    async with StunServer(drop=1) as server:
        source = by_stun(server)
        assert source.address(V4) is None
        await source.ask()
        assert len(server.requests) == 2
    assert source.address("8.8.8.8") == "203.0.113.9"
    assert source.address("10.1.2.3") is None
    assert source.address("127.0.0.1") is None
    assert source.address("2600::1") is None


@pytest.mark.parametrize(
    ("answers", "why"),
    [({"error": True}, "refused with 420"), ({"seen": "0.0.0.0"}, "nobody has"), ({"drop": 99}, "no answer")],
)
async def test_a_stun_server_of_no_use_is_told_of_and_the_known_address_stays(answers, why, monkeypatch):
    monkeypatch.setattr(public_address, "_RETRIES_S", (0.02, 0.02))
    async with StunServer() as good, StunServer(**answers) as bad:
        source = by_stun(good)
        await source.ask()
        source._server = bad.address
        with structlog.testing.capture_logs() as logs:
            await source.ask()
    assert source.address("8.8.8.8") == "203.0.113.9"
    assert logs[-1]["event"] == "sip.stun_failed"
    assert why in logs[-1]["why"]
    assert logs[-1]["used"] == "203.0.113.9"


async def test_nobody_there_is_told_of_at_once():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    source = source_of(f"stun:stun.test:{port}", Clock(), here)
    with structlog.testing.capture_logs() as logs:
        await source.ask()
    assert [(entry["event"], entry["used"]) for entry in logs] == [("sip.stun_failed", "auto")]


async def test_it_is_asked_again_and_again(monkeypatch):
    monkeypatch.setattr(public_address, "_REFRESH_S", 0.01)
    async with StunServer() as server:
        source = by_stun(server)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(source.run())
            while source.address("8.8.8.8") != "198.51.100.99":
                await asyncio.sleep(0.01)
                server.seen = "198.51.100.99"
            running.cancel()
