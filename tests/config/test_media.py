"""The settings of a trunk's audio."""

import pytest

from config.errors import ConfigError
from config.load import load


def problems(tmp_path, trunk: str) -> list[str]:
    path = tmp_path / "trunkline.yaml"
    path.write_text(f"trunks:\n  pbx:\n    allow: [192.0.2.1]\n    {trunk}\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    return [str(problem).removeprefix(str(path)) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("trunk", "said"),
    [
        ("jitter_ms: {min: 300, max: 200}", "min is greater than max; write min: 200 or less"),
        ("jitter_ms: {min: 1}", "trunks.pbx.jitter_ms.min"),
        ("jitter_ms: {least: 20}", "known keys: min, max"),
        ("symmetric_rtp: sometimes", "trunks.pbx.symmetric_rtp"),
    ],
)
def test_a_mistake_is_told_with_what_to_write(tmp_path, trunk, said):
    (problem,) = problems(tmp_path, trunk)
    assert said in problem
    assert ":4:" in problem
