"""The whole gateway in this process: a raw SIP request on loopback, a configuration that changes."""

import asyncio
import secrets
import shutil
from pathlib import Path

import httpx2
import pytest
import structlog

from config.watch import Current
from gateway.app.gateway import CannotListen, Gateway
from gateway.app.settings_check import check_settings
from gateway.app.tool_check import check_tools
from providers.fakes.openai_server import OpenAIFakeServer
from tests.kit.ports import Ports

CONFIG = """
server:
  sip: {{listen: ["udp:127.0.0.1:0"], rtp_ports: 25000-25999}}
  http: {{listen: "127.0.0.1:0"}}
  drain_s: 0
trunks:
  lab: {{allow: ["{allow}"]}}
providers:
  fake: {{}}
{provider}agents:
  reception: {{providers: [{first}], prompt: "{prompt}"{agent}}}
numbers:
  "{number}": {{agent: reception}}
"""

INVITE = """INVITE sip:{number}@127.0.0.1 SIP/2.0\r
Via: SIP/2.0/UDP 127.0.0.1:{port};branch=z9hG4bK{branch};rport\r
From: <sip:caller@127.0.0.1>;tag=1\r
To: <sip:{number}@127.0.0.1>\r
Call-ID: {branch}\r
CSeq: 1 INVITE\r
Contact: <sip:caller@127.0.0.1:{port}>\r
Max-Forwards: 70\r
Content-Length: 0\r
\r
"""


class Peer(asyncio.DatagramProtocol):
    """Sends datagrams and keeps the status of every response."""

    def __init__(self):
        self.statuses = asyncio.Queue()

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        if data.startswith(b"SIP/2.0"):
            self.statuses.put_nowait((int(data[8:11]), data))

    async def invite(self, number, to):
        port = self.transport.get_extra_info("sockname")[1]
        branch = secrets.token_hex(8)
        self.transport.sendto(INVITE.format(number=number, port=port, branch=branch).encode(), to)
        while True:
            status, response = await self.statuses.get()
            if status != 100 and branch.encode() in response:
                return status


class House:
    def __init__(self, path: Path, **values):
        self.path = path
        self.write(**values)

    def write(self, *, allow="127.0.0.1", prompt="You answer.", number="+12025550100", **more):
        values = {"provider": "", "first": "fake", "agent": "", **more}
        text = CONFIG.format(allow=allow, prompt=prompt, number=number, **values)
        self.path.write_text(text, encoding="utf-8")

    async def __aenter__(self):
        self._scope = asyncio.timeout(30)
        await self._scope.__aenter__()
        current = Current(self.path, check_tools=check_tools, check_settings=check_settings)
        self.gateway = Gateway(current)
        self.stop, self.force = asyncio.Event(), asyncio.Event()
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self.running = self._group.create_task(self.gateway.run(self.stop, self.force))
        while self.gateway.unready():
            await asyncio.sleep(0.01)
        loop = asyncio.get_running_loop()
        self._transport, self.peer = await loop.create_datagram_endpoint(Peer, local_addr=("127.0.0.1", 0))
        [(_, *address)] = self.gateway.line.endpoint.addresses
        self.sip = tuple(address)
        return self

    async def __aexit__(self, kind, error, trace):
        self.stop.set()
        await self._group.__aexit__(kind, error, trace)
        self._transport.close()
        await self._scope.__aexit__(kind, error, trace)

    async def get(self, path):
        address = self.gateway.web.address
        async with httpx2.AsyncClient(trust_env=False) as client:
            return await client.get(f"http://{address.host}:{address.port}{path}")

    async def logged(self, logs, event):
        while not any(entry["event"] == event for entry in logs):
            await asyncio.sleep(0.02)
        return [entry for entry in logs if entry["event"] == event]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gateway.yaml"


async def test_a_call_to_a_configured_number_rings_and_others_do_not(path):
    async with House(path) as house:
        assert await house.peer.invite("+12025550100", house.sip) == 180
        assert await house.peer.invite("+12025550199", house.sip) == 404


async def test_health_readiness_and_metrics_are_served(path):
    async with House(path) as house:
        assert (await house.get("/healthz")).status_code == 200
        assert (await house.get("/readyz")).status_code == 200
        figures = (await house.get("/metrics")).text
        for name in (
            "trunkline_calls_active 0.0",
            "trunkline_rtp_ports_leased 0.0",
            "trunkline_asyncio_tasks",
        ):
            assert name in figures


@pytest.mark.report("BR-152")
async def test_a_changed_file_reaches_the_next_call_and_a_bad_one_nobody(path):
    with structlog.testing.capture_logs() as logs:
        async with House(path) as house:
            house.write(number="+12025550177")
            await house.logged(logs, "config.reloaded")
            assert await house.peer.invite("+12025550100", house.sip) == 404
            assert await house.peer.invite("+12025550177", house.sip) == 180

            path.write_text("agents: [", encoding="utf-8")
            [refused] = await house.logged(logs, "config.refused")
            assert str(path) in refused["problems"][0]
            assert await house.peer.invite("+12025550177", house.sip) == 180


async def test_a_running_call_outlives_the_agent_that_was_removed(path):
    with structlog.testing.capture_logs() as logs:
        async with House(path) as house:
            assert await house.peer.invite("+12025550100", house.sip) == 180
            house.write(number="+12025550177", prompt="Another agent.")
            await house.logged(logs, "config.reloaded")

            assert house.gateway.switchboard.active == 1
            assert "call.failed" not in {entry["event"] for entry in logs}


async def test_an_address_outside_the_trunks_gets_no_answer_until_it_is_allowed(path):
    with structlog.testing.capture_logs() as logs:
        async with House(path, allow="192.0.2.1") as house:
            house.peer.transport.sendto(b"OPTIONS sip:x SIP/2.0\r\n\r\n", house.sip)
            await house.logged(logs, "sip.denied")
            assert house.peer.statuses.empty()

            house.write(allow="127.0.0.1")
            await house.logged(logs, "config.reloaded")
            assert await house.peer.invite("+12025550100", house.sip) == 180


async def test_an_address_in_use_is_named_with_its_key(path):
    async with House(path) as house:
        taken = f"udp:127.0.0.1:{house.sip[1]}"
        second = path.with_name("second.yaml")
        second.write_text(
            path.read_text(encoding="utf-8").replace("udp:127.0.0.1:0", taken), encoding="utf-8"
        )
        gateway = Gateway(Current(second))
        with pytest.raises(
            CannotListen, match=rf"server.sip.listen: cannot listen on {taken}: .*write a free"
        ):
            await gateway.run(asyncio.Event(), asyncio.Event())


async def test_nothing_is_left_when_the_gateway_has_stopped(path):
    before = asyncio.all_tasks()
    async with House(path) as house:
        await house.peer.invite("+12025550100", house.sip)
    assert asyncio.all_tasks() == before
    assert house.gateway.pool.leased == 0


async def test_a_script_that_is_gone_leaves_the_old_configuration_in_force(path, tmp_path):
    script = tmp_path / "script.yaml"
    shutil.copy(Path("providers/fakes/scripts/default.yaml").resolve(), script)
    with structlog.testing.capture_logs() as logs:
        async with House(path) as house:
            path.write_text(
                path.read_text(encoding="utf-8").replace("fake: {}", "fake: {script: missing.yaml}"),
                encoding="utf-8",
            )
            await house.logged(logs, "config.refused")
            assert await house.peer.invite("+12025550100", house.sip) == 180


async def test_a_model_that_is_shut_down_soon_is_named_at_the_start(path):
    async with OpenAIFakeServer() as server:
        model = f"{{kind: openai, api_key: sk-test, base_url: '{server.url}', model: gpt-realtime-mini}}"
        with structlog.testing.capture_logs() as logs:
            async with House(path, provider=f"  old: {model}\n") as house:
                [advice] = await house.logged(logs, "provider.advice")
        assert advice["provider"] == "old"
        assert advice["message"] == "gpt-realtime-mini is shut down on 2027-01-20"
        assert not server.sessions


async def test_a_provider_that_cannot_be_asked_about_its_models_does_not_hold_up_the_start(path):
    with Ports() as ports:
        model = f"{{kind: openai, api_key: sk-test, base_url: 'http://127.0.0.1:{ports.take()}/v1'}}"
        async with House(path, provider=f"  gone: {model}\n") as house:
            assert await house.peer.invite("+12025550100", house.sip) == 180


async def test_the_words_of_an_agent_on_turns_reach_the_model(path):
    async with OpenAIFakeServer(validate=True) as server:
        provider = (
            f"  far: {{kind: openai, api_key: sk-test, base_url: '{server.url}',"
            " turn_detection: {silence_ms: 400, threshold: 0.6}}\n"
        )
        agent = ", turn_detection: {silence_ms: 900, idle_timeout_ms: 8000}"
        async with House(path, provider=provider, first="far", agent=agent) as house:
            assert await house.peer.invite("+12025550100", house.sip) == 180
            while not (server.sessions and "You answer." in server.sessions[0].config.instructions):
                await asyncio.sleep(0.01)
            turns = server.sessions[0].config.turn_detection
    assert (turns["silence_duration_ms"], turns["threshold"], turns["idle_timeout_ms"]) == (900, 0.6, 8000)
