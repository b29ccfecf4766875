"""
Recordings: ``<recordings>/<call-id>/{call.json,call.flac,sip.jsonl}`` of every call.

The recorder is one more listener of the event bus. It takes what came in a while, and a thread decodes
and writes it; no call waits for the disk. Files appear under their names when they are complete. What
goes wrong with one recording is told once and stops that recording alone.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path

import structlog

from gateway.calls.bus import EventBus
from gateway.calls.events import (
    AgentAudioFrame,
    CallEnded,
    CallerAudioFrame,
    CallEvent,
    CallStarted,
    SipMessage,
)
from gateway.calls.flac import AudioError
from gateway.calls.folder import CallFolder, repair
from gateway.calls.record import CallRecord
from gateway.calls.sip_log import SipLog
from gateway.calls.stereo import Stereo, StereoTimeline
from tools.types import JsonValue

log = structlog.get_logger(__name__)

QUEUE_SIZE = 1 << 17
"""Events that may wait: some seconds of a thousand calls. A frame weighs about 300 bytes."""
_FLUSH_S = 0.25
_STALE_S = 4 * 3600
"""A recording without any event for so long has lost its end."""
_DRAFT_S = 10.0
"""How old the draft of a record may be; a process that is killed loses as much of the transcript."""
_EARLY_CALLS = 512
_EARLY_MESSAGES = 16
"""SIP messages that come before the event that begins their call."""
_ENDED_CALLS = 2048
"""Calls whose last SIP messages, after the end, still find their file."""


class CallRecording:
    """
    One call's folder; used by the recorder's thread only.

    Args:
        root: The folder of all recordings.
        started: The call's first event.
    """

    def __init__(self, root: Path, started: CallStarted) -> None:
        self._call_id = started.call_id
        self._record = CallRecord(started)
        self._timeline = StereoTimeline(started.format)
        self._now = 0.0
        self._saved_at = -_DRAFT_S
        self._changed = True
        self._folder: CallFolder | None = None
        self._audio: Mapping[str, JsonValue] | None = None
        self._failure = ""
        self.sip: SipLog | None = None
        """Outlives the recording: the answer to a BYE comes after the end of the call."""
        self.touched = time.monotonic()
        try:
            self._folder = CallFolder(root, started.call_id, started.format.rate)
            self.sip = SipLog(self._folder.path, started.call_id)
        except AudioError as error:
            self.fail(error)

    def add(self, event: CallEvent) -> None:
        """Take one event of this call."""
        if isinstance(event, SipMessage):
            if self.sip is not None:
                self.sip.add(event)
            return
        self._now = max(self._now, event.at)
        match event:
            case CallerAudioFrame():
                self._timeline.add_caller(event.at, event.audio)
            case AgentAudioFrame():
                self._timeline.add_agent(event.at, event.audio)
            case _:
                self._record.add(event)
                self._changed = True

    def flush(self) -> None:
        """Write what is old enough to be final, and now and then what the record says so far."""
        self.touched = time.monotonic()
        self._write(self._timeline.take(self._now))
        if self.sip is not None:
            self.sip.flush()
        if self._folder is None or not self._changed or self._now - self._saved_at < _DRAFT_S:
            return
        self._saved_at, self._changed = self._now, False
        try:
            self._folder.save_draft(self._to_json(0))
        except OSError as error:
            self.fail(error)

    def finish(self, dropped: int) -> None:
        """
        Write the rest and give both files their names.

        Args:
            dropped: How many events of the call the recorder has lost.
        """
        self._write(self._timeline.finish(self._now))
        if self.sip is not None:
            self.sip.flush()
        if self._folder is None:
            return
        try:
            self._audio = self._folder.close_audio() or self._audio
        except AudioError as error:
            self.fail(error)
        try:
            self._folder.finish(self._to_json(dropped))
        except OSError as error:
            self.fail(error)
        self._folder.lock.release()

    def fail(self, error: Exception) -> None:
        """Give the audio up from here on, keep what there is; told once for each call."""
        if not self._failure:
            self._failure = str(error) or type(error).__name__
            log.error("recording.failed", call_id=self._call_id, error=self._failure)
        if self._folder is not None:
            try:
                self._audio = self._folder.give_up_audio() or self._audio
            except AudioError:
                pass  # told already

    def _write(self, blocks: Iterable[Stereo]) -> None:
        try:
            for block in blocks:
                if self._folder is not None and self._folder.audio is not None:
                    self._folder.audio.write(block)
        except AudioError as error:
            self.fail(error)

    def _to_json(self, dropped: int) -> dict[str, JsonValue]:
        return self._record.to_json(
            audio=self._audio, dropped_events=dropped, recording_failed=self._failure or None
        )


class Recorder:
    """
    Records all calls that begin while a folder is set.

    Args:
        bus: Where calls publish.
        queue_size: Events that may wait for the disk.
    """

    def __init__(self, bus: EventBus, *, queue_size: int = QUEUE_SIZE) -> None:
        self._bus = bus
        self._subscription = bus.subscribe("recording", queue_size, reserve=queue_size // 8)
        self._root: Path | None = None
        self._calls: dict[str, CallRecording] = {}
        self._early: OrderedDict[str, list[SipMessage]] = OrderedDict()
        self._ended: OrderedDict[str, SipLog] = OrderedDict()
        self._closed = asyncio.Event()

    def use(self, root: Path | None) -> None:
        """Record calls that begin from now on into ``root``, or no more of them."""
        self._root = root
        self._choose_audio()

    async def run(self) -> None:
        """Bring to an end what a killed process has left, then record until :meth:`close`."""
        await asyncio.to_thread(self._repair)
        while events := await self._subscription.batch():
            await asyncio.to_thread(self._take, events, time.monotonic())
            self._choose_audio()
            await self._pause()
        await asyncio.to_thread(self._finish_all)

    def close(self) -> None:
        """Take no more events; :meth:`run` returns when everything is written."""
        self._subscription.close()
        self._closed.set()

    async def _pause(self) -> None:
        """Let events gather: a write for every frame would cost more than the call."""
        try:
            async with asyncio.timeout(_FLUSH_S):
                await self._closed.wait()
        except TimeoutError:
            pass

    def _choose_audio(self) -> None:
        self._bus.want_audio(self._subscription, wanted=self._root is not None or bool(self._calls))

    # In the thread.

    def _repair(self) -> None:
        if self._root is not None and self._root.is_dir():
            for name in repair(self._root):
                log.warning("recording.repaired", folder=name)

    def _take(self, events: list[CallEvent], now: float) -> None:
        touched: dict[str, CallRecording] = {}
        for event in events:
            if isinstance(event, CallStarted) and self._root is not None:
                self._begin(event, self._root)
            recording = self._calls.get(event.call_id)
            if recording is None:
                if isinstance(event, SipMessage):
                    self._take_beside(event)
                continue
            try:
                recording.add(event)
            except Exception as error:  # noqa: BLE001 - one call's fault must not end the recordings of all others
                recording.fail(error)
            if isinstance(event, CallEnded):
                self._finish(event.call_id)
                touched.pop(event.call_id, None)
            else:
                touched[event.call_id] = recording
        for recording in touched.values():
            try:
                recording.flush()
            except Exception as error:  # noqa: BLE001 - as above
                recording.fail(error)
        self._finish_stale(now)

    def _begin(self, event: CallStarted, root: Path) -> None:
        if event.call_id not in self._calls:
            recording = self._calls[event.call_id] = CallRecording(root, event)
            for message in self._early.pop(event.call_id, ()):
                recording.add(message)

    def _take_beside(self, message: SipMessage) -> None:
        """Take a SIP message of a call that has not begun, or that has ended."""
        ended = self._ended.get(message.call_id)
        if ended is not None:
            ended.add(message)
            ended.flush()
            return
        early = self._early.setdefault(message.call_id, [])
        if len(early) < _EARLY_MESSAGES:
            early.append(message)
        if len(self._early) > _EARLY_CALLS:
            self._early.popitem(last=False)

    def _finish_stale(self, now: float) -> None:
        for call_id, recording in list(self._calls.items()):
            if now - recording.touched > _STALE_S:
                self._finish(call_id)

    def _finish_all(self) -> None:
        for call_id in list(self._calls):
            self._finish(call_id)

    def _finish(self, call_id: str) -> None:
        recording = self._calls.pop(call_id)
        try:
            recording.finish(self._subscription.forget_dropped(call_id))
        except Exception as error:  # noqa: BLE001 - as above
            recording.fail(error)
        if recording.sip is not None:
            self._ended[call_id] = recording.sip
        if len(self._ended) > _ENDED_CALLS:
            self._ended.popitem(last=False)
