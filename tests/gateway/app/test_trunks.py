"""Trunks in the whole gateway in this process: one address, several trunks."""

import asyncio
import secrets
import ssl

import pytest

from config.models import Settings
from config.watch import Current
from gateway.app import trunks
from gateway.app.gateway import Gateway
from gateway.app.settings_check import check_settings
from gateway.app.tool_check import check_tools
from gateway.legs.peer import status_without_peer
from tests.kit import sip_text
from tests.kit.certificates import Authority
from tests.kit.ports import Ports

CONFIG = """
server:
  sip: {{listen: ["udp:127.0.0.1:{first}", "udp:127.0.0.1:{second}"], rtp_ports: 25000-25999}}
  http: {{listen: "127.0.0.1:0"}}
  drain_s: 0
trunks:
  first: {{allow: ["127.0.0.1"], listen: "udp:127.0.0.1:{first}"}}
  second:
    allow: ["127.0.0.1"]
    listen: "udp:127.0.0.1:{second}"
    address: "sip:127.0.0.1:{peer}"
    qualify_s: 60
providers:
  fake: {{}}
agents:
  reception: {{providers: [fake], prompt: You answer.}}
numbers:
  "200": {{agent: reception}}
"""


class Peer(asyncio.DatagramProtocol):
    def __init__(self):
        self.heard = asyncio.Queue()

    def connection_made(self, transport):
        self.transport = transport
        self.address = transport.get_extra_info("sockname")

    def datagram_received(self, data, addr):
        self.heard.put_nowait((sip_text.read(data), addr))

    async def invite(self, port):
        data = invite("UDP", f"{self.address[0]}:{self.address[1]}")
        self.transport.sendto(data, ("127.0.0.1", port))
        while True:
            message, _ = await self.heard.get()
            if message.status > 100 and message["call-id"] == sip_text.read(data)["call-id"]:
                return message.status


def invite(transport, place):
    branch = secrets.token_hex(8)
    headers = [
        ("Via", f"SIP/2.0/{transport} {place};branch=z9hG4bK{branch}"),
        ("From", "<sip:ann@x>;tag=1"),
        ("To", "<sip:200@x>"),
        ("Call-ID", branch),
        ("CSeq", "1 INVITE"),
        ("Contact", f"<sip:{place};transport={transport.lower()}>"),
        ("Max-Forwards", "70"),
    ]
    return sip_text.write("INVITE sip:200@x SIP/2.0", headers)


@pytest.fixture
def ports():
    with Ports() as ports:
        yield ports


async def test_trunks_of_one_address_are_told_apart_by_their_listeners_in_both_directions(ports, tmp_path):
    first, second = ports.take(2), ports.take(2)
    loop = asyncio.get_running_loop()
    transport, peer = await loop.create_datagram_endpoint(Peer, local_addr=("127.0.0.1", 0))
    path = tmp_path / "gateway.yaml"
    path.write_text(CONFIG.format(first=first, second=second, peer=peer.address[1]))
    gateway = Gateway(Current(path, check_tools=check_tools, check_settings=check_settings))
    stop = asyncio.Event()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(gateway.run(stop, asyncio.Event()))
        options, source = await peer.heard.get()
        assert (options.method, source) == ("OPTIONS", ("127.0.0.1", second))
        assert f"127.0.0.1:{second}" in options["via"]
        transport.sendto(sip_text.respond(options, 200, "OK", tag="p"), source)

        calls = []
        for port in (first, second):
            assert await peer.invite(port) == 180
            calls.append([trunk["calls"] for trunk in gateway.trunks()])
        stop.set()
    transport.close()
    assert calls == [[1, 0], [1, 1]]


MUTUAL = """
server:
  sip:
    listen: ["tls:127.0.0.1:{port}"]
    rtp_ports: 25000-25999
    tls: {{certificate: {ours.certificate}, private_key: {ours.private_key}, ca: {ca}, verify_client: true}}
  http: {{listen: "127.0.0.1:0"}}
  drain_s: 0
trunks:
  first: {{allow: ["127.0.0.1"], certificate: first.example}}
  second: {{allow: ["127.0.0.1"], certificate: second.example}}
providers:
  fake: {{}}
agents:
  reception: {{providers: [fake], prompt: You answer.}}
numbers:
  "200": {{agent: reception}}
"""


async def test_trunks_of_one_address_are_told_apart_by_the_certificates_of_their_peers(ports, tmp_path):
    authority, port = Authority(tmp_path / "tls"), ports.take(2)
    ours = authority.sign("127.0.0.1")
    path = tmp_path / "gateway.yaml"
    path.write_text(MUTUAL.format(port=port, ours=ours, ca=authority.file))
    gateway = Gateway(Current(path, check_tools=check_tools, check_settings=check_settings))
    stop = asyncio.Event()
    statuses, calls, writers = [], [], []
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(gateway.run(stop, asyncio.Event()))
        while gateway.unready():
            await asyncio.sleep(0.01)
        for name in ("second.example", "first.example", "third.example"):
            context = ssl.create_default_context(cafile=authority.file)
            theirs = authority.sign(name)
            context.load_cert_chain(theirs.certificate, theirs.private_key)
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writers.append(writer)
            writer.write(invite("TLS", "127.0.0.1:9"))
            await reader.readuntil(b"\r\n\r\n")
            statuses.append(int((await reader.readuntil(b"\r\n\r\n")).split()[1]))
            calls.append([trunk["calls"] for trunk in gateway.trunks()])
        stop.set()
    for writer in writers:
        writer.transport.abort()
    assert statuses == [180, 180, 403]
    assert calls == [[0, 1], [1, 1], [1, 1]]


def test_what_the_board_shows_has_no_secret():
    settings = Settings.model_validate(
        {
            "trunks": {
                "pbx": {
                    "register": "sip:200@pbx.example",
                    "password": "s3cret",
                    "auth": {"username": "a", "password": "t0p"},
                }
            }
        }
    )
    assert trunks.credentials(settings)["pbx"].password == "s3cret"
    shown = trunks.board([status_without_peer("pbx")], lambda name: 3)
    assert shown[0]["calls"] == 3
    assert "s3cret" not in str(shown) + str(settings)
    assert "t0p" not in str(shown) + str(settings)
