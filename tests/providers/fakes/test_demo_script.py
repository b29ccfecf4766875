"""The three calls of the demo, played with both fakes and a caller that does what the demo's caller does."""

import pytest

from providers.fakes.script import SCRIPTS_FOLDER, load_script
from providers.fakes.speech import Tone, render, silence
from providers.fakes.voice_core import VoiceCore
from providers.types import (
    PCMU,
    AgentTranscript,
    AudioDelta,
    CallerTranscript,
    SessionSetup,
    ToolCallsRequested,
)
from tools.types import ToolResult, ToolStatus

DEMO = load_script(SCRIPTS_FOLDER / "demo.yaml")


class Call:
    """A call to the fake provider: the caller hears in real time what comes in bursts."""

    def __init__(self, prompt):
        self.now = 0.0
        self.core = VoiceCore(DEMO, SessionSetup(prompt, "", (), PCMU), PCMU, PCMU, now=0.0)
        self.log = []
        self.core.respond("Greet the caller.", 0.0, tools=True)
        self.listen()

    def step(self, audio):
        self.core.hear(audio, self.now)
        self.now += 0.02
        self.core.handle_timeout(self.now)
        for event in self.core.events():
            match event:
                case ToolCallsRequested(calls=calls):
                    self.log.append(tuple(call.name for call in calls))
                    self.answer(calls)
                case AgentTranscript(text=text, final=True):
                    self.log.append(text)
                case CallerTranscript(text=text):
                    self.log.append(f"caller: {text}")

    def answer(self, calls):
        for call in calls:
            refused = call.name == "transfer_call" and "+12125551234" not in call.arguments
            status = ToolStatus.INVALID_ARGUMENTS if refused else ToolStatus.OK
            self.core.take_result(ToolResult(call.call_id, call.name, status))
        if calls[0].name not in ("end_call",) and not (calls[0].name == "transfer_call" and not refused):
            self.core.respond(None, self.now, tools=True)

    def listen(self, seconds=16.0):
        for _ in range(int(seconds * 50)):
            self.step(silence(20, PCMU))

    def say(self, seconds=1.0):
        for _ in range(int(seconds * 50)):
            self.step(render(Tone(300, 20), PCMU))
        self.listen(0.6)


def test_first_call_barge_in_two_tools_and_goodbye():
    call = Call("You are the front desk.")
    call.say()
    call.listen(1.5)
    call.say()
    call.listen(8)
    call.say()
    call.listen(6)
    assert call.log == [
        "Hello, this is the front desk. How can I help you?",
        "caller: Good morning. When are you open, please?",
        call.log[2],
        ("lookup_caller", "query_knowledge"),  # at once; the transcript takes a moment
        "caller: Excuse me, I have to interrupt you. What do you know about me, and are you open today?",
        "I have found you, and I have read our handbook. We are open until six today.",
        "caller: Thank you, that was all.",
        "Thank you for calling. Have a good day. Goodbye.",
        ("end_call",),
    ]
    assert call.log[2].startswith("Let me tell you")
    assert "Friday" not in call.log[2]
    assert call.core.unanswered == ()


def test_second_call_is_transferred_to_sales():
    call = Call("demo-sales: you are the front desk.")
    call.say()
    call.listen(5)
    assert call.log[-2:] == ["I will connect you with Sales now. Please hold the line.", ("transfer_call",)]


def test_a_failed_transfer_is_explained_and_the_call_goes_on():
    call = Call("demo-sales: you are the front desk.")
    call.say()
    call.listen(5)
    call.core.take_text("The transfer to Sales failed: busy. The caller is still on the line.", "system")
    call.core.respond(None, call.now, tools=True)
    call.listen(6)
    assert call.log[-1].startswith("I am sorry, nobody could take your call there.")
    call.say()
    call.listen(5)
    assert call.log[-1] == ("end_call",)


def test_third_call_is_refused_a_number_and_goes_on():
    call = Call("demo-neighbour: you are the front desk.")
    call.say()
    call.listen(10)
    assert call.log[-3:] == [
        "I will try to connect you with that number.",
        ("transfer_call",),
        "I am sorry, I cannot transfer you to that number. What else can I do for you?",
    ]
    call.say()
    call.listen(5)
    assert call.log[-1] == ("end_call",)


@pytest.mark.parametrize("prompt", ["", "demo-sales", "demo-neighbour"])
def test_the_server_greets_the_same(dial, prompt):
    text = (SCRIPTS_FOLDER / "demo.yaml").read_text()
    line = dial(text)
    line.send("session.update", session={"type": "realtime", "instructions": prompt})
    line.send("response.create")
    line.run(2)
    spoken = line.spoken(line.last("response.done")["response"]["output"][0]["id"])
    call = VoiceCore(DEMO, SessionSetup(prompt, "", (), PCMU), PCMU, PCMU, now=0.0)
    call.respond(None, 0.0, tools=True)
    call.handle_timeout(0.0)
    while (due := call.next_timeout()) is not None:
        call.handle_timeout(due)
    assert b"".join(e.audio for e in call.events() if isinstance(e, AudioDelta)) == spoken
