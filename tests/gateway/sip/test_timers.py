import pytest

from gateway.sip.settings import UaSettings
from gateway.sip.timers import Timers


def test_the_values_of_rfc_3261():
    timers = Timers()

    assert (timers.t1, timers.t2, timers.t4, timers.limit, timers.timer_d) == (0.5, 4.0, 5.0, 32.0, 32.0)


@pytest.mark.parametrize("values", [{"t1": 0}, {"t4": -1}, {"t1": 5.0}, {"timer_d": 0}])
def test_impossible_timers_are_refused(values):
    with pytest.raises(ValueError, match="timers"):
        Timers(**values)


@pytest.mark.parametrize("values", [{"refer_timeout": 0}, {"answer_timeout": -1}, {"max_transactions": 0}])
def test_impossible_settings_are_refused(values):
    with pytest.raises(ValueError, match="positive"):
        UaSettings(**values)
