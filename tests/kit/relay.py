"""
A bad network between a telephone and the gateway: a relay of UDP that loses, delays, swaps and doubles.

There is no netem in the kernels that the tests run on. Each link has a near socket, to which the telephone
sends, and a far one, from which the gateway hears; what comes to one goes out of the other. The fate of the
n-th datagram of a direction depends on the seed, the link's name and n alone. One thread serves all links.
"""

from __future__ import annotations

import heapq
import random
import selectors
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from types import TracebackType

from tests.kit.ports import Ports
from tests.kit.udp import Address, drain, udp


@dataclass(frozen=True, slots=True)
class Weather:
    """What happens to datagrams; the parts are probabilities."""

    loss: float = 0.03
    jitter_ms: float = 40.0
    """Each is delayed by up to so much, by chance."""
    held_back: float = 0.01
    """So many are delayed by as much again, and 20 ms: others overtake them for sure."""
    twice: float = 0.01
    delay_ms: float = 5.0


CLEAR = Weather(loss=0.0, jitter_ms=0.0, held_back=0.0, twice=0.0, delay_ms=0.0)


@dataclass(slots=True)
class Counts:
    """What one direction did."""

    came: int = 0
    lost: int = 0
    twice: int = 0
    overtaken: int = 0
    """Sent on after one that came later."""
    sent: int = 0
    longest_ms: float = 0.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            *(
                max(ours, theirs) if field.name == "longest_ms" else ours + theirs
                for field in fields(self)
                for ours, theirs in [(getattr(self, field.name), getattr(other, field.name))]
            )
        )

    def __str__(self) -> str:
        return (
            f"{self.came} came, {self.lost} lost, {self.twice} doubled, {self.overtaken} overtaken, "
            f"{self.sent} sent, {self.longest_ms:.0f} ms at most"
        )


class _Direction:
    """From one socket of a link out of the other."""

    def __init__(self, weather: Weather, seed: str) -> None:
        self.weather = weather
        self.counts = Counts()
        self.target: Address | None = None
        self.newest = 0
        self._random = random.Random(seed)

    def delays(self) -> list[float]:
        """Decide about the next datagram: after how many seconds each copy goes on; none is a loss."""
        weather, rng, counts = self.weather, self._random, self.counts
        counts.came += 1
        lost, twice, held_back = (rng.random() for _ in range(3))
        copies = 2 if twice < weather.twice else 1
        extra_ms = weather.jitter_ms + 20 if held_back < weather.held_back else 0.0
        chosen = [weather.delay_ms + rng.uniform(0, weather.jitter_ms) + extra_ms for _ in range(2)]
        if lost < weather.loss:
            counts.lost += 1
            return []
        counts.twice += copies - 1
        return [delay_ms / 1000 for delay_ms in chosen[:copies]]


class Link:
    """One pair of sockets and its two directions."""

    def __init__(
        self, name: str, far: Address, weather: tuple[Weather, Weather], seed: int, ports: Ports
    ) -> None:
        self.name = name
        self.sockets = (udp(ports.take(2)), udp(ports.take(2)))
        self.near: Address = self.sockets[0].getsockname()
        """Where the telephone sends to."""
        self.far: Address = self.sockets[1].getsockname()
        """Where the gateway hears the telephone from, and sends to."""
        self.directions = tuple(
            _Direction(each, f"{seed}/{name}/{way}") for each, way in zip(weather, ("in", "out"), strict=True)
        )
        self.directions[0].target = far

    @property
    def inward(self) -> Counts:
        """From the telephone to the gateway."""
        return self.directions[0].counts

    @property
    def outward(self) -> Counts:
        return self.directions[1].counts

    def aim(self, far: Address) -> Address:
        """Send what comes from the telephone to ``far`` from now on; return where the telephone sends."""
        self.directions[0].target = far
        return self.near


class Relay:
    """
    A thread that serves links; leave the ``with`` block to end it.

    Args:
        seed: Of everything that is left to chance.
    """

    def __init__(self, seed: int, ports: Ports) -> None:
        self.seed = seed
        self.links: list[Link] = []
        self._ports = ports
        self._selector = selectors.DefaultSelector()
        self._queue: list[tuple[float, int, Link, int, int, bytes]] = []
        self._count = 0
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._new: list[Link] = []
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="relay")

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        self._wake.send(b"x")
        self._thread.join()
        self._selector.close()
        for each in (self._wake, self._woken, *(sock for link in self.links for sock in link.sockets)):
            each.close()

    def link(self, name: str, far: Address, *, inward: Weather, outward: Weather) -> Link:
        """Add a link to ``far``; the name says which of the chances of the seed it gets."""
        link = Link(name, far, (inward, outward), self.seed, self._ports)
        self.links.append(link)
        self._new.append(link)
        self._wake.send(b"x")
        return link

    def counts(self, links: Iterable[Link] | None = None) -> tuple[Counts, Counts]:
        """Return what was done in both directions, over all links or some."""
        chosen = list(self.links if links is None else links)
        inward = sum((link.inward for link in chosen), Counts())
        return inward, sum((link.outward for link in chosen), Counts())

    # In the thread.

    def _run(self) -> None:
        while not self._stopping:
            pause = max(0.0, self._queue[0][0] - time.monotonic()) if self._queue else None
            for key, _ in self._selector.select(pause):
                if key.data is None:
                    self._woken.recv(64)
                else:
                    self._take(*key.data)
            while self._new:
                link = self._new.pop()
                for side, sock in enumerate(link.sockets):
                    self._selector.register(sock, selectors.EVENT_READ, (link, side))
            self._send_due()

    def _take(self, link: Link, side: int) -> None:
        direction = link.directions[side]
        now = time.monotonic()
        for _, data, source in drain(link.sockets[side]):
            if side == 0:
                link.directions[1].target = source
            for delay in direction.delays():
                self._count += 1
                heapq.heappush(
                    self._queue, (now + delay, self._count, link, side, direction.counts.came, data)
                )
                direction.counts.longest_ms = max(direction.counts.longest_ms, delay * 1000)

    def _send_due(self) -> None:
        now = time.monotonic()
        while self._queue and self._queue[0][0] <= now:
            _, _, link, side, number, data = heapq.heappop(self._queue)
            direction = link.directions[side]
            if direction.target is None:
                continue
            direction.counts.sent += 1
            if number < direction.newest:
                direction.counts.overtaken += 1
            direction.newest = max(direction.newest, number)
            try:
                link.sockets[1 - side].sendto(data, direction.target)
            except OSError:
                pass  # an ICMP refusal of what was sent before
