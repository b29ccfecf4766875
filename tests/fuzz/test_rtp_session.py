"""
A whole RTP session under packets that no sender sends: mutated, from anywhere, at any time.

``make soak`` gives it ten minutes, ``make test`` seconds; the seed is printed, and ``TRUNKLINE_FUZZ_SEED``
repeats a run. Whatever came, time never runs backwards, nothing is heard twice, and the peer is heard again.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from dataclasses import dataclass

import pytest

from gateway.rtp.packet import build
from gateway.rtp.rtcp import ReportBlock, SenderInfo, build_goodbye, build_report
from gateway.rtp.session import RtpSession
from tests.kit import fuzz
from tests.kit.counts import counts

pytestmark = pytest.mark.soak

SECONDS = counts(test=3, full=600)
SEED = int(os.environ.get("TRUNKLINE_FUZZ_SEED") or secrets.randbelow(2**32))
PEER, INSIDE, STRAY = ("203.0.113.20", 25540), ("192.168.1.9", 4000), ("198.51.100.200", 9999)


@dataclass(frozen=True)
class Media:
    payload_type: int = 0
    dtmf_payload_type: int | None = 101
    own_dtmf_payload_type: int | None = 96
    remote: tuple[str, int] = PEER
    remote_rtcp: tuple[str, int] = ("203.0.113.20", 25541)
    sends: bool = True
    receives: bool = True


MEDIA = [
    Media(),
    Media(payload_type=8, dtmf_payload_type=None),
    Media(remote=INSIDE),
    Media(sends=False, receives=False),
    Media(remote=("0.0.0.0", 1), sends=False),
]


class Story:
    """One session's life, as long as the random numbers say."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 1000.0
        self.sequence, self.timestamp, self.ssrc = rng.randrange(65536), rng.randrange(2**32), 7
        self.session = RtpSession(ssrc=1, sequence=2, timestamp=3, cname="a@b", lost_after_ms=2000)
        self.session.configure(rng.choice(MEDIA), self.now)
        self.heard_to = 0

    def packet(self) -> bytes:
        """Return the next packet of a sender that is not quite sane."""
        rng = self.rng
        step = rng.choice((1,) * 20 + (0, 2, -1, 5, -3, 4000, 30_000))
        self.sequence = (self.sequence + step) & 0xFFFF
        self.timestamp = (self.timestamp + rng.choice((160,) * 20 + (0, -160, 8000, 2**31, 80))) & 0xFFFF_FFFF
        if rng.random() < 0.01:
            self.ssrc = rng.choice((7, 8, 9))
        kind = rng.choice((0,) * 12 + (8, 13, 101, 72))
        payload = bytes(rng.choice((160, 160, 160, 80, 0, 4, 480, 1400)))
        return build(kind, self.sequence, self.timestamp, self.ssrc, payload)

    def act(self) -> None:
        rng, session = self.rng, self.session
        self.now += rng.choice((0.0, 0.0, 0.001, 0.02, 0.02, 0.02, 0.06, 0.3, 4.0))
        data = self.packet()
        if rng.random() < 0.2:
            data = fuzz.mutated(data, RTCP, rng)[:1500]
        source = rng.choice((PEER, PEER, PEER, INSIDE, STRAY))
        self.check(session.receive(data, source, self.now))
        if rng.random() < 0.1:
            session.receive_rtcp(fuzz.mutated(rng.choice(RTCP), RTCP, rng)[:1500], source, self.now)
        if rng.random() < 0.5:
            self.check(session.tick(self.now))
        if rng.random() < 0.005:
            session.configure(rng.choice(MEDIA), self.now)
        session.take_report(self.now)
        assert len(session.events()) <= 8

    def check(self, frames) -> None:
        for frame in frames:
            assert frame.at_ms >= self.heard_to - 1, "time ran backwards"
            assert not frame.payload or len(frame.payload) // 8 == frame.duration_ms
            assert frame.duration_ms <= 1000
            self.heard_to = frame.at_ms + frame.duration_ms

    def end(self) -> None:
        """The peer that was signalled is heard again with its second packet, whatever went before."""
        session = self.session
        session.configure(Media(remote=("203.0.113.21", 6000)), self.now)
        heard = 0
        for number in range(50):
            self.now += 0.02
            data = build(0, number, number * 160, 12345, b"\x10" * 160)
            frames = session.receive(data, ("203.0.113.21", 6000), self.now)
            heard += sum(bool(frame.payload) for frame in frames)
            self.check(frames)
            self.check(session.tick(self.now))
        assert heard >= 24, heard  # at most half a second is discarded
        counted = session.statistics()
        assert counted.expected >= 0
        assert counted.missing >= 0
        assert 0 <= counted.target_ms <= 200


BLOCK = ReportBlock(1, 3, 12, 65_000, 80, 77, 99)
RTCP = [
    build_report(7, "peer", SenderInfo(1 << 40, 2, 3, 4), (BLOCK,)),
    build_report(7, "peer", None, (BLOCK, BLOCK)),
    build_goodbye(7, "peer"),
]


@pytest.mark.timeout(SECONDS + 120)
def test_no_packet_breaks_a_session() -> None:
    rng = random.Random(SEED)
    end, stories, acts = time.monotonic() + SECONDS, 0, 0
    while time.monotonic() < end:
        story = Story(rng)
        count = rng.randint(10, 600)
        for _ in range(count):
            story.act()
        story.end()
        stories, acts = stories + 1, acts + count
    print(f"seed {SEED}: {stories} sessions, {acts} packets")
    assert stories
