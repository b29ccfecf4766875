"""The response gate with forced time: when the model is asked to speak, and when not."""

from __future__ import annotations

import pytest

from providers.openai.gate import GateState, Request, ResponseGate, Timing, Turn
from providers.openai.messages import CreateResponse

ASKED = Request()


def sent(gate: ResponseGate) -> list[str]:
    """What was sent, by kind and the response that it is about."""
    return [
        "create" if isinstance(message, CreateResponse) else f"cancel {message.response_id}"
        for message in gate.to_send()
    ]


def finish(gate: ResponseGate, response_id: str, *, now: float, completed: bool = True) -> None:
    gate.receive_finished(response_id, completed=completed, now=now)
    gate.advance(now=now)


def test_a_request_is_sent_at_once_when_nothing_runs() -> None:
    gate = ResponseGate()
    gate.request(Request(instructions="Greet.", tools=False), now=0)
    [create] = gate.to_send()
    assert isinstance(create, CreateResponse)
    assert (create.instructions, create.tools) == ("Greet.", False)
    assert gate.state is GateState.CREATE_PENDING


def test_requests_during_a_response_become_one_when_it_is_done() -> None:
    """Fault 1: a create while a VAD, tool or greeting response is active is refused."""
    gate = ResponseGate()
    gate.receive_created("resp_1", now=0)
    gate.expect_item("item_text")
    gate.receive_item("item_text")
    gate.request(ASKED, now=1)
    gate.request(ASKED, now=2)
    assert sent(gate) == []
    finish(gate, "resp_1", now=3)
    assert sent(gate) == ["create"]
    gate.receive_created("resp_2", now=3)
    finish(gate, "resp_2", now=4)
    assert sent(gate) == []


def test_a_request_without_anything_new_is_satisfied_by_the_response_that_runs() -> None:
    """A model that thinks for long is asked again by whoever waits, and must not answer twice."""
    gate = ResponseGate()
    gate.receive_created("resp_1", now=0)
    gate.request(ASKED, now=6)
    finish(gate, "resp_1", now=9)
    assert sent(gate) == []


def test_a_request_is_not_satisfied_by_a_response_that_comes_to_nothing() -> None:
    gate = ResponseGate()
    gate.receive_created("resp_1", now=0)
    gate.request(ASKED, now=6)
    finish(gate, "resp_1", completed=False, now=9)
    assert sent(gate) == ["create"]


def test_a_second_request_is_satisfied_by_the_response_to_the_first() -> None:
    gate = ResponseGate()
    gate.request(ASKED, now=0)
    gate.request(ASKED, now=2)
    assert sent(gate) == ["create"]
    gate.receive_created("resp_1", now=3)
    finish(gate, "resp_1", now=9)
    assert sent(gate) == []


def test_requests_that_become_one_lose_no_instruction() -> None:
    gate = ResponseGate()
    gate.receive_created("resp_1", now=0)
    gate.request(Request(instructions="The line is busy."), now=1)
    gate.request(ASKED, now=1)
    gate.request(Request(instructions="Offer a callback.", tools=False), now=1)
    gate.request(Request(instructions="The line is busy."), now=1)
    finish(gate, "resp_1", now=2)
    [create] = gate.to_send()
    assert create.instructions == "The line is busy.\nOffer a callback."
    assert not create.tools


def test_no_request_is_sent_between_a_cancel_and_the_end_of_its_response() -> None:
    """Fault 2: a create before the cancelled response's ``response.done`` is refused."""
    gate = ResponseGate()
    gate.receive_created("resp_1", now=0)
    gate.cancel(now=1)
    assert sent(gate) == ["cancel resp_1"]
    gate.request(ASKED, now=1)
    assert sent(gate) == []
    finish(gate, "resp_1", now=2, completed=False)
    assert sent(gate) == ["create"]


def test_a_response_that_the_server_cancels_is_not_cancelled_again() -> None:
    """Fault 3: ``response_cancel_not_active``, because the server's VAD was first."""
    gate = ResponseGate()
    gate.receive_created("resp_1", now=0)
    gate.receive_speech_started(now=1)
    gate.cancel(now=1)
    assert sent(gate) == []
    assert gate.state is GateState.CANCEL_PENDING
    finish(gate, "resp_1", now=1.1, completed=False)
    assert gate.state is GateState.FREE


def test_a_response_that_the_server_forgets_to_cancel_is_cancelled_by_us() -> None:
    gate = ResponseGate(Timing(cancel_wait=2.0))
    gate.receive_created("resp_1", now=0)
    gate.receive_speech_started(now=1)
    gate.cancel(now=1)
    gate.handle_timeout(now=2.9)
    assert sent(gate) == []
    assert gate.next_timeout() == 3.0
    gate.handle_timeout(now=3.0)
    assert sent(gate) == ["cancel resp_1"]


def test_nothing_to_cancel_frees_the_gate() -> None:
    """Fault 3: the error is no reason to end anything; it says that the response is over."""
    gate = ResponseGate()
    gate.receive_created("resp_1", now=0)
    gate.cancel(now=1)
    gate.request(ASKED, now=1)
    gate.to_send()
    gate.receive_nothing_to_cancel(now=2)
    assert sent(gate) == ["create"]
    gate.receive_nothing_to_cancel(now=3)
    assert gate.state is GateState.CREATE_PENDING


def test_a_cancel_names_each_response_that_runs() -> None:
    """Fault 4: a cancel without a response id has no effect while several run."""
    gate = ResponseGate()
    gate.receive_created("resp_1", now=0)
    gate.receive_created("resp_2", now=0)
    gate.cancel(now=1)
    assert sent(gate) == ["cancel resp_1", "cancel resp_2"]


def test_an_interruption_before_the_response_began_is_remembered() -> None:
    """Fault 5: the interruption is lost and stale speech plays."""
    gate = ResponseGate()
    gate.request(ASKED, now=0)
    gate.to_send()
    gate.cancel(now=0.1)
    assert sent(gate) == []
    assert gate.receive_created("resp_1", now=0.2)
    assert sent(gate) == ["cancel resp_1"]
    finish(gate, "resp_1", now=0.3, completed=False)
    assert gate.state is GateState.FREE
    assert sent(gate) == []


def test_a_response_that_begins_after_the_caller_began_to_speak_is_cancelled() -> None:
    """Fault 5: for the server it came after the speech, so its own interruption does not stop it."""
    gate = ResponseGate()
    gate.request(ASKED, now=0)
    gate.to_send()
    gate.receive_speech_started(now=0.1)
    assert gate.receive_created("resp_1", now=0.2)
    assert sent(gate) == ["cancel resp_1"]


def test_a_cancel_when_nothing_runs_sends_nothing() -> None:
    gate = ResponseGate()
    gate.cancel(now=0)
    assert sent(gate) == []


# The caller's turn: the server answers by itself.


def test_a_request_while_the_caller_speaks_is_satisfied_by_the_servers_answer() -> None:
    gate = ResponseGate()
    gate.receive_speech_started(now=0)
    gate.request(ASKED, now=1)
    gate.receive_speech_stopped(now=2)
    assert sent(gate) == []
    gate.receive_created("resp_1", now=2.3)
    finish(gate, "resp_1", now=3)
    assert sent(gate) == []
    assert gate.state is GateState.FREE


def test_a_request_with_instructions_is_sent_after_the_servers_answer() -> None:
    gate = ResponseGate()
    gate.receive_speech_started(now=0)
    gate.request(Request(instructions="The transfer failed."), now=1)
    gate.receive_speech_stopped(now=2)
    gate.receive_created("resp_1", now=2.3)
    finish(gate, "resp_1", now=3)
    assert sent(gate) == ["create"]


def test_a_request_about_an_item_that_the_servers_answer_did_not_see_is_sent_after_it() -> None:
    gate = ResponseGate()
    gate.receive_speech_started(now=0)
    gate.expect_item("call_1")
    gate.request(ASKED, now=1)
    gate.receive_speech_stopped(now=2)
    gate.receive_created("resp_1", now=2.3)
    gate.receive_item("call_1")
    finish(gate, "resp_1", now=3)
    assert sent(gate) == ["create"]


@pytest.mark.parametrize("completed", [True, False])
def test_an_answer_that_does_not_complete_satisfies_nothing(completed: bool) -> None:
    gate = ResponseGate()
    gate.receive_speech_started(now=0)
    gate.expect_item("call_1")
    gate.receive_item("call_1")
    gate.request(ASKED, now=1)
    gate.receive_speech_stopped(now=2)
    gate.receive_created("resp_1", now=2.3)
    finish(gate, "resp_1", now=3, completed=completed)
    assert sent(gate) == ([] if completed else ["create"])


def test_a_request_waits_no_longer_than_the_hold_for_a_caller_who_speaks_on() -> None:
    gate = ResponseGate(Timing(hold=15.0))
    gate.receive_speech_started(now=0)
    gate.request(ASKED, now=1)
    assert gate.next_timeout() == 16.0
    gate.handle_timeout(now=16.0)
    assert sent(gate) == ["create"]


def test_a_request_for_an_answer_that_the_server_owes_waits_for_it_only_so_long() -> None:
    gate = ResponseGate(Timing(turn_wait=5.0))
    gate.receive_speech_started(now=0)
    gate.receive_speech_stopped(now=1)
    gate.request(ASKED, now=5.5)
    gate.handle_timeout(now=5.9)
    assert sent(gate) == []
    gate.handle_timeout(now=6.0)
    assert sent(gate) == ["create"]
    assert gate.turn is Turn.QUIET


def test_a_late_answer_makes_that_request_superfluous() -> None:
    gate = ResponseGate(Timing(turn_wait=5.0))
    gate.receive_speech_started(now=0)
    gate.receive_speech_stopped(now=1)
    gate.handle_timeout(now=6.0)
    gate.request(ASKED, now=6.0)
    [create] = gate.to_send()
    gate.receive_created("resp_1", now=6.1)
    gate.receive_active_elsewhere(create.event_id, "in progress: resp_1", now=6.2)
    finish(gate, "resp_1", now=8)
    assert sent(gate) == []


# Refusals.


def test_a_refused_request_waits_for_the_other_response_and_is_repeated_once() -> None:
    """Fault 1: the reply is lost when the refusal is not followed by another try."""
    gate = ResponseGate()
    gate.request(ASKED, now=0)
    [create] = gate.to_send()
    text = "Conversation already has an active response in progress: resp_7. Wait."
    assert gate.receive_active_elsewhere(create.event_id, text, now=0.1)
    assert (gate.state, gate.response_ids) == (GateState.ACTIVE, ("resp_7",))
    assert sent(gate) == []
    finish(gate, "resp_7", now=2)
    [again] = gate.to_send()
    assert not gate.receive_active_elsewhere(again.event_id, "resp_8", now=2.1)
    finish(gate, "resp_8", now=3)
    assert sent(gate) == []


def test_a_refusal_after_the_other_response_was_taken_for_ours_is_understood() -> None:
    gate = ResponseGate()
    gate.request(ASKED, now=0)
    [create] = gate.to_send()
    gate.expect_item("item_text")
    gate.receive_created("resp_v", now=0.1)
    gate.receive_active_elsewhere(create.event_id, "resp_v", now=0.2)
    finish(gate, "resp_v", now=2)
    assert sent(gate) == ["create"]


def test_a_response_whose_end_was_seen_before_the_refusal_is_not_waited_for() -> None:
    gate = ResponseGate()
    gate.receive_created("resp_1", now=0)
    finish(gate, "resp_1", now=1)
    gate.request(ASKED, now=1)
    [create] = gate.to_send()
    gate.receive_active_elsewhere(create.event_id, "resp_1", now=1.1)
    assert sent(gate) == ["create"]


def test_a_response_that_is_never_seen_is_not_waited_for_longer_than_its_limit() -> None:
    gate = ResponseGate(Timing(unknown_wait=5.0))
    gate.request(ASKED, now=0)
    [create] = gate.to_send()
    gate.receive_active_elsewhere(create.event_id, "no id in here", now=1)
    gate.handle_timeout(now=5.9)
    assert sent(gate) == []
    gate.handle_timeout(now=6.0)
    assert sent(gate) == ["create"]


def test_an_interrupted_request_is_not_repeated() -> None:
    gate = ResponseGate()
    gate.request(ASKED, now=0)
    [create] = gate.to_send()
    gate.cancel(now=0.1)
    gate.receive_active_elsewhere(create.event_id, "resp_7", now=0.2)
    finish(gate, "resp_7", now=2)
    assert sent(gate) == []


def test_another_error_about_a_request_gives_it_back() -> None:
    gate = ResponseGate()
    gate.request(ASKED, now=0)
    [create] = gate.to_send()
    assert not gate.receive_refusal("create-99")
    assert not gate.receive_refusal("")
    assert gate.receive_refusal(create.event_id)
    assert gate.state is GateState.FREE


# Order and silence.


def test_the_end_may_come_before_the_beginning() -> None:
    gate = ResponseGate()
    gate.request(ASKED, now=0)
    gate.to_send()
    finish(gate, "resp_1", now=1)
    gate.receive_created("resp_1", now=1.1)
    assert gate.state is GateState.FREE


def test_the_end_of_another_response_does_not_free_the_gate() -> None:
    gate = ResponseGate()
    gate.receive_created("resp_2", now=0)
    finish(gate, "resp_1", now=1)
    assert gate.state is GateState.ACTIVE


def test_a_response_is_over_when_a_later_one_is() -> None:
    gate = ResponseGate()
    gate.receive_created("resp_1", now=0)
    gate.receive_created("resp_2", now=1)
    finish(gate, "resp_2", now=2)
    assert gate.state is GateState.FREE


def test_a_repeated_end_changes_nothing() -> None:
    gate = ResponseGate()
    gate.receive_created("resp_1", now=0)
    finish(gate, "resp_1", now=1)
    gate.request(ASKED, now=1)
    gate.to_send()
    finish(gate, "resp_1", now=1.1)
    assert gate.state is GateState.CREATE_PENDING


def test_a_server_that_is_silent_after_a_request_has_stalled() -> None:
    """Fault 9: nothing happens and nobody notices."""
    gate = ResponseGate(Timing(create_wait=10.0))
    gate.request(ASKED, now=100)
    gate.handle_timeout(now=109.9)
    assert not gate.stalled
    gate.handle_timeout(now=110.0)
    assert gate.stalled


def test_a_request_that_a_live_server_ignores_is_given_back() -> None:
    gate = ResponseGate(Timing(ignored_wait=3.0, create_wait=10.0))
    gate.request(ASKED, now=100)
    gate.progress(101)
    assert gate.next_timeout() == 103.0
    gate.handle_timeout(now=103.0)
    assert not gate.stalled
    assert gate.take_ignored()
    assert not gate.take_ignored()
    assert gate.state is GateState.FREE


def test_a_server_that_says_nothing_at_all_to_a_request_has_stalled() -> None:
    gate = ResponseGate(Timing(ignored_wait=3.0, create_wait=10.0))
    gate.progress(99)
    gate.request(ASKED, now=100)
    gate.handle_timeout(now=103.0)
    assert gate.next_timeout() == 110.0
    gate.handle_timeout(now=110.0)
    assert gate.stalled
    assert not gate.take_ignored()


def test_a_response_stalls_only_without_any_event() -> None:
    gate = ResponseGate(Timing(progress_wait=30.0))
    gate.receive_created("resp_1", now=0)
    gate.progress(25)
    gate.handle_timeout(now=30)
    assert not gate.stalled
    assert gate.next_timeout() == 55
    gate.handle_timeout(now=55)
    assert gate.stalled


def test_responses_whose_ends_are_lost_do_not_pile_up() -> None:
    gate = ResponseGate()
    for number in range(1000):
        gate.receive_created(f"resp_{number}", now=number)
    assert len(gate.response_ids) <= 16
    gate.receive_finished("resp_999", completed=True, now=1000)
    assert gate.state is GateState.FREE
