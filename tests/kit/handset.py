"""
A telephone's jitter buffer as a model: which of the packets that came were played, and when.

Written from RFC 3550 alone, with nothing of the gateway's. The path holds every packet back for the same
time, and each by some more by chance; the buffer waits a fixed time from the first packet, then plays by the
timestamps. What comes after its turn is thrown away and what did not come is a gap, as in a telephone with a
buffer that does not adapt. When the line is hung up (the BYE takes the same path), the handset is silent at
once: what its buffer still holds is never heard.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.kit.phone import Audio
from tests.kit.sound import FRAME, RATE


@dataclass(frozen=True, slots=True)
class Handset:
    """
    One caller's path and telephone.

    Args:
        path_ms: What network, carrier and exchange hold back.
        jitter_ms: Each packet takes longer by up to so much, by chance.
        buffer_ms: How long the telephone lets the first packet wait; more than the jitter.
        seed: Of the chances.
    """

    path_ms: float
    jitter_ms: float
    buffer_ms: float
    seed: int

    @property
    def delay_s(self) -> float:
        """From the arrival of the first packet to its sound."""
        return (self.path_ms + self.buffer_ms) / 1000

    def play(self, packets: Sequence[Audio], *, hung_up_at: float = math.inf) -> Played:
        """
        Play a call's packets.

        Args:
            packets: In the order in which they came, from one source.
            hung_up_at: When the BYE came, on the clock of the packets.
        """
        rng = random.Random(self.seed)
        came = [
            (each.at + (self.path_ms + rng.uniform(0, self.jitter_ms)) / 1000, number, each)
            for number, each in enumerate(packets)
        ]
        silent_at = hung_up_at + self.path_ms / 1000
        frames: list[Frame] = []
        late = cut = 0
        begun: tuple[float, int] | None = None
        for at, _, packet in sorted(came):
            if begun is None:
                begun = (at + self.buffer_ms / 1000, packet.timestamp)
            ahead = (packet.timestamp - begun[1] + (1 << 31)) % (1 << 32) - (1 << 31)
            due = begun[0] + ahead / RATE
            if at > due:
                late += 1
            elif due + len(packet.payload) / RATE > silent_at:
                cut += any(byte != packet.payload[0] for byte in packet.payload)
            else:
                frames.append(Frame(due, ahead, packet.payload))
        return Played(tuple(sorted(frames, key=lambda each: each.place)), late, cut)


@dataclass(frozen=True, slots=True)
class Frame:
    """What sounded at ``at``; ``place`` is its timestamp, counted from the first packet's."""

    at: float
    place: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Played:
    """What a handset played, in order."""

    frames: tuple[Frame, ...]
    late: int
    """Packets that came after their turn."""
    cut: int
    """Packets with sound that the hang-up left in the buffer."""

    @property
    def gaps(self) -> int:
        """Frames that were due and were not there."""
        places = [each.place for each in self.frames]
        return sum((after - before) // FRAME - 1 for before, after in pairwise(places))


def any_handset(rng: random.Random, *, path_ms: float) -> Handset:
    """Return a telephone as one finds them: jitter up to 30 ms, a buffer of 60 to 160 ms."""
    return Handset(
        path_ms=path_ms,
        jitter_ms=rng.uniform(0, 30),
        buffer_ms=rng.uniform(60, 160),
        seed=rng.getrandbits(32),
    )
