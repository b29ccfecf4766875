"""SIP over TLS and WebSocket with real peers: baresip, OpenSSL's client, a browser's WebSocket."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from tests.kit import sip_text, sound
from tests.kit.baresip import Baresip
from tests.kit.certificates import Authority
from tests.kit.gateway import Gateway
from tests.kit.hear import hear
from tests.kit.kamailio import Kamailio
from tests.kit.office import NUMBER, recording
from tests.kit.ports import Ports
from tests.kit.scenario import expand
from tests.kit.sipp import Sipp

pytestmark = pytest.mark.peers

GREETING, FAREWELL = recording("greeting"), recording("farewell")


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "tls")


def open_secure(office, authority: Authority, transport: str, agent=None, **tls: object):
    """Start a gateway that listens on one more transport, and return it with that port."""
    pair = authority.sign("127.0.0.1")
    port = office.ports.take(2)
    sip: Mapping[str, object] = {
        "listen": [f"{transport}:127.0.0.1:{port}"],
        "tls": {
            "certificate": str(pair.certificate),
            "private_key": str(pair.private_key),
            "ca": str(authority.file),
            **tls,
        },
    }
    return office.open("farewell", server={"sip": sip, "drain_s": 0}, agent=agent), port, pair


@pytest.mark.parametrize("mutual", [False, True], ids=["server", "mutual"])
def test_baresip_over_tls_hears_everything(fake_office, authority, tmp_path, mutual):
    gateway, port, _ = open_secure(fake_office, authority, "tls", verify_client=mutual)
    words = np.concatenate((sound.silence(len(GREETING) / 8000 + 0.8), recording("caller_thanks")))
    shown = authority.sign("127.0.0.1").both if mutual else None
    uri = f"sip:{NUMBER}@127.0.0.1:{port};transport=tls"
    folder = tmp_path / "baresip"
    options = {"ca": authority.file, "certificate": shown, "mediaenc": "srtp-mand" if mutual else ""}
    with Baresip(uri, fake_office.ports, folder, words=words, **options) as baresip:
        baresip.wait_for("Call established", 10)
        baresip.wait_for("session closed", 25)
        heard = baresip.heard
    assert hear(GREETING, heard).whole
    assert hear(FAREWELL, heard).whole
    figures = gateway.metrics()
    assert figures['trunkline_sip_dropped_total{reason="tls_failed"}'] == 0
    assert figures[f'trunkline_calls_media_total{{protection="{"sdes" if mutual else "none"}"}}'] == 1


def test_baresip_without_a_certificate_gets_no_call_where_one_is_asked_for(fake_office, authority, tmp_path):
    gateway, port, _ = open_secure(fake_office, authority, "tls", verify_client=True)
    uri = f"sip:{NUMBER}@127.0.0.1:{port};transport=tls"
    words, folder = sound.silence(1), tmp_path / "baresip"
    with Baresip(uri, fake_office.ports, folder, words=words, ca=authority.file) as baresip:
        baresip.wait_for("connecting to", 10)
        gateway.until(lambda: "sip.tls_failed" in gateway.log, 10, "at the refusal")
        assert "Call established" not in baresip.log
    assert gateway.metrics()['trunkline_sip_dropped_total{reason="tls_failed"}'] >= 1
    assert "peer did not return a certificate" in gateway.log
    assert not any(name.startswith("trunkline_calls_started") for name in gateway.metrics())


def s_client(port: int, *options: str) -> str:
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *options]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=10, check=False)
    return (done.stdout + done.stderr).decode(errors="replace")


def test_openssls_client_sees_our_certificate_and_no_old_version(fake_office, authority):
    gateway, port, pair = open_secure(fake_office, authority, "tls")
    trusting = ("-CAfile", str(authority.file), "-verify_return_error")
    assert "Verify return code: 0 (ok)" in s_client(port, *trusting)
    assert "Protocol  : TLSv1.2" in s_client(port, *trusting, "-tls1_2")
    assert "Cipher is (NONE)" in s_client(port, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
    # A new certificate in the same files is shown to the next connection, without a restart.
    before = pair.certificate.read_bytes()
    renewed = authority.sign("127.0.0.1")
    pair.private_key.write_bytes(renewed.private_key.read_bytes())
    pair.certificate.write_bytes(renewed.certificate.read_bytes())
    gateway.until(lambda: '"config.reloaded"' in gateway.log, 10, "at the reload")
    gateway.until(lambda: before.decode() not in s_client(port, *trusting), 10, "at the new certificate")
    assert renewed.certificate.read_text().strip() in s_client(port, *trusting)


CALL = "<scenario><established/><wait ms='300'/><hangup/></scenario>"
ENDED_BY_AGENT = """
<scenario>
  <established/>
  <expect request="BYE"/>
  <response status="200 OK"/>
</scenario>
"""


def through_kamailio(gateway: Gateway, kamailio: Kamailio, ports: Ports, folder: Path, scenario: str) -> None:
    """Let SIPp call three times, by UDP, through a proxy that goes on by TLS."""
    with Sipp(expand(scenario), kamailio.sip, ports, folder, called=NUMBER, calls=3) as sipp:
        outcome = sipp.wait()
    assert outcome.clean, f"{outcome.errors}\n{kamailio.log[-2000:]}\n{gateway.log[-2000:]}"


def test_kamailio_carries_calls_over_mutual_tls_and_both_sides_hang_up(fake_office, authority, tmp_path):
    short = {"limits": {"max_duration_s": 1}}
    gateway, port, _ = open_secure(fake_office, authority, "tls", agent=short, verify_client=True)
    ports, pair = fake_office.ports, authority.sign("127.0.0.1")
    with Kamailio(
        ports,
        tmp_path / "kamailio",
        gateway=("127.0.0.1", port),
        transport="tls",
        tls=(pair, authority.file),
    ) as kamailio:
        through_kamailio(gateway, kamailio, ports, tmp_path / "caller", CALL)
        through_kamailio(gateway, kamailio, ports, tmp_path / "agent", ENDED_BY_AGENT)
        byes = kamailio.requests("BYE")
        open_connections = gateway.metrics()["trunkline_sip_connections"]
    assert [source.partition(":")[0] for source, _ in byes] == ["udp"] * 3 + ["tls"] * 3
    # Our BYEs came by the connection that the proxy had opened, and by the route that it had recorded.
    assert all("transport=tls" in route and ";lr" in route for _, route in byes[3:])
    assert open_connections == 1


BROWSER = "df7jal23ls0d.invalid"
INVITE = f"""INVITE sip:{NUMBER}@gw.example SIP/2.0\r
Via: SIP/2.0/WSS {BROWSER};branch=z9hG4bKws1\r
Max-Forwards: 70\r
From: <sip:web@gw.example>;tag=w\r
To: <sip:{NUMBER}@gw.example>\r
Call-ID: websocket-1\r
CSeq: 1 INVITE\r
Contact: <sip:web@{BROWSER};transport=ws>\r
Content-Type: application/sdp\r
\r
v=0\r
o=- 1 1 IN IP4 127.0.0.1\r
s=-\r
c=IN IP4 127.0.0.1\r
t=0 0\r
m=audio 29998 RTP/AVP 0\r
"""


async def browse(port: int, ca: Path) -> list[str]:
    """Call as a browser's user agent does and let the gateway hang up; return what came."""
    context = ssl.create_default_context(cafile=ca)
    came = []
    async with (
        asyncio.timeout(30),
        connect(
            f"wss://127.0.0.1:{port}/", subprotocols=[Subprotocol("sip")], ssl=context, proxy=None
        ) as socket,
    ):
        await socket.send(INVITE)
        while True:
            message = sip_text.read(await socket.recv(decode=False))
            came.append(message.start)
            if message.start.startswith("SIP/2.0 200") and "INVITE" in message["cseq"]:
                ack = [
                    ("Via", f"SIP/2.0/WSS {BROWSER};branch=z9hG4bKws2"),
                    ("From", message["from"]),
                    ("To", message["to"]),
                    ("Call-ID", "websocket-1"),
                    ("CSeq", "1 ACK"),
                    ("Max-Forwards", "70"),
                ]
                await socket.send(sip_text.write(f"ACK sip:127.0.0.1:{port};transport=ws SIP/2.0", ack, ""))
            if message.method == "BYE":
                await socket.send(sip_text.respond(message, 200, "OK"))
                return came


def test_a_browser_calls_and_is_hung_up_over_its_websocket(fake_office, authority):
    gateway, port, _ = open_secure(fake_office, authority, "wss")

    def answered() -> bool:
        return any(name.startswith("trunkline_calls_answered_total") for name in gateway.metrics())

    async def call() -> list[str]:
        async with asyncio.TaskGroup() as group:
            calling = group.create_task(browse(port, authority.file))
            await asyncio.to_thread(gateway.until, answered, 15, "at the answer")
            gateway.signal()
        return calling.result()

    came = asyncio.run(call())
    assert came[0].startswith("SIP/2.0 100")
    assert f"BYE sip:web@{BROWSER};transport=ws SIP/2.0" in came
