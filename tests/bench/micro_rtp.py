"""
What one 20 ms frame costs on the media path: Python time only, without the kernel.

    python tests/bench/micro_rtp.py

"in" is a datagram through session, jitter buffer and concealment to the callback; "out" is a pacer tick
through playout and session to ``sendto``. Both use the shipped classes; only the two transports are empty.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from gateway.media.convert import converter
from gateway.media.playout import Playout
from gateway.net import media_stream
from gateway.net.media_stream import MediaStream
from gateway.net.pacer import Pacer
from gateway.rtp.packet import build
from gateway.rtp.session import RtpSession
from gateway.rtp.srtp import Srtp
from gateway.sdp import NegotiatedMedia, Sdes, Suite, draw_crypto
from providers.types import PCM16_16K, PCM16_24K, PCMU

FRAMES = 20_000
PEER = ("192.0.2.1", 4000)
MEDIA = NegotiatedMedia("PCMU", 0, 101, PEER, ("192.0.2.1", 4001), sends=True, receives=True, ptime_ms=20)


class NoNetwork:
    """A transport that swallows everything."""

    def is_closing(self) -> bool:
        return False

    def sendto(self, data: bytes, address: tuple[str, int]) -> None:
        pass


class NoPacer(Pacer):
    """A pacer that nobody starts."""

    def add(self, callback, *, on_error=None):
        return None


class NoLease:
    port = 4000


def protected(suite: Suite) -> NegotiatedMedia:
    """The same call with SRTP; one key for both directions will do here."""
    (key,) = (line for line in draw_crypto(bytes) if line.suite is suite)
    return replace(MEDIA, security=Sdes(key, key))


def stream_of(
    playout: Playout, heard: Callable[[bytes, int], None], media: NegotiatedMedia = MEDIA
) -> MediaStream:
    session = RtpSession(ssrc=1, sequence=2, timestamp=3, cname="a@b")
    stream = MediaStream(
        NoLease(), session, playout, NoPacer(), heard, lambda event: None, lambda: None, None
    )
    stream._rtp = stream._rtcp = NoNetwork()
    stream.start(media)
    return stream


def best(run: Callable[[], float], *, rounds: int = 5) -> float:
    """Microseconds a frame, of the best round: the others were disturbed."""
    return min(run() for _ in range(rounds)) / FRAMES * 1e6


class Clock:
    """A clock of 20 ms a packet in the place of the module ``time``: a flood would take other ways."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 0.02
        return self.now


def cost_in(media: NegotiatedMedia = MEDIA) -> float:
    stream = stream_of(Playout(PCMU), lambda audio, at_ms: None, media)
    seal = Srtp(media.security.ours, media.security.theirs).protect if media.security else bytes
    media_stream.time = Clock()
    number = 0

    def run() -> float:
        nonlocal number
        numbers = range(number, number + FRAMES)
        number += FRAMES
        datagrams = [seal(build(0, n & 0xFFFF, n * 160 & 0xFFFF_FFFF, 7, bytes(160))) for n in numbers]
        start = time.process_time()
        for datagram in datagrams:
            stream._receive(datagram, PEER)
        return time.process_time() - start

    try:
        return best(run)
    finally:
        media_stream.time = time


def cost_out(media: NegotiatedMedia = MEDIA) -> float:
    playout = Playout(PCMU)
    stream = stream_of(playout, lambda audio, at_ms: None, media)
    clock = time.monotonic()

    def run() -> float:
        nonlocal clock
        playout.enqueue(bytes(160 * FRAMES), item_id="a")
        start = time.process_time()
        for _ in range(FRAMES):
            clock += 0.02
            stream._tick(clock)
        return time.process_time() - start

    return best(run)


def cost_convert(source, target) -> float:
    convert = converter(source, target).convert
    frame = bytes(20 * source.bytes_per_ms)

    def run() -> float:
        start = time.process_time()
        for _ in range(FRAMES):
            convert(frame)
        return time.process_time() - start

    return best(run, rounds=3)


def main() -> None:
    inward, outward = cost_in(), cost_out()
    print(f"in                 {inward:6.2f} us a frame")
    print(f"out                {outward:6.2f} us a frame")
    print(f"in and out         {inward + outward:6.2f} us a frame (budget 25)")
    for suite in Suite:
        more = cost_in(protected(suite)) + cost_out(protected(suite)) - inward - outward
        print(f"{suite:24} {more:6.2f} us a frame more, in and out")
    for name, source, target in (
        ("pcmu -> pcm16/16k", PCMU, PCM16_16K),
        ("pcmu -> pcm16/24k", PCMU, PCM16_24K),
        ("pcm16/24k -> pcmu", PCM16_24K, PCMU),
    ):
        print(f"{name:18} {cost_convert(source, target):6.2f} us a frame")


if __name__ == "__main__":
    main()
