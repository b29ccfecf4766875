import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from gateway.cli_config import app

EXAMPLES = Path(__file__).parents[2] / "config" / "examples"
ENVIRON = {
    "OPENAI_API_KEY": "sk-test-0123456789",
    "GEMINI_API_KEY": "AIza-test-0123456789",
    "LOOKUP_TOKEN": "t-0123456789",
    "CARRIER_PASSWORD": "c-0123456789",
    "PBX_PASSWORD": "p-0123456789",
}


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments), env=ENVIRON)


@pytest.mark.parametrize("name", ["minimal.yaml", "fake.yaml", "full.yaml"])
def test_a_good_file_exits_with_zero_and_says_what_is_in_it(name):
    result = run("check", str(EXAMPLES / name))

    assert result.exit_code == 0
    assert result.stdout == ""
    assert "good: agents reception" in result.stderr
    assert "0123456789" not in result.output


@pytest.mark.report("BR-151")
def test_a_bad_file_exits_with_one_and_prints_every_problem(tmp_path):
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "server: {sip: {session_expire: 1800, rtp_ports: 20000-19999}}\n"
        "providers: {openai: {api_key: x}}\n"
        "agents:\n"
        "  desk: {providers: [openai], prompt: x, tool: [end_call], tools: {end_cal: {}}}\n"
        "numbers: {+12025550100: {agent: desk}}\n"
        "numbers: {}\n"
    )
    result = run("check", str(file))

    assert result.exit_code == 1
    assert [line.removeprefix(f"{file}:").split(":")[:2] for line in result.stdout.splitlines()] == [
        ["1", " server.sip.rtp_ports"],
        ["1", " server.sip.session_expire"],
        ["4", " agents.desk.tool"],
        ["4", " agents.desk.tools.end_cal"],
        ["5", ' numbers."+12025550100"'],
        ["6", " numbers"],
    ]
    assert result.stderr.endswith(": 6 problems\n")


def test_warnings_are_printed_and_do_not_fail(tmp_path):
    file = tmp_path / "gateway.yaml"
    file.write_text((EXAMPLES / "minimal.yaml").read_text().replace('}"}', '}", model: gpt-realtime}'))
    result = run("check", str(file))

    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    assert result.stdout.endswith("(warning)\n")


def test_a_file_that_does_not_exist_is_a_problem(tmp_path):
    result = run("check", str(tmp_path / "none.yaml"))

    assert result.exit_code == 1
    assert "cannot be read" in result.stdout


def test_a_script_that_the_fake_provider_cannot_play_is_a_problem(tmp_path):
    (tmp_path / "script.yaml").write_text("steps:\n  - on: greeting\n    sai: greeting.flac\n  - on: lunch\n")
    file = tmp_path / "gateway.yaml"
    file.write_text((EXAMPLES / "fake.yaml").read_text().replace("fake: {}", "fake: {script: script.yaml}"))
    result = run("check", str(file))

    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert ": providers.fake.script: the script cannot be used: " in line
    assert "script.yaml:3" in line
    assert "script.yaml:4" in line


def test_the_schema_knows_the_tools():
    schema = json.loads(run("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)

    tools = schema["$defs"]["AgentSettings"]["properties"]["tools"]["properties"]
    assert {"end_call", "transfer_call", "lookup_caller", "query_knowledge"} <= set(tools)
    assert "numbers" in tools["transfer_call"]["properties"]
