import pytest

from gateway.calls.dtmf import PAUSE_S, DtmfCollector


@pytest.fixture
def digits():
    return DtmfCollector()


def test_only_the_first_key_starts_the_wait(digits):
    assert digits.add("4", now=0.0)
    assert not digits.add("2", now=0.5)


def test_keys_are_complete_after_a_pause(digits):
    digits.add("4", now=0.0)
    digits.add("2", now=1.0)

    assert digits.due(now=1.5) == pytest.approx(PAUSE_S - 0.5)
    assert digits.due(now=1.0 + PAUSE_S) == 0.0
    assert digits.take() == "42"
    assert digits.add("1", now=9.0)


def test_the_pound_key_ends_the_wait(digits):
    digits.add("4", now=0.0)
    digits.add("#", now=0.1)

    assert digits.due(now=0.1) == 0.0
