"""Field reports about recordings, each with its own input: on the disk is what was heard, and when."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import soundfile

from gateway.calls import events as ev
from gateway.calls.flac import FlacFile
from gateway.calls.folder import RECORD, repair
from gateway.calls.recording import CallRecording
from gateway.media import g711
from gateway.media.concealment import Concealer
from gateway.media.playout import Playout
from gateway.rtp.packet import RtpPacket
from gateway.rtp.receiver import StreamReceiver
from providers.types import PCMU

RATE = 8000
LOUD = bytes([0x20]) * 160
FRAME_S = 0.02


def start(call_id="c-1"):
    return ev.CallStarted(call_id, 0.0, 1.79e9, "+12125551234", "+12125550100", "carrier", "reception", PCMU)


def stretches(channel, *, least_s=0.1) -> list[tuple[float, float]]:
    """Return where there is sound, in seconds: pauses shorter than ``least_s`` do not part it."""
    loud = np.flatnonzero(np.abs(channel.astype(int)) > 500)
    if not len(loud):
        return []
    parts = np.split(loud, np.flatnonzero(np.diff(loud) > least_s * RATE) + 1)
    return [(part[0] / RATE, (part[-1] + 1) / RATE) for part in parts]


def speak(recording: CallRecording, began: float, seconds: float, kind=ev.AgentAudioFrame) -> None:
    """Let one side speak in frames that are published when they are heard."""
    for number in range(round(seconds / FRAME_S)):
        moment = began + number * FRAME_S + (FRAME_S if kind is ev.CallerAudioFrame else 0.0)
        recording.add(kind("c-1", moment, LOUD))


def finish(recording: CallRecording, folder, at: float):
    recording.add(ev.CallEnded("c-1", at, "bye", "caller"))
    recording.finish(0)
    audio, _ = soundfile.read(folder / "c-1" / "call.flac", dtype="int16")
    return audio, json.loads((folder / "c-1" / "call.json").read_text())


@pytest.mark.report("BR-176")
def test_bursts_of_the_agent_stand_where_the_caller_heard_them_and_both_voices_end_together(tmp_path):
    recording = CallRecording(tmp_path, start())
    playout = Playout(PCMU)
    bursts = {1.0: "a", 6.0: "b"}
    for tick in range(500):  # ten seconds
        now = tick * FRAME_S
        for began, item in bursts.items():
            piece = round((now - began) / FRAME_S)
            if 0 <= piece < 15:  # two seconds of speech come within 300 ms
                playout.enqueue(bytes([0x20]) * 1067, item_id=item)
            elif piece == 15:
                playout.finish(item)
        recording.add(ev.CallerAudioFrame("c-1", now + FRAME_S, LOUD))
        frame = playout.next_frame(now)
        if frame is not None:
            recording.add(ev.AgentAudioFrame("c-1", now, frame))
        if tick % 12 == 0:
            recording.flush()
    audio, _ = finish(recording, tmp_path, 10.0)

    agent = stretches(audio[:, 1])
    assert [round(edge, 1) for stretch in agent for edge in stretch] == pytest.approx([1, 3, 6, 8], abs=0.05)
    assert len(audio) / RATE == pytest.approx(10.0, abs=0.1)
    (caller,) = stretches(audio[:, 0])
    assert caller == pytest.approx((0.0, 10.0), abs=0.05)


@pytest.mark.report("BR-177")
def test_pauses_in_which_neither_side_sends_anything_keep_their_length_and_the_transcript_fits(tmp_path):
    recording = CallRecording(tmp_path, start())
    speak(recording, 0.0, 1.5, ev.CallerAudioFrame)
    speak(recording, 2.0, 1.0)
    recording.add(ev.AgentSaid("c-1", 3.0, "i1", "one moment", 1000, 1000, 2.0))
    recording.flush()
    # Hold: no RTP and no agent audio for seven seconds.
    recording.flush()
    speak(recording, 10.0, 1.0)
    recording.add(ev.AgentSaid("c-1", 11.0, "i2", "still working", 1000, 1000, 10.0))
    # The caller's telephone suppresses three seconds of silence.
    speak(recording, 11.0, 1.0, ev.CallerAudioFrame)
    recording.flush()
    speak(recording, 15.0, 1.0, ev.CallerAudioFrame)
    audio, record = finish(recording, tmp_path, 16.0)

    assert [each[0] for each in stretches(audio[:, 1])] == pytest.approx([2.0, 10.0], abs=0.05)
    assert [each[0] for each in stretches(audio[:, 0])] == pytest.approx([0.0, 11.0, 15.0], abs=0.05)
    assert len(audio) / RATE == pytest.approx(16.0, abs=0.1)
    said = {entry["text"]: entry["began"] for entry in record["transcript"]}
    assert said == {"one moment": 2.0, "still working": 10.0}


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from gateway.calls import events as ev
    from gateway.calls.recording import CallRecording
    from providers.types import PCMU

    recording = CallRecording(Path(sys.argv[1]), ev.CallStarted("c-1", 0.0, 1.79e9, "", "", "", "", PCMU))
    noise = bytes(range(256)) * 40
    for number in range(3000):
        recording.add(ev.AgentAudioFrame("c-1", number * 0.02, noise[number % 97 : number % 97 + 160]))
        if number == 500:
            recording.add(ev.AgentSaid("c-1", 10.0, "i1", "one moment", 1000, 1000, 9.0))
        if number % 12 == 0:
            recording.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(folder) -> None:
    """Record sixty seconds in a process of its own, and kill it."""
    code = [sys.executable, "-c", textwrap.dedent(KILLED), str(folder)]
    assert subprocess.run(code, check=False).returncode == -signal.SIGKILL


@pytest.mark.report("BR-178")
def test_after_a_kill_the_unfinished_file_can_be_played_and_the_next_start_finishes_it(tmp_path):
    killed(tmp_path)
    names = {path.name for path in (tmp_path / "c-1").iterdir()}
    assert names == {"call.flac.part", "call.json.part"}
    info = soundfile.info(tmp_path / "c-1" / "call.flac.part")
    assert 55 < info.frames / RATE < 60  # the header says so already

    assert repair(tmp_path) == ["c-1"]
    audio, _ = soundfile.read(tmp_path / "c-1" / "call.flac", dtype="int16")
    record = json.loads((tmp_path / "c-1" / "call.json").read_text())
    assert {path.name for path in (tmp_path / "c-1").iterdir()} == {"call.flac", "call.json"}
    assert len(audio) / RATE > 56
    assert len(audio) / RATE == pytest.approx(record["audio"]["seconds"], abs=0.001)
    assert np.abs(audio[:, 1].astype(int)).mean() > 500
    assert (record["reason"], record["recording_failed"]) == ("crash", "the gateway was killed")
    assert [entry["text"] for entry in record["transcript"]] == ["one moment"]
    assert repair(tmp_path) == []


@pytest.mark.report("BR-178")
def test_a_kill_between_the_two_names_is_repaired_as_well(tmp_path):
    recording = CallRecording(tmp_path, start())
    speak(recording, 0.0, 4.0)
    recording.flush()
    audio, _ = finish(recording, tmp_path, 4.0)
    folder = tmp_path / "c-1"
    (folder / "call.json").rename(folder / "call.json.part")

    assert repair(tmp_path) == ["c-1"]
    record = json.loads((folder / "call.json").read_text())
    assert record["audio"]["seconds"] == len(audio) / RATE == 4.0
    assert soundfile.info(folder / "call.flac").frames == 4 * RATE


@pytest.mark.report("BR-178")
def test_a_recording_that_goes_on_is_not_taken_for_one_that_was_killed(tmp_path):
    recording = CallRecording(tmp_path, start())
    speak(recording, 0.0, 4.0)
    recording.flush()
    assert repair(tmp_path) == []
    audio, record = finish(recording, tmp_path, 4.0)
    assert (len(audio), record["reason"]) == (4 * RATE, "bye")


@pytest.mark.report("BR-178")
def test_no_file_has_its_name_before_it_is_whole_and_on_the_disk(tmp_path, monkeypatch):
    steps = []
    rename, sync = os.rename, os.fsync

    def noted_sync(descriptor):
        steps.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    def noted_rename(old, new, **options):
        steps.append(f"-> {new}")
        rename(old, new, **options)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "rename", noted_rename)
    recording = CallRecording(tmp_path, start())
    speak(recording, 0.0, 4.0)
    finish(recording, tmp_path, 4.0)

    folder = tmp_path / "c-1"
    assert steps == [
        str(folder / "call.flac.part"),
        f"-> {folder / 'call.flac'}",
        str(folder / "call.json.new"),
        f"-> {folder / 'call.json'}",
        str(folder),
    ]


@pytest.mark.report("BR-178")
def test_a_fault_in_one_recording_leaves_the_call_its_record_and_what_was_written(tmp_path):
    recording = CallRecording(tmp_path, start())
    speak(recording, 0.0, 30.0)
    recording.flush()
    recording.fail(ValueError("a fault of ours"))
    speak(recording, 30.0, 5.0)
    recording.flush()
    audio, record = finish(recording, tmp_path, 35.0)

    assert 25 < len(audio) / RATE <= 30
    assert (record["reason"], record["ended"]) == ("bye", 35.0)
    assert record["recording_failed"] == "a fault of ours"


@pytest.mark.soak
@pytest.mark.report("BR-178")
def test_five_hours_at_48_khz_have_their_length(tmp_path):
    """2.8 GiB of samples; FLAC counts samples with 36 bits and has no other limit."""
    file = FlacFile(tmp_path / "long.flac", 48_000)
    minute = np.zeros((48_000 * 60, 2), np.int16)
    for _ in range(300):
        file.write(minute)
    file.close()
    assert soundfile.info(tmp_path / "long.flac").frames == 5 * 3600 * 48_000


def test_on_a_drive_without_locks_calls_are_recorded_and_only_old_drafts_are_finished(tmp_path, monkeypatch):
    def no_locks(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    recording = CallRecording(tmp_path, start())
    speak(recording, 0.0, 4.0)
    recording.flush()
    assert repair(tmp_path) == []
    audio, record = finish(recording, tmp_path, 4.0)
    assert (len(audio), record["recording_failed"]) == (4 * RATE, None)

    (tmp_path / "old").mkdir()
    draft = tmp_path / "old" / f"{RECORD}.part"
    draft.write_text("{}")
    os.utime(draft, (0, 0))
    assert repair(tmp_path) == ["old"]


def test_what_is_no_draft_of_ours_is_left_alone_by_the_repair(tmp_path):
    for name, text in (("a", "[]"), ("b", "{"), ("c", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{RECORD}.part").write_text(text)
    assert repair(tmp_path) == []
    assert len(list(tmp_path.glob("*/*.part"))) == 3


@pytest.mark.report("BR-179")
def test_half_an_hour_of_loss_jitter_and_duplicates_is_half_an_hour_on_the_disk(tmp_path):
    """2 % single losses, 60 ms of jitter, 5 duplicates, 3 pairs swapped."""
    rng = random.Random(179)
    seconds, packets = 1800, 1800 * 50
    arrivals = []
    for number in range(packets):
        if number and rng.random() < 0.02:
            continue
        packet = RtpPacket(0, False, number & 0xFFFF, number * 160, 1, LOUD)
        at = number * FRAME_S + rng.uniform(0, 0.06)
        if number in (9_000, 30_000, 60_000):
            at += 0.05  # behind its successor, whatever the jitter of both
        arrivals += [(at + copy * 0.001, packet) for copy in range(2 if number % 18_000 == 100 else 1)]
    recording = CallRecording(tmp_path, start())
    receiver, concealer, tick = StreamReceiver(), Concealer("pcmu"), 0.0
    heard = 0
    for now, packet in [*sorted(arrivals, key=lambda each: each[0]), (float(seconds), None)]:
        while tick <= now:
            heard += keep(recording, receiver.expire(tick) or receiver.fill(tick), concealer, tick)
            if round(tick / FRAME_S) % 50 == 0:
                recording.flush()
            tick += FRAME_S
        if packet is not None:
            heard += keep(recording, receiver.receive(packet, now, is_audio=True), concealer, now)
    audio, _ = finish(recording, tmp_path, float(seconds))

    assert abs(heard / RATE - seconds) < 0.1
    assert abs(len(audio) / RATE - seconds) < 0.1
    assert receiver.buffer.duplicates == 5
    (caller,) = stretches(audio[:, 0])
    assert caller == pytest.approx((0.0, seconds), abs=0.1)


def keep(recording, frames, concealer, now: float) -> int:
    """Do what a media stream does with frames; return how many samples were heard."""
    total = 0
    for payload, _, duration_ms, lost in frames:
        audio = (
            concealer.good(payload)
            if payload
            else concealer.lost(duration_ms)
            if lost
            else concealer.silence(duration_ms)
        )
        recording.add(ev.CallerAudioFrame("c-1", now, audio))
        total += len(audio)
    return total


@pytest.mark.report("BR-180")
def test_each_line_of_the_transcript_is_one_turn_at_its_own_time_however_late_its_words_come(tmp_path):
    recording = CallRecording(tmp_path, start())
    for began, ended, item in ((1.0, 2.0, "item_u1"), (2.5, 3.5, "item_u2")):
        recording.add(ev.CallerSpeech("c-1", began, started=True))
        recording.add(ev.CallerSpeech("c-1", ended, started=False))
        recording.add(ev.CallerTurn("c-1", ended + 0.1, item))
    recording.add(ev.CallerSaid("c-1", 4.0, "item_u2", "my number is 5"))
    recording.add(ev.CallerSaid("c-1", 5.0, "item_u1", "I want to cancel", partial=True))
    recording.add(ev.CallerSaid("c-1", 6.0, "item_u2", "My number is 5."))
    _, record = finish(recording, tmp_path, 7.0)

    lines = [
        (entry["item_id"], entry["began"], entry["ended"], entry["text"], entry["partial"])
        for entry in record["transcript"]
    ]
    assert lines == [
        ("item_u1", 1.0, 2.0, "I want to cancel", True),
        ("item_u2", 2.5, 3.5, "My number is 5.", False),
    ]


def test_the_law_of_the_line_is_silent_where_nothing_was_said(tmp_path):
    recording = CallRecording(tmp_path, start())
    speak(recording, 1.0, 0.5)
    audio, _ = finish(recording, tmp_path, 3.0)
    assert not audio[: round(0.9 * RATE)].any()
    assert audio[round(1.1 * RATE), 1] == g711.decode("pcmu", LOUD[:1])[0]
