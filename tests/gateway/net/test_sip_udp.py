import asyncio
import socket

import pytest

from gateway.net.sip_udp import LocalAddresses, UdpSocket, bound_socket, is_wildcard

IPV6 = socket.has_ipv6


async def opened(host: str, heard: list) -> UdpSocket:
    loop = asyncio.get_running_loop()
    sock = bound_socket(socket.SOCK_DGRAM, host, 0)
    _, udp = await loop.create_datagram_endpoint(
        lambda: UdpSocket(lambda *what: heard.append(what)), sock=sock
    )
    return udp


async def closed(*sockets: UdpSocket) -> None:
    for udp in sockets:
        udp.close()
        await udp.closed.wait()


async def test_datagrams_go_both_ways():
    heard: list = []
    one, two = await opened("127.0.0.1", heard), await opened("127.0.0.1", heard)
    assert one.send(b"x" * 60_000, two.address)
    async with asyncio.timeout(2):
        while not heard:
            await asyncio.sleep(0)

    assert heard == [(two, b"x" * 60_000, one.address)]
    await closed(one, two)


async def test_a_datagram_costs_no_mmap():
    udp = await opened("127.0.0.1", [])

    assert getattr(udp._transport, "max_size", 65_535) == 65_535
    await closed(udp)


async def test_what_cannot_be_sent_is_told():
    udp = await opened("127.0.0.1", [])

    assert not udp.send(b"x", ("::1", 5060))
    assert not udp.send(b"x" * 65_520, ("127.0.0.1", 5060))
    await closed(udp)
    assert not udp.send(b"x", ("127.0.0.1", 5060))
    udp.close()  # twice is harmless


async def test_wildcards_are_known():
    udp = await opened("0.0.0.0", [])

    assert is_wildcard(udp.address[0])
    assert not udp.is_ipv6
    await closed(udp)


def test_a_port_that_is_taken_is_an_error():
    with bound_socket(socket.SOCK_DGRAM, "127.0.0.1", 0) as first:
        with pytest.raises(OSError, match="in use"):
            bound_socket(socket.SOCK_DGRAM, "127.0.0.1", first.getsockname()[1])


def test_an_ipv6_socket_takes_ipv6_only():
    with bound_socket(socket.SOCK_DGRAM, "::1", 0) as sock:
        assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1


def test_the_kernel_says_which_address_reaches_a_peer():
    local = LocalAddresses()

    assert local.towards("127.0.0.9", now=0.0) == "127.0.0.1"
    assert local.towards("::1", now=0.0) == "::1"
    assert local.towards("not an address", now=0.0) is None


def test_what_the_kernel_said_is_remembered_for_a_while_and_for_few_peers(monkeypatch):
    asked = []

    def ask(host):
        asked.append(host)
        return f"local-for-{host}"

    monkeypatch.setattr("gateway.net.sip_udp._ask_kernel", ask)
    local = LocalAddresses()
    assert [local.towards("a", now=at) for at in (0.0, 59.0, 60.0)] == ["local-for-a"] * 3
    assert asked == ["a", "a"]
    for n in range(1100):
        local.towards(str(n), now=61.0)
    assert len(local._known) == 1024
    asked.clear()
    local.towards("1099", now=62.0)
    local.towards("a", now=62.0)
    assert asked == ["a"]


async def test_a_link_local_peer_is_answered_on_its_link():
    """SIP carries no scope, so the socket remembers it; a v4 peer and a global one have none."""
    sent, heard = [], []

    class Transport:
        def get_extra_info(self, name):
            return ("fe80::1", 5060, 0, 2)

        def sendto(self, data, address):
            sent.append(address)

    udp = UdpSocket(lambda *what: heard.append(what[1:]))
    udp.connection_made(Transport())
    udp.datagram_received(b"x", ("fe80::7%eth0", 5070, 0, 3))
    udp.datagram_received(b"x", ("2001:db8::7", 5070, 0, 0))

    assert heard == [(b"x", ("fe80::7", 5070)), (b"x", ("2001:db8::7", 5070))]
    assert udp.send(b"y", ("fe80::7", 5070))
    assert udp.send(b"y", ("2001:db8::7", 5070))
    assert sent == [("fe80::7", 5070, 0, 3), ("2001:db8::7", 5070)]
