"""A Gemini conversation without a socket and without a clock, spoken to in the service's own frames."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from providers.gemini import wire
from providers.gemini.models import Profile, profile_of
from providers.gemini.owing import Patience
from providers.gemini.state import Conversation
from providers.types import AudioDelta

LIVE = profile_of("gemini-3.8-live", vertex=False)
NATIVE_25 = profile_of("gemini-2.5-flash-native-audio-preview-12-2025", vertex=False)
FLASH_31 = profile_of("gemini-3.1-flash-live-preview", vertex=False)
MIME = "audio/pcm;rate=24000"
GOLDEN = ("setup", "turn", "tool", "barge", "end")
DATA = Path(__file__).parent / "data"


def golden(name: str, side: str = "S") -> list[dict]:
    """The frames of one side of a recorded conversation."""
    lines = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]
    return [frame for who, frame in lines if who == side]


def voice(ms: int = 100, *, mime: str = MIME, **content) -> dict:
    """A frame with audio of the model."""
    data = base64.b64encode(bytes(ms * 48)).decode()
    parts = [{"inlineData": {"mimeType": mime, "data": data}}]
    return {"serverContent": {"modelTurn": {"role": "model", "parts": parts}, **content}}


def says(text: str, **more) -> dict:
    return {"serverContent": {"outputTranscription": {"text": text, **more}}}


def caller(text: str, **more) -> dict:
    return {"serverContent": {"inputTranscription": {"text": text, **more}}}


def calls(*each: tuple[str, str], **args) -> dict:
    made = [{"id": call_id, "name": name, "args": args} for call_id, name in each]
    return {"toolCall": {"functionCalls": made}}


def activity(kind: str) -> dict:
    return {"voiceActivity": {"type": f"ACTIVITY_{kind}"}}


def over(reason: str = "", **more) -> dict:
    content = {"turnComplete": True, **more}
    return {"serverContent": {**content, "turnCompleteReason": reason} if reason else content}


INTERRUPTED = {"serverContent": {"interrupted": True}}
GENERATED = {"serverContent": {"generationComplete": True}}


class Talk:
    """Keeps what a conversation reports (``events``) and sends (``sent``, as JSON); ``now`` is its clock."""

    def __init__(self, profile: Profile = LIVE, *, patience: Patience | None = None) -> None:
        self.conversation = Conversation(profile, "g", patience=patience)
        self.now = 0.0
        self.events: list = []
        self.sent: list[dict] = []

    def hear(self, *frames: dict) -> Talk:
        """Give frames of the server, as the session does."""
        for frame in frames:
            raw = json.dumps(frame).encode()
            audio = wire.audio_at_once(raw)
            if audio is None:
                self.conversation.receive(wire.decode(raw), now=self.now)
            else:
                item_id = self.conversation.receive_audio(audio, now=self.now)
                self.take()
                if item_id is not None:
                    self.events.append(AudioDelta(item_id, audio))
            self.take()
        return self

    def take(self) -> Talk:
        self.events += self.conversation.events()
        self.sent += [json.loads(wire.encode(message)) for message in self.conversation.to_send()]
        return self

    def respond(self, **more) -> Talk:
        self.conversation.respond(**more, now=self.now)
        return self.take()

    def text(self, text: str, role: str = "user") -> Talk:
        self.conversation.add_text(text, role)
        return self.take()

    def answer(self, result) -> Talk:
        self.conversation.answer(result, now=self.now)
        return self.take()

    def interrupt(self, item_id: str, heard_ms: int) -> Talk:
        self.conversation.interrupt(item_id, heard_ms, now=self.now)
        return self.take()

    def wait(self, seconds: float) -> Talk:
        """Let time pass, with every timer on the way."""
        end = self.now + seconds
        for _ in range(200):
            at = self.conversation.next_timeout()
            if at is None or at > end:
                break
            self.now = max(self.now, at)
            self.conversation.handle_timeout(now=self.now)
            self.take()
        else:
            raise AssertionError("a timer that is due for ever")
        self.now = end
        return self

    def of(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]

    def clear(self) -> Talk:
        self.events.clear()
        self.sent.clear()
        return self

    def asked(self) -> list[str]:
        """The last text of each request for an answer."""
        found = []
        for frame in self.sent:
            if frame.get("clientContent", {}).get("turnComplete"):
                found.append(frame["clientContent"]["turns"][-1]["parts"][0]["text"])
            elif "text" in frame.get("realtimeInput", {}):
                found.append(frame["realtimeInput"]["text"])
        return found

    def noted(self) -> list[tuple[str, str]]:
        """Role and words of each turn that was put in without asking for an answer."""
        return [
            (turn["role"], turn["parts"][0]["text"])
            for frame in self.sent
            if "clientContent" in frame and not frame["clientContent"]["turnComplete"]
            for turn in frame["clientContent"]["turns"]
        ]

    def answered(self) -> list[dict]:
        return [
            response
            for frame in self.sent
            if "toolResponse" in frame
            for response in frame["toolResponse"]["functionResponses"]
        ]
