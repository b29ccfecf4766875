"""
Seeded mutation of messages, for as long as it is given: the same seed makes the same inputs.

Knows nothing of what it feeds; the target says by an exception that it has broken.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ATOMS = (
    b"\r\n", b"\n", b"\r", b"\0", b'"', b"<", b">", b";", b",", b":", b"@", b"?", b"%", b"\\", b" ", b"\t",
    b"\xff", b"\xc3\x28", b"-1", b"0", b"65536", b"4294967296", b"99999999999999999999", b"1e9", b"\r\n\r\n",
    b"=", b"()", b"[::", b"%00", b"SIP/2.0", b";tag=", b"a=", b"m=audio", b"z9hG4bK", b"\xe2\x80\xae",
)  # fmt: skip
MAX_SIZE = 60_000
SLOW_S = 1.0
"""CPU time of one input above which the target is too slow for what one datagram may hold."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did."""

    seed: int
    inputs: int
    seconds: float
    slowest_s: float
    """CPU time of the slowest input."""

    def __str__(self) -> str:
        rate = self.inputs / max(self.seconds, 1e-9)
        return (
            f"seed {self.seed}: {self.inputs} inputs in {self.seconds:.1f} s ({rate:.0f}/s), "
            f"the slowest took {self.slowest_s * 1000:.1f} ms of CPU"
        )


class Broken(AssertionError):
    """The target raised what it must not, or took too long; the message holds the input."""


def mutated(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Change a message in one to five places."""
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(8):
            case 0:
                data = data[:at] + rng.choice(ATOMS) + data[at:]
            case 1:
                data = data[:at] + data[at + rng.randint(1, 40) :]
            case 2:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 3:
                lines = data.split(b"\n")
                lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
                data = b"\n".join(lines)
            case 4:
                other = rng.choice(others)
                data = data[:at] + other[rng.randrange(len(other) + 1) :]
            case 5:
                piece = data[at : at + rng.randint(1, 20)]
                data = data[:at] + piece * rng.choice((2, 10, 1000)) + data[at:]
            case 6:
                lines = data.split(b"\n")
                rng.shuffle(lines)
                data = b"\n".join(lines)
            case _:
                data = data[: max(at, 1)]
    return data[:MAX_SIZE]


def run(target: Callable[[bytes], object], corpus: Sequence[bytes], *, seed: int, seconds: float) -> Outcome:
    """
    Feed the corpus as it is, and then mutations of it until the time is over.

    Raises:
        Broken: with the seed and the input that did it.
    """
    rng = random.Random(seed)
    begun = time.monotonic()
    inputs, slowest = 0, 0.0
    while inputs < len(corpus) or time.monotonic() - begun < seconds:
        data = corpus[inputs] if inputs < len(corpus) else mutated(rng.choice(corpus), corpus, rng)
        inputs += 1
        before = time.process_time()
        try:
            target(data)
        except Exception as error:
            raise Broken(f"seed {seed}, input {inputs}: {data!r}") from error
        took = time.process_time() - before
        if took > SLOW_S:
            raise Broken(f"seed {seed}, input {inputs} took {took:.2f} s: {data!r}")
        slowest = max(slowest, took)
    return Outcome(seed, inputs, time.monotonic() - begun, slowest)
