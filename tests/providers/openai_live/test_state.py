"""One GPT-Live conversation: what is sent and reported for what happens."""

import pytest

from providers.openai.messages import FunctionCall
from providers.openai_live.ear import Ear
from providers.openai_live.level import power_at
from providers.openai_live.messages import (
    AgentTextReceived,
    AnswerCall,
    AppendContext,
    CallerTextReceived,
    Context,
    ContinueResponse,
    ErrorReported,
    FunctionCallReceived,
    ResponseBegan,
    ResponseFinished,
    SendSilence,
    SessionClosed,
    TaskDelegated,
    UpdateSession,
    UsageReported,
)
from providers.openai_live.state import STALLED_S, Conversation
from providers.openai_live.voice import Voice
from providers.types import (
    NO_ANSWER,
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
    Usage,
)
from tools.types import ToolResult, ToolStatus

SPEECH, SILENCE = power_at(-25.0), 0.0


class Told:
    """A conversation in a time of its own: 20 ms of the caller, then 20 ms of the model."""

    def __init__(self, *, buffer_ms: int = 0) -> None:
        voice = Voice(8, pause_ms=800, yield_ms=1200, buffer_ms=buffer_ms)
        self.state = Conversation(voice, Ear(threshold=0.5, silence_ms=500), backend_model="thinker")
        self.now = 100.0
        self.events: list = []
        self.sent: list = []
        self.state.begin(now=self.now)

    def run(self, ms: int, *, caller: float = SILENCE, model: float = SILENCE) -> "Told":
        for _ in range(ms // 20):
            self.state.caller_audio(caller, 20, now=self.now)
            played = self.state.receive_audio(bytes(160), loud=model > 1, now=self.now)
            self.take()
            if played is not None:
                self.events.append(played)
            self.now += 0.02
        return self

    def wait(self, seconds: float) -> "Told":
        until = self.now + seconds
        while (at := self.state.next_timeout()) is not None and at <= until:
            self.now = max(self.now, at)
            self.state.handle_timeout(now=self.now)
            self.take()
        self.now = until
        return self

    def hear(self, *messages) -> "Told":
        for message in messages:
            self.state.receive(message, now=self.now)
            self.take()
        return self

    def respond(self, **options) -> "Told":
        self.state.respond(now=self.now, **options)
        return self.take()

    def take(self) -> "Told":
        self.events += self.state.events()
        self.sent += self.state.to_send()
        return self

    def of(self, kind: type) -> list:
        return [each for each in self.events + self.sent if isinstance(each, kind)]

    def contexts(self) -> list[tuple[Context, str]]:
        return [(each.context, each.text) for each in self.of(AppendContext)]


def call(call_id: str = "call_1", where: str = "dlg_1") -> list:
    done = FunctionCall(call_id, "look_up", "{}", completed=True)
    return [
        ResponseBegan(where, f"resp_{call_id}"),
        FunctionCallReceived(where, done),
        ResponseFinished(
            where, f"resp_{call_id}", ResponseStatus.COMPLETED, usage=Usage(text_in=9, text_out=2)
        ),
    ]


def result(call_id: str = "call_1") -> ToolResult:
    return ToolResult(call_id, "look_up", ToolStatus.OK)


def test_the_greeting_is_asked_for_as_commentary():
    told = Told().respond(instructions="Greet the caller.")
    assert told.contexts() == [(Context.COMMENTARY, "Greet the caller.")]


def test_what_the_system_says_is_an_instruction_and_all_else_is_to_be_known():
    told = Told()
    told.state.add_text("The transfer failed.", "system")
    told.state.add_text("DTMF 5 pressed", "user")
    told.respond()
    assert told.contexts()[:2] == [
        (Context.INSTRUCTIONS, "The transfer failed."),
        (Context.THINKING, "DTMF 5 pressed"),
    ]
    assert told.contexts()[2][0] is Context.COMMENTARY


def test_a_long_text_comes_in_pieces_and_a_long_request_becomes_an_instruction():
    told = Told()
    told.state.add_text("word " * 700, "user")
    told.respond(instructions="say " * 700)
    kinds = [kind for kind, _ in told.contexts()]
    assert kinds == [Context.THINKING] * 3 + [Context.INSTRUCTIONS] * 2 + [Context.COMMENTARY]
    assert all(len(text.encode()) <= 1500 for _, text in told.contexts())
    assert "".join(text.replace(" ", "") for _, text in told.contexts()[:3]) == "word" * 700


def test_tools_are_answered_and_the_backend_goes_on_by_itself():
    told = Told().hear(*call())
    assert [each.calls[0].name for each in told.of(ToolCallsRequested)] == ["look_up"]
    told.state.answer(result())
    told.state.answer(result())
    told.take()
    assert len(told.of(AnswerCall)) == 1
    assert told.of(ContinueResponse) == []
    told.respond()
    assert len(told.of(ContinueResponse)) == 1
    assert told.contexts() == []


def test_what_is_kept_against_jitter_reaches_the_call_before_a_tool_call_does():
    """The call may end on it: it has to know that something is being said."""
    told = Told(buffer_ms=200).run(80, model=SPEECH)
    assert told.events == []
    told.hear(*call())
    assert [type(each).__name__ for each in told.events] == ["AudioDelta", "ToolCallsRequested"]
    told.run(200, model=SPEECH)
    assert len([each for each in told.events if type(each).__name__ == "AudioDelta"]) == 11


def test_tools_can_be_forbidden_for_one_response():
    told = Told().hear(*call())
    told.state.answer(result())
    told.respond(tools=False)
    told.hear(ResponseBegan("dlg_1", "resp_2"), ResponseFinished("dlg_1", "resp_2", ResponseStatus.COMPLETED))

    choices = [each.session["delegation"]["responses"]["tool_choice"] for each in told.of(UpdateSession)]
    assert choices == ["none", "auto"]
    order = [type(each) for each in told.sent]
    assert order.index(UpdateSession) < order.index(ContinueResponse)


def test_tools_that_were_forbidden_are_allowed_again_as_soon_as_the_caller_speaks():
    told = Told().respond(instructions="Say goodbye.", tools=False).run(400, caller=SPEECH)
    choices = [each.session["delegation"]["responses"]["tool_choice"] for each in told.of(UpdateSession)]
    assert choices == ["none", "auto"]


def test_an_instruction_beside_open_answers_is_said_at_once():
    told = Told().hear(*call())
    told.state.answer(result())
    told.respond(instructions="Say goodbye.")
    assert told.contexts() == [(Context.COMMENTARY, "Say goodbye.")]
    assert told.of(ContinueResponse) == []


def test_a_failed_backend_is_told_and_its_calls_are_refused():
    failed = ResponseFinished("dlg_1", "resp_1", ResponseStatus.FAILED, "rate_limit_exceeded")
    told = Told().hear(ResponseBegan("dlg_1", "resp_1"), *call()[1:2], failed)
    assert told.of(ResponseDone) == [
        ResponseDone("resp_1", ResponseStatus.FAILED, reason="rate_limit_exceeded")
    ]
    assert "response_failed" in told.of(AnswerCall)[0].output
    assert told.of(ToolCallsRequested) == []


def test_a_task_for_us_is_declined_so_that_nobody_waits_for_it():
    told = Told().hear(TaskDelegated("dlg_9", to_client=True), TaskDelegated("dlg_8", to_client=False))
    assert [(each.context, each.delegation_id) for each in told.of(AppendContext)] == [
        (Context.THINKING, "dlg_9")
    ]


def test_the_caller_s_speech_is_told_from_the_audio():
    told = Told().run(200).run(600, caller=SPEECH).run(600)
    assert [type(each) for each in told.events] == [SpeechStarted, SpeechStopped]


def test_an_answer_ends_the_caller_s_turn_before_its_own_silence_does():
    told = Told().run(600, caller=SPEECH).run(200).run(100, model=SPEECH)
    kinds = [type(each) for each in told.events]
    assert kinds[:2] == [SpeechStarted, SpeechStopped]
    assert kinds[2].__name__ == "AudioDelta"


def test_a_caller_who_barges_in_makes_the_model_yield():
    told = Told().run(1000, model=SPEECH).run(300, model=SPEECH, caller=SPEECH).run(300, caller=SPEECH)
    assert [type(each) for each in told.events if type(each).__name__ != "AudioDelta"] == [
        SpeechStarted, Interrupted, AudioDone, ResponseDone,
    ]  # fmt: skip


def test_after_an_interruption_the_model_learns_what_was_heard():
    told = Told().run(1000, model=SPEECH)
    told.hear(AgentTextReceived("Hello", 0, 300), AgentTextReceived(" there", 300, 900))
    told.state.interrupt("voice_1", 400, now=told.now)
    told.take()
    context, text = told.contexts()[0]
    assert context is Context.THINKING
    assert '"Hello"' in text


def test_a_held_line_keeps_the_clock_going():
    told = Told().run(1000).wait(3.0)
    assert 2_800 <= sum(each.ms for each in told.of(SendSilence)) <= 3_000


def test_a_caller_on_hold_stops_speaking():
    told = Told().run(600, caller=SPEECH).wait(1.0)
    assert [type(each) for each in told.events] == [SpeechStarted, SpeechStopped]


def test_words_of_the_caller_become_a_turn():
    told = Told().run(600, caller=SPEECH).run(600)
    told.hear(CallerTextReceived("Good", 0, 200), CallerTextReceived(" day", 200, 500)).wait(1.1)
    assert told.of(CallerTranscript)[-1] == CallerTranscript("caller_1", "Good day", final=True)


def test_usage_is_seconds_and_the_tokens_of_the_backend_beside_them():
    told = Told().hear(
        UsageReported(10.0), *call(), UsageReported(8.0), SessionClosed("close_requested", 12.0)
    )
    assert told.state.usage == Usage(seconds=12.0, others={"thinker": Usage(text_in=9, text_out=2)})


@pytest.mark.parametrize("reason", ["expired", "content", "connection_lost"])
def test_a_closed_session_is_lost_and_what_was_said_is_reported(reason):
    told = Told().run(400, model=SPEECH).run(200, caller=SPEECH, model=SPEECH)
    told.hear(CallerTextReceived("Wait", 0, 200), SessionClosed(reason, 1.0))
    assert told.state.lost[0] == reason
    assert told.of(CallerTranscript)[-1].text == "Wait"
    assert told.of(AudioDone) == [AudioDone("voice_1")]


def test_a_server_that_streams_and_then_falls_silent_is_given_up():
    told = Told().run(1000).wait(STALLED_S - 0.1)
    assert told.state.lost is None
    told.wait(0.2)
    assert told.state.lost[0] == "stalled"


def test_the_end_of_the_session_is_announced():
    told = Told()
    told.state.expire_after(400.0, now=told.now)
    for _ in range(99):
        told.run(1000)
    assert told.of(SessionEnding) == []
    told.run(2000).wait(0.05)
    assert [round(each.after) for each in told.of(SessionEnding)] in ([299], [300])


def test_a_refused_request_to_speak_is_repeated_once():
    told = Told().respond(instructions="Greet.")
    told.hear(ErrorReported("invalid_request_error", "busy", "No.", told.of(AppendContext)[-1].event_id))
    told.wait(0.3)
    assert told.contexts() == [(Context.COMMENTARY, "Greet.")] * 2
    told.hear(ErrorReported("invalid_request_error", "busy", "No.", told.of(AppendContext)[-1].event_id))
    assert [each.code for each in told.of(ProviderWarning)] == ["busy", "busy", NO_ANSWER]


@pytest.mark.parametrize("code", ["insufficient_quota", "invalid_api_key", "session_expired"])
def test_a_fatal_error_ends_the_session_and_any_other_is_a_warning(code):
    told = Told().hear(ErrorReported("invalid_request_error", "unknown_parameter", "What?", ""))
    assert told.state.lost is None
    assert [each.code for each in told.of(ProviderWarning)] == ["unknown_parameter"]
    told.hear(ErrorReported("invalid_request_error", code, "No.", ""))
    assert told.state.lost[0] == code
