"""
The table in ``docs/oracles.md``, from the results of ``make oracles``: which programs of others ran, and how.

    python -m tests.oracles.page RESULTS
"""

from __future__ import annotations

import ast
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "oracles.md"
THEIRS = {
    "aimock": "@copilotkit/aimock",
    "genai": "@google/genai",
    "s2s": "speech-to-speech",
    "pipecat": "pipecat-ai",
}
"""What runs in the tests, by a word of their file's name."""
MARKS = "<!-- results -->\n", "<!-- end of results -->\n"
"""What stands between them in the page is written here; the rest is written by hand."""


def versions() -> dict[str, str]:
    """Return the pinned versions by package."""
    lock = json.loads((HERE / "package-lock.json").read_text())["packages"]
    found = {name.removeprefix("node_modules/"): entry.get("version", "") for name, entry in lock.items()}
    for requirements in HERE.glob("requirements-*.txt"):
        found |= dict(re.findall(r"^([\w.-]+)==([\w.]+)", requirements.read_text(), re.MULTILINE))
    return found


def rows(results: list[dict[str, object]]) -> Iterator[str]:
    """Yield a line of the table for each file of tests."""
    known = versions()
    for path in sorted(HERE.glob("test_*.py")):
        of_file = [row for row in results if path.name in str(row["test"])]
        counted = Counter(str(row["outcome"]) for row in of_file)
        said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counted.items())) or "not run"
        word = next(word for word in THEIRS if word in path.stem)
        subject = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0].rstrip(".")
        yield f"| {subject} | {THEIRS[word]} {known[THEIRS[word]]} | {said} |"


def write(results: list[dict[str, object]], page: Path = PAGE) -> None:
    table = ["| what | program | result |", "| --- | --- | --- |", *rows(results)]
    before, _, rest = page.read_text().partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    date = time.strftime("%-d %B %Y")
    news = f"Last run: {date}.\n\n" + "\n".join(table) + "\n"
    page.write_text(before + MARKS[0] + news + MARKS[1] + after)


if __name__ == "__main__":
    write([json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()])
