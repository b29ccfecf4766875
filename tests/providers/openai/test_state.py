"""A conversation without a socket: what is sent and reported for what the server says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.openai import wire
from providers.openai.gate import Timing
from providers.openai.messages import (
    AddText,
    AgentTextReceived,
    AnswerCall,
    AudioFinished,
    AudioReceived,
    CallerTextReceived,
    CancelResponse,
    CreateResponse,
    ErrorReported,
    FunctionCall,
    FunctionCallReceived,
    ItemAdded,
    ResponseCreated,
    ResponseFinished,
    SpeechBegan,
    SpeechEnded,
    TranscriptionFailed,
    TruncateItem,
    TurnCommitted,
)
from providers.openai.state import FATAL, Conversation, Patience
from providers.types import (
    NO_ANSWER,
    AgentTranscript,
    AudioDelta,
    AudioDone,
    CallerTranscript,
    Interrupted,
    ProviderWarning,
    ResponseDone,
    ResponseStatus,
    SessionEnding,
    SpeechStarted,
    SpeechStopped,
    ToolCallsRequested,
)
from tests.providers.openai.transcripts import NAMES, frames
from tools.types import ToolCall, ToolResult, ToolStatus

MS = 8
COMPLETED, CANCELLED = ResponseStatus.COMPLETED, ResponseStatus.CANCELLED
FAILED, INCOMPLETE = ResponseStatus.FAILED, ResponseStatus.INCOMPLETE
CALL = FunctionCall("call_1", "lookup_caller", "{}", completed=True)


class Told:
    """A conversation that is told messages one second after the other."""

    def __init__(self, *, timing: Timing | None = None, patience: Patience | None = None) -> None:
        self.state = Conversation(MS, timing=timing, patience=patience)
        self.now = 0.0
        self.events: list = []
        self.sent: list = []

    def hear(self, *messages) -> Told:
        for message in messages:
            self.now += 1
            self.state.receive(message, now=self.now)
            self.take()
        return self

    def take(self) -> Told:
        self.events += self.state.events()
        self.sent += self.state.to_send()
        return self

    def wait_until(self, now: float) -> Told:
        self.now = now
        self.state.handle_timeout(now=now)
        return self.take()

    def of(self, kind: type) -> list:
        return [each for each in self.events + self.sent if isinstance(each, kind)]


def voice(item_id: str = "item_1", ms: int = 1000, response_id: str = "resp_1") -> AudioReceived:
    return AudioReceived(response_id, item_id, bytes(ms * MS))


def done(status: ResponseStatus = COMPLETED, response_id: str = "resp_1", **more) -> ResponseFinished:
    return ResponseFinished(response_id, status, **more)


def spoken(response_id: str, item_id: str, ms: int) -> list:
    """A response from its beginning to its end, faster than real time."""
    return [
        ResponseCreated(response_id),
        voice(item_id, ms, response_id),
        AudioFinished(item_id),
        done(response_id=response_id),
    ]


# Recorded conversations.


def replay(*names: str) -> Told:
    told = Told()
    for name in names:
        told.hear(*(message for message in map(wire.decode, frames(name)) if message is not None))
    return told


def test_a_recorded_turn_is_reported() -> None:
    told = replay("turn")
    assert [type(event) for event in told.events] == [
        SpeechStarted,
        Interrupted,
        SpeechStopped,
        CallerTranscript,
        AgentTranscript,
        AudioDelta,
        CallerTranscript,
        CallerTranscript,
        AudioDone,
        AgentTranscript,
        ResponseDone,
    ]
    assert told.events[7] == CallerTranscript("item_u1", "Hi there", final=True)
    assert told.sent == []


def test_a_recorded_tool_call_is_requested_and_answered() -> None:
    told = replay("tool")
    [request] = told.of(ToolCallsRequested)
    assert request == ToolCallsRequested(
        "resp_2", (ToolCall("call_1", "get_weather", '{"city":"Paris"}', "resp_2"),)
    )
    result = ToolResult("call_1", "get_weather", ToolStatus.OK, {"temp_c": 21})
    told.state.answer(result)
    told.state.answer(result)
    told.state.respond(now=99)
    answer, create = told.take().sent
    assert answer == AnswerCall(answer.event_id, "call_1", result.to_json())
    assert isinstance(create, CreateResponse)


def test_a_recorded_interruption_is_reported_once() -> None:
    told = replay("barge")
    assert len(told.of(Interrupted)) == 1
    assert told.of(ResponseDone)[0].status is CANCELLED
    assert told.of(ProviderWarning) == []


@pytest.mark.parametrize("first", NAMES)
@pytest.mark.parametrize("second", NAMES)
def test_recorded_conversations_may_follow_each_other_in_any_order(first: str, second: str) -> None:
    told = replay(first, second)
    assert told.state.lost is None or told.state.lost[0] == "session_expired"


# Barge-in.


def test_speech_of_the_caller_interrupts_also_when_all_was_generated() -> None:
    told = Told().hear(*spoken("resp_1", "item_1", 15_000), SpeechBegan())
    assert told.events[-2:] == [SpeechStarted(), Interrupted()]


@pytest.mark.report("BR-082")
def test_an_answer_that_still_plays_is_cut_without_a_cancel() -> None:
    told = Told().hear(*spoken("resp_1", "item_1", 15_000), SpeechBegan())
    told.state.interrupt("item_1", 4000, now=told.now)
    [cut] = told.take().sent
    assert (cut.item_id, cut.heard_ms) == ("item_1", 4000)


@pytest.mark.report("BR-081")
def test_the_cut_counts_from_the_start_of_its_own_item() -> None:
    """Fault 6: the item id or the start of its playing was not updated."""
    told = Told().hear(*spoken("resp_1", "item_A", 6000))
    told.now = 40.0
    told.hear(ResponseCreated("resp_2"), voice("item_B", 9250, "resp_2"), SpeechBegan())
    told.state.interrupt("item_B", 2000, now=told.now)
    [cut] = told.take().sent
    assert (cut.item_id, cut.heard_ms) == ("item_B", 2000)


@pytest.mark.report("BR-086")
def test_what_was_received_ahead_of_time_is_not_taken_for_heard() -> None:
    """Fault 7: the model refers to words that the caller never heard."""
    told = Told().hear(ResponseCreated("resp_1"), *(voice(ms=1000) for _ in range(12)), SpeechBegan())
    told.state.interrupt("item_1", 3000, now=told.now)
    [cut] = told.take().sent
    assert (cut.item_id, cut.heard_ms) == ("item_1", 3000)


@pytest.mark.report("BR-087")
def test_the_servers_own_play_back_is_never_controlled() -> None:
    """``output_audio_buffer.clear`` is for sessions whose sound the server plays."""
    told = Told().hear(ResponseCreated("resp_1"), voice(ms=6000), SpeechBegan())
    told.state.interrupt("item_1", 2000, now=told.now)
    kinds = {json.loads(wire.encode(message))["type"] for message in told.take().sent}
    assert kinds == {"conversation.item.truncate"}


def test_late_audio_of_an_interrupted_response_is_dropped() -> None:
    told = Told().hear(ResponseCreated("resp_1"), voice(ms=100), SpeechBegan())
    told.state.interrupt("item_1", 40, now=told.now)
    told.hear(voice(ms=500), AudioFinished("item_1"), done(CANCELLED, reason="turn_detected"))
    assert len(told.of(AudioDelta)) == 1
    told.hear(ResponseCreated("resp_2"), voice("item_2", response_id="resp_2"))
    assert told.of(AudioDelta)[-1].item_id == "item_2"


def test_an_item_that_began_only_after_the_interruption_is_cut_at_its_end() -> None:
    told = Told().hear(ResponseCreated("resp_1"), voice(ms=100), SpeechBegan())
    told.state.interrupt("item_1", 40, now=told.now)
    told.hear(voice("item_2", 500), done(CANCELLED))
    assert [(cut.item_id, cut.heard_ms) for cut in told.of(TruncateItem)] == [("item_1", 40), ("item_2", 0)]


def test_an_interruption_by_us_cancels_the_response_by_its_id() -> None:
    """Fault 4: a cancel without an id has no effect when several responses run."""
    told = Told().hear(ResponseCreated("resp_1"), voice())
    told.state.interrupt("item_1", 100, now=told.now)
    cut, cancel = told.take().sent
    assert isinstance(cut, TruncateItem)
    assert cancel == CancelResponse(cancel.event_id, "resp_1")


def test_an_interruption_before_the_response_began_mutes_and_cancels_it() -> None:
    """Fault 5: interrupt before ``response.created`` is lost and stale speech plays."""
    told = Told()
    told.state.respond(instructions="Greet.", now=0)
    told.state.interrupt("", 0, now=0.5)
    told.take().hear(ResponseCreated("resp_1"), voice(), done(CANCELLED, reason="client_cancelled"))
    assert told.of(AudioDelta) == []
    assert [cancel.response_id for cancel in told.of(CancelResponse)] == ["resp_1"]
    assert len(told.of(CreateResponse)) == 1


def test_a_response_that_the_call_lets_play_is_not_muted() -> None:
    told = Told().hear(ResponseCreated("resp_1"), voice(ms=100), SpeechBegan(), voice(ms=100))
    assert len(told.of(AudioDelta)) == 2


def test_nothing_to_cancel_is_no_warning() -> None:
    """Fault 3: ``response_cancel_not_active`` ended the call."""
    error = ErrorReported("invalid_request_error", "response_cancel_not_active", "…", "")
    told = Told().hear(error)
    assert (told.events, told.sent, told.state.lost) == ([], [], None)


def test_an_error_about_a_cut_is_a_warning() -> None:
    """Fault 6: a refused truncation ends nothing."""
    text = "Audio content of 500ms is already shorter than 900ms"
    told = Told().hear(ErrorReported("invalid_request_error", "invalid_value", text, "cut-1"))
    assert told.of(ProviderWarning) == [ProviderWarning("invalid_value", text)]
    assert told.state.lost is None


# Tool calls.


@pytest.mark.report("BR-129")
def test_a_call_that_three_events_tell_of_is_requested_once() -> None:
    told = Told().hear(
        ResponseCreated("resp_1"),
        FunctionCallReceived("resp_1", FunctionCall("call_1", "lookup_caller", "", completed=False)),
        FunctionCallReceived("resp_1", CALL),
        done(calls=(CALL,)),
        done(calls=(CALL,)),
    )
    assert len(told.of(ToolCallsRequested)) == 1


def test_nothing_is_requested_before_the_response_is_done() -> None:
    told = Told().hear(ResponseCreated("resp_1"), FunctionCallReceived("resp_1", CALL))
    assert told.of(ToolCallsRequested) == []


@pytest.mark.parametrize("status", [CANCELLED, FAILED, INCOMPLETE])
def test_a_call_of_a_response_that_did_not_complete_is_answered_by_us(status: ResponseStatus) -> None:
    """Fault 21: a call without an answer wedges the session, a call run twice has two effects."""
    half = FunctionCall("call_2", "transfer_call", '{"number":"+1', completed=False)
    told = Told().hear(
        ResponseCreated("resp_1"), FunctionCallReceived("resp_1", half), done(status, calls=(CALL,))
    )
    assert told.of(ToolCallsRequested) == []
    answers = {answer.call_id: json.loads(answer.output) for answer in told.of(AnswerCall)}
    assert set(answers) == {"call_1", "call_2"}
    for answer in answers.values():
        assert (answer["ok"], answer["status"]) == (False, "failed")
        assert answer["reason_code"] == f"response_{status.value}"
    told.state.answer(ToolResult("call_1", "lookup_caller", ToolStatus.OK))
    assert len(told.take().of(AnswerCall)) == 2


def test_a_call_of_an_interrupted_response_never_runs_even_if_the_response_completes() -> None:
    told = Told().hear(
        ResponseCreated("resp_1"), voice(), FunctionCallReceived("resp_1", CALL), SpeechBegan()
    )
    told.state.interrupt("item_1", 10, now=told.now)
    told.hear(done(calls=(CALL,)))
    assert told.of(ToolCallsRequested) == []
    [answer] = told.of(AnswerCall)
    assert json.loads(answer.output)["reason_code"] == "response_interrupted"


@pytest.mark.report("BR-123")
def test_a_call_that_runs_survives_an_interruption_and_is_answered() -> None:
    """Fault 22: a framework cancels the tool on barge-in and the caller is told "not found"."""
    told = Told().hear(ResponseCreated("resp_1"), done(calls=(CALL,)), SpeechBegan())
    told.state.interrupt("", 0, now=told.now)
    told.state.answer(ToolResult("call_1", "lookup_caller", ToolStatus.OK))
    assert [answer.call_id for answer in told.take().of(AnswerCall)] == ["call_1"]


def test_one_response_follows_all_answers_of_a_batch() -> None:
    """Fault 20: without ``response.create`` the result is not spoken."""
    second = FunctionCall("call_2", "query_knowledge", "{}", completed=True)
    told = Told().hear(ResponseCreated("resp_1"), done(calls=(CALL, second)))
    for call_id in ("call_2", "call_1"):
        told.state.answer(ToolResult(call_id, "x", ToolStatus.OK))
    told.state.respond(now=told.now)
    assert [type(message) for message in told.take().sent] == [AnswerCall, AnswerCall, CreateResponse]


def test_the_last_response_of_a_call_may_be_without_tools() -> None:
    told = Told()
    told.state.respond(tools=False, now=0)
    [create] = told.take().sent
    assert json.loads(wire.encode(create))["response"] == {"tool_choice": "none"}


def test_an_answer_during_the_callers_turn_is_spoken_by_the_servers_own_response() -> None:
    told = Told().hear(ResponseCreated("resp_1"), done(calls=(CALL,)), SpeechBegan())
    told.state.answer(ToolResult("call_1", "lookup_caller", ToolStatus.OK))
    told.state.respond(now=told.now)
    told.take().hear(ItemAdded("item_o", "call_1"), SpeechEnded(), *spoken("resp_2", "item_2", 100))
    assert told.of(CreateResponse) == []


# Responses that say nothing.


@pytest.mark.report("BR-104")
@pytest.mark.parametrize(
    ("error", "after"), [("server_error", 0.25), ("rate_limit_exceeded", 1.5), ("", 0.25)]
)
def test_a_failed_response_is_asked_for_again_and_then_reported(error: str, after: float) -> None:
    """Fault 10: the caller hears nothing because nobody looks at the status."""
    told = Told(patience=Patience(retry=0.25, rate_limit_retry=1.5))
    told.hear(ResponseCreated("resp_1"), done(FAILED, error=error))
    assert told.of(CreateResponse) == []
    assert told.state.next_timeout() == told.now + after
    told.wait_until(told.now + after)
    [again] = told.of(CreateResponse)
    assert again.audio_only
    told.hear(ResponseCreated("resp_2"), done(FAILED, "resp_2", error=error))
    told.wait_until(told.now + 60)
    assert len(told.of(CreateResponse)) == 1
    [warning] = told.of(ProviderWarning)
    assert warning.code == NO_ANSWER
    assert (error or "response_failed") in warning.message


def test_the_second_try_asks_for_the_same() -> None:
    told = Told()
    told.state.respond(instructions="Say goodbye.", tools=False, now=0)
    told.take().hear(ResponseCreated("resp_1"), done(FAILED, error="server_error"))
    told.wait_until(told.now + 5)
    again = told.of(CreateResponse)[-1]
    assert (again.instructions, again.tools) == ("Say goodbye.", False)


def test_each_turn_has_a_second_try_of_its_own() -> None:
    told = Told()
    for n in range(3):
        told.hear(ResponseCreated(f"resp_{n}a"), done(FAILED, f"resp_{n}a", error="server_error"))
        told.wait_until(told.now + 5)
        told.hear(*spoken(f"resp_{n}b", f"item_{n}", 100))
    assert len(told.of(CreateResponse)) == 3
    assert told.of(ProviderWarning) == []


@pytest.mark.report("BR-115")
def test_a_response_without_a_voice_is_asked_for_again_with_the_modality() -> None:
    """Fault 11: completed with text or nothing, and the call is silent."""
    told = Told().hear(ResponseCreated("resp_1"), done())
    told.wait_until(told.now + 5)
    [again] = told.of(CreateResponse)
    assert json.loads(wire.encode(again))["response"] == {"output_modalities": ["audio"]}
    told.hear(ResponseCreated("resp_2"), done(response_id="resp_2"))
    assert [warning.code for warning in told.of(ProviderWarning)] == [NO_ANSWER]


def test_a_response_with_only_tool_calls_is_not_silent() -> None:
    told = Told().hear(ResponseCreated("resp_1"), done(calls=(CALL,)))
    assert told.wait_until(told.now + 60).of(CreateResponse) == []


@pytest.mark.report("BR-104")
def test_an_incomplete_response_that_spoke_goes_on_with_the_call() -> None:
    told = Told().hear(ResponseCreated("resp_1"), voice(), done(INCOMPLETE, reason="max_output_tokens"))
    assert told.of(ResponseDone)[0].reason == "max_output_tokens"
    assert told.wait_until(told.now + 60).of(CreateResponse) == []


@pytest.mark.parametrize("reason", ["content_filter", "max_output_tokens"])
def test_an_incomplete_response_without_a_voice_is_asked_for_again(reason: str) -> None:
    told = Told().hear(ResponseCreated("resp_1"), done(INCOMPLETE, reason=reason))
    assert len(told.wait_until(told.now + 5).of(CreateResponse)) == 1


@pytest.mark.report("BR-104")
def test_a_response_that_the_callers_turn_cancelled_is_not_asked_for_again() -> None:
    told = Told().hear(ResponseCreated("resp_1"), SpeechBegan(), done(CANCELLED, reason="turn_detected"))
    assert told.wait_until(told.now + 1).of(CreateResponse) == []
    assert told.of(ProviderWarning) == []


def test_a_second_try_during_the_callers_turn_is_satisfied_by_it() -> None:
    told = Told().hear(ResponseCreated("resp_1"), done(FAILED, error="server_error"), SpeechBegan())
    told.wait_until(told.now + 1)
    told.hear(SpeechEnded(), *spoken("resp_2", "item_2", 100))
    assert told.of(CreateResponse) == []


def test_a_refused_request_is_asked_again_and_then_reported() -> None:
    told = Told()
    told.state.respond(now=0)
    [create] = told.take().sent
    told.hear(ErrorReported("server_error", "", "The server had an error", create.event_id))
    told.wait_until(told.now + 5)
    again = told.of(CreateResponse)[-1]
    told.hear(ErrorReported("server_error", "", "The server had an error", again.event_id))
    assert told.of(ProviderWarning)[-1].code == NO_ANSWER
    assert len(told.wait_until(told.now + 60).of(CreateResponse)) == 2


def test_a_request_that_the_server_ignores_is_repeated_and_then_reported() -> None:
    told = Told(timing=Timing(create_wait=10), patience=Patience(retry=1))
    told.state.respond(now=0)
    told.take().hear(ItemAdded("item_x")).wait_until(10)
    assert len(told.of(CreateResponse)) == 1
    told.wait_until(11).hear(ItemAdded("item_y")).wait_until(21)
    assert len(told.of(CreateResponse)) == 2
    assert [warning.code for warning in told.of(ProviderWarning)] == [NO_ANSWER]
    assert told.state.lost is None


def test_two_refusals_for_an_active_response_are_reported() -> None:
    """Fault 1: waits for the end of the other response, repeats once, never loops."""
    told = Told()
    told.state.respond(now=0)
    for n in range(2):
        create = told.take().of(CreateResponse)[-1]
        text = f"active response in progress: resp_{n}."
        told.hear(
            ErrorReported("e", "conversation_already_has_active_response", text, create.event_id),
            *spoken(f"resp_{n}", f"item_{n}", 100)[1:],
        )
    assert len(told.of(CreateResponse)) == 2
    warnings = told.of(ProviderWarning)
    assert [warning.code for warning in warnings] == ["conversation_already_has_active_response"]


# Transcripts.


def test_transcripts_belong_to_their_items_in_whatever_order_they_come() -> None:
    """Fault 18: transcripts missing, empty or in the wrong order."""
    told = Told().hear(
        TurnCommitted("item_1"),
        TurnCommitted("item_2"),
        CallerTextReceived("item_2", "second", final=True),
        CallerTextReceived("item_1", "fir", final=False),
        CallerTextReceived("item_1", "first", final=True),
        CallerTextReceived("item_1", "st", final=False),
    )
    assert told.of(CallerTranscript) == [
        CallerTranscript("item_1", "", final=False),
        CallerTranscript("item_2", "", final=False),
        CallerTranscript("item_2", "second", final=True),
        CallerTranscript("item_1", "fir", final=False),
        CallerTranscript("item_1", "first", final=True),
    ]
    assert told.state.next_timeout() is None


def test_a_failed_transcription_settles_with_what_there_is() -> None:
    """Fault 18: ``failed`` counts as settled."""
    told = Told().hear(
        TurnCommitted("item_1"),
        CallerTextReceived("item_1", "I need ", final=False),
        TranscriptionFailed("item_1", "audio_unintelligible"),
    )
    assert told.of(CallerTranscript)[-1] == CallerTranscript("item_1", "I need ", final=True)
    assert told.of(ProviderWarning) == [ProviderWarning("transcription_failed", "audio_unintelligible")]


def test_a_transcript_that_never_comes_settles_after_its_time() -> None:
    """Fault 18: a time-out; the whole is still taken when it comes later."""
    told = Told(patience=Patience(transcript_wait=10)).hear(TurnCommitted("item_1"))
    assert told.state.next_timeout() == 11
    told.wait_until(11)
    assert told.of(CallerTranscript)[-1] == CallerTranscript("item_1", "", final=True)
    told.hear(CallerTextReceived("item_1", "late", final=True))
    assert told.of(CallerTranscript)[-1] == CallerTranscript("item_1", "late", final=True)


def test_without_transcription_no_transcript_is_awaited() -> None:
    state = Conversation(MS, transcribes=False)
    state.receive(TurnCommitted("item_1"), now=0)
    assert (state.events(), state.next_timeout()) == ([], None)


def test_the_agents_words_are_reported_with_their_item() -> None:
    told = Told().hear(
        AgentTextReceived("item_1", "Hel", final=False), AgentTextReceived("item_1", "Hello", final=True)
    )
    assert told.events == [
        AgentTranscript("item_1", "Hel", final=False),
        AgentTranscript("item_1", "Hello", final=True),
    ]


# Audio.


def test_the_end_of_an_item_is_reported_once() -> None:
    told = Told().hear(*spoken("resp_1", "item_1", 100), AudioFinished("item_1"))
    assert told.of(AudioDone) == [AudioDone("item_1")]


def test_an_item_whose_end_the_server_does_not_tell_ends_with_its_response() -> None:
    told = Told().hear(ResponseCreated("resp_1"), voice(), done())
    assert [type(event) for event in told.events] == [AudioDelta, AudioDone, ResponseDone]


# The session.


@pytest.mark.parametrize("code", sorted(FATAL))
def test_a_fatal_error_ends_the_session_with_its_code(code: str) -> None:
    """Fault 8 and section 1.9: no retry, no reconnection to the same end."""
    told = Told().hear(ErrorReported("invalid_request_error", code, "secret words", ""))
    assert told.state.lost is not None
    assert told.state.lost[0] == code
    assert "secret" not in told.state.lost[1]


def test_a_response_that_fails_for_a_fatal_reason_ends_the_session() -> None:
    told = Told().hear(ResponseCreated("resp_1"), done(FAILED, error="insufficient_quota"))
    assert told.state.lost is not None
    assert told.of(CreateResponse) == []


def test_another_error_is_a_warning() -> None:
    told = Told().hear(ErrorReported("server_error", "", "The server had an error", ""))
    assert told.events == [ProviderWarning("server_error", "The server had an error")]


def test_an_empty_commit_is_no_warning() -> None:
    told = Told().hear(ErrorReported("invalid_request_error", "input_audio_buffer_commit_empty", "…", ""))
    assert told.events == []


def test_the_end_of_the_session_is_announced_in_time() -> None:
    """Fault 8: the call dies at 60:00; hand over before ``expires_at``."""
    told = Told(patience=Patience(ending_margin=300))
    told.state.expire_after(3600, now=0)
    assert told.state.next_timeout() == 3300
    told.wait_until(3299)
    assert told.events == []
    told.wait_until(3300)
    assert told.events == [SessionEnding(after=300)]
    assert told.wait_until(3600).of(SessionEnding) == [SessionEnding(after=300)]


def test_a_session_that_soon_ends_is_announced_at_once() -> None:
    told = Told()
    told.state.expire_after(20, now=5)
    assert told.wait_until(5).events == [SessionEnding(after=20)]


def test_a_server_that_stalls_loses_the_session() -> None:
    """Fault 9: nothing comes and no one notices."""
    told = Told(timing=Timing(create_wait=10))
    told.state.respond(now=0)
    told.take().wait_until(10)
    assert told.state.lost is not None
    assert told.state.lost[0] == "stalled"


def test_text_is_put_into_the_conversation_without_asking_for_an_answer() -> None:
    told = Told()
    told.state.add_text("DTMF 5 pressed", "user")
    [text] = told.take().sent
    assert text == AddText(text.event_id, text.item_id, "user", "DTMF 5 pressed")


MESSAGES = st.one_of(
    st.builds(ResponseCreated, st.sampled_from(["r1", "r2", "r3"])),
    st.builds(
        ResponseFinished,
        st.sampled_from(["r1", "r2", "r3"]),
        st.sampled_from(ResponseStatus),
        error=st.sampled_from(["", "server_error", "rate_limit_exceeded"]),
        calls=st.lists(
            st.builds(
                FunctionCall, st.sampled_from(["c1", "c2", "c3"]), st.just("t"), st.just("{}"), st.booleans()
            ),
            max_size=2,
        ).map(tuple),
    ),
    st.builds(
        AudioReceived, st.sampled_from(["r1", "r2"]), st.sampled_from(["i1", "i2"]), st.binary(max_size=64)
    ),
    st.builds(AudioFinished, st.sampled_from(["i1", "i2"])),
    st.builds(TurnCommitted, st.sampled_from(["u1", "u2"])),
    st.builds(CallerTextReceived, st.sampled_from(["u1", "u2"]), st.text(max_size=3), st.booleans()),
    st.builds(
        ErrorReported,
        st.just("invalid_request_error"),
        st.sampled_from(
            ["conversation_already_has_active_response", "response_cancel_not_active", "invalid_value"]
        ),
        st.just("resp"),
        st.sampled_from(["", "create-1", "create-2", "cancel-1"]),
    ),
    st.just(SpeechBegan()),
    st.just(SpeechEnded()),
)
STEPS = st.lists(MESSAGES | st.sampled_from(["respond", "interrupt", "answer", "wait"]), max_size=40)


@settings(deadline=None)
@given(STEPS)
def test_whatever_a_server_says_calls_are_answered_once_and_creates_never_overlap(steps: list) -> None:
    """Faults 1, 2 and 21 for any order of events, also an impossible one."""
    told = Told()
    answered: list[str] = []
    for step in steps:
        before = len(told.sent)
        free = told.state.gate.state.name == "FREE"
        match step:
            case "respond":
                told.state.respond(now=told.now)
            case "interrupt":
                told.state.interrupt("i1", 1, now=told.now)
            case "answer":
                for call_id in ("c1", "c2", "c3"):
                    told.state.answer(ToolResult(call_id, "t", ToolStatus.OK))
            case "wait":
                told.wait_until(told.now + 5)
            case message:
                told.hear(message)
        told.take()
        creates = [each for each in told.sent[before:] if isinstance(each, CreateResponse)]
        assert len(creates) <= 1
        if creates and step == "respond":
            assert free
        if creates:
            assert told.state.gate.state.name == "CREATE_PENDING"
    answered = [answer.call_id for answer in told.of(AnswerCall)]
    requested = [call.call_id for batch in told.of(ToolCallsRequested) for call in batch.calls]
    assert len(answered) == len(set(answered))
    assert len(requested) == len(set(requested))
