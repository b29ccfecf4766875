"""The page about the fakes names what there is."""

import re
from pathlib import Path

from providers.fakes.faults import FAULTS, parse_faults
from providers.fakes.script_parser import parse_script

PAGE = (Path(__file__).parents[3] / "docs" / "fake-provider.md").read_text(encoding="utf-8")


def test_every_fault_is_described_by_an_example_that_works():
    table = PAGE.split("## Faults")[1].split("One connection")[0]
    examples = [
        text for row in table.splitlines() if row.startswith("| `") for text in re.findall(r"`([^`]+)`", row)
    ]
    named = {fault.name for text in examples if text.split(":")[0].split("@")[0].split("#")[0] in FAULTS
             for fault in parse_faults(text).all}  # fmt: skip
    assert named == set(FAULTS)


def test_the_example_script_is_good():
    example = PAGE.split("## Scripts")[1].split("```yaml\n")[1].split("```")[0]
    assert len(parse_script(example, Path("example.yaml")).scenes[0].steps) == 4
