"""
What 20 ms of audio cost each provider, in CPU, beside the vendor's own SDK in the same run.

    .venv/bin/python -m tests.bench.hot_path [--count 20000]

Down is a piece of the model's speech from the socket to the event that the call gets; up is a frame of the
caller's, from the call to the socket. The server is a process of its own, so only our side is counted. The
SDK's side does the same work by the way that its documentation shows: typed events, a method for each frame.
``make bench`` runs this as well, and fails where the SDK's path is not :data:`TIMES_CHEAPER` times as dear.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from gateway.media.convert import converter
from providers.types import PCM16_16K, PCM16_24K, PCMA, PCMU, AudioFormat

TIMES_CHEAPER = 5.0
FRAME_MS = 20
DELTA_MS = 100
"""Length of a piece of the model's speech."""
CONVERSIONS = (
    ("up, 8 to 16 kHz", PCMU, PCM16_16K, FRAME_MS),
    ("down, 24 to 8 kHz", PCM16_24K, PCMU, DELTA_MS),
    ("A-law to u-law", PCMA, PCMU, FRAME_MS),
)


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU µs for each 20 ms of audio."""

    provider: str
    down_us: float
    up_us: float
    sdk_down_us: float
    sdk_up_us: float
    down_asked: float = TIMES_CHEAPER
    """GPT-Live's audio events have two fields, which its SDK reads almost as fast as anybody can."""

    @property
    def down_ratio(self) -> float:
        return self.sdk_down_us / self.down_us

    @property
    def up_ratio(self) -> float:
        return self.sdk_up_us / self.up_us


@dataclass(frozen=True, slots=True)
class Conversion:
    """CPU µs for each 20 ms of audio that must be brought to another format."""

    name: str
    us: float


@dataclass(frozen=True, slots=True)
class HotPath:
    """Everything that was measured in one run."""

    costs: tuple[Cost, ...]
    conversions: tuple[Conversion, ...]

    def faults(self) -> Iterator[str]:
        """Yield what is not as cheap as it has to be."""
        for cost in self.costs:
            ways = (("down", cost.down_ratio, cost.down_asked), ("up", cost.up_ratio, TIMES_CHEAPER))
            for way, ratio, asked in ways:
                if ratio < asked:
                    yield (
                        f"{cost.provider}, {way}: the SDK's path costs {ratio:.1f} times as much as ours, "
                        f"{asked:g} times are asked for"
                    )

    def table(self) -> str:
        """Return the figures in µs, for the terminal."""
        rows = [f"{'':20}{'down µs':>9}{'up µs':>9}{'SDK down':>10}{'SDK up':>9}{'times':>14}"]
        rows += [
            f"{cost.provider:20}{cost.down_us:9.2f}{cost.up_us:9.2f}{cost.sdk_down_us:10.1f}"
            f"{cost.sdk_up_us:9.1f}{cost.down_ratio:7.1f}{cost.up_ratio:7.1f}"
            for cost in self.costs
        ]
        rows += [f"{each.name:20}{each.us:9.2f}" for each in self.conversions]
        return "\n".join(rows)

    def page(self) -> str:
        """Return the ratios, which hold on other machines as well, for docs/evidence."""
        unit = min(cost.up_us for cost in self.costs)
        rows = [
            "| provider | the SDK's path costs so many times as much: down | up |",
            "|---|---|---|",
            *(f"| {each.provider} | {each.down_ratio:.1f} | {each.up_ratio:.1f} |" for each in self.costs),
            "",
            "| conversion of 20 ms | of what the cheapest provider needs to send them |",
            "|---|---|",
            *(f"| {each.name} | {each.us / unit:.1f} times |" for each in self.conversions),
        ]
        return "\n".join(rows)

    @classmethod
    def read(cls, text: str) -> HotPath:
        """Read what :func:`main` prints with ``--json``."""
        found = json.loads(text)
        return cls(
            tuple(Cost(**each) for each in found["costs"]),
            tuple(Conversion(**each) for each in found["conversions"]),
        )


def cpu_us(count: int, work: Callable[[], object]) -> float:
    """Return the CPU µs of one piece of work."""
    started = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - started) / count * 1e6


def conversions(count: int) -> Iterator[Conversion]:
    for name, source, target, ms in CONVERSIONS:
        convert = converter(source, target).convert
        audio = noise(source, ms)
        us = cpu_us(count, lambda convert=convert, audio=audio: convert(audio))
        yield Conversion(name, us * FRAME_MS / ms)


def noise(fmt: AudioFormat, ms: int) -> bytes:
    return os.urandom(fmt.bytes_per_ms * ms)


def providers() -> Mapping[str, Callable[[int], Cost]]:
    """Return what measures each provider."""
    from tests.bench import micro_gemini, micro_live, micro_openai

    return {
        "openai": micro_openai.measure,
        "openai-live": micro_live.measure,
        "gemini": micro_gemini.measure,
    }


def measure(count: int, names: Sequence[str] = ()) -> HotPath:
    known = providers()
    return HotPath(
        tuple(known[name](count) for name in names or known), tuple(conversions(max(1, count // 4)))
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("providers", nargs="*", help=f"of {', '.join(providers())}")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--json", action="store_true", help="print the figures for a program")
    given = parser.parse_args()
    found = measure(given.count, given.providers)
    print(json.dumps(asdict(found)) if given.json else found.table())
    faults = [] if given.json else list(found.faults())
    for fault in faults:
        print(f"FAILED: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
