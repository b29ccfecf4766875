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
    TruncateItem,
    TurnCommitted,
)
from providers.openai.state import FATAL, Patience
from providers.types import (
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
from tests.providers.openai.told import (
    CALL,
    CANCELLED,
    FAILED,
    INCOMPLETE,
    Told,
    done,
    spoken,
    voice,
)
from tests.providers.openai.transcripts import NAMES, frames
from tools.types import ToolCall, ToolResult, ToolStatus

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
