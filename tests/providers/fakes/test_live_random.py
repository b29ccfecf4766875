"""A client of the GPT-Live server may do anything: each answer is one that the SDK knows, nothing breaks."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.fakes.script_parser import parse_script
from providers.fakes.speech import Tone, render, silence
from providers.types import PCMU
from tests.kit.live_line import LiveLine

SCRIPT = parse_script(
    """
steps:
  - {on: greeting, repeat: true, say: {tone: 440, ms: 400, text: "Hello"}}
  - {on: caller_turn, repeat: true, say: {tone: 500, ms: 300, text: "Look"}, call: [{tool: a}, {tool: b}]}
  - {on: {tool_result: [a, b]}, repeat: true, say: {tone: 600, ms: 300, text: "Found"}}
  - {on: {idle: 2}, repeat: true, call: {tool: a}}
""",
    Path("random.yaml"),
)
SOUNDS = {"speech": render(Tone(300, 300), PCMU), "silence": silence(600, PCMU)}
STEPS = st.one_of(
    st.sampled_from(["speech", "silence"]).map(lambda name: ("audio", name)),
    st.sampled_from(["instructions", "thinking", "commentary"]).map(lambda name: ("append", name)),
    st.sampled_from([
        "session.start", "session.close", "session.input_audio.mute", "session.input_audio.unmute",
        "response.create", "session.forget", "session.update", "decision.create",
    ]).map(lambda name: ("send", name)),
    st.integers(0, 3).map(lambda index: ("answer", index)),
    st.floats(0, 3).map(lambda seconds: ("wait", seconds)),
    st.binary(max_size=20).map(lambda raw: ("raw", raw)),
)  # fmt: skip
FAULTS = st.sampled_from(
    ["", "keeps_talking", "early_calls", "failed", "cut_arguments", "silent_audio", "no_audio"]
)


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=25), FAULTS, st.booleans())
def test_a_random_client_breaks_nothing(steps, faults, starts):
    line = LiveLine(SCRIPT, faults)
    if starts:
        line.start()
    for kind, what in steps:
        if line.session.closing:
            break
        match kind:
            case "audio":
                line.audio(SOUNDS[what])
            case "append":
                line.append(what, "Something.")
            case "send":
                line.send(what)
            case "answer":
                called = [each["item"]["call_id"] for each in line.nested("response.output_item.done")
                          if each["item"]["type"] == "function_call"]  # fmt: skip
                item = {
                    "type": "function_call_output",
                    "call_id": (called or ["none"])[what % max(len(called), 1)],
                }
                line.send("response.item.create", item={**item, "output": "{}"})
            case "wait":
                line.wait(what)
            case _:
                line.session.receive(what, line.now)
                line.collect()
    assert starts or "session.started" not in line.types()
    assert len(line.voice) // 8 <= line.session.heard_ms
    answered = line.session.backend.ledger.answered
    assert not set(answered) & set(line.session.backend.ledger.open)
