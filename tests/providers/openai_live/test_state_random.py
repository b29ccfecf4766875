"""Whatever a server says and a caller does: calls are answered once, items end once, and nothing breaks."""

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.openai.messages import FunctionCall
from providers.openai_live.ear import Ear
from providers.openai_live.messages import (
    AgentTextReceived,
    AnswerCall,
    CallerTextReceived,
    ContinueResponse,
    ErrorReported,
    FunctionCallReceived,
    ResponseBegan,
    ResponseFinished,
    TaskDelegated,
    UsageReported,
)
from providers.openai_live.state import Conversation
from providers.openai_live.voice import Voice
from providers.types import AudioDelta, AudioDone, CallerTranscript, ResponseStatus, ToolCallsRequested
from tools.types import ToolResult, ToolStatus

SPEECH = 1e6
IDS = st.integers(1, 3)
MESSAGES = st.one_of(
    st.builds(AgentTextReceived, st.just(" word"), st.integers(0, 20_000), st.integers(0, 20_000)),
    st.builds(CallerTextReceived, st.just(" word"), st.integers(0, 20_000), st.integers(0, 20_000)),
    st.builds(TaskDelegated, st.just("dlg_1"), st.booleans()),
    st.builds(UsageReported, st.floats(0, 100)),
    st.builds(lambda n: ResponseBegan(f"dlg_{n}", f"resp_{n}"), IDS),
    st.builds(
        lambda n, m, done: FunctionCallReceived(f"dlg_{n}", FunctionCall(f"call_{m}", "look_up", "{}", done)),
        IDS, IDS, st.booleans(),
    ),
    st.builds(
        lambda n, status: ResponseFinished(f"dlg_{n}", f"resp_{n}", status),
        IDS, st.sampled_from([ResponseStatus.COMPLETED, ResponseStatus.FAILED, ResponseStatus.INCOMPLETE]),
    ),
    st.sampled_from(["", "commentary-1"]).map(lambda about: ErrorReported("e", "busy", "No.", about)),
)  # fmt: skip
STEPS = st.one_of(
    MESSAGES,
    st.tuples(st.booleans(), st.booleans(), st.integers(1, 60)),
    st.sampled_from(["respond", "respond-no-tools", "interrupt", "answer", "text", "wait"]),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=50))
def test_a_random_conversation_breaks_nothing(steps):
    voice = Voice(8, pause_ms=800, yield_ms=1200, buffer_ms=80)
    state = Conversation(voice, Ear(threshold=0.5, silence_ms=500), backend_model="thinker")
    now, events, sent = 10.0, [], []

    def take() -> None:
        events.extend(state.events())
        sent.extend(state.to_send())

    for step in steps:
        match step:
            case (caller, model, count):
                for _ in range(count):
                    state.caller_audio(SPEECH if caller else 0.0, 20, now=now)
                    played = state.receive_audio(bytes(160), loud=model, now=now)
                    take()
                    if played is not None:
                        events.append(played)
                    now += 0.02
            case "respond" | "respond-no-tools":
                state.respond(tools=step == "respond", now=now)
            case "interrupt":
                state.interrupt("voice_1", 100, now=now)
            case "answer":
                for request in [each for each in events if isinstance(each, ToolCallsRequested)]:
                    for call in request.calls:
                        state.answer(ToolResult(call.call_id, call.name, ToolStatus.OK))
            case "text":
                state.add_text("Something.", "user")
            case "wait":
                now += 2.0
                state.handle_timeout(now=now)
            case _:
                state.receive(step, now=now)
        take()
    state.lose("over", "It is over.")
    take()

    answered = [each.call_id for each in sent if isinstance(each, AnswerCall)]
    assert len(answered) == len(set(answered))
    asked = [call.call_id for each in events if isinstance(each, ToolCallsRequested) for call in each.calls]
    assert len(asked) == len(set(asked))
    assert sum(isinstance(each, ContinueResponse) for each in sent) <= len(answered)
    ended = [each.item_id for each in events if isinstance(each, AudioDone)]
    assert len(ended) == len(set(ended))
    assert {each.item_id for each in events if isinstance(each, AudioDelta)} <= set(ended)
    whole = {each.item_id for each in events if isinstance(each, CallerTranscript) and each.final}
    assert {each.item_id for each in events if isinstance(each, CallerTranscript)} == whole
