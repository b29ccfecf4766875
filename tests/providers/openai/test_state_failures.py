"""Responses that say nothing, and transcripts that come late, wrong or never."""

from __future__ import annotations

import json

import pytest

from providers.openai import wire
from providers.openai.gate import Timing
from providers.openai.messages import (
    AgentTextReceived,
    CallerIdle,
    CallerTextReceived,
    CreateResponse,
    ErrorReported,
    ItemAdded,
    ResponseCreated,
    SpeechBegan,
    SpeechEnded,
    TranscriptionFailed,
    TurnCommitted,
)
from providers.openai.state import FATAL, Conversation, Patience
from providers.types import (
    AgentTranscript,
    CallerTranscript,
    ProviderWarning,
    ResponseDone,
)
from tests.providers.openai.told import (
    CALL,
    CANCELLED,
    FAILED,
    INCOMPLETE,
    MS,
    Told,
    done,
    spoken,
    voice,
)

# Responses that say nothing.


@pytest.mark.report("BR-104")
@pytest.mark.parametrize("error", ["server_error", "rate_limit_exceeded", ""])
def test_a_failed_response_is_reported_and_whoever_waits_for_it_asks_again(error: str) -> None:
    """Fault 10: the caller hears nothing because nobody looks at the status."""
    told = Told().hear(ResponseCreated("resp_1"), done(FAILED, error=error))
    [event] = told.of(ResponseDone)
    assert (event.status, event.reason) == (FAILED, error)
    told.wait_until(told.now + 60)
    assert told.of(CreateResponse) == []
    told.state.respond(now=told.now)
    assert len(told.take().of(CreateResponse)) == 1


@pytest.mark.parametrize(
    ("before", "message", "after"),
    [
        (b'[{"name":"tokens","limit":40000,"remaining":900,"reset_seconds":9}]', "", 1.5),
        (b'[{"name":"tokens","limit":40000,"remaining":0,"reset_seconds":2.25}]', "", 2.25),
        (b"[]", "Rate limit reached. Please try again in 800ms. Visit", 0.8),
        (b"[]", "Rate limit reached. Please try again in 3.5s.", 3.5),
        (b'[{"name":"tokens","remaining":0,"reset_seconds":1}]', "Please try again in 3s.", 3.0),
        (b'[{"name":"requests","remaining":0,"reset_seconds":60}]', "", 5.0),
    ],
)
def test_a_rate_limit_is_waited_for_as_long_as_it_lasts_but_not_for_ever(before, message, after) -> None:
    told = Told()
    limits = wire.decode(b'{"type":"rate_limits.updated","rate_limits":' + before + b"}")
    told.hear(ResponseCreated("resp_1"))
    if limits is not None:
        told.state.receive(limits, now=told.now)
    error = {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": message}
    failed = wire.decode(
        json.dumps(
            {
                "type": "response.done",
                "response": {
                    "id": "resp_1",
                    "status": "failed",
                    "status_details": {"type": "failed", "error": error},
                    "output": [],
                },
            }
        ).encode()
    )
    told.state.receive(failed, now=told.now)
    told.state.respond(now=told.now)
    told.take()
    assert told.of(CreateResponse) == []
    assert told.state.next_timeout() == pytest.approx(told.now + after)
    told.wait_until(told.now + after)
    assert len(told.of(CreateResponse)) == 1


@pytest.mark.parametrize("code", sorted(FATAL))
def test_what_is_fatal_ends_the_session_and_is_never_tried_again(code: str) -> None:
    for fatal in (ErrorReported("invalid_request_error", code, "no", ""), done(FAILED, error=code)):
        told = Told()
        told.state.respond(now=0)
        told.take().hear(ResponseCreated("resp_1"), fatal)
        told.wait_until(told.now + 60)
        assert told.state.lost is not None
        assert told.state.lost[0] == code
        assert len(told.of(CreateResponse)) == 1


@pytest.mark.parametrize(
    "code",
    [
        "item_retrieve_invalid_item_id",
        "item_truncate_invalid_item_id",
        "item_delete_invalid_item_id",
        "unknown_parameter",
        "invalid_value",
        "string_above_max_length",
        "missing_required_parameter",
        "invalid_event",
        "cannot_update_voice",
        "a_code_of_the_future",
    ],
)
def test_any_other_error_is_a_warning_and_the_session_goes_on(code: str) -> None:
    told = Told().hear(ErrorReported("invalid_request_error", code, "Something is wrong.", "text-1"))
    assert told.state.lost is None
    assert told.of(ProviderWarning) == [ProviderWarning(code, "Something is wrong.")]


@pytest.mark.parametrize("code", ["input_audio_buffer_commit_empty", "response_cancel_not_active"])
def test_a_harmless_error_is_not_even_a_warning(code: str) -> None:
    told = Told().hear(ErrorReported("invalid_request_error", code, "Nothing to do.", ""))
    assert told.state.lost is None
    assert told.events == []


def test_an_idle_caller_is_no_turn_that_has_words() -> None:
    """The silence becomes an item; a transcript of it would be waited for in vain."""
    told = Told().hear(CallerIdle("item_9"), TurnCommitted("item_9"), ResponseCreated("resp_1"))
    told.hear(*spoken("resp_1", "item_10", 500)[1:])
    told.wait_until(told.now + 60)
    assert told.of(CallerTranscript) == []


@pytest.mark.report("BR-115")
def test_after_a_response_without_a_voice_the_next_one_is_asked_for_with_the_modality() -> None:
    """Fault 11: completed with text or nothing, and the call is silent."""
    told = Told().hear(ResponseCreated("resp_1"), done())
    told.state.respond(now=told.now)
    [again] = told.take().of(CreateResponse)
    assert json.loads(wire.encode(again))["response"] == {"output_modalities": ["audio"]}
    told.hear(*spoken("resp_2", "item_2", 100))
    told.state.respond(now=told.now)
    assert not told.take().of(CreateResponse)[-1].audio_only


def test_a_response_with_only_tool_calls_is_not_silent() -> None:
    told = Told().hear(ResponseCreated("resp_1"), done(calls=(CALL,)))
    told.state.respond(now=told.now)
    assert not told.take().of(CreateResponse)[-1].audio_only


@pytest.mark.report("BR-104")
def test_an_incomplete_response_that_spoke_goes_on_with_the_call() -> None:
    told = Told().hear(ResponseCreated("resp_1"), voice(), done(INCOMPLETE, reason="max_output_tokens"))
    assert told.of(ResponseDone)[0].reason == "max_output_tokens"
    assert told.wait_until(told.now + 60).of(CreateResponse) == []


@pytest.mark.report("BR-104")
def test_a_response_that_the_callers_turn_cancelled_is_not_asked_for_again() -> None:
    told = Told().hear(ResponseCreated("resp_1"), SpeechBegan(), done(CANCELLED, reason="turn_detected"))
    assert told.wait_until(told.now + 1).of(CreateResponse) == []
    assert told.of(ProviderWarning) == []


def test_what_was_interrupted_was_cancelled_even_if_it_ended_by_itself() -> None:
    told = Told().hear(ResponseCreated("resp_1"))
    told.state.interrupt("", 0, now=told.now)
    told.take().hear(done())
    assert told.of(ResponseDone)[0].status is CANCELLED


def test_a_second_try_during_the_callers_turn_is_satisfied_by_it() -> None:
    told = Told().hear(ResponseCreated("resp_1"), done(FAILED, error="server_error"), SpeechBegan())
    told.state.respond(now=told.now)
    told.take().hear(SpeechEnded(), *spoken("resp_2", "item_2", 100))
    assert told.of(CreateResponse) == []


def test_a_refused_request_is_reported_like_a_response_that_failed() -> None:
    told = Told()
    told.state.respond(now=0)
    [create] = told.take().sent
    told.hear(ErrorReported("server_error", "", "The server had an error", create.event_id))
    assert [(event.status, event.reason) for event in told.of(ResponseDone)] == [(FAILED, "server_error")]
    assert len(told.wait_until(told.now + 60).of(CreateResponse)) == 1


def test_a_request_that_the_server_ignores_is_reported_like_a_response_that_failed() -> None:
    told = Told(timing=Timing(ignored_wait=3))
    told.state.respond(now=0)
    told.take().hear(ItemAdded("item_x")).wait_until(3)
    assert [event.reason for event in told.of(ResponseDone)] == ["response_not_created"]
    assert told.state.lost is None
    told.state.respond(now=told.now)
    assert len(told.take().of(CreateResponse)) == 2


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


@pytest.mark.report("BR-180")
def test_pieces_of_two_turns_are_never_mixed_and_a_failed_one_is_marked() -> None:
    told = Told().hear(
        TurnCommitted("item_u1"),
        TurnCommitted("item_u2"),
        CallerTextReceived("item_u1", "I want", final=False),
        CallerTextReceived("item_u2", "my num", final=False),
        CallerTextReceived("item_u1", " to cancel", final=False),
        CallerTextReceived("item_u2", "my number is 5", final=True),
        TranscriptionFailed("item_u1", "audio_unintelligible"),
    )
    assert [each for each in told.of(CallerTranscript) if each.final] == [
        CallerTranscript("item_u2", "my number is 5", final=True),
        CallerTranscript("item_u1", "I want to cancel", final=True, partial=True),
    ]


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
    assert told.of(CallerTranscript)[-1] == CallerTranscript("item_1", "I need ", final=True, partial=True)
    assert told.of(ProviderWarning) == [ProviderWarning("transcription_failed", "audio_unintelligible")]


def test_a_transcript_that_never_comes_settles_after_its_time() -> None:
    """Fault 18: a time-out; the whole is still taken when it comes later."""
    told = Told(patience=Patience(transcript_wait=10)).hear(TurnCommitted("item_1"))
    assert told.state.next_timeout() == 11
    told.wait_until(11)
    assert told.of(CallerTranscript)[-1] == CallerTranscript("item_1", "", final=True, partial=True)
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


def unknown_item(question):
    return ErrorReported("invalid_request_error", "item_retrieve_invalid_item_id", "none", question.event_id)


def test_the_answer_to_our_own_question_is_neither_a_warning_nor_progress_of_a_response():
    talk = Conversation(8)
    talk.liveness.begin(0.0)
    talk.handle_timeout(now=1.0)
    [question] = talk.to_send()
    assert json.loads(wire.encode(question))["type"] == "conversation.item.retrieve"

    talk.receive(unknown_item(question), now=1.1)
    assert talk.events() == []
    assert talk.lost is None


def test_a_server_that_fell_silent_and_does_not_answer_is_lost():
    talk = Conversation(8)
    talk.liveness.begin(0.0)
    for now in (1.0, 11.2, 19.2):
        talk.handle_timeout(now=now)
        for question in talk.to_send():
            if now == 1.0:
                talk.receive(unknown_item(question), now=1.2)
    assert talk.lost == ("stalled", "the provider stopped answering")
