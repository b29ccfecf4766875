"""``trunkline fake-live``."""

import asyncio
import signal
import sys

from openai import AsyncOpenAI
from typer.testing import CliRunner

from providers.fakes.faults import FAULTS, SERVED, Service
from providers.fakes.live_cli import app
from tests.kit.live_line import PHONE


def test_its_faults_can_be_listed():
    result = CliRunner().invoke(app, ["--list-faults"])
    names = [line.split()[0] for line in result.output.splitlines()]
    assert names == [name for name in FAULTS if name in SERVED[Service.LIVE]]


def test_a_fault_of_another_server_is_explained():
    result = CliRunner().invoke(app, ["--fault", "go_away@3"])
    assert result.exit_code == 1
    assert "the live server has no fault go_away" in result.output


async def test_the_process_serves_its_address_until_it_is_told_to_stop():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "providers.fakes.live_cli", "--port", "0",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        url = (await process.stdout.readline()).decode().strip()
        client = AsyncOpenAI(api_key="sk-test", base_url=url)
        async with client.live.connect(websocket_connection_options={"proxy": None}) as connection:
            await connection.session.start(session=PHONE)
            assert (await connection.recv()).type == "session.started"
        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
        assert process.returncode == 0
        assert errors == b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
