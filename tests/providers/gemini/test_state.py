"""A conversation without a socket: what is sent and reported for what the server says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    SpeechStarted,
    SpeechStopped,
    ToolCallsRequested,
    Usage,
)
from tests.providers.gemini.talk import (
    FLASH_31,
    GENERATED,
    GOLDEN,
    INTERRUPTED,
    NATIVE_25,
    Talk,
    activity,
    caller,
    calls,
    golden,
    over,
    says,
    voice,
)

COMPLETED, CANCELLED, FAILED = ResponseStatus.COMPLETED, ResponseStatus.CANCELLED, ResponseStatus.FAILED


def kinds(talk: Talk) -> list[str]:
    return [type(event).__name__ for event in talk.events]


# Turns.


def test_the_golden_turn_is_reported_in_order() -> None:
    talk = Talk().hear(*golden("turn"))
    assert kinds(talk) == [
        "SpeechStarted",
        "CallerTranscript",
        "CallerTranscript",
        "CallerTranscript",
        "CallerTranscript",
        "SpeechStopped",
        "AgentTranscript",
        "AudioDelta",
        "AgentTranscript",
        "AudioDone",
        "AgentTranscript",
        "ResponseDone",
    ]
    assert talk.of(CallerTranscript)[-1].text == "What's the weather?"
    assert talk.of(AgentTranscript)[-1] == AgentTranscript("g-turn-1", "It is sunny.", final=True)
    assert talk.of(ResponseDone) == [ResponseDone("g-response-1", COMPLETED)]
    assert talk.conversation.usage == Usage(text_in=60, audio_in=150, audio_out=43)


@pytest.mark.parametrize("name", GOLDEN)
def test_every_golden_transcript_is_taken(name: str) -> None:
    talk = Talk().hear(*golden(name))
    assert talk.conversation.lost is None
    assert [warning.code for warning in talk.of(ProviderWarning)] in ([], ["no_answer"])


def test_a_turn_has_one_item_and_the_next_has_another() -> None:
    talk = Talk().hear(voice(), voice(), GENERATED, over(), voice(), GENERATED, over())
    assert [event.item_id for event in talk.of(AudioDelta)] == ["g-turn-1", "g-turn-1", "g-turn-2"]
    assert talk.of(AudioDone) == [AudioDone("g-turn-1"), AudioDone("g-turn-2")]
    assert [event.response_id for event in talk.of(ResponseDone)] == ["g-response-1", "g-response-2"]


def test_all_parts_of_a_frame_are_heard_and_thoughts_are_not() -> None:
    frame = voice(20)
    parts = frame["serverContent"]["modelTurn"]["parts"]
    frame["serverContent"]["modelTurn"]["parts"] = [
        *parts,
        {**parts[0], "thought": True},
        {"text": "x"},
        *parts,
    ]
    talk = Talk().hear(frame)
    assert [len(event.audio) for event in talk.of(AudioDelta)] == [960, 960]


def test_words_that_come_before_their_audio_belong_to_its_turn() -> None:
    talk = Talk().hear(says("Good "), voice(), says("morning."), GENERATED, over())
    assert [(each.text, each.final) for each in talk.of(AgentTranscript)] == [
        ("Good ", False),
        ("morning.", False),
        ("Good morning.", True),
    ]


def test_turn_complete_without_the_end_of_generation_ends_the_audio_too() -> None:
    talk = Talk().hear(voice(), over())
    assert kinds(talk) == ["AudioDelta", "AudioDone", "ResponseDone"]


def test_a_turn_whose_end_the_server_does_not_tell_is_over_when_it_was_played() -> None:
    talk = Talk().hear(voice(2000), GENERATED).clear()
    assert talk.wait(4.9).of(ResponseDone) == []
    assert talk.wait(0.2).of(ResponseDone) == [ResponseDone("g-response-1", COMPLETED)]


def test_a_turn_that_stops_coming_fails() -> None:
    talk = Talk().hear(voice(200)).wait(15.5)
    assert talk.of(ResponseDone) == [ResponseDone("g-response-1", FAILED, reason="stalled")]


def test_audio_of_another_format_ends_the_session_instead_of_being_noise() -> None:
    talk = Talk().hear(voice(20, mime="audio/pcm;rate=16000", outputTranscription={"text": "x"}))
    assert talk.of(AudioDelta) == []
    assert talk.conversation.lost == (
        "format_mismatch",
        "the provider's audio has another format than 24 kHz PCM",
    )


# The caller.


def test_where_the_server_tells_of_no_activity_the_transcript_does() -> None:
    talk = Talk().hear(caller("Are you"), caller(" open?", finished=True), voice())
    assert kinds(talk)[:2] == ["SpeechStarted", "CallerTranscript"]
    assert kinds(talk)[-2:] == ["SpeechStopped", "AudioDelta"]
    assert talk.of(CallerTranscript)[-1] == CallerTranscript("g-caller-1", "Are you open?", final=True)


def test_the_caller_has_stopped_at_the_latest_when_the_model_speaks() -> None:
    talk = Talk().hear(activity("START"), voice())
    assert kinds(talk) == ["SpeechStarted", "CallerTranscript", "SpeechStopped", "AudioDelta"]


def test_words_that_come_during_the_answer_belong_to_the_turn_before_it() -> None:
    talk = Talk().hear(activity("START"), activity("END"), voice(), caller("Hello?"), GENERATED, over())
    assert talk.of(CallerTranscript) == [
        CallerTranscript("g-caller-1", "", final=False),
        CallerTranscript("g-caller-1", "Hello?", final=False),
        CallerTranscript("g-caller-1", "Hello?", final=True),
    ]


def test_a_pause_of_the_line_ends_the_stream_once() -> None:
    talk = Talk()
    assert talk.conversation.heard_caller(talk.now)
    assert not talk.conversation.heard_caller(talk.now)
    assert talk.wait(3.0).sent == [{"realtimeInput": {"audioStreamEnd": True}}]
    assert talk.conversation.heard_caller(talk.now)


# Interruptions.


@pytest.mark.report("BR-085")
def test_interrupted_stops_what_plays_at_once_and_marks_the_answer() -> None:
    talk = Talk().hear(*[voice(400)] * 20).clear().hear(INTERRUPTED, over())
    assert kinds(talk)[:4] == ["SpeechStarted", "CallerTranscript", "Interrupted", "AudioDone"]
    assert talk.of(ResponseDone) == [ResponseDone("g-response-1", CANCELLED, reason="interrupted")]


def test_interrupted_after_the_generation_and_with_nothing_open_still_stops_the_playback() -> None:
    talk = Talk().hear(voice(400), GENERATED, INTERRUPTED)
    assert talk.of(Interrupted) == [Interrupted()]
    assert Talk().hear(INTERRUPTED, over()).of(Interrupted) == [Interrupted()]
    assert Talk().hear(INTERRUPTED, over()).of(ResponseDone) == []


def test_fault_31_the_turn_stays_open_until_turn_complete_and_never_longer_than_three_seconds() -> None:
    talk = Talk().hear(voice(400), INTERRUPTED)
    assert talk.of(ResponseDone) == []
    assert talk.wait(2.9).of(ResponseDone) == []
    assert len(talk.wait(0.2).of(ResponseDone)) == 1
    assert talk.hear(over()).of(ResponseDone) == talk.of(ResponseDone)[:1]
    assert talk.clear().hear(voice(), GENERATED, over()).of(ResponseDone)[0].status is COMPLETED


def test_audio_that_was_on_its_way_when_the_server_stopped_is_dropped() -> None:
    talk = Talk().hear(voice(400), INTERRUPTED, voice(100), voice(100), over())
    assert [event.item_id for event in talk.of(AudioDelta)] == ["g-turn-1"]
    assert talk.of(ResponseDone)[0].status is CANCELLED


def test_what_comes_after_the_end_of_an_interrupted_turn_is_another_turn() -> None:
    talk = Talk().hear(voice(400), INTERRUPTED, over(), voice(100))
    assert [event.item_id for event in talk.of(AudioDelta)] == ["g-turn-1", "g-turn-2"]


def test_a_server_that_forgets_to_end_an_interrupted_turn_is_heard_again_after_a_while() -> None:
    talk = Talk().hear(voice(400), INTERRUPTED).wait(3.5).hear(voice(100))
    assert [event.item_id for event in talk.of(AudioDelta)] == ["g-turn-1", "g-turn-2"]


def test_requests_in_a_row_do_not_cut_each_other_off() -> None:
    talk = Talk().respond(instructions="Greet.").respond().respond(instructions="Ask.", tools=False)
    assert talk.asked() == ["[Greet.]"]
    talk.hear(voice(400), GENERATED, over()).wait(1.1)
    assert talk.asked() == ["[Greet.]", "[Ask.]"]


def test_a_request_waits_for_the_answer_to_another_only_for_a_moment() -> None:
    talk = Talk().respond(instructions="Greet.").respond(instructions="Say something.").wait(0.9)
    assert talk.asked() == ["[Greet.]"]
    assert talk.wait(0.2).asked() == ["[Greet.]", "[Say something.]"]


def test_the_model_is_told_what_was_heard() -> None:
    talk = Talk().hear(voice(5000), says("We are open from nine to five on weekdays."), INTERRUPTED)
    talk.interrupt("g-turn-1", 2500)
    assert talk.noted() == [
        ("user", '[The caller interrupted. Of your last answer only this was heard: "We are open from nine"]')
    ]


@pytest.mark.parametrize("profile", [NATIVE_25, FLASH_31])
def test_a_model_that_takes_no_notes_gets_none(profile) -> None:
    talk = Talk(profile).hear(voice(5000), says("We are open."), INTERRUPTED).interrupt("g-turn-1", 100)
    assert talk.sent == []


def test_what_was_heard_to_its_end_needs_no_note() -> None:
    talk = Talk().hear(voice(1000), says("Yes."), GENERATED, INTERRUPTED).interrupt("g-turn-1", 990)
    assert talk.interrupt("", 0).interrupt("unknown", 5).sent == []


def test_an_interruption_by_the_call_mutes_the_turn_until_the_server_ends_it() -> None:
    talk = Talk().hear(voice(400)).interrupt("g-turn-1", 100).clear()
    talk.hear(voice(400), says("more"), voice(400))
    assert talk.of(AudioDelta) == []
    talk.respond(instructions="Read the key.").hear(INTERRUPTED, over(), voice(100))
    assert talk.of(Interrupted) == []  # the call knows: it was its own doing
    assert [event.item_id for event in talk.of(AudioDelta)] == ["g-turn-2"]


def test_an_interruption_that_is_reported_late_does_not_mute_the_answer_to_it() -> None:
    talk = (
        Talk().hear(voice(400), INTERRUPTED, over(), activity("END"), voice(100)).interrupt("g-turn-1", 100)
    )
    assert talk.hear(voice(100)).of(AudioDelta)[-1].item_id == "g-turn-2"


def test_what_plays_of_an_earlier_turn_stops_with_the_one_that_is_being_made() -> None:
    talk = Talk().hear(voice(9000), GENERATED, over(), voice(400)).interrupt("g-turn-1", 3000).clear()
    assert talk.hear(voice(400)).of(AudioDelta) == []


def test_a_call_of_a_muted_turn_is_answered_and_never_run() -> None:
    talk = Talk().hear(voice(400)).interrupt("g-turn-1", 100).hear(calls(("f1", "end_call")))
    assert talk.of(ToolCallsRequested) == []
    assert talk.answered()[0]["response"]["reason_code"] == "response_interrupted"


# Asking.


def test_a_greeting_is_asked_for_with_its_instructions() -> None:
    talk = Talk().respond(instructions="Greet the caller.")
    assert talk.asked() == ["[Greet the caller.]"]


def test_a_model_without_client_content_is_asked_by_realtime_text() -> None:
    talk = Talk(FLASH_31).text("DTMF 5 pressed").respond()
    assert talk.sent == [{"realtimeInput": {"text": "DTMF 5 pressed\n[Please answer now.]"}}]


def test_words_for_a_model_that_takes_no_notes_go_along_with_the_next_request() -> None:
    talk = Talk(NATIVE_25).text("DTMF 5 pressed")
    assert talk.sent == []
    assert [turn["parts"][0]["text"] for turn in talk.respond().sent[0]["clientContent"]["turns"]] == [
        "DTMF 5 pressed",
        "[Please answer now.]",
    ]


def test_requests_wait_for_the_end_of_a_turn_and_become_one() -> None:
    talk = Talk().hear(voice(400)).respond(instructions="A.").respond().respond(instructions="B.")
    assert talk.hear(GENERATED).asked() == []
    assert talk.hear(over()).asked() == ["[A.\nB.]"]


def test_a_turn_that_brings_nothing_more_does_not_hold_up_a_request() -> None:
    talk = Talk().hear(voice(400)).wait(1.0).respond()
    assert talk.asked() == []
    again = Talk().hear(voice(400)).wait(1.8).respond()
    assert again.asked() == ["[Please answer now.]"]
    again.hear(INTERRUPTED, over(), voice(100))
    assert again.of(Interrupted) == []
    assert [event.item_id for event in again.of(AudioDelta)] == ["g-turn-1", "g-turn-2"]


def test_a_turn_that_is_still_played_is_waited_for() -> None:
    assert Talk().hear(voice(4000)).wait(3.0).respond().asked() == []


def test_in_progress_keeps_a_request_waiting_until_idle() -> None:
    talk = Talk().hear(voice(400), over(interactionStatus="IN_PROGRESS")).respond(instructions="A.")
    assert talk.asked() == []
    assert len(talk.of(ResponseDone)) == 1
    talk.hear(voice(400), over(interactionStatus="IDLE"))
    assert talk.asked() == ["[A.]"]


def test_in_progress_does_not_last_for_ever() -> None:
    talk = Talk().hear(voice(400), over(interactionStatus="IN_PROGRESS")).respond(instructions="A.")
    assert talk.wait(16).asked()[:1] == ["[A.]"]


def test_fault_34_a_text_that_is_ignored_is_sent_again_then_the_call_is_told() -> None:
    talk = Talk().respond(instructions="Greet the caller.")
    assert talk.wait(2.9).asked() == ["[Greet the caller.]"]
    assert talk.wait(0.2).asked() == ["[Greet the caller.]"] * 2
    talk.wait(3.0)
    assert talk.conversation.stuck
    assert talk.wait(3.0).of(ProviderWarning)[-1].code == NO_ANSWER
    assert talk.wait(60).asked() == ["[Greet the caller.]"] * 2


def test_an_answer_in_time_needs_no_second_request() -> None:
    talk = Talk().respond(instructions="Greet.").wait(2.0).hear(voice(), GENERATED, over()).wait(60)
    assert len(talk.asked()) == 1
    assert talk.of(ProviderWarning) == []


def test_waiting_for_input_owes_nothing() -> None:
    waiting = {"serverContent": {"waitingForInput": True}}
    assert len(Talk().respond().hear(waiting).wait(60).asked()) == 1


@pytest.mark.report("BR-112")
def test_fault_32_the_caller_finished_and_nothing_comes() -> None:
    talk = Talk().hear(caller("Hello?", finished=True), caller(" Are you there?", finished=True))
    assert talk.wait(7.9).asked() == []
    assert talk.wait(0.2).asked() == ["[Please answer now.]"]
    talk.wait(8.0)
    assert talk.conversation.stuck
    assert talk.wait(8.0).of(ProviderWarning)[-1].code == NO_ANSWER


def test_fault_32_a_phantom_interruption_is_followed_by_a_question_not_by_silence() -> None:
    talk = Talk().hear(voice(400), INTERRUPTED, over())
    assert talk.wait(8.1).asked() == ["[Please answer now.]"]


def test_a_caller_who_says_nothing_is_owed_nothing() -> None:
    talk = Talk().hear(voice(), GENERATED, over()).wait(120)
    assert talk.sent == []
    assert talk.of(ProviderWarning) == []


def test_nobody_is_asked_while_the_caller_speaks() -> None:
    talk = Talk().hear(activity("START"), caller("Well ")).wait(30)
    assert talk.asked() == []
    assert talk.hear(activity("END")).wait(8.1).asked() == ["[Please answer now.]"]


# Turns that fail.


@pytest.mark.parametrize(
    "reason", ["RESPONSE_REJECTED", "MALFORMED_FUNCTION_CALL", "PROHIBITED_INPUT_CONTENT"]
)
def test_a_rejected_turn_is_failed_with_its_reason_and_whoever_waits_for_it_asks_again(reason: str) -> None:
    talk = Talk().respond(instructions="Greet.").hear(over(reason)).wait(60)
    assert talk.of(ResponseDone) == [ResponseDone("g-response-1", FAILED, reason=reason.lower())]
    assert talk.asked() == ["[Greet.]"]
    assert talk.respond(instructions="Greet.").asked() == ["[Greet.]"] * 2


def test_fault_35_three_rejected_turns_in_a_row_need_another_session() -> None:
    talk = Talk().hear(*[over("RESPONSE_REJECTED")] * 2)
    assert talk.conversation.lost is None
    talk.hear(over("RESPONSE_REJECTED"))
    assert talk.conversation.lost == ("response_rejected", "the provider rejects what the model says")


def test_a_turn_that_was_heard_forgives_the_rejected_ones_before_it() -> None:
    talk = Talk().hear(*[over("RESPONSE_REJECTED")] * 2, voice(), over(), *[over("RESPONSE_REJECTED")] * 2)
    assert talk.conversation.lost is None


@pytest.mark.parametrize("reason", ["", "NEED_MORE_INPUT", "TURN_COMPLETE_REASON_UNSPECIFIED"])
def test_the_end_of_nothing_is_nothing(reason: str) -> None:
    talk = Talk().hear(over(reason)).wait(60)
    assert (talk.events, talk.sent) == ([], [])


@pytest.mark.report("BR-115")
def test_a_turn_of_words_without_audio_ends_like_any_other_and_the_call_sees_that_none_came() -> None:
    talk = Talk().hear(says("Hello"), over()).wait(60)
    assert [type(event) for event in talk.events if not isinstance(event, AgentTranscript)] == [ResponseDone]
    assert talk.asked() == []


def test_a_reported_error_is_a_warning_and_no_end() -> None:
    talk = Talk().hear({"error": {"code": 3, "message": "no"}}, voice())
    assert [warning.code for warning in talk.of(ProviderWarning)] == ["server_error"]
    assert len(talk.of(AudioDelta)) == 1


FRAMES = st.sampled_from(
    [
        voice(100),
        voice(100, outputTranscription={"text": "x"}),
        says("words "),
        caller("hm "),
        caller("yes", finished=True),
        activity("START"),
        activity("END"),
        INTERRUPTED,
        GENERATED,
        over(),
        over("RESPONSE_REJECTED"),
        over(interactionStatus="IN_PROGRESS"),
        {"serverContent": {"waitingForInput": True}},
        {"usageMetadata": {"promptTokenCount": 3}},
    ]
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(FRAMES, st.floats(0, 4)), max_size=25), st.sampled_from([None, NATIVE_25, FLASH_31])
)
def test_whatever_a_server_says_each_item_ends_once_and_each_turn_is_done_once(steps, profile) -> None:
    talk = Talk(profile) if profile else Talk()
    for frame, seconds in steps:
        talk.hear(frame).wait(seconds)
    talk.wait(120)
    ended = [event.item_id for event in talk.of(AudioDone)]
    assert len(ended) == len(set(ended))
    assert {event.item_id for event in talk.of(AudioDelta)} == set(ended)
    done = [event.response_id for event in talk.of(ResponseDone)]
    assert len(done) == len(set(done))
    started, stopped = len(talk.of(SpeechStarted)), len(talk.of(SpeechStopped))
    assert 0 <= started - stopped <= 1
    finals = [event.item_id for event in talk.of(CallerTranscript) if event.final]
    assert len(finals) == len(set(finals))
