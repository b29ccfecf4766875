"""What an agent says of turns over what its provider says."""

import pytest
from pydantic import ValidationError

from config.turns import TurnDetection


def test_an_agent_that_says_nothing_changes_nothing():
    provider = TurnDetection(threshold=0.7, silence_ms=300)
    assert TurnDetection().over(provider) == provider


def test_only_what_an_agent_wrote_is_changed():
    provider = TurnDetection(threshold=0.7, silence_ms=300, idle_timeout_ms=8000)
    agent = TurnDetection(silence_ms=900, eagerness="low")
    assert agent.over(provider) == TurnDetection(
        threshold=0.7, silence_ms=900, idle_timeout_ms=8000, eagerness="low"
    )


def test_a_default_that_an_agent_wrote_is_written():
    assert TurnDetection(threshold=0.5).over(TurnDetection(threshold=0.7)).threshold == 0.5


def test_an_agent_whose_turns_end_by_meaning_has_no_idle_time():
    assert TurnDetection(end_by="meaning").over(TurnDetection(idle_timeout_ms=8000)) == TurnDetection(
        end_by="meaning"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 1.1},
        {"silence_ms": 10},
        {"prefix_padding_ms": -1},
        {"idle_timeout_ms": 4999},
        {"idle_timeout_ms": 30001},
        {"eagerness": "very"},
        {"end_by": "noise"},
        {"end_by": "meaning", "idle_timeout_ms": 8000},
    ],
)
def test_what_no_provider_takes_is_refused(wrong):
    with pytest.raises(ValidationError):
        TurnDetection.model_validate(wrong)
