import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calls.repair import Ask, Detected, Fault, Patience, Repaired, Rung, Settled, judge
from gateway.calls.watchdog import SWAPS, Watchdog
from providers.types import ResponseStatus, TurnModel

PATIENCE = Patience()


class Watch:
    """A watchdog and its clock."""

    def __init__(self, turn_model=TurnModel.TURN_BASED):
        self.dog = Watchdog(PATIENCE, turn_model)
        self.now = 1000.0
        self.seen: list = []

    def wait(self, seconds: float) -> list:
        """Let time pass, waking up only where the watchdog wants to; return what it said."""
        end = self.now + seconds
        while (at := self.dog.next_timeout()) is not None and at <= end:
            self.now = max(self.now, at)
            self.dog.handle_timeout(now=self.now)
            self.seen += [(step, round(self.now - 1000.0, 3)) for step in self.dog.steps()]
        self.now = end
        return self.take()

    def take(self) -> list:
        self.seen += [(step, round(self.now - 1000.0, 3)) for step in self.dog.steps()]
        seen, self.seen = self.seen, []
        return seen

    def says(self, ms: int, *, audible=True, ahead_ms=None) -> None:
        """The model speaks: its audio comes, and leaves frame by frame."""
        self.dog.audio_came(ms if ahead_ms is None else ahead_ms, now=self.now)
        self.leaves(ms, audible=audible)

    def leaves(self, ms: int, *, audible=True) -> None:
        for _ in range(ms // 20):
            self.dog.audio_left(20, audible=audible, now=self.now)
            self.wait_quietly(0.02)

    def wait_quietly(self, seconds: float) -> None:
        self.seen = self.wait(seconds)

    def turn(self, seconds: float = 1.0) -> None:
        """The caller says something."""
        self.dog.caller_started(now=self.now)
        self.wait_quietly(seconds)
        self.dog.caller_stopped(now=self.now)

    def done(self, status=ResponseStatus.COMPLETED, reason="") -> None:
        self.dog.audio_finished()
        self.dog.response_done(status, reason, now=self.now)


def asked(seen) -> list[tuple[Fault, Rung]]:
    return [(step.fault, step.at_least) for step, _ in seen if isinstance(step, Ask)]


def faults(seen) -> list[Fault]:
    return [step.fault for step, _ in seen if isinstance(step, Detected)]


# A normal call.


def test_a_turn_that_is_answered_is_no_fault():
    watch = Watch()
    for _ in range(5):
        watch.turn(2.0)
        watch.wait_quietly(1.4)
        watch.says(3000)
        watch.done()
        watch.wait_quietly(8.0)
    assert watch.take() == []


def test_a_model_may_think_for_as_long_as_patience_says():
    watch = Watch()
    watch.turn()
    watch.wait_quietly(PATIENCE.reply - 0.1)
    watch.says(500)
    watch.done()
    assert watch.wait(60) == []


def test_a_long_monologue_of_the_caller_is_no_silence():
    watch = Watch()
    watch.dog.caller_started(now=watch.now)
    for _ in range(1500):
        watch.dog.line_brought(80, audible=True, now=watch.now)
        watch.wait_quietly(0.08)
    assert watch.take() == []


def test_nothing_is_due_while_a_tool_runs():
    watch = Watch()
    watch.turn()
    watch.dog.tools_began()
    watch.done()
    assert watch.wait(120) == []
    watch.dog.tools_ended(now=watch.now)
    watch.dog.reply_due(now=watch.now)
    watch.wait_quietly(PATIENCE.reply - 0.1)
    watch.says(500)
    assert watch.take() == []


def test_nothing_is_due_on_hold_and_patience_begins_anew_after_it():
    watch = Watch()
    watch.turn()
    watch.dog.audio_came(2000, now=watch.now)
    watch.dog.hold(held=True, now=watch.now)
    assert watch.wait(300) == []
    watch.dog.hold(held=False, now=watch.now)
    assert watch.wait(PATIENCE.stuck - 0.1) == []
    watch.leaves(2000)
    watch.done()
    assert watch.wait(60) == []


def test_a_caller_who_barges_in_gets_an_answer_to_the_new_turn_only():
    watch = Watch()
    watch.turn()
    watch.wait_quietly(5.0)
    watch.dog.audio_came(4000, now=watch.now)
    watch.leaves(1000)
    watch.dog.caller_started(now=watch.now)
    watch.dog.interrupted(now=watch.now)
    watch.done(ResponseStatus.CANCELLED, "turn_detected")
    watch.wait_quietly(3.0)
    watch.dog.caller_stopped(now=watch.now)
    watch.wait_quietly(2.0)
    watch.says(1000)
    watch.done()
    assert watch.wait(30) == []


def test_what_was_said_before_the_request_is_no_answer_to_it():
    watch = Watch()
    watch.turn()
    watch.says(200, ahead_ms=3200)
    watch.done()
    watch.dog.reply_due(now=watch.now)  # the result of a tool that was quick
    watch.leaves(3000)
    assert watch.take() == []
    seen = watch.wait(60)
    assert faults(seen) == [Fault.NO_AUDIO]
    assert seen[0][1] == pytest.approx(1.0 + 0.2 + 3.0 + PATIENCE.reply)


# Faults.


def test_a_stalled_socket_climbs_from_a_nudge():
    watch = Watch()
    watch.turn()
    seen = watch.wait(PATIENCE.reply + 0.01)
    assert [step for step, _ in seen] == [
        Detected(Fault.NO_AUDIO, PATIENCE.reply),
        Ask(Fault.NO_AUDIO, Rung.NUDGE),
    ]
    assert asked(watch.wait(PATIENCE.again)) == [(Fault.NO_AUDIO, Rung.NUDGE)]
    assert asked(watch.wait(PATIENCE.again)) == [(Fault.NO_AUDIO, Rung.NUDGE)]


def test_a_reply_after_a_nudge_is_told_and_the_ladder_is_left_after_a_while():
    watch = Watch()
    watch.turn()
    watch.wait(PATIENCE.reply + 0.01)
    watch.wait_quietly(0.5)
    watch.says(1000)
    watch.done()
    [(repaired, _)] = watch.take()
    assert repaired == Repaired(Fault.NO_AUDIO, pytest.approx(0.53, abs=0.03))
    [(settled, at)] = watch.wait(60)
    assert settled == Settled()
    assert at > PATIENCE.settled


@pytest.mark.parametrize(
    ("status", "reason", "fault", "after"),
    [
        (ResponseStatus.FAILED, "server_error", Fault.FAILED, PATIENCE.retry),
        (ResponseStatus.FAILED, "rate_limit_exceeded", Fault.FAILED, PATIENCE.rate_limit_retry),
        (ResponseStatus.INCOMPLETE, "max_output_tokens", Fault.INCOMPLETE, PATIENCE.retry),
        (ResponseStatus.FAILED, "RESPONSE_REJECTED", Fault.REJECTED, PATIENCE.retry),
        (ResponseStatus.COMPLETED, "", Fault.EMPTY_RESPONSE, PATIENCE.retry),
    ],
)
def test_a_response_that_ends_badly_is_a_fault_at_once(status, reason, fault, after):
    watch = Watch()
    watch.turn()
    watch.wait_quietly(0.5)
    watch.done(status, reason)
    assert watch.take() == [(Detected(fault, 0.5, reason), 1.5)]
    assert asked(watch.wait(after - 0.01)) == []
    assert asked(watch.wait(0.02)) == [(fault, Rung.RECREATE)]


@pytest.mark.report("BR-115")
def test_a_response_of_text_alone_is_found():
    watch = Watch()
    watch.dog.reply_due(now=watch.now)
    watch.done()
    assert faults(watch.take()) == [Fault.EMPTY_RESPONSE]


def test_a_response_that_only_calls_a_tool_is_no_fault():
    watch = Watch()
    watch.turn()
    watch.dog.tools_began()
    watch.done()
    assert watch.take() == []


def test_a_response_that_ends_badly_while_the_caller_speaks_is_none():
    watch = Watch()
    watch.turn()
    watch.dog.caller_started(now=watch.now)
    watch.done(ResponseStatus.FAILED, "server_error")
    assert watch.take() == []


@pytest.mark.report("BR-117")
@pytest.mark.parametrize("turn_model", [TurnModel.TURN_BASED, TurnModel.ASYNC_TOOLS])
def test_audio_in_which_nothing_can_be_heard_is_found_within_a_second_of_it(turn_model):
    watch = Watch(turn_model)
    watch.turn()
    watch.wait_quietly(0.3)
    watch.says(3000, audible=False, ahead_ms=3000)
    seen = watch.take()
    assert faults(seen) == [Fault.INAUDIBLE]
    assert seen[0][1] - 1.3 <= PATIENCE.inaudible + 0.02


def test_a_pause_before_the_first_word_is_no_fault():
    watch = Watch()
    watch.turn()
    watch.dog.audio_came(3000, now=watch.now)
    watch.leaves(800, audible=False)
    watch.leaves(2200)
    watch.done()
    assert watch.take() == []


def test_a_long_hush_inside_a_reply_is_found():
    watch = Watch()
    watch.turn()
    watch.dog.audio_came(10_000, now=watch.now)
    watch.leaves(1000)
    watch.leaves(4000, audible=False)
    assert faults(watch.take()) == [Fault.INAUDIBLE]


@pytest.mark.report("BR-112")
def test_an_utterance_that_stops_half_way_is_found():
    watch = Watch()
    watch.turn()
    watch.says(2000)
    seen = watch.wait(PATIENCE.gap + 0.05)
    assert faults(seen) == [Fault.BROKEN_OFF]
    assert asked(seen) == [(Fault.BROKEN_OFF, Rung.RECREATE)]


def test_audio_that_does_not_leave_is_found():
    watch = Watch()
    watch.turn()
    watch.dog.audio_came(2000, now=watch.now)
    assert faults(watch.wait(PATIENCE.stuck + 0.01)) == [Fault.STUCK]


@pytest.mark.parametrize("turn_model", list(TurnModel))
def test_a_phantom_interruption_and_then_nothing_is_found(turn_model):
    watch = Watch(turn_model)
    watch.dog.audio_came(3000, now=watch.now)
    watch.leaves(1000)
    watch.dog.interrupted(now=watch.now)
    assert faults(watch.wait(PATIENCE.reply + PATIENCE.turn - 0.01)) == []
    assert faults(watch.wait(0.02)) == [Fault.NO_AUDIO]


def test_speech_of_the_caller_that_nobody_hears_and_that_never_ends_is_found():
    watch = Watch()
    watch.dog.caller_started(now=watch.now)
    watch.dog.interrupted(now=watch.now)
    limit = PATIENCE.reply + PATIENCE.turn
    assert faults(watch.wait(limit - 0.01)) == []
    assert faults(watch.wait(0.02)) == [Fault.NO_AUDIO]


def test_a_model_that_stays_silent_after_an_interruption_that_it_told_is_found():
    watch = Watch(TurnModel.ASYNC_TOOLS)
    watch.dog.audio_came(3000, now=watch.now)
    watch.leaves(1000)
    watch.dog.interrupted(now=watch.now)
    watch.done()  # the turn that was cut ends: that is no fault
    assert watch.take() == []
    for _ in range(40):  # the caller speaks for three seconds
        watch.dog.line_brought(80, audible=True, now=watch.now)
        watch.wait_quietly(0.08)
    assert faults(watch.wait(PATIENCE.reply + PATIENCE.turn - 0.1)) == []
    assert faults(watch.wait(0.2)) == [Fault.NO_AUDIO]


def test_a_session_that_tells_no_turns_owes_an_answer_to_what_the_line_brought():
    watch = Watch(TurnModel.ASYNC_TOOLS)
    for _ in range(20):
        watch.dog.line_brought(80, audible=True, now=watch.now)
        watch.wait_quietly(0.08)
    due = False
    for _ in range(20):
        due = watch.dog.line_brought(80, audible=False, now=watch.now) or due
        watch.wait_quietly(0.08)
    assert due
    assert faults(watch.wait(PATIENCE.reply + PATIENCE.turn)) == [Fault.NO_AUDIO]


def test_a_cough_on_a_line_whose_session_tells_no_turns_is_none():
    watch = Watch(TurnModel.ASYNC_TOOLS)
    watch.dog.line_brought(80, audible=True, now=watch.now)
    for _ in range(30):
        watch.wait_quietly(0.08)
        watch.dog.line_brought(80, audible=False, now=watch.now)
    assert watch.wait(60) == []


def test_a_late_transcript_of_a_turn_that_was_answered_makes_nothing_due():
    watch = Watch(TurnModel.ASYNC_TOOLS)
    watch.says(600)
    watch.done()
    watch.wait_quietly(0.5)
    watch.dog.caller_said(now=watch.now)
    assert watch.wait(60) == []


def test_words_of_the_caller_without_an_answer_are_a_fault():
    watch = Watch(TurnModel.ASYNC_TOOLS)
    watch.dog.caller_said(now=watch.now)
    assert faults(watch.wait(PATIENCE.reply + PATIENCE.turn + 0.01)) == [Fault.NO_AUDIO]


def test_a_duplex_model_that_sends_silence_while_it_listens_is_healthy():
    watch = Watch(TurnModel.DUPLEX)
    watch.says(30_000, audible=False)
    assert watch.take() == []
    watch.dog.caller_said(now=watch.now)
    watch.says(4000, audible=False)
    watch.says(1000)
    watch.says(30_000, audible=False)
    assert watch.take() == []


def test_a_duplex_model_that_sends_nothing_but_silence_to_a_question_is_not():
    watch = Watch(TurnModel.DUPLEX)
    watch.dog.caller_said(now=watch.now)
    watch.says(12_000, audible=False)
    assert faults(watch.take()) == [Fault.NO_AUDIO]


# The ladder.


def test_our_own_recordings_are_no_reply():
    watch = Watch()
    watch.turn()
    watch.dog.play_own(1000, now=watch.now)
    watch.leaves(1000)
    assert faults(watch.wait(PATIENCE.reply)) == [Fault.NO_AUDIO]


def test_nothing_is_detected_while_another_session_is_opened():
    watch = Watch()
    watch.turn()
    assert asked(watch.wait(PATIENCE.reply + 0.01)) == [(Fault.NO_AUDIO, Rung.NUDGE)]
    watch.dog.session_lost()
    assert watch.wait(30) == []
    watch.dog.session_began(TurnModel.ASYNC_TOOLS, now=watch.now)
    assert watch.wait(PATIENCE.again - 0.01) == []
    assert asked(watch.wait(0.02)) == [(Fault.NO_AUDIO, Rung.NUDGE)]


def test_after_two_silent_sessions_the_caller_is_told():
    watch = Watch()
    watch.turn()
    for _ in range(SWAPS):
        assert asked(watch.wait(PATIENCE.reply + 0.01))[0][1] is Rung.NUDGE
        watch.dog.session_lost()
        watch.dog.session_began(TurnModel.TURN_BASED, now=watch.now)
    assert asked(watch.wait(PATIENCE.again + 0.01)) == [(Fault.NO_AUDIO, Rung.GIVE_UP)]


def test_a_retry_that_waits_is_dropped_when_the_caller_speaks():
    watch = Watch()
    watch.turn()
    watch.done(ResponseStatus.FAILED, "rate_limit_exceeded")
    assert asked(watch.wait(1.0)) == []
    watch.turn(2.0)
    watch.says(500)
    watch.done()
    assert asked(watch.wait(10)) == []


def test_an_end_that_is_pending_makes_nothing_due():
    watch = Watch()
    watch.turn()
    watch.dog.forget()
    assert watch.wait(600) == []


def test_a_watch_that_was_stopped_says_nothing_more():
    watch = Watch()
    watch.dog.stop()
    watch.turn()
    watch.done(ResponseStatus.FAILED)
    assert watch.wait(600) == []


@pytest.mark.parametrize("spoke", [True, False])
def test_a_cancelled_response_is_no_fault(spoke):
    assert judge(ResponseStatus.CANCELLED, "client_cancelled", spoke=spoke, called=False, due=True) is None


CHANGES = {
    "turn": lambda watch: watch.turn(0.3),
    "started": lambda watch: watch.dog.caller_started(now=watch.now),
    "stopped": lambda watch: watch.dog.caller_stopped(now=watch.now),
    "interrupted": lambda watch: watch.dog.interrupted(now=watch.now),
    "words": lambda watch: watch.dog.caller_said(now=watch.now),
    "came": lambda watch: watch.dog.audio_came(400, now=watch.now),
    "left": lambda watch: watch.leaves(200),
    "mute": lambda watch: watch.leaves(200, audible=False),
    "own": lambda watch: watch.dog.play_own(500, now=watch.now),
    "done": lambda watch: watch.done(),
    "failed": lambda watch: watch.done(ResponseStatus.FAILED, "server_error"),
    "due": lambda watch: watch.dog.reply_due(now=watch.now),
    "hold": lambda watch: watch.dog.hold(held=True, now=watch.now),
    "back": lambda watch: watch.dog.hold(held=False, now=watch.now),
    "lost": lambda watch: watch.dog.session_lost(),
    "began": lambda watch: watch.dog.session_began(TurnModel.ASYNC_TOOLS, now=watch.now),
    "cleared": lambda watch: watch.dog.cleared(now=watch.now),
    "wait": lambda watch: watch.wait_quietly(4.0),
}


@settings(max_examples=100, deadline=None)
@given(turn_model=st.sampled_from(TurnModel), names=st.lists(st.sampled_from(sorted(CHANGES)), max_size=60))
def test_whatever_happens_a_due_reply_is_asked_for_and_heard_or_asked_for_again(turn_model, names):
    watch = Watch(turn_model)
    for name in names:
        CHANGES[name](watch)
    watch.dog.hold(held=False, now=watch.now)
    watch.dog.session_began(turn_model, now=watch.now)
    watch.dog.caller_stopped(now=watch.now)
    watch.take()
    seen = watch.wait(PATIENCE.reply + 65.0)  # what was queued at the most, and patience
    assert asked(seen), "nobody cares for the caller"
    watch.dog.audio_came(62_000, now=watch.now)
    watch.leaves(62_000)
    watch.done()
    assert any(isinstance(step, Repaired) for step, _ in watch.take())
    assert not watch.dog.waits or watch.dog.next_timeout() is not None
