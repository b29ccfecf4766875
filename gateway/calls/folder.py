"""
The folder of one recording: written so that at no moment, not even in a crash, a file under its final name is
half of one.

While a call goes on there are ``call.flac.part`` and ``call.json.part``, what the record says so far. At the
end both are put on the disk and then get their names. What a killed process left behind is brought to an end
by :func:`repair` at the next start.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from gateway.calls.flac import FlacFile, FolderLock, mend
from tools.types import JsonValue

AUDIO, RECORD = "call.flac", "call.json"
PART = ".part"
_DUPLICATES = 100
_UNLOCKED_S = 3600
"""Where nothing tells whether somebody writes, a draft so old is nobody's."""


class CallFolder:
    """
    One call's folder and its files.

    Args:
        root: The folder of all recordings.
        call_id: The call; the folder is named after it.
        rate: Samples a second.

    Raises ``AudioError``.
    """

    def __init__(self, root: Path, call_id: str, rate: int) -> None:
        self.path = _make_folder(root, call_id)
        self.lock = FolderLock(self.path)
        self._rate = rate
        self.audio: FlacFile | None = None
        try:
            self.audio = FlacFile(self.path / (AUDIO + PART), rate)
        except BaseException:  # whatever it was, also a cancellation, the lock must not outlive it
            self.lock.release()
            raise

    def give_up_audio(self) -> Mapping[str, JsonValue] | None:
        """Keep what was written before a failure; return what is known of it."""
        if self.audio is None:
            return None
        samples = self.audio.give_up()
        self.audio = None
        return self._name_audio(samples)

    def close_audio(self) -> Mapping[str, JsonValue] | None:
        """Close the audio file and give it its name."""
        if self.audio is None:
            return None
        samples = self.audio.written
        self.audio.close()
        self.audio = None
        return self._name_audio(samples)

    def save_draft(self, record: Mapping[str, JsonValue]) -> None:
        """Write what the record says so far."""
        draft = self.path / (RECORD + PART)
        unfinished = draft.with_suffix(".new")
        unfinished.write_text(_text(record), encoding="utf-8")
        unfinished.rename(draft)

    def finish(self, record: Mapping[str, JsonValue]) -> None:
        """Write the record, give it its name, and let the folder go."""
        _write_record(self.path, record)
        self.lock.sync()

    def _name_audio(self, samples: int) -> Mapping[str, JsonValue] | None:
        part = self.path / (AUDIO + PART)
        if not samples:
            part.unlink(missing_ok=True)
            return None
        part.rename(self.path / AUDIO)
        return audio_entry(samples, self._rate)


def audio_entry(samples: int, rate: int) -> dict[str, JsonValue]:
    """Return what the record says of the audio file."""
    return {
        "file": AUDIO,
        "rate": rate,
        "seconds": round(samples / rate, 3),
        "left": "caller",
        "right": "agent",
    }


def repair(root: Path) -> list[str]:
    """
    Bring recordings to an end that a process was killed over; return the names of their folders.

    Folders in which somebody is writing are left alone.
    """
    mended = []
    for draft in sorted(root.glob(f"*/{RECORD}{PART}")):
        folder = draft.parent
        try:
            lock = FolderLock(folder)
        except OSError:
            continue  # a call that goes on, perhaps of another process
        try:
            if lock.held or time.time() - draft.stat().st_mtime > _UNLOCKED_S:
                _repair(folder, draft)
                lock.sync()
                mended.append(folder.name)
        except (OSError, ValueError):
            pass  # the disk is still full, or it is no record of ours; next time, then
        finally:
            lock.release()
    return mended


def _repair(folder: Path, draft: Path) -> None:
    record = json.loads(draft.read_text(encoding="utf-8"))
    if not isinstance(record, dict):
        raise ValueError("no record")  # noqa: TRY004 - a value of a file, not a type of ours
    whole = folder / AUDIO
    part = folder / (AUDIO + PART)
    audio = part if part.exists() else whole
    if audio.exists():
        samples, rate = mend(audio)
        if samples:
            audio.rename(whole)
            record["audio"] = audio_entry(samples, rate)
        else:
            audio.unlink()
    record["reason"] = "crash"
    record["recording_failed"] = "the gateway was killed"
    _write_record(folder, record)


def _write_record(folder: Path, record: Mapping[str, JsonValue]) -> None:
    unfinished = folder / (RECORD + ".new")
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(_text(record))
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(folder / RECORD)
    (folder / (RECORD + PART)).unlink(missing_ok=True)


def _text(record: Mapping[str, JsonValue]) -> str:
    return json.dumps(record, ensure_ascii=False, indent=2) + "\n"


def _make_folder(root: Path, call_id: str) -> Path:
    """Make a folder of its own for a call, whatever its id looks like."""
    name = safe_name(call_id)
    root.mkdir(parents=True, exist_ok=True)
    for number in range(_DUPLICATES):
        folder = root / (f"{name}-{number + 1}" if number else name)
        try:
            folder.mkdir(mode=0o750)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"{_DUPLICATES} recordings of one call id")


def safe_name(call_id: str) -> str:
    """Turn an id into a file name: itself if it is harmless, otherwise with a digest of what was lost."""
    if re.fullmatch(r"[A-Za-z0-9_@+-][A-Za-z0-9._@+-]{0,99}", call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    kept = re.sub(r"[^A-Za-z0-9._@+-]+", "_", call_id).lstrip("._-")[:60]
    return f"{kept}-{digest}" if kept else digest
