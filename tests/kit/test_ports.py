from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.ports import LAST, SIZE, Ports

ROOT = Path(__file__).resolve().parents[2]


def test_ports_are_even_low_and_never_given_twice():
    with Ports() as ports, Ports() as others:
        taken = [range(start, start + 4) for start in (*(ports.take(4) for _ in range(60)), others.take(4))]
    assert len({port for each in taken for port in each}) == 61 * 4
    assert all(each.start % 2 == 0 and each.stop <= LAST + SIZE < 32768 for each in taken)


def test_a_port_in_use_is_not_given():
    with Ports() as ports:
        first = ports.take()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", first))
        with Ports() as ports:
            start = ports.take()
    assert not start <= first < start + SIZE


def test_another_process_gets_other_ports():
    code = "from tests.kit.ports import Ports; print(Ports().take())"
    with Ports() as ports:
        mine = ports.take(SIZE)
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        out = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
    assert int(out.stdout) not in range(mine, mine + SIZE)


@pytest.mark.parametrize("count", [2, 100])
def test_closing_gives_them_back(count):
    first = Ports()
    first.take(count)
    first.close()
    assert first.locks == []
    with Ports() as again:
        assert again.take(count) % 2 == 0


def test_many_ports_are_several_blocks_in_a_row():
    with Ports() as one:
        one.take()
        with Ports() as many:
            first = many.take(5 * SIZE)
            assert len(many.locks) == 5
            assert one.take() not in range(first, first + 5 * SIZE)
        assert many.locks == []


def test_more_ports_than_there_are_is_an_error_that_keeps_none():
    with Ports() as ports:
        with pytest.raises(RuntimeError, match="no block of free ports"):
            ports.take(40_000)
        assert ports.take() > 0
