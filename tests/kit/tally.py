"""``python -m tests.kit.tally RESULTS...``: the closing line over all runs of ``make test``; CI reads it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path


def closing_line(paths: list[Path]) -> str:
    """Return ``N passed, N failed, N skipped`` over result files; an xfail counts as skipped."""
    rows = (json.loads(line) for path in paths for line in path.read_text().splitlines())
    counts = Counter(row["outcome"] for row in rows)
    skipped = counts["skipped"] + counts["xfailed"]
    return f"{counts['passed']} passed, {counts['failed']} failed, {skipped} skipped"


if __name__ == "__main__":
    print(closing_line([Path(path) for path in sys.argv[1:]]))
