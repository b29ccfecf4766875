import random

import pytest

from tests.kit.fuzz import MAX_SIZE, Broken, mutated, run


def test_the_same_seed_makes_the_same_inputs():
    seen = [[], []]
    for inputs in seen:
        rng = random.Random(7)
        inputs += [mutated(b"a=1\r\nb=2\r\n", [b"c=3\r\n"], rng) for _ in range(200)]

    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 150
    assert max(map(len, seen[0])) <= MAX_SIZE


def test_what_breaks_is_told_with_its_input():
    def target(data):
        if b"\xff" in data:
            raise ZeroDivisionError

    with pytest.raises(Broken, match=r"seed 3, input \d+: b'.*xff"):
        run(target, [b"abc"], seed=3, seconds=60)


def test_a_run_counts_what_it_fed():
    fed = []
    outcome = run(fed.append, [b"abc", b"def"], seed=1, seconds=0.01)

    assert fed[:2] == [b"abc", b"def"]
    assert outcome.inputs == len(fed) > 2
    assert "seed 1" in str(outcome)
