"""``trunkline sip trace`` on what a running gateway has kept of a call."""

from __future__ import annotations

import subprocess

import pytest

from tests.kit.gateway import COMMAND
from tests.kit.office import NUMBER

pytestmark = pytest.mark.peers


def trace(*arguments: object) -> str:
    command = [COMMAND, "sip", "trace", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout


def test_the_ladder_of_a_call_can_be_read_while_it_goes_on_and_when_it_is_over(fake_office, tmp_path):
    gateway = fake_office.open()
    phone = fake_office.phone(gateway)
    phone.call()
    recordings = tmp_path / "recordings"
    gateway.until(lambda: list(recordings.glob("*/sip.jsonl")), 5, "writing its trace")
    (folder,) = recordings.iterdir()
    phone.listen(0.5)
    live = trace(phone.dialog.call_id, "--recordings", recordings)
    assert "- INVITE -" in live
    assert "- 200 OK -" in live
    assert "ended:" not in live
    phone.hang_up()
    gateway.until(lambda: (folder / "call.json").exists(), 5, "writing the record")
    gateway.until(lambda: (folder / "sip.jsonl").read_text().count('"BYE ') == 1, 5, "writing the BYE")
    whole = trace(folder, "--full")
    assert [word for word in ("INVITE", "100", "180", "200", "ACK", "BYE") if f"- {word} " in whole] == [
        "INVITE", "100", "180", "200", "ACK", "BYE",
    ]  # fmt: skip
    assert f"to {NUMBER}" in whole
    assert "ended: bye by caller" in whole
    assert f"Call-ID: {phone.dialog.call_id}" in whole


def test_without_sip_trace_nothing_is_kept(fake_office, tmp_path):
    recordings = tmp_path / "recordings"
    gateway = fake_office.open(storage={"sip_trace": False})
    phone = fake_office.phone(gateway)
    phone.call()
    phone.hang_up()
    gateway.until(lambda: list(recordings.glob("*/call.json")), 5, "writing the record")
    assert not list(recordings.glob("*/sip.jsonl"))
