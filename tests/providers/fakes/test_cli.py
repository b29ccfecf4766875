"""``trunkline fake-openai``."""

import asyncio
import signal
import sys

from openai import AsyncOpenAI
from typer.testing import CliRunner

from providers.fakes.cli import app
from providers.fakes.faults import FAULTS, SERVED, Service


def test_the_faults_can_be_listed():
    result = CliRunner().invoke(app, ["--list-faults"])
    assert result.exit_code == 0
    names = [line.split()[0] for line in result.output.splitlines()]
    assert names == [name for name in FAULTS if name in SERVED[Service.OPENAI]]


def test_a_bad_script_is_explained_line_by_line(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("steps:\n  - on: greting\n    say: gretings.flac\n")
    result = CliRunner().invoke(app, ["--script", str(path)])
    assert result.exit_code == 1
    assert f"{path}:2: steps[0].on:" in result.output
    assert f"{path}:3: steps[0].say:" in result.output


def test_a_bad_fault_is_explained():
    result = CliRunner().invoke(app, ["--fault", "clsoe"])
    assert result.exit_code == 1
    assert "did you mean close?" in result.output


async def test_the_process_serves_its_address_until_it_is_told_to_stop():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "providers.fakes.cli", "--port", "0", "--fault", "failed#1",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        url = (await process.stdout.readline()).decode().strip()
        client = AsyncOpenAI(api_key="sk-test", base_url=url)
        async with client.realtime.connect(
            model="gpt-realtime-2.1", websocket_connection_options={"proxy": None}
        ) as connection:
            await connection.response.create()
            while (event := await connection.recv()).type != "response.done":
                pass
            assert event.response.status == "failed"
        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
        assert process.returncode == 0
        assert errors == b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
