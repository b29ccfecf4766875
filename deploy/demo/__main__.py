"""``make demo``: three real SIP calls on this machine, answered without keys or services.

Starts a look-up service, the gateway and three callers as processes of their own, compares what the callers
and the service received with what the gateway recorded, and leaves the first call in var/demo: call.json,
call.flac (caller left, agent right) and call.png. The exit code is 0 when everything was as it should be, and
1 with sentences otherwise.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from deploy.demo.evidence import EvidenceError
from deploy.demo.figures import measure
from deploy.demo.picture import draw
from deploy.demo.play import Outcome, play
from deploy.demo.props import ROOT, Part
from deploy.demo.stage import StageError, signals_as_interrupt
from deploy.demo.telling import figures_as_text, findings_as_text, scene_of, transcript


def main(arguments: list[str] | None = None) -> int:
    options = options_of(arguments)
    without = Part(options.without) if options.without else None
    began = time.monotonic()
    with signals_as_interrupt():
        try:
            outcomes = play(options.out / "work", without, _say)
            for outcome in outcomes:
                _tell(outcome)
            _leave(outcomes[0], options.out)
        except (StageError, EvidenceError) as error:
            print(f"the demo failed: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("interrupted; every process of the demo is gone", file=sys.stderr)
            return 130
    faults = [finding for outcome in outcomes for finding in outcome.findings if not finding.ok]
    print(f"\n{options.out}/call.json  call.flac  call.png   ({time.monotonic() - began:.0f} s)")
    for finding in faults:
        print(f"the demo failed: {finding}", file=sys.stderr)
    return 1 if faults else 0


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.demo",
        description="Three real SIP calls on this machine, checked from outside.",
    )
    parser.add_argument(
        "--without",
        choices=[part.value for part in Part],
        help="leave a part out, to see the demo fail",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "demo", help="folder for what is left")
    return parser.parse_args(arguments)


def _say(sentence: str) -> None:
    print(sentence, flush=True)


def _tell(outcome: Outcome) -> None:
    record = outcome.evidence.record
    print(f"\n{outcome.act.title}  ({record.caller} -> {record.called})\n")
    print("\n".join(transcript(record)) + "\n")
    print("\n".join(figures_as_text(measure(outcome.evidence))) + "\n")
    print("\n".join(findings_as_text(outcome.findings)))


def _leave(outcome: Outcome, folder: Path) -> None:
    """Copy the call's record and recording to where the reader looks, and draw it."""
    for name in ("call.json", "call.flac"):
        shutil.copy(outcome.folder / name, folder / name)
    draw(scene_of(outcome.evidence, measure(outcome.evidence)), folder / "call.png")


if __name__ == "__main__":
    sys.exit(main())
