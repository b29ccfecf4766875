"""
UDP and TCP ports for tests: below 32768, where the kernel takes none by itself, and never one twice.

Blocks of ports are leased by locking a file, so workers of xdist and other test runs on the machine keep
apart; the kernel gives a lock back when its process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import socket
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO

FIRST, LAST, SIZE = 10_200, 31_800, 200
LOCKS = Path(tempfile.gettempdir()) / "trunkline-test-ports"


class Ports:
    """Ports for one test; leave the ``with`` block, or call :meth:`close`, to give them back."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.locks: list[IO[bytes]] = []
        self.next = self.end = 0

    def take(self, count: int = 1) -> int:
        """Return the first of ``count`` free ports that follow each other; it is even."""
        self.next += self.next % 2
        if self.next + count > self.end:
            blocks = -(-count // SIZE)
            self.next = self._lease(blocks)
            self.end = self.next + SIZE * blocks
        self.next += count
        return self.next - count

    def close(self) -> None:
        close(self.locks)
        self.next = self.end = 0

    def __enter__(self) -> Ports:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lease(self, blocks: int) -> int:
        """Lock and return the first of so many blocks in a row."""
        LOCKS.mkdir(exist_ok=True)
        row: list[IO[bytes]] = []
        starts = range(FIRST, LAST, SIZE)
        for start in starts if blocks <= len(starts) else ():
            lock = self._lock(start)
            if lock is None:
                close(row)
                continue
            row.append(lock)
            if len(row) == blocks:
                self.locks += row
                return start - SIZE * (blocks - 1)
        close(row)
        raise RuntimeError("no block of free ports")

    def _lock(self, start: int) -> IO[bytes] | None:
        """Lock one block; ``None`` when somebody has it, or a port of it."""
        lock = (LOCKS / str(start)).open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        if all(self._free(port) for port in range(start, start + SIZE)):
            return lock
        lock.close()
        return None

    def _free(self, port: int) -> bool:
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            with socket.socket(socket.AF_INET, kind) as probe:
                try:
                    probe.bind((self.host, port))
                except OSError:
                    return False
        return True


def close(locks: list[IO[bytes]]) -> None:
    """Give blocks back."""
    for lock in locks:
        lock.close()
    locks.clear()
