"""
Calls and a disk that does not answer: no call waits for it, and in the end every recording is complete.

Reported of a database that was locked while calls ended (BR-169). There is no database yet; what is written
at the end of a call today is its recording, through the same kind of queue.
"""

import asyncio
import json
import threading
from contextlib import asynccontextmanager

import pytest
import soundfile

from gateway.calls import events as ev
from gateway.calls import flac
from gateway.calls.admission import Admission
from gateway.calls.recording import Recorder
from gateway.legs.base import CallerAudio, CallInfo, HangupCause
from providers.types import AgentTranscript, AudioDelta, AudioDone, ToolCallsRequested
from tests.gateway.calls.doubles import HandLeg, HandSession
from tests.gateway.calls.test_call import NUMBER, HandProvider, House, until
from tools.types import ToolCall

CALLS = 30


class Disk:
    """A disk that takes nothing until it is let go, and is slow from then on."""

    def __init__(self):
        self.works = threading.Event()
        self.asked = threading.Event()
        disk = self

        class SlowFile(soundfile.SoundFile):
            def write(self, data):
                disk.asked.set()
                assert disk.works.wait(60)
                super().write(data)

        self.file = SlowFile


@pytest.fixture
def disk(monkeypatch):
    disk = Disk()
    monkeypatch.setattr(flac.soundfile, "SoundFile", disk.file)
    yield disk
    disk.works.set()


class Sessions(HandProvider):
    """A model with a conversation of its own for each call, in the order of the calls."""

    def __init__(self):
        super().__init__()
        self.sessions = []

    @asynccontextmanager
    async def connect(self, setup):
        self.sessions.append(HandSession())
        yield self.sessions[-1]


async def talk(leg, session):
    """Let the caller speak and the agent say goodbye and end the call."""
    item = f"bye-{leg.info.id}"
    leg.audio.put(CallerAudio(b"\x10" * 160, 0))
    session.say(
        AudioDelta(item, b"\x42" * 800),
        AgentTranscript(item, "Goodbye.", final=True),
        AudioDone(item),
        ToolCallsRequested("r", (ToolCall(f"end-{leg.info.id}", "end_call", "{}"),)),
    )
    await until(lambda: leg.playout.queued_ms == 100)
    leg.hear(100)
    await until(lambda: leg.hung_up)


@pytest.mark.report("BR-169")
async def test_thirty_calls_that_end_while_the_disk_hangs_are_all_recorded_and_none_is_affected(
    disk, tmp_path
):
    provider = Sessions()
    async with House(provider) as house, asyncio.TaskGroup() as group:
        house.board.use(house.board._plans, Admission(CALLS, {"lab": None}))
        recorder = Recorder(house.bus)
        recorder.use(tmp_path)
        writing = group.create_task(recorder.run())
        legs = [HandLeg(info=CallInfo(f"call-{n}", "+1", NUMBER, "lab")) for n in range(CALLS)]
        for leg in legs:
            await house.ring(leg)
        await until(lambda: all(leg.answered for leg in legs) and len(provider.sessions) == CALLS)
        # The recorder has begun to write and hangs in it while every call talks and ends.
        legs[0].audio.put(CallerAudio(b"\x10" * 160, 0))
        for _ in range(400):
            if disk.asked.is_set():
                break
            house.bus.publish(ev.CallerAudioFrame("call-0", 60.0, b"\x10" * 160))
            await asyncio.sleep(0.01)
        assert disk.asked.is_set()

        loop = asyncio.get_running_loop()
        began = loop.time()
        for leg, session in zip(legs, provider.sessions, strict=True):
            await talk(leg, session)
        await until(lambda: house.board.active == 0)
        took = loop.time() - began

        assert took < 5.0  # it takes a tenth of it; a loaded machine is not what is judged here
        assert all(leg.hung_up == [HangupCause.NORMAL] for leg in legs)
        assert all(session.heard.endswith(b"\x10" * 160) for session in provider.sessions)
        assert list(tmp_path.glob("*/call.json")) == []
        disk.works.set()
        recorder.close()
        await writing

    reports = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.glob("*/call.json")}
    assert sorted(reports) == sorted(f"call-{n}" for n in range(CALLS))
    for name, report in reports.items():
        assert (report["reason"], report["by"]) == ("end_call", "agent")
        assert [turn["text"] for turn in report["transcript"]] == ["Goodbye."]
        assert [(call["tool"], call["status"]) for call in report["tool_calls"]] == [("end_call", "ok")]
        assert report["dropped_events"] == 0
        assert soundfile.info(tmp_path / name / "call.flac").frames > 0
    assert list(tmp_path.glob("*/*.part")) == []
