import asyncio
import json
import os
import subprocess
import sys
import textwrap
from contextlib import asynccontextmanager

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gateway.calls import events as ev
from gateway.calls.bus import EventBus
from gateway.calls.folder import safe_name
from gateway.calls.recording import CallRecording, Recorder
from gateway.media import g711
from providers.types import PCM16_16K, PCMA, PCMU, AudioFormat

FORMATS = [PCMU, PCMA, AudioFormat("pcm16", 8000), PCM16_16K]


def tone(hz: float, seconds: float, rate: int = 8000):
    return (np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate) * 8000).astype(np.int16)


def frames(kind, call_id: str, at: float, samples, line: AudioFormat = PCMU):
    """Cut samples into 20 ms frames of the line, one every 20 ms."""
    data = (
        samples.astype("<i2").tobytes() if line.encoding == "pcm16" else g711.encode(line.encoding, samples)
    )
    size = 20 * line.bytes_per_ms
    for number in range(0, len(data), size):
        moment = at + number / size * 0.02 + (0.02 if kind is ev.CallerAudioFrame else 0.0)
        yield kind(call_id, moment, data[number : number + size])


def start(call_id: str, line: AudioFormat = PCMU) -> ev.CallStarted:
    return ev.CallStarted(
        call_id, 0.0, 1_790_000_000.0, "+12125551234", "+12125550100", "carrier", "reception", line
    )


def resident_kib() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@asynccontextmanager
async def recorder(bus: EventBus, folder, **options):
    recorder = Recorder(bus, **options)
    recorder.use(folder)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(recorder.run())
        yield recorder
        recorder.close()


def level(audio) -> float:
    return float(np.sqrt(np.mean(audio.astype(float) ** 2))) if len(audio) else 0.0


def pitch(audio, rate: int = 8000) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(audio))) * rate / len(audio))


@pytest.mark.parametrize("line", FORMATS)
async def test_both_voices_are_on_one_clock_caller_left_agent_right(tmp_path, line):
    bus = EventBus()
    async with recorder(bus, tmp_path):
        bus.publish(start("c-1", line))
        bus.publish(ev.CallAnswered("c-1", 0.5, "openai"))
        for frame in frames(ev.CallerAudioFrame, "c-1", 1.0, tone(400, 1.0, line.rate), line):
            bus.publish(frame)
        for frame in frames(ev.AgentAudioFrame, "c-1", 2.5, tone(900, 1.0, line.rate), line):
            bus.publish(frame)
        bus.publish(ev.CallEnded("c-1", 4.0, "bye", "caller"))

    audio, rate = soundfile.read(tmp_path / "c-1" / "call.flac", dtype="int16")
    assert (rate, audio.shape) == (line.rate, (4 * line.rate, 2))
    caller, agent = audio[:, 0], audio[:, 1]

    def part(channel, begin, end):
        return channel[round(begin * rate) : round(end * rate)]

    assert pitch(part(caller, 1.1, 1.9), rate) == pytest.approx(400, abs=5)
    assert pitch(part(agent, 2.6, 3.4), rate) == pytest.approx(900, abs=5)
    for channel, begin, end in ((caller, 0, 0.98), (caller, 2.02, 4), (agent, 0, 2.48), (agent, 3.52, 4)):
        assert level(part(channel, begin, end)) < 10
    assert level(part(caller, 1.02, 1.98)) > 5000
    assert level(part(agent, 2.52, 3.48)) > 5000


async def test_the_record_stands_beside_the_audio(tmp_path):
    bus = EventBus()
    async with recorder(bus, tmp_path):
        bus.publish(start("c-1"))
        bus.publish(ev.CallAnswered("c-1", 0.5, "openai"))
        bus.publish(ev.AgentSaid("c-1", 2.0, "a", "Grüß Gott \u2014 hello", 1000, 1000))
        bus.publish(ev.CallEnded("c-1", 3.0, "end_call", "agent"))
    record = json.loads((tmp_path / "c-1" / "call.json").read_text(encoding="utf-8"))

    assert record["reason"] == "end_call"
    assert record["transcript"][0]["text"] == "Grüß Gott \u2014 hello"
    assert record["audio"] == {
        "file": "call.flac",
        "rate": 8000,
        "seconds": 3.0,
        "left": "caller",
        "right": "agent",
    }
    assert record["dropped_events"] == 0
    assert sorted(path.name for path in (tmp_path / "c-1").iterdir()) == ["call.flac", "call.json"]


async def test_calls_at_once_do_not_mix(tmp_path):
    bus = EventBus()
    names = [f"c-{number}" for number in range(8)]
    async with recorder(bus, tmp_path):
        for name in names:
            bus.publish(start(name))
        streams = [
            list(frames(ev.AgentAudioFrame, name, 0.0, tone(300 + 100 * number, 1.0)))
            for number, name in enumerate(names)
        ]
        for batch in zip(*streams, strict=True):
            for frame in batch:
                bus.publish(frame)
            await asyncio.sleep(0)
        for name in names:
            bus.publish(ev.CallEnded(name, 1.0, "bye"))

    for number, name in enumerate(names):
        audio, _ = soundfile.read(tmp_path / name / "call.flac", dtype="int16")
        assert pitch(audio[:, 1]) == pytest.approx(300 + 100 * number, abs=5)


async def test_a_call_that_was_refused_has_a_record_too(tmp_path):
    bus = EventBus()
    async with recorder(bus, tmp_path):
        bus.publish(start("c-1"))
        bus.publish(ev.CallEnded("c-1", 0.2, "unavailable_rejected", "gateway"))

    assert json.loads((tmp_path / "c-1" / "call.json").read_text())["reason"] == "unavailable_rejected"
    assert soundfile.info(tmp_path / "c-1" / "call.flac").frames == 1600


async def test_without_a_folder_nothing_is_written_and_no_audio_asked_for(tmp_path):
    bus = EventBus()
    async with recorder(bus, None):
        assert not bus.wants_audio
        bus.publish(start("c-1"))
        bus.publish(ev.CallEnded("c-1", 0.2, "bye"))

    assert list(tmp_path.iterdir()) == []


async def test_a_changed_folder_is_for_the_next_call(tmp_path):
    bus = EventBus()
    async with recorder(bus, tmp_path / "old") as running:
        bus.publish(start("first"))
        while not (tmp_path / "old" / "first").exists():
            await asyncio.sleep(0.01)
        running.use(None)
        bus.publish(start("second"))
        for frame in frames(ev.AgentAudioFrame, "first", 0.0, tone(400, 1.0)):
            bus.publish(frame)
        bus.publish(ev.CallEnded("first", 1.0, "bye"))
        while not (tmp_path / "old" / "first" / "call.json").exists():
            await asyncio.sleep(0.01)
        running.use(tmp_path / "new")
        bus.publish(start("third"))
        bus.publish(ev.CallEnded("third", 1.0, "bye"))

    assert level(soundfile.read(tmp_path / "old" / "first" / "call.flac", dtype="int16")[0][:, 1]) > 3000
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["first"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["third"]


async def test_an_open_call_is_finished_when_the_gateway_stops(tmp_path):
    bus = EventBus()
    async with recorder(bus, tmp_path):
        bus.publish(start("c-1"))
        for frame in frames(ev.AgentAudioFrame, "c-1", 0.0, tone(400, 1.0)):
            bus.publish(frame)

    record = json.loads((tmp_path / "c-1" / "call.json").read_text())
    assert (record["reason"], record["ended"], record["audio"]["seconds"]) == ("unknown", None, 1.0)


async def test_a_slow_disk_loses_events_of_the_recording_and_says_how_many(tmp_path):
    bus = EventBus()
    running = Recorder(bus, queue_size=64)
    running.use(tmp_path)
    bus.publish(start("c-1"))
    for frame in frames(ev.AgentAudioFrame, "c-1", 0.0, tone(400, 4.0)):
        bus.publish(frame)
    bus.publish(ev.CallEnded("c-1", 4.0, "bye"))
    running.close()
    async with asyncio.timeout(20):
        await running.run()

    record = json.loads((tmp_path / "c-1" / "call.json").read_text())
    assert record["dropped_events"] == 200 - (56 - 1)
    assert record["reason"] == "bye"


@pytest.mark.parametrize("kind", ["file", "below a file"])
async def test_a_folder_that_cannot_be_written_is_told_once_for_each_call_and_hurts_nobody(tmp_path, kind):
    blocked = tmp_path / "recordings"
    blocked.write_text("not a folder")
    bus = EventBus()
    with capture_logs() as logs:
        async with recorder(bus, blocked if kind == "file" else blocked / "deeper"):
            for name in ("a", "b"):
                bus.publish(start(name))
                for frame in frames(ev.AgentAudioFrame, name, 0.0, tone(400, 3.0)):
                    bus.publish(frame)
                bus.publish(ev.CallEnded(name, 3.0, "bye"))

    assert [(entry["event"], entry["call_id"]) for entry in logs] == [
        ("recording.failed", "a"),
        ("recording.failed", "b"),
    ]


@pytest.mark.report("BR-178")
def test_a_full_disk_is_told_once_and_what_was_written_before_can_be_played(tmp_path):
    # A limit on the file size is the disk that is full, without needing to fill one.
    script = textwrap.dedent("""
        import resource, sys
        from pathlib import Path
        import numpy as np
        from structlog.testing import capture_logs
        from gateway.calls import events as ev
        from gateway.calls.recording import CallRecording
        from providers.types import PCMU

        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
        recording = CallRecording(
            Path(sys.argv[1]), ev.CallStarted("c-1", 0.0, 1e9, "", "", "", "", PCMU)
        )
        noise = np.random.default_rng(1).integers(0, 256, 160, np.uint8).tobytes()
        with capture_logs() as logs:
            for number in range(3000):
                recording.add(ev.AgentAudioFrame("c-1", number * 0.02, noise))
                recording.flush()
            recording.add(ev.CallEnded("c-1", 60.0, "bye"))
            recording.finish(0)
        print([(entry["event"], entry["call_id"]) for entry in logs])
    """)
    result = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )

    assert result.stdout == "[('recording.failed', 'c-1')]\n"
    assert result.stderr == ""
    assert sorted(path.name for path in (tmp_path / "c-1").iterdir()) == ["call.flac", "call.json"]
    record = json.loads((tmp_path / "c-1" / "call.json").read_text())
    assert record["reason"] == "bye"
    assert record["recording_failed"]
    audio, rate = soundfile.read(tmp_path / "c-1" / "call.flac", dtype="int16")
    assert 1.0 < len(audio) / rate == pytest.approx(record["audio"]["seconds"], abs=0.001)
    assert level(audio[:, 1]) > 1000


def test_an_hour_needs_no_more_memory_than_a_minute(tmp_path):
    recording = CallRecording(tmp_path, start("c-1"))
    frame = g711.encode("pcmu", tone(400, 0.02))
    sizes = []
    for minute in range(60):
        for number in range(3000):
            at = minute * 60 + number * 0.02
            recording.add(ev.AgentAudioFrame("c-1", at, frame))
            if number % 12 == 0:
                recording.flush()
        sizes.append(resident_kib())
    recording.add(ev.CallEnded("c-1", 3600.0, "bye"))
    recording.finish(0)

    assert soundfile.info(tmp_path / "c-1" / "call.flac").frames == 3600 * 8000
    assert max(sizes[5:]) - sizes[5] < 8_000  # an hour of samples would be 115 MB


async def test_one_call_id_twice_gets_two_folders(tmp_path):
    bus = EventBus()
    async with recorder(bus, tmp_path):
        for _ in range(2):
            bus.publish(start("c-1"))
            bus.publish(ev.CallEnded("c-1", 0.1, "bye"))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["c-1", "c-1-2"]


@pytest.mark.parametrize(
    "call_id",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        ".",
        "",
        "a/b",
        "a\0b",
        "x" * 500,
        "CON",
        "a\nb",
        ".hidden",
        "\ud800",
    ],
)
async def test_a_hostile_call_id_stays_inside_the_folder(tmp_path, call_id):
    bus = EventBus()
    root = tmp_path / "recordings"
    async with recorder(bus, root):
        bus.publish(start(call_id))
        bus.publish(ev.CallEnded(call_id, 0.1, "bye"))

    (folder,) = root.iterdir()
    assert folder.parent == root
    assert sorted(path.name for path in folder.iterdir()) == ["call.flac", "call.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["recordings"]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_every_name_is_safe_and_harmless_ids_keep_theirs(call_id):
    name = safe_name(call_id)

    assert 0 < len(name) <= 100
    assert name[0] != "."
    assert not set(name) & set('/\\\0 \n:*?"<>|')
    assert safe_name(name) == name


def test_different_hostile_ids_have_different_names():
    assert len({safe_name(call_id) for call_id in ("a/b", "a_b", "a\\b", "a b", "a//b")}) == 5


def sip_message(call_id: str, text: str, at: float = 0.0) -> ev.SipMessage:
    return ev.SipMessage(call_id, at, False, "udp", "192.0.2.9:5060", "192.0.2.1:5062", text)


def messages_of(folder) -> list[str]:
    return [json.loads(line)["message"] for line in (folder / "sip.jsonl").read_text().splitlines()]


async def test_sip_messages_lie_beside_the_call_also_those_before_its_begin_and_behind_its_end(tmp_path):
    bus = EventBus()
    async with recorder(bus, tmp_path):
        bus.publish(sip_message("c-1", "INVITE"))
        bus.publish(start("c-1"))
        bus.publish(sip_message("c-1", "BYE", 2.0))
        bus.publish(ev.CallEnded("c-1", 2.0, "bye", "caller"))
        while not (tmp_path / "c-1" / "call.json").exists():
            await asyncio.sleep(0.01)
        bus.publish(sip_message("c-1", "200 OK", 2.1))
    assert messages_of(tmp_path / "c-1") == ["INVITE", "BYE", "200 OK"]
    assert json.loads((tmp_path / "c-1" / "call.json").read_text())["ended"] == 2.0


async def test_sip_messages_are_in_the_file_while_the_call_goes_on(tmp_path):
    bus = EventBus()
    async with recorder(bus, tmp_path):
        bus.publish(start("c-1"))
        bus.publish(sip_message("c-1", "INVITE"))
        while not (tmp_path / "c-1" / "sip.jsonl").exists():
            await asyncio.sleep(0.01)
        assert messages_of(tmp_path / "c-1") == ["INVITE"]
        assert not (tmp_path / "c-1" / "call.json").exists()


async def test_sip_messages_of_calls_that_never_begin_are_forgotten(tmp_path):
    bus = EventBus()
    async with recorder(bus, tmp_path) as running:
        for number in range(2000):
            bus.publish(sip_message(f"c-{number}", "INVITE"))
    assert len(running._early) <= 512
    assert list(tmp_path.iterdir()) == []


async def test_a_call_without_sip_messages_has_no_file_of_them(tmp_path):
    bus = EventBus()
    async with recorder(bus, tmp_path):
        bus.publish(start("c-1"))
        bus.publish(ev.CallEnded("c-1", 2.0, "bye", "caller"))
    assert not (tmp_path / "c-1" / "sip.jsonl").exists()
