"""
A FLAC file that can be played whenever its writer is killed.

The encoder writes how many samples there are only when it closes the file. Here that number follows what was
written; it stands in the first block (RFC 9639, section 8.2). A killed process loses the last block, half a
second.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

_BLOCK_SIZE_AT = 8
"""Where the shortest block's length stands: behind the magic and the header of the first block."""
_SAMPLES_AT = 18
"""Where the 64 bits stand whose last 36 are the number of samples."""
_SAMPLES_MASK = (1 << 36) - 1
_HEADER_BYTES = 42
_READ = 512
"""Samples read at once where the end may be torn off: what is read with it is lost."""

_NOT_KNOWN = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
"""What file systems say that know no locks, or no writing of names to the disk."""

AudioError = (OSError, soundfile.SoundFileError)


class FlacFile:
    """
    A stereo file of 16 bits that grows.

    Args:
        path: Must not exist.
        rate: Samples a second.

    Raises ``AudioError`` as all its methods do.
    """

    def __init__(self, path: Path, rate: int) -> None:
        self._file = soundfile.SoundFile(
            str(path), "w", samplerate=rate, channels=2, format="FLAC", subtype="PCM_16"
        )
        self._path = path
        self.written = 0

    def write(self, block: NDArray[np.int16]) -> None:
        """Append samples of shape ``(n, 2)``."""
        self._file.write(block)
        self.written += len(block)
        self._stamp()

    def close(self) -> None:
        """Write the rest and put everything on the disk."""
        self._file.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())

    def give_up(self) -> int:
        """Close after a failure; return how many samples can be played."""
        try:
            self._file.close()
        except AudioError:
            pass  # it failed before
        return mend(self._path)[0]

    def _stamp(self) -> None:
        """Write down how many samples are in whole blocks by now."""
        with self._path.open("r+b") as file:
            header = file.read(_HEADER_BYTES)
            if len(header) == _HEADER_BYTES:
                size = int.from_bytes(header[_BLOCK_SIZE_AT : _BLOCK_SIZE_AT + 2], "big")
                _put_samples(file.fileno(), header, max(self.written - 1, 0) // size * size)


def mend(path: Path) -> tuple[int, int]:
    """
    Make a file right that nobody has closed: count what can be read of it and write that down.

    Returns:
        Samples, and samples a second; 0 where nothing can be read.
    """
    count = rate = 0
    try:
        with soundfile.SoundFile(str(path)) as file:
            rate = file.samplerate
            while block := len(file.read(_READ, dtype="int16")):
                count += block
    except soundfile.SoundFileError:
        pass  # the end is torn off
    if count:
        with path.open("r+b") as file:
            _put_samples(file.fileno(), file.read(_HEADER_BYTES), count)
            os.fsync(file.fileno())
    return count, rate


def _put_samples(descriptor: int, header: bytes, count: int) -> None:
    field = int.from_bytes(header[_SAMPLES_AT : _SAMPLES_AT + 8], "big") & ~_SAMPLES_MASK
    os.pwrite(descriptor, (field | count).to_bytes(8, "big"), _SAMPLES_AT)


class FolderLock:
    """
    Held by whoever writes in a folder; gone with its process, however that ends.

    Raises ``BlockingIOError`` while another one holds it.
    """

    def __init__(self, folder: Path) -> None:
        self.held = True
        """False on a file system that knows no locks, such as some network drives."""
        self._descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise
        except OSError as error:
            if error.errno not in _NOT_KNOWN:
                os.close(self._descriptor)
                raise
            self.held = False

    def sync(self) -> None:
        """Put the names in the folder on the disk."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            if error.errno not in _NOT_KNOWN:
                raise

    def release(self) -> None:
        """Let others in."""
        os.close(self._descriptor)
