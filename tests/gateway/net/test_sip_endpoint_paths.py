"""Which socket, which address, which family: the ways in and out of an endpoint, on real sockets."""

import asyncio
import socket

import pytest

from gateway.net import stun
from gateway.net.sip_connection import ConnectionLimits
from gateway.sip import events as sip
from gateway.sip.flow import Flow
from gateway.sip.timers import Timers
from tests.gateway.net.rig import Gateway, Phone, answered_call, hang_up, request, tcp_message
from tests.kit import sip_text
from tests.kit.name_server import NameServer
from tests.kit.ports import Ports

SLOW = Timers()
LONG = "v=0\r\n" + "a=x:" + "y" * 1400 + "\r\n"


class TcpPeer:
    """A TCP server of the peer, on a port that a UDP socket may have as well."""

    def __init__(self, port=0):
        self.port = port
        self.arrived: asyncio.Queue = asyncio.Queue()
        self.writers = []

    async def take(self, reader, writer):
        self.writers.append(writer)
        try:
            while True:
                self.arrived.put_nowait(await tcp_message(reader))
        except (asyncio.IncompleteReadError, TimeoutError, ConnectionError):
            writer.close()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.take, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for writer in self.writers:
            writer.close()
        await self.server.wait_closed()


# Listeners and families.


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1"])
async def test_each_of_several_listeners_answers_from_itself_and_is_named_in_contact_and_via(host):
    listen = ("udp:127.0.0.1", "udp:127.0.0.2", "udp:::1")
    async with Gateway(listen=listen, timers=SLOW) as gateway:
        [address] = [(bound, port) for _, bound, port in gateway.endpoint.addresses if bound == host]
        peer = "::1" if ":" in host else "127.0.0.1"
        async with Phone(gateway, peer) as phone:
            came_from = []
            phone.datagram_received = lambda data, addr: (
                came_from.append(addr[:2]),
                phone.arrived.put_nowait(data),
            )
            call, ok = await answered_call(gateway, phone, address)
            shown = f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
            assert ok["contact"] == f"<sip:{shown}>"
            hang_up(gateway, call)
            bye = await phone.receive()
        assert bye["via"].startswith(f"SIP/2.0/UDP {shown};")
        assert set(came_from) == {address}


async def test_both_families_on_one_port():
    with Ports() as ports:
        port = ports.take()
        async with Gateway(listen=()) as gateway:
            for transport in ("udp", "tcp"):
                for host in ("0.0.0.0", "::"):
                    await gateway.endpoint.listen(transport, host, port)
            for host in ("127.0.0.1", "::1"):
                async with Phone(gateway, host) as phone:
                    phone.send(request("OPTIONS", "phone", branch=host.replace(":", "x")), (host, port))
                    assert (await phone.receive())["contact"].count(host) == 1
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(request("OPTIONS", "phone", transport="TCP", branch=f"t{len(host)}"))
                assert host in (await tcp_message(reader))["contact"]
                writer.close()


async def test_over_ipv6_a_call_has_ipv6_everywhere():
    async with Gateway(listen=("udp:::1",), timers=SLOW) as gateway, Phone(gateway, "::1") as phone:
        call, ok = await answered_call(gateway, phone)
        assert "received=::1" in ok["via"] or "rport=" in ok["via"]
        hang_up(gateway, call)
        bye = await phone.receive()
        assert bye.start == f"BYE sip:me@[::1]:{phone.port};transport=udp SIP/2.0"


@pytest.mark.parametrize(
    ("local", "listen", "host"),
    [
        (("127.0.0.1", 5060), "udp:127.0.0.1", "127.0.0.1"),
        (("203.0.113.9", 5060), "udp:127.0.0.1", "0.0.0.0"),
        (("127.0.0.1", 5060), "udp:0.0.0.0", "0.0.0.0"),
        (("2001:db8::9", 5060), "udp:::", "::"),
        (("::1", 5060), "udp:::1", "::1"),
    ],
)
async def test_media_is_bound_where_the_description_says_in_the_same_family(local, listen, host):
    async with Gateway(listen=(listen,)) as gateway:
        assert gateway.endpoint.media_host(Flow("udp", ("192.0.2.1", 5060), local)) == host


async def test_the_public_address_is_told_and_replies_still_leave_by_the_right_socket():
    listen = ("udp:127.0.0.1", "udp:127.0.0.2")
    async with Gateway(listen=listen, public_address="203.0.113.9") as gateway, Phone(gateway) as phone:
        _, host, port = gateway.endpoint.addresses[1]
        came_from = []
        phone.datagram_received = lambda data, addr: (came_from.append(addr), phone.arrived.put_nowait(data))
        phone.send(request("OPTIONS", "phone"), (host, port))
        assert (await phone.receive())["contact"] == f"<sip:203.0.113.9:{port}>"
        assert came_from == [(host, port)]
        # The listener is known by what the configuration names it.
        phone.send(request("INVITE", f"127.0.0.1:{phone.port}"), (host, port))
        assert (await gateway.until(sip.CallOffered)).flow.bound == host


async def test_one_listener_may_be_told_otherwise():
    own = {("udp", "127.0.0.2", 0): "auto"}
    listen = ("udp:127.0.0.1", "udp:127.0.0.2")
    async with Gateway(listen=listen, public_address="203.0.113.9", public_addresses=own) as gateway:
        async with Phone(gateway) as phone:
            for (_, host, port), told in zip(
                gateway.endpoint.addresses, ("203.0.113.9", "127.0.0.2"), strict=True
            ):
                phone.send(request("OPTIONS", "phone", branch=told), (host, port))
                assert (await phone.receive())["contact"] == f"<sip:{told}:{port}>"


async def test_what_we_begin_leaves_by_the_listener_that_routes_there():
    listen = ("udp:127.0.0.2", "udp:127.0.0.1", "udp:::1", "tcp:127.0.0.1")
    async with Gateway(listen=listen) as gateway:
        ports = {(transport, host): port for transport, host, port in gateway.endpoint.addresses}
        for uri, transport, host in (
            ("sip:127.0.0.1", "udp", "127.0.0.1"),
            ("sip:[::1]", "udp", "::1"),
            ("sip:127.0.0.9;transport=tcp", "tcp", "127.0.0.1"),
        ):
            [flow] = await gateway.endpoint.flows(uri)
            assert flow.local == (host, ports[transport, host])
            assert flow.id == (listen.index(f"{transport}:{host}") + 1 if transport == "udp" else 0)
        # A trunk may have a listener of its own; where it cannot be used, the one that fits is.
        own = gateway.endpoint.addresses[0]
        assert [each.local for each in await gateway.endpoint.flows("sip:127.0.0.1", own)] == [own[1:]]
        [flow] = await gateway.endpoint.flows("sip:[::1]", own)
        assert flow.local == ("::1", ports["udp", "::1"])


async def test_a_stun_server_is_asked_before_the_first_call(monkeypatch):
    class Server(asyncio.DatagramProtocol):
        def connection_made(self, transport):
            self.transport = transport

        def datagram_received(self, data, addr):
            self.transport.sendto(stun.binding_response(data, ("203.0.113.77", 1)), addr)

    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Server, local_addr=("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    async with Gateway(public_address=f"stun:127.0.0.1:{port}") as gateway:
        [flow] = await gateway.endpoint.flows("sip:8.8.8.8")
        assert flow.local == ("203.0.113.77", gateway.udp[1])
        [near] = await gateway.endpoint.flows("sip:127.0.0.1")
        assert near.local == ("127.0.0.1", gateway.udp[1])
    transport.close()
    await asyncio.sleep(0)


async def test_a_telephone_may_ask_our_port_how_it_is_seen():
    async with Gateway() as gateway, Phone(gateway) as phone:
        phone.send(stun.binding_request(b"123456789012"))
        async with asyncio.timeout(2):
            answer = await phone.arrived.get()
        assert stun.mapped_address(answer, b"123456789012") == ("127.0.0.1", phone.port)
        assert gateway.events == []


# Names.


async def test_a_domain_leads_to_flows_in_order():
    zone = (
        'carrier.test NAPTR 10 0 "s" "SIP+D2T" "" _sip._tcp.carrier.test.',
        'carrier.test NAPTR 20 0 "s" "SIPS+D2T" "" _sips._tcp.carrier.test.',
        "_sip._tcp.carrier.test SRV 20 0 5072 b.carrier.test.",
        "_sip._tcp.carrier.test SRV 10 0 5071 a.carrier.test.",
        "_sips._tcp.carrier.test SRV 0 0 5061 a.carrier.test.",
        "a.carrier.test A 127.0.0.1",
        "b.carrier.test A 127.0.0.2",
        "b.carrier.test AAAA ::1",
    )
    with NameServer(*zone) as server:
        async with Gateway(dns=(server.address,)) as gateway:
            flows = await gateway.endpoint.flows("sip:100@carrier.test")
            assert [str(flow) for flow in flows] == [
                "tcp:127.0.0.1:5071",
                "tcp:127.0.0.2:5072",  # no listener of ours has IPv6
                "tls:127.0.0.1:5061",
            ]
            assert flows[0].local == ("127.0.0.1", gateway.tcp[1])
            assert {flow.domain for flow in flows} == {"carrier.test"}
            assert await gateway.endpoint.flows("sip:nobody.test") == ()
            with pytest.raises(ValueError, match="not a SIP URI"):
                await gateway.endpoint.flows("tel:+12025550100")


async def test_a_contact_without_port_is_looked_up_by_srv():
    async with Gateway(listen=()) as dummy, Phone(dummy) as target:
        zone = (
            "pbx.test SRV 0 0 1 x.",
            f"_sip._udp.pbx.test SRV 0 0 {target.port} a.test.",
            "a.test A 127.0.0.1",
        )
        with NameServer(*zone) as server:
            async with Gateway(dns=(server.address,), timers=SLOW) as gateway, Phone(gateway) as phone:
                call, _ = await answered_call(gateway, phone, contact="<sip:me@pbx.test>")
                hang_up(gateway, call)
                bye = await target.receive()
    assert bye.start == "BYE sip:me@pbx.test SIP/2.0"


async def test_the_second_address_of_a_name_is_connected_to_when_the_first_refuses():
    async with TcpPeer() as peer:
        zone = ("pbx.test A 127.0.0.3", "pbx.test A 127.0.0.1")
        with NameServer(*zone) as server:
            async with Gateway(dns=(server.address,), timers=SLOW) as gateway, Phone(gateway) as phone:
                contact = f"<sip:me@pbx.test:{peer.port};transport=tcp>"
                call, _ = await answered_call(gateway, phone, contact=contact)
                hang_up(gateway, call)
                async with asyncio.timeout(3):
                    assert (await peer.arrived.get()).method == "BYE"


async def test_a_connection_of_ours_comes_from_the_address_of_the_listener_that_it_names():
    """A carrier may let in the address alone that it was told."""
    listen = ("udp:127.0.0.2", "tcp:127.0.0.1", "tcp:127.0.0.2")
    async with Gateway(listen=listen, timers=SLOW) as gateway, Phone(gateway) as phone, TcpPeer() as peer:
        contact = f"<sip:me@127.0.0.1:{peer.port};transport=tcp>"
        call, _ = await answered_call(gateway, phone, contact=contact)
        hang_up(gateway, call)
        async with asyncio.timeout(3):
            assert (await peer.arrived.get()).method == "BYE"
        assert peer.writers[0].get_extra_info("peername")[0] == "127.0.0.2"
        # What comes in on it has come to that listener.
        peer.writers[0].write(request("OPTIONS", "peer", transport="TCP"))
        async with asyncio.timeout(3):
            ok = await peer.arrived.get()
        [port] = [
            port for kind, host, port in gateway.endpoint.addresses if (kind, host) == ("tcp", "127.0.0.2")
        ]
        assert ok["contact"] == f"<sip:127.0.0.2:{port};transport=tcp>"


@pytest.mark.parametrize(
    "contact",
    [
        "<sip:me@a..b;maddr=127.0.0.1;transport=tls>",
        "<sip:me@127.0.0.1:1;transport=tls>",
        "<sip:me@a..b>",
        "<sip:me@[::1]:9>",
        "<sip:me@255.255.255.255>",
        "<sip:me@0.0.0.0>",
        "<sip:me@224.0.0.1;transport=tcp>",
        "<sip:me@[ff02::1];transport=tcp>",
        "<sip:me@127.0.0.1;maddr=[::1];transport=ws>",
    ],
)
async def test_no_contact_ends_the_service(contact):
    """What a peer writes there leads somewhere else or nowhere; the next caller is served all the same."""
    limits = ConnectionLimits(connect_after=0.2)
    async with Gateway(timers=Timers(t1=0.02, t2=0.08, t4=0.1), limits=limits) as gateway:
        async with Phone(gateway) as phone:
            phone.send(request("INVITE", f"127.0.0.1:{phone.port}", contact=contact))
            offered = await gateway.until(sip.CallOffered)
            ok = await phone.receive()
            while ok.status < 200:
                ok = await phone.receive()
            phone.send(request("ACK", f"127.0.0.1:{phone.port}", branch="2", to_tag=ok.tag("to")))
            await gateway.until(sip.CallConfirmed)
            hang_up(gateway, offered.call)
            async with asyncio.timeout(5):
                while gateway.ua.dialogs:
                    await asyncio.sleep(0.02)
            while not phone.arrived.empty():
                phone.arrived.get_nowait()
            phone.send(request("OPTIONS", "phone", branch="later"))
            while (answer := await phone.receive())["cseq"] != "1 OPTIONS":
                pass
            assert answer.status == 200


# Long requests.


@pytest.fixture
def port():
    """Give a port that UDP and TCP sockets of a peer can both have."""
    with Ports() as ports:
        yield ports.take(1)


def long_bye(gateway, call):
    gateway.ua.bye(call, now=gateway.now(), reason="SIP;text=" + "x" * 1400)
    gateway.endpoint.settle()


async def test_a_long_request_of_ours_goes_by_tcp_once(port):
    timers = Timers(t1=0.02, t2=0.08, t4=0.1)
    async with Gateway(timers=timers) as gateway, Phone(gateway, port=port) as phone:
        async with TcpPeer(phone.port) as peer:
            phone.send(request("INVITE", f"127.0.0.1:{phone.port}"))
            *_, ok = [await phone.receive() for _ in range(3)]
            phone.send(request("ACK", f"127.0.0.1:{phone.port}", branch="2", to_tag=ok.tag("to")))
            call = (await gateway.until(sip.CallConfirmed)).call
            while not phone.arrived.empty():
                phone.arrived.get_nowait()
            long_bye(gateway, call)
            async with asyncio.timeout(3):
                bye = await peer.arrived.get()
            assert bye["via"].startswith("SIP/2.0/TCP")
            assert len(bye["reason"]) > 1400
            await asyncio.sleep(0.2)  # many times T1: a connection needs no repetition
            assert peer.arrived.empty()
            assert phone.arrived.empty()
            peer.writers[0].write(sip_text.respond(bye, 200, "OK"))
            async with asyncio.timeout(2):
                while gateway.ua.dialogs:
                    await asyncio.sleep(0.01)


async def test_where_tcp_is_refused_it_goes_by_udp_and_is_repeated(port):
    timers = Timers(t1=0.02, t2=0.08, t4=0.1)
    async with Gateway(timers=timers) as gateway, Phone(gateway, port=port) as phone:
        phone.send(request("INVITE", f"127.0.0.1:{phone.port}"))
        *_, ok = [await phone.receive() for _ in range(3)]
        phone.send(request("ACK", f"127.0.0.1:{phone.port}", branch="2", to_tag=ok.tag("to")))
        call = (await gateway.until(sip.CallConfirmed)).call
        long_bye(gateway, call)
        byes = []
        while len(byes) < 2:
            if (message := await phone.receive()).method == "BYE":
                byes.append(message)
        assert byes[0]["via"].startswith("SIP/2.0/UDP")
        assert byes[0]["via"] == byes[1]["via"]
        phone.send(sip_text.respond(byes[0], 200, "OK"))
        async with asyncio.timeout(2):
            while gateway.ua.dialogs:
                await asyncio.sleep(0.01)


async def test_a_host_that_is_silent_about_tcp_costs_a_second(monkeypatch, port):
    monkeypatch.setattr("gateway.net.sip_outbox._MOVED_AFTER", 0.05)
    async with Gateway(timers=SLOW) as gateway, Phone(gateway, port=port) as phone:
        full = socket.create_server(("127.0.0.1", phone.port), backlog=0)  # takes one connection and no more
        first = socket.create_connection(("127.0.0.1", phone.port))
        second = socket.socket()
        second.setblocking(False)
        second.connect_ex(("127.0.0.1", phone.port))
        call, _ = await answered_call(gateway, phone)
        long_bye(gateway, call)
        while (bye := await phone.receive()).method != "BYE":
            pass
        assert bye["via"].startswith("SIP/2.0/UDP")
        for each in (first, second, full):
            each.close()


@pytest.mark.report("BR-031")
async def test_a_datagram_of_almost_64_kib_is_read_whole():
    async with Gateway(timers=SLOW) as gateway, Phone(gateway) as phone:
        headers = "".join(f"X-Meta-{n:02}: {'v' * 120}\r\n" for n in range(40)).encode()
        invite = request("INVITE", f"127.0.0.1:{phone.port}", body="x" * 50_000)
        phone.send(invite.replace(b"Call-ID", headers + b"Call-ID", 1))
        offered = await gateway.until(sip.CallOffered)
        assert len(offered.request.body) == 50_000
        assert offered.request.headers.get("X-Meta-39") == "v" * 120


async def test_without_a_certificate_nobody_can_listen_for_tls():
    async with Gateway(tls=None, listen=()) as gateway:
        with pytest.raises(OSError, match="certificate"):
            await gateway.endpoint.listen("tls", "127.0.0.1", 0)
