"""SIP over TLS and over WebSocket, on real sockets and by real clients."""

import asyncio
import ssl

import pytest
import structlog
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from gateway.net.sip_connection import ConnectionLimits
from gateway.net.sip_gate import GateLimits
from gateway.net.tls import TlsFiles
from gateway.sip import events as sip
from gateway.sip.timers import Timers
from tests.gateway.net.rig import ANSWER, Gateway, Phone, request, tcp_message
from tests.kit import sip_text
from tests.kit.certificates import Authority

SIP = [Subprotocol("sip")]
BROWSER = "df7jal23ls0d.invalid"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def files(authority):
    pair = authority.sign("127.0.0.1", "gw.example")
    return TlsFiles(pair.certificate, pair.private_key, authority.file)


def trusting(authority, pair=None):
    context = ssl.create_default_context(cafile=authority.file)
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.private_key)
    return context


def secure(files, **kwargs):
    return Gateway(listen=("tls:127.0.0.1",), tls=files, **kwargs)


async def dial(gateway, context):
    return await asyncio.open_connection(*gateway.tls, ssl=context)


async def settled(condition):
    async with asyncio.timeout(3):
        while not condition():
            await asyncio.sleep(0.005)


def tls_request(method, place, **kwargs):
    return request(method, place, transport="TLS", **kwargs)


class TlsListener:
    """The peer as a server of TLS."""

    def __init__(self, pair):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pair.certificate, pair.private_key)
        self.arrived: asyncio.Queue = asyncio.Queue()
        self.writers = []

    async def take(self, reader, writer):
        self.writers.append(writer)
        try:
            while True:
                self.arrived.put_nowait(await tcp_message(reader))
        except (asyncio.IncompleteReadError, TimeoutError, OSError):
            writer.close()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.take, "127.0.0.1", 0, ssl=self.context)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for writer in self.writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


async def test_a_whole_call_over_tls(authority, files):
    async with secure(files, timers=Timers()) as gateway:
        reader, writer = await dial(gateway, trusting(authority))
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
        writer.write(tls_request("INVITE", "phone.invalid", body="v=0\r\n"))
        trying, ringing, ok = [await tcp_message(reader) for _ in range(3)]
        assert [trying.status, ringing.status, ok.status] == [100, 180, 200]
        assert ok["contact"] == f"<sip:127.0.0.1:{gateway.tls[1]};transport=tls>"
        writer.write(tls_request("ACK", "phone.invalid", branch="2", to_tag=ok.tag("to")))
        confirmed = await gateway.until(sip.CallConfirmed)
        gateway.ua.bye(confirmed.call, now=gateway.now())
        gateway.endpoint.settle()
        bye = await tcp_message(reader)
        assert bye.method == "BYE"
        assert bye["via"].startswith(f"SIP/2.0/TLS 127.0.0.1:{gateway.tls[1]};")
        assert bye["via"].endswith(";alias")
        writer.write(sip_text.respond(bye, 200, "OK") + b"\r\n\r\n")
        async with asyncio.timeout(2):
            assert await reader.readexactly(2) == b"\r\n"
        assert gateway.ua.dialogs == 0
        assert gateway.endpoint.connections == 1
        writer.close()
        await settled(lambda: gateway.endpoint.connections == 0)


async def test_tls_over_ipv6(authority):
    pair = authority.sign("::1")
    files = TlsFiles(pair.certificate, pair.private_key, authority.file)
    async with Gateway(listen=("tls:::1", "udp:::1"), tls=files, timers=Timers()) as gateway:
        reader, writer = await dial(gateway, trusting(authority))
        writer.write(tls_request("OPTIONS", "phone"))
        ok = await tcp_message(reader)
        assert ok["contact"] == f"<sip:[::1]:{gateway.tls[1]};transport=tls>"
        assert "received=::1" in ok["via"]
        writer.close()


async def test_bytes_of_any_size_arrive(authority, files):
    async with secure(files) as gateway:
        reader, writer = await dial(gateway, trusting(authority))
        long = tls_request("OPTIONS", "phone", body="x" * 50_000)
        for at in range(0, len(long), 999):
            writer.write(long[at : at + 999])
            await asyncio.sleep(0)
        assert (await tcp_message(reader)).status == 200
        writer.close()


async def test_who_speaks_no_tls_gets_nothing_and_is_told_of_once(files):
    with structlog.testing.capture_logs() as logs:
        async with secure(files) as gateway:
            for _ in range(3):
                reader, writer = await asyncio.open_connection(*gateway.tls)
                writer.write(request("OPTIONS", "phone", transport="TCP"))
                async with asyncio.timeout(2):
                    answer = await reader.read()
                assert not answer.startswith(b"SIP")
                writer.close()
            assert gateway.endpoint.dropped["tls_failed"] == 3
            assert gateway.events == []
    [failed] = [entry for entry in logs if entry["event"] == "sip.tls_failed"]
    assert failed["source"] == "127.0.0.1"
    assert failed["why"]


async def test_a_handshake_that_takes_too_long_is_cut(files):
    async with secure(files, limits=ConnectionLimits(handshake_after=0.1)) as gateway:
        reader, writer = await asyncio.open_connection(*gateway.tls)
        with structlog.testing.capture_logs() as logs:
            async with asyncio.timeout(2):
                try:
                    assert await reader.read() == b""
                except ConnectionResetError:
                    pass
        writer.close()
    assert [entry["why"] for entry in logs if entry["event"] == "sip.tls_failed"] == [
        "the handshake took too long"
    ]


async def test_a_stranger_costs_no_handshake(files, authority):
    async with secure(files, allow=False) as gateway:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await dial(gateway, trusting(authority))
        assert gateway.endpoint.dropped["denied"] == 1
        assert gateway.endpoint.dropped["tls_failed"] == 0


async def test_who_connects_too_often_has_to_wait(files, authority):
    async with secure(files, gate=GateLimits(connections_per_s=0.5)) as gateway:
        _, writer = await dial(gateway, trusting(authority))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await dial(gateway, trusting(authority))
        assert gateway.endpoint.dropped["flooded"] == 1
        writer.close()


async def test_mutual_tls(authority, files, tmp_path):
    asking = TlsFiles(files.certificate, files.private_key, authority.file, verify_client=True)
    async with secure(asking) as gateway:
        reader, writer = await dial(gateway, trusting(authority, authority.sign("phone.example")))
        writer.write(tls_request("OPTIONS", "phone"))
        assert (await tcp_message(reader)).status == 200
        writer.close()
        stranger = Authority(tmp_path).sign("phone.example")
        for pair in (None, stranger):
            reader, writer = await dial(gateway, trusting(authority, pair))
            writer.write(tls_request("OPTIONS", "phone"))
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await tcp_message(reader)
            writer.close()
        assert gateway.endpoint.dropped["tls_failed"] == 2
        assert [type(event) for event in gateway.events] == []


async def test_a_request_brings_the_names_of_the_certificate_that_was_checked(authority, files):
    for asking, names in ((True, {"phone.example", "sip.example", "127.0.0.1"}), (False, set())):
        tls = TlsFiles(files.certificate, files.private_key, authority.file, verify_client=asking)
        async with secure(tls, timers=Timers()) as gateway:
            pair = authority.sign("Phone.example", "sip:sip.example", "127.0.0.1")
            _, writer = await dial(gateway, trusting(authority, pair))
            writer.write(tls_request("INVITE", "phone.invalid", body="v=0\r\n"))
            offered = await gateway.until(sip.CallOffered)
            assert offered.flow.names == names
            writer.close()


async def test_new_certificates_are_for_new_connections(authority, files, tmp_path):
    other = Authority(tmp_path / "other")
    pair = other.sign("127.0.0.1")
    async with secure(files) as gateway:
        reader, writer = await dial(gateway, trusting(authority))
        gateway.endpoint.use_tls(TlsFiles(pair.certificate, pair.private_key))
        again, second = await dial(gateway, trusting(other))
        for one, out in ((reader, writer), (again, second)):
            out.write(tls_request("OPTIONS", "phone"))
            assert (await tcp_message(one)).status == 200
            out.close()
        with pytest.raises(OSError, match="No such file"):
            gateway.endpoint.use_tls(TlsFiles(tmp_path / "none.pem", tmp_path / "none.key"))
        _, third = await dial(gateway, trusting(other))
        third.close()


async def confirmed_call(gateway, reader, writer, contact):
    writer.write(tls_request("INVITE", "phone", contact=contact, body="v=0\r\n"))
    *_, ok = [await tcp_message(reader) for _ in range(3)]
    writer.write(tls_request("ACK", "phone", branch="2", to_tag=ok.tag("to")))
    return (await gateway.until(sip.CallConfirmed)).call


async def hang_up_after_loss(gateway, authority, contact):
    """Make a call, cut its connection, and hang up."""
    reader, writer = await dial(gateway, trusting(authority))
    call = await confirmed_call(gateway, reader, writer, contact)
    writer.transport.abort()
    await settled(lambda: gateway.endpoint.connections == 0)
    gateway.ua.bye(call, now=gateway.now())
    gateway.endpoint.settle()


async def test_when_the_connection_dies_in_mid_call_a_new_one_leads_to_the_contact(authority, files):
    async with secure(files, timers=Timers()) as gateway, TlsListener(authority.sign("127.0.0.1")) as peer:
        await hang_up_after_loss(gateway, authority, f"<sip:me@127.0.0.1:{peer.port};transport=tls>")
        async with asyncio.timeout(3):
            bye = await peer.arrived.get()
        assert bye.method == "BYE"
        assert bye["via"].startswith("SIP/2.0/TLS")


async def test_an_answer_whose_connection_died_goes_by_a_new_one_to_the_via(authority, files):
    pair = authority.sign("127.0.0.1")
    async with secure(files, answer=False, timers=Timers()) as gateway, TlsListener(pair) as peer:
        _, writer = await dial(gateway, trusting(authority))
        writer.write(tls_request("INVITE", f"127.0.0.1:{peer.port}", body="v=0\r\n"))
        offered = await gateway.until(sip.CallOffered)
        writer.transport.abort()
        await settled(lambda: gateway.endpoint.connections == 0)
        gateway.ua.answer(offered.call, ANSWER, now=gateway.now())
        gateway.endpoint.settle()
        async with asyncio.timeout(3):
            ok = await peer.arrived.get()
        assert ok.status == 200


@pytest.mark.parametrize("verify", [True, False])
async def test_the_certificate_of_whom_we_connect_to_must_be_right(authority, files, verify):
    """It is never fallen back to anything less; only a trunk can waive the check."""
    wrong = authority.sign("somebody.else")
    with structlog.testing.capture_logs() as logs:
        async with secure(files, verify=verify) as gateway, TlsListener(wrong) as peer:
            await hang_up_after_loss(gateway, authority, f"<sip:me@127.0.0.1:{peer.port};transport=tls>")
            if not verify:
                async with asyncio.timeout(3):
                    assert (await peer.arrived.get()).method == "BYE"
                return
            await settled(lambda: gateway.ua.dialogs == 0)
            assert peer.arrived.empty()
    [failed] = [entry for entry in logs if entry["event"] == "sip.tls_failed"]
    assert failed["why"] == "the certificate is not for 127.0.0.1"


async def test_a_connection_of_ours_is_used_for_the_next_call_to_the_same_peer(authority, files):
    async with secure(files, timers=Timers()) as gateway, TlsListener(authority.sign("127.0.0.1")) as peer:
        contact = f"<sip:me@127.0.0.1:{peer.port};transport=tls>"
        await hang_up_after_loss(gateway, authority, contact)
        async with asyncio.timeout(3):
            first = await peer.arrived.get()
        peer.writers[0].write(sip_text.respond(first, 200, "OK"))
        await settled(lambda: gateway.ua.dialogs == 0)
        # What the peer asks on that connection is answered on it.
        peer.writers[0].write(tls_request("OPTIONS", "peer"))
        async with asyncio.timeout(3):
            assert (await peer.arrived.get()).status == 200
        assert len(peer.writers) == 1
        assert gateway.endpoint.connections == 1


# WebSocket.


def ws_request(method, **kwargs):
    return request(method, BROWSER, transport="WS", **kwargs).decode()


def ws_url(gateway, transport="ws"):
    host, port = getattr(gateway, transport)
    return f"{transport}://{host}:{port}/"


async def heard(socket):
    async with asyncio.timeout(3):
        data = await socket.recv()
    return sip_text.read(data if isinstance(data, bytes) else data.encode())


@pytest.mark.parametrize("transport", ["ws", "wss"])
async def test_a_whole_call_of_a_browser(authority, files, transport):
    """Its Contact is of no use to anybody: everything comes over its own connection (RFC 7118)."""
    context = trusting(authority) if transport == "wss" else None
    async with Gateway(listen=(f"{transport}:127.0.0.1",), tls=files, timers=Timers()) as gateway:
        async with connect(ws_url(gateway, transport), subprotocols=SIP, ssl=context, proxy=None) as socket:
            contact = f"<sip:me@{BROWSER};transport=ws>"
            await socket.send(ws_request("INVITE", contact=contact, body="v=0\r\n"))
            *_, ok = [await heard(socket) for _ in range(3)]
            assert ok.status == 200
            assert ok["contact"] == f"<sip:127.0.0.1:{getattr(gateway, transport)[1]};transport=ws>"
            assert f"{BROWSER};branch=z9hG4bK1" in ok["via"]
            assert "received=127.0.0.1" in ok["via"]
            await socket.send(ws_request("ACK", branch="2", to_tag=ok.tag("to")).encode())  # binary as well
            confirmed = await gateway.until(sip.CallConfirmed)
            gateway.ua.bye(confirmed.call, now=gateway.now())
            gateway.endpoint.settle()
            bye = await heard(socket)
            assert bye.start == f"BYE sip:me@{BROWSER};transport=ws SIP/2.0"
            assert bye["via"].startswith(f"SIP/2.0/{transport.upper()} ")
            await socket.send(sip_text.respond(bye, 200, "OK"))
            await settled(lambda: gateway.ua.dialogs == 0)


async def test_a_browser_that_is_gone_cannot_be_called_back():
    async with Gateway(listen=("ws:127.0.0.1",), answer=False) as gateway:
        async with connect(ws_url(gateway), subprotocols=SIP, proxy=None) as socket:
            await socket.send(ws_request("INVITE", contact=f"<sip:me@{BROWSER};transport=ws>"))
            offered = await gateway.until(sip.CallOffered)
        await settled(lambda: gateway.endpoint.connections == 0)
        gateway.ua.answer(offered.call, ANSWER, now=gateway.now())
        gateway.endpoint.settle()
        assert (await gateway.until(sip.CallEnded)).reason == "transport"


async def test_a_websocket_without_sip_and_a_page_from_elsewhere_are_refused():
    async with Gateway(listen=("ws:127.0.0.1",), origins=("https://phone.example",)) as gateway:
        with pytest.raises(InvalidStatus, match="400"):
            await connect(ws_url(gateway), proxy=None)
        with pytest.raises(InvalidStatus, match="403"):
            await connect(ws_url(gateway), subprotocols=SIP, origin="https://evil.example", proxy=None)
        async with connect(
            ws_url(gateway), subprotocols=SIP, origin="https://phone.example", proxy=None
        ) as socket:
            await socket.send(ws_request("OPTIONS"))
            assert (await heard(socket)).status == 200
        assert gateway.endpoint.dropped["websocket_failed"] == 2


async def test_a_websocket_is_pinged_and_a_dead_one_is_cut():
    limits = ConnectionLimits(ping_after=0.05, pong_after=0.1, idle_after=60)
    async with Gateway(listen=("ws:127.0.0.1",), limits=limits) as gateway:
        async with connect(ws_url(gateway), subprotocols=SIP, proxy=None) as socket:
            await asyncio.sleep(0.3)
            assert gateway.endpoint.connections == 1  # the client of the library answers pings
            socket.transport.pause_reading()
            await settled(lambda: gateway.endpoint.connections == 0)
            socket.transport.abort()


async def test_a_contact_of_tls_is_followed_from_udp_and_never_the_other_way(authority, files):
    async with (
        Gateway(tls=files, timers=Timers()) as gateway,
        TlsListener(authority.sign("127.0.0.1")) as peer,
    ):
        async with Phone(gateway) as phone:
            contact = f"<sip:me@127.0.0.1:{peer.port};transport=tls>"
            phone.send(request("INVITE", f"127.0.0.1:{phone.port}", contact=contact))
            *_, ok = [await phone.receive() for _ in range(3)]
            phone.send(request("ACK", f"127.0.0.1:{phone.port}", branch="2", to_tag=ok.tag("to")))
            confirmed = await gateway.until(sip.CallConfirmed)
            gateway.ua.bye(confirmed.call, now=gateway.now())
            gateway.endpoint.settle()
            async with asyncio.timeout(3):
                bye = await peer.arrived.get()
            assert bye["via"].startswith("SIP/2.0/TLS")


# Reports, on every kind of connection.


PASSPORT = "eyJ" + "x" * 2397
LONG_HEADERS = [
    ("Identity", f"{PASSPORT};info=<https://c.example/c.pem>;alg=ES256"),
    *((f"X-Meta-{number:02}", "v" * 120) for number in range(40)),
    *(("Via", f"SIP/2.0/TCP 192.0.2.{number};branch=z9hG4bKp{number}") for number in range(6)),
    *(("Record-Route", f"<sip:192.0.2.{number};lr>") for number in range(8)),
]


def long_invite(transport):
    plain = request("INVITE", BROWSER, transport=transport.upper(), body="v=0\r\n")
    extra = "".join(f"{name}: {value}\r\n" for name, value in LONG_HEADERS).encode()
    return plain.replace(b"From:", extra + b"From:", 1)


@pytest.mark.report("BR-031")
@pytest.mark.parametrize("transport", ["tcp", "tls", "ws", "wss"])
async def test_an_invite_of_nine_thousand_bytes_is_read_whole(authority, files, transport):
    context = trusting(authority) if transport in {"tls", "wss"} else None
    async with Gateway(listen=(f"{transport}:127.0.0.1",), tls=files, answer=False) as gateway:
        if transport in {"ws", "wss"}:
            async with connect(
                ws_url(gateway, transport), subprotocols=SIP, ssl=context, proxy=None
            ) as socket:
                await socket.send(long_invite("ws").decode())
                offered = await gateway.until(sip.CallOffered)
        else:
            host, port = getattr(gateway, transport)
            _, writer = await asyncio.open_connection(host, port, ssl=context)
            writer.write(long_invite(transport))
            offered = await gateway.until(sip.CallOffered)
            writer.close()
    headers = offered.request.headers
    assert headers.get("Identity") == LONG_HEADERS[0][1]
    assert len(headers.elements("Record-Route")) == 8
    assert len(headers.get_all("Via")) == 7


@pytest.mark.report("BR-029")
async def test_a_line_break_in_a_segment_of_its_own_is_no_keep_alive_inside_a_message(authority, files):
    """The same bytes in any number of TLS records; a ping between messages is answered."""
    whole = tls_request("OPTIONS", "phone")
    cut = whole.index(b"CSeq: 1 OPTIONS") + len(b"CSeq: 1 OPTIONS")
    async with secure(files) as gateway:
        reader, writer = await dial(gateway, trusting(authority))
        for pieces in (
            (whole[:cut], b"\r\n", whole[cut + 2 :]),
            (whole[:-4], b"\r", b"\n\r\n"),
            (whole[:-2], b"\r\n"),
        ):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01)
            assert (await tcp_message(reader)).status == 200
            for ping in ((b"\r\n\r\n",), (b"\r", b"\n\r\n")):
                for piece in ping:
                    writer.write(piece)
                    await asyncio.sleep(0.01)
                async with asyncio.timeout(2):
                    assert await reader.readexactly(2) == b"\r\n"
        writer.close()


async def test_a_sips_uri_is_answered_with_one(authority, files):
    async with secure(files, answer=True) as gateway:
        reader, writer = await dial(gateway, trusting(authority))
        writer.write(tls_request("INVITE", "phone").replace(b"INVITE sip:", b"INVITE sips:"))
        *_, ok = [await tcp_message(reader) for _ in range(3)]
        assert ok["contact"] == f"<sips:127.0.0.1:{gateway.tls[1]}>"
        writer.close()
