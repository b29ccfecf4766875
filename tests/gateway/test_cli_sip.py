from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.calls.events import SipMessage
from gateway.calls.sip_log import SipLog
from gateway.cli_sip import app


def text(start: str, call: str) -> str:
    return (
        f"{start}\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\n"
        f"Call-ID: {call}\r\nCSeq: 1 INVITE\r\nContact: <sip:a@b>\r\nContent-Length: 0\r\n\r\n"
    )


def write(folder: Path, *starts: str, call: str = "sip-1@carrier") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    log = SipLog(folder, folder.name)
    for start in starts:
        log.add(
            SipMessage(folder.name, 0.0, False, "udp", "192.0.2.9:5060", "192.0.2.1:5062", text(start, call))
        )
    log.flush()
    return folder


def finish(folder: Path) -> None:
    record = {"caller": "", "called": "+1", "trunk": "t", "agent": "a", "reason": "bye", "by": "caller"}
    (folder / "call.json").write_text(json.dumps({**record, "started_at": "2026-11-30T14:00:00.000Z"}))


def run(*arguments: object):
    return CliRunner().invoke(app, ["trace", *map(str, arguments)])


def test_a_folder_is_printed_as_a_ladder_with_who_called_whom(tmp_path):
    folder = write(tmp_path / "0123abcd", "INVITE sip:c@d SIP/2.0", "SIP/2.0 200 OK")
    finish(folder)
    result = run(folder)
    assert result.exit_code == 0
    assert "anonymous to +1, trunk t, agent a, ended: bye by caller" in result.stdout
    assert "- INVITE -" in result.stdout
    assert "- 200 OK -" in result.stdout
    assert "Contact:" not in result.stdout
    assert "Contact: <sip:a@b>" in run(folder, "--full").stdout


@pytest.mark.parametrize("which", ["0123abcd", "0123", "sip-1@carrier"])
def test_a_call_is_found_by_its_id_the_beginning_of_it_or_the_call_id(tmp_path, which):
    write(tmp_path / "0123abcd", "INVITE sip:c@d SIP/2.0")
    write(tmp_path / "4567abcd", "BYE sip:c@d SIP/2.0", call="sip-2@carrier")
    result = run(which, "--recordings", tmp_path)
    assert "INVITE" in result.stdout
    assert "BYE" not in result.stdout


def test_the_configuration_knows_where_calls_lie(tmp_path):
    good = Path("config/examples/fake.yaml").read_text()
    file = tmp_path / "gateway.yaml"
    file.write_text(good)
    write(tmp_path / "var/recordings/0123abcd", "INVITE sip:c@d SIP/2.0")
    assert "- INVITE -" in run("0123", "--config", file).stdout
    file.write_text(good.replace("storage: {recordings: var/recordings}", ""))
    none = run("0123", "--config", file)
    assert (none.exit_code, none.stderr.count("add storage: {recordings: FOLDER}")) == (1, 1)
    file.write_text("trunks: 5\n")
    wrong = run("0123", "--config", file)
    assert (wrong.exit_code, wrong.stderr.count(f"{file}:1: trunks: must be a mapping")) == (1, 1)


def test_what_cannot_be_found_is_a_sentence_and_exit_status_1(tmp_path):
    write(tmp_path / "0123abcd", "INVITE sip:c@d SIP/2.0")
    write(tmp_path / "0123ffff", "INVITE sip:c@d SIP/2.0")
    (tmp_path / "empty").mkdir()
    for which, words in (
        ("89", "no such call in"),
        ("0123", "2 calls begin like this"),
        (tmp_path / "empty", "storage.sip_trace was off"),
    ):
        result = run(which, "--recordings", tmp_path)
        assert result.exit_code == 1
        assert words in result.stderr
        assert result.stdout == ""


def test_a_line_that_a_crash_has_cut_is_passed_over(tmp_path):
    folder = write(tmp_path / "0123abcd", "INVITE sip:c@d SIP/2.0")
    with (folder / "sip.jsonl").open("a") as file:
        file.write('{"at": 1.0, "sen')
    result = run(folder)
    assert result.exit_code == 0
    assert "INVITE" in result.stdout
    with (folder / "sip.jsonl").open("a") as file:
        file.write("\n[1]\nnull\n{}\n")
    assert run(folder).exit_code == 0


def test_follow_prints_what_is_still_to_come_and_ends_behind_the_call(tmp_path, monkeypatch):
    monkeypatch.setattr("gateway.cli_sip._LAST_WORDS_S", 0.3)
    folder = write(tmp_path / "0123abcd", "INVITE sip:c@d SIP/2.0")

    def go_on() -> None:
        write(folder, "BYE sip:c@d SIP/2.0")
        finish(folder)

    later = threading.Timer(0.1, go_on)
    later.start()
    result = run(folder, "--follow")
    later.join()
    assert result.exit_code == 0
    assert "INVITE" in result.stdout
    assert "BYE" in result.stdout
