"""``trunkline fake-gemini``."""

import asyncio
import json
import signal
import ssl
import stat
import sys

import pytest
from google import genai
from google.genai import types
from typer.testing import CliRunner

from providers.fakes.faults import FAULTS, SERVED, Service
from providers.fakes.gemini_cli import app
from tests.kit.certificates import Authority


def test_the_faults_can_be_listed():
    result = CliRunner().invoke(app, ["--list-faults"])
    assert result.exit_code == 0
    names = [line.split()[0] for line in result.output.splitlines()]
    assert names == [name for name in FAULTS if name in SERVED[Service.GEMINI]]


def test_a_fault_of_another_server_is_explained(tmp_path):
    result = CliRunner().invoke(app, ["--fault", "rate_limits:none"])
    assert result.exit_code == 1
    assert "the gemini server has no fault rate_limits" in result.output


def test_half_a_certificate_is_refused(tmp_path):
    result = CliRunner().invoke(app, ["--certificate", str(tmp_path / "x.pem")])
    assert result.exit_code == 1
    assert "belong together" in result.output
    both = ["--certificate", str(tmp_path / "x.pem"), "--private-key", str(tmp_path / "x.key")]
    assert "is no file" in CliRunner().invoke(app, both).output


@pytest.mark.parametrize("own", [True, False])
async def test_the_process_says_its_address_and_what_to_trust(tmp_path, own):
    folder = tmp_path / "tls"
    arguments = ["--tls-folder", str(folder)]
    if not own:
        pair = Authority(tmp_path).sign("127.0.0.1")
        arguments = ["--certificate", str(pair.certificate), "--private-key", str(pair.private_key)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "providers.fakes.gemini_cli", "--port", "0", "--fault", "rejected#1",
        "--log", str(tmp_path / "said.jsonl"), *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        url = (await process.stdout.readline()).decode().strip()
        trusted = (await process.stdout.readline()).decode().strip()
        if own:
            assert stat.S_IMODE((folder / "fake-key.pem").stat().st_mode) == 0o600
        else:
            assert trusted == str(pair.certificate)
            trusted = str(tmp_path / "ca.pem")
        arguments = {"ssl": ssl.create_default_context(cafile=trusted), "proxy": None}
        client = genai.Client(
            api_key="any",
            http_options=types.HttpOptions(base_url=url, api_version="v1beta", async_client_args=arguments),
        )
        config = {"response_modalities": ["AUDIO"]}
        async with client.aio.live.connect(model="gemini-3.8-live", config=config) as session:
            await session.send_realtime_input(text="Greet the caller.")
            async for message in session.receive():
                last = message
        assert last.server_content.turn_complete_reason == "RESPONSE_REJECTED"
        lines = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
        assert [(line["side"], next(iter(line["event"]))) for line in lines] == [
            ("client", "setup"), ("server", "setupComplete"),
            ("client", "realtimeInput"), ("server", "serverContent"),
        ]  # fmt: skip
        process.send_signal(signal.SIGTERM)
        _, problems = await process.communicate()
        assert (process.returncode, problems) == (0, b"")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
