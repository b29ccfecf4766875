import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.state import CallState, ImpossibleTransition, State


def test_a_call_goes_from_ringing_to_ended():
    state = CallState()
    for step in (State.CONNECTING, State.TALKING, State.ENDING, State.ENDED):
        state.enter(step)

    assert state.now is State.ENDED


def test_a_failed_transfer_goes_back_to_talking():
    state = CallState()
    for step in (State.CONNECTING, State.TALKING, State.TRANSFERRING, State.TALKING, State.TRANSFERRING):
        state.enter(step)

    assert state.now is State.TRANSFERRING


@pytest.mark.parametrize("state", [state for state in State if state is not State.ENDED])
def test_every_state_can_end(state):
    call = CallState()
    call.now = state
    call.enter(State.ENDED)


@given(st.lists(st.sampled_from(list(State))))
def test_nothing_follows_the_end(steps):
    state = CallState()
    state.now = State.ENDED
    for step in steps:
        with pytest.raises(ImpossibleTransition, match="ended cannot become"):
            state.enter(step)
