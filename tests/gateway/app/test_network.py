"""A trunk that is a domain: names, fail-over and certificates, from the configuration to the wire."""

import asyncio
import socket
import ssl

import pytest
import structlog

from config.watch import Current
from gateway.app.gateway import Gateway
from gateway.app.network import endpoint_settings
from gateway.app.settings_check import check_settings
from gateway.app.tool_check import check_tools
from tests.kit import sip_text
from tests.kit.certificates import Authority
from tests.kit.name_server import NameServer

CONFIG = """
server:
  sip:
    listen: ["udp:127.0.0.1:0", {listen}]
    rtp_ports: 25000-25999
    timers: {{t1_ms: 20, t2_ms: 80, t4_ms: 100}}
    {tls}
  dns: ["127.0.0.1:{dns}"]
  http: {{listen: "127.0.0.1:0"}}
  drain_s: 0
trunks:
  carrier: {{address: "{address}", qualify_s: 1, {trunk}}}
providers:
  fake: {{}}
agents:
  reception: {{providers: [fake], prompt: You answer.}}
numbers:
  "+12025550100": {{agent: reception}}
"""


class Peer:
    """Answers every OPTIONS, and keeps it."""

    def __init__(self):
        self.heard = asyncio.Queue()

    async def take(self, reader, writer):
        try:
            while True:
                message = sip_text.read(await reader.readuntil(b"\r\n\r\n"))
                writer.write(sip_text.respond(message, 200, "OK", tag="p"))
                self.heard.put_nowait(message)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()


class House:
    """A gateway in this process."""

    def __init__(self, path, **values):
        path.write_text(CONFIG.format(**{"tls": "", "trunk": "", "listen": "", **values}))
        self.gateway = Gateway(Current(path, check_tools=check_tools, check_settings=check_settings))
        self.stop = asyncio.Event()

    async def __aenter__(self):
        self.scope = asyncio.timeout(30)
        await self.scope.__aenter__()
        self.group = asyncio.TaskGroup()
        await self.group.__aenter__()
        self.group.create_task(self.gateway.run(self.stop, asyncio.Event()))
        return self

    async def __aexit__(self, *error):
        self.stop.set()
        await self.group.__aexit__(*error)
        await self.scope.__aexit__(*error)

    async def until(self, condition):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "tls")


def dead_port() -> int:
    """Return a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


async def test_a_trunk_is_found_by_srv_and_the_second_server_is_asked_when_the_first_refuses(tmp_path):
    peer = Peer()
    listening = await asyncio.start_server(peer.take, "127.0.0.1", 0)
    alive = listening.sockets[0].getsockname()[1]
    zone = (
        'carrier.test NAPTR 10 0 "s" "SIP+D2T" "" _sip._tcp.carrier.test.',
        f"_sip._tcp.carrier.test SRV 10 0 {dead_port()} dead.test.",
        f"_sip._tcp.carrier.test SRV 20 0 {alive} alive.test.",
        "dead.test A 127.0.0.1",
        "alive.test A 127.0.0.1",
    )
    with NameServer(*zone) as server, structlog.testing.capture_logs() as logs:
        async with House(tmp_path / "g.yaml", dns=server.address[1], address="sip:carrier.test") as house:
            options = await peer.heard.get()
            await house.until(lambda: any(each["event"] == "trunk.up" for each in logs))
    listening.close()
    assert options.start == "OPTIONS sip:carrier.test SIP/2.0"
    assert options["via"].startswith("SIP/2.0/TCP")
    assert server.asked["carrier.test NAPTR"] == 1


@pytest.mark.parametrize(
    ("named", "trunk", "trusted"),
    [
        ("carrier.test", "", True),
        ("sip:carrier.test", "", True),
        ("somebody.test", "", False),
        ("somebody.test", "tls_verify: false", True),
    ],
)
async def test_a_carrier_over_tls_shows_the_certificate_of_its_domain(
    tmp_path, authority, named, trunk, trusted
):
    """RFC 5922: the name that was looked up counts, not that of the server behind it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown = authority.sign(named)
    context.load_cert_chain(shown.certificate, shown.private_key)
    peer = Peer()
    listening = await asyncio.start_server(peer.take, "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]
    ours = authority.sign("gw.test")
    tls = f"tls: {{certificate: {ours.certificate}, private_key: {ours.private_key}, ca: {authority.file}}}"
    zone = (f"_sips._tcp.carrier.test SRV 0 0 {port} edge7.test.", "edge7.test A 127.0.0.1")
    with NameServer(*zone) as server, structlog.testing.capture_logs() as logs:
        values = {"dns": server.address[1], "address": "sips:carrier.test", "tls": tls, "trunk": trunk}
        async with House(tmp_path / "g.yaml", **values) as house:
            if trusted:
                options = await peer.heard.get()
                assert options["via"].startswith("SIP/2.0/TLS")
                await house.until(lambda: any(each["event"] == "trunk.up" for each in logs))
            else:
                await house.until(lambda: any(each["event"] == "sip.tls_failed" for each in logs))
                assert peer.heard.empty()
    listening.close()
    if not trusted:
        [failed] = [each for each in logs if each["event"] == "sip.tls_failed"]
        assert failed["why"] == "the certificate is not for carrier.test"


PING = """OPTIONS sip:gw.example:5061;transport=tls SIP/2.0\r
Via: SIP/2.0/TLS 203.0.113.30:5061;branch=z9hG4bKopt1\r
From: <sip:sip.pstnhub.example>;tag=t1\r
To: <sip:gw.example>\r
Call-ID: ping-1\r
CSeq: 1 OPTIONS\r
Max-Forwards: 70\r
Content-Length: 0\r
\r
"""


@pytest.mark.report("BR-018")
async def test_a_ping_over_tls_is_answered_with_our_name(tmp_path, authority):
    ours = authority.sign("gw.example")
    tls = f"""public_name: gw.example
    tls: {{certificate: {ours.certificate}, private_key: {ours.private_key}}}"""
    values = {"dns": 53, "address": "sip:127.0.0.1", "tls": tls, "listen": '"tls:127.0.0.1:0"'}
    async with House(tmp_path / "g.yaml", **values) as house:
        await house.until(lambda: not house.gateway.unready())
        [port] = [port for kind, _, port in house.gateway.line.endpoint.addresses if kind == "tls"]
        trusting = ssl.create_default_context(cafile=authority.file)
        # The trunk's own address is in: it has been looked up.
        await house.until(lambda: house.gateway.line.trunks.knows("127.0.0.1"))
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=trusting, server_hostname="gw.example"
        )
        writer.write(PING.encode())
        ok = sip_text.read(await reader.readuntil(b"\r\n\r\n"))
        writer.close()
    assert ok.status == 200
    assert ok["contact"] == f"<sip:gw.example:{port};transport=tls>"
    assert "INVITE" in ok["allow"]


def test_what_the_endpoint_takes_of_the_settings(tmp_path, authority):
    ours = authority.sign("gw.test")
    path = tmp_path / "g.yaml"
    tls = f"""tls: {{certificate: {ours.certificate}, private_key: {ours.private_key}, verify_client: true}}
    public_address: 203.0.113.5
    public_addresses: {{"udp:127.0.0.1:0": auto}}
    websocket_origins: ["https://phone.example"]
    max_messages_per_s: 50
    tcp_above_bytes: null"""
    path.write_text(CONFIG.format(tls=tls, trunk="", dns=5353, address="sip:10.0.0.1", listen=""))
    found = endpoint_settings(Current(path, check_tools=check_tools).settings.server)

    assert (found.public_address, found.dns, found.origins) == (
        "203.0.113.5",
        (("127.0.0.1", 5353),),
        ("https://phone.example",),
    )
    assert found.public_addresses == {("udp", "127.0.0.1", 0): "auto"}
    assert (found.tcp_above, found.gate.messages_per_s) == (None, 50)
    assert found.tls is not None
    assert (found.tls.certificate, found.tls.ca, found.tls.verify_client) == (ours.certificate, None, True)
