"""The caller against SIPp as the called party: another implementation's view of our SIP and RTP."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from deploy.demo.caller.report import read_wav
from deploy.demo.sound import find
from deploy.demo.stage import free_port
from tests.kit import sound

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.mark.peers
def test_sipp_greets_refers_and_hangs_up_and_the_caller_reports_all_of_it(tmp_path):
    greeting = np.concatenate((sound.utterance(5, 1.5), sound.silence(0.1)))
    (tmp_path / "greeting.ul").write_bytes(sound.encode(greeting))
    scenario = tmp_path / "uas.xml"
    scenario.write_text((HERE / "uas_refers.xml").read_text().replace("[greeting]", "greeting.ul"))
    port = free_port(socket.SOCK_DGRAM)
    command = ["sipp", "-sf", scenario.name, "-i", "127.0.0.1", "-p", str(port), "-m", "1", "-nostdin"]
    command += ["-timeout", "20s", "-timeout_error", "-skip_rlimit"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as sipp:
        try:
            caller = subprocess.run(
                [sys.executable, "-m", "deploy.demo.caller", "--gateway", f"127.0.0.1:{port}", "--to", "123",
                 "--story", "transfer", "--out", str(tmp_path / "out")],
                cwd=ROOT, capture_output=True, text=True, timeout=30,
            )  # fmt: skip
            output = sipp.communicate(timeout=10)[0].decode()
        finally:
            sipp.kill()
    report = json.loads((tmp_path / "out" / "caller.json").read_text())
    heard = find(greeting, read_wav(tmp_path / "out" / "heard.wav"))

    assert caller.returncode == 0, caller.stderr
    assert sipp.returncode == 0, output[-2000:]
    assert re.search(r"Successful call\s*\|\s*0\s*\|\s*1", output)
    assert report["refer_to"] == "sip:+12125551234@127.0.0.1"
    assert report["notified"] == ["100 Trying", "200 OK"]
    assert report["ended_by"] == "gateway"
    assert (report["rtp"]["lost"], report["rtp"]["payload_types"]) == (0, [0])
    assert heard is not None
    assert heard.complete
