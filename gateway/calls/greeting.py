"""
The first words of a call (no I/O): what the model is asked for, or what is played in its place.

While a greeting that cannot be interrupted is being heard, the model hears silence, so that no turn detection
of its side stops it; what the caller says meanwhile is kept and reaches the model as soon as the greeting is
over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from config.conversation import Greeting as GreetingSettings
from gateway.media.level import ear
from gateway.media.playout import SILENCE_BYTE
from providers.types import AudioFormat, HistoryItem, Said

ITEM = "greeting"
"""The item of a recorded greeting."""
LONGEST_S = 30.0
"""Nobody is made to listen for longer than this."""
_LEAD_FRAMES = 15
"""What is kept before the first sound: its soft beginning."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """
    How a call begins.

    Args:
        instructions: What the model is asked for; ``None`` where a recording is played.
        recording: Audio in the line's format.
        text: Its words.
        interruptible: Whether the caller can cut it off.
    """

    instructions: str | None = None
    recording: bytes = b""
    text: str = ""
    interruptible: bool = True


def instructions(settings: GreetingSettings) -> str | None:
    """Return what the model is asked for; ``None`` where it has nothing to say itself."""
    return settings.ask if settings.say is None else say_exactly(settings.say)


def say_exactly(words: str) -> str:
    """Return the instruction to say fixed words."""
    return f"Say exactly these words, all of them and nothing else: {words}"


def said_before(settings: GreetingSettings | None) -> tuple[HistoryItem, ...]:
    """Return what a session is told: the words of a recording that the caller hears first."""
    return () if settings is None or settings.text is None else (Said("agent", settings.text),)


def cut_note(heard: str) -> str:
    """Tell the model how much of a recorded greeting was heard."""
    if not heard:
        return "The caller interrupted the recorded greeting and heard nothing of it."
    return f'The caller interrupted the recorded greeting. Only this was heard of it: "{heard}"'


class Floor:
    """
    Lets the caller's voice through, or keeps it back while the greeting has the floor.

    Args:
        line: The format of the caller's audio.
        held: Whether the greeting has the floor from the beginning.
    """

    def __init__(self, line: AudioFormat, *, held: bool) -> None:
        self.held = held
        """Whether :meth:`take` keeps audio back; else nobody needs to call it."""
        self._is_audible: Callable[[bytes], bool] = ear(line)
        self._silence = SILENCE_BYTE[line.encoding]
        self._lead: deque[bytes] = deque(maxlen=_LEAD_FRAMES)
        self._kept: list[bytes] = []
        self._room = int(LONGEST_S * 1000) * line.bytes_per_ms
        self._released = b""

    def take(self, audio: bytes) -> bytes:
        """Keep a piece of the caller's voice and return silence of its length, or let it through."""
        if not self.held:
            kept, self._released = self._released, b""
            return kept + audio
        if not self._kept and not self._is_audible(audio):
            self._lead.append(audio)
        elif self._room >= len(audio):
            if not self._kept:
                self._kept += self._lead
            self._kept.append(audio)
            self._room -= len(audio)
        return self._silence * len(audio)

    @property
    def spoken_over(self) -> bool:
        """Whether the caller said something that was kept."""
        return bool(self._kept)

    def release(self) -> None:
        """End the greeting: what was kept goes out with the next piece, from its first sound on."""
        if self.held:
            self.held = False
            self._released = b"".join(self._kept)
            self._kept = []
