"""The fake and the loads are right: the fake's events are the SDK's, and its turns those of its settings."""

import base64
import json
import os
import subprocess
import sys
import time
import warnings

import pytest
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter
from websockets.sync.client import connect

from deploy.demo.stage import Stage, free_port, python
from tests.bench.contenders import wait_for_port
from tests.bench.run import ROOT
from tests.bench.signals import FRAME, SILENCE, caller_signal, frames
from tests.bench.usage import Usage, cpu_seconds, tree
from tests.kit import sound

FORMAT = {"type": "audio/pcmu"}
SESSION = {"type": "realtime", "audio": {"input": {"format": FORMAT}, "output": {"format": FORMAT}}}


@pytest.fixture
def fake(tmp_path):
    import socket

    port = free_port(socket.SOCK_STREAM)
    with Stage(tmp_path, ROOT) as stage:
        command = python("tests.bench.fake_openai", "--port", str(port), "--talk-ms", "400", "--max-s", "20")
        wait_for_port(port, stage.start("fake", command))
        with connect(f"ws://127.0.0.1:{port}/v1/realtime?model=x", compression=None) as client:
            yield client


def say(client, chunks):
    for chunk in chunks:
        audio = base64.b64encode(chunk).decode()
        client.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))


def events_until(client, last):
    adapter = TypeAdapter(RealtimeServerEvent)
    seen = []
    while not seen or seen[-1].type != last:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen.append(adapter.validate_json(client.recv(timeout=5)))
    return seen


def test_a_turn_is_answered_with_events_that_the_sdk_knows_and_with_the_audio_of_the_settings(fake):
    fake.send(json.dumps({"type": "session.update", "session": SESSION}))
    say(fake, frames()[:20] + [SILENCE] * 12)
    events = events_until(fake, "response.done")
    kinds = [event.type for event in events]
    audio = b"".join(base64.b64decode(e.delta) for e in events if e.type == "response.output_audio.delta")

    assert kinds[:3] == ["session.created", "session.updated", "input_audio_buffer.speech_started"]
    assert kinds.index("input_audio_buffer.speech_stopped") < kinds.index("response.created")
    assert audio == caller_signal()[: 400 * 8]
    assert events[-1].response.status == "completed"


def test_speech_cancels_the_answer(fake):
    fake.send(json.dumps({"type": "session.update", "session": SESSION}))
    fake.send(json.dumps({"type": "response.create"}))
    say(fake, frames()[:2])
    events = events_until(fake, "response.done")

    assert events[-1].response.status == "cancelled"
    assert events[-1].response.status_details.reason == "turn_detected"


def test_another_format_than_g711_is_refused(fake):
    fake.send(
        json.dumps(
            {"type": "session.update", "session": {"audio": {"input": {"format": {"type": "audio/pcm"}}}}}
        )
    )

    assert "audio/pcmu only" in events_until(fake, "error")[-1].error.message


def test_the_signal_is_never_quiet_and_the_last_frame_is_silence():
    *loud, silent = frames()

    assert min(abs(sound.decode(frame)).max() for frame in loud) > 500
    assert silent == b"\xff" * FRAME
    assert not sound.decode(silent).any()


def test_usage_counts_a_process_with_its_children():
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as process:
        deadline = time.monotonic() + 20
        while cpu_seconds(process.pid) < 0.2 and time.monotonic() < deadline:
            os.sched_yield()
        usage = Usage({"busy": process.pid})
        usage.start()
        while cpu_seconds(process.pid) < 0.4 and time.monotonic() < deadline:
            os.sched_yield()
        used = usage.stop()
        assert len(tree(process.pid)) == 2
        os.killpg(process.pid, 9)
    assert used["cpu_s"]["busy"] > 0.1
