"""
The caller's turns, as far as the server tells of them.

Some models report voice activity, others only transcripts, in pieces and with no place relative to the
model's own turn. Either way a turn begins once, has its words under one id, and ends once: with the
server's word for it, or at the latest when the model answers.
"""

from __future__ import annotations

from collections.abc import Callable

from providers.gemini.messages import Transcription, Turn, VoiceActivity
from providers.types import CallerTranscript, ProviderEvent, SpeechStarted, SpeechStopped

_LIMIT = 4000
"""Characters of one turn; a transcript without an end does not grow for ever."""


class CallerTurns:
    """
    Reports when the caller speaks and what was said.

    Args:
        prefix: Begins the ids of the turns.
        report: Takes the events.
        remember: Takes what was said in a turn that is over.
    """

    def __init__(
        self, prefix: str, report: Callable[[ProviderEvent], None], remember: Callable[[Turn], None]
    ) -> None:
        self.speaking = False
        self.reported = False
        """Whether the server says itself when the caller speaks."""
        self._report = report
        self._remember = remember
        self._prefix = prefix
        self._count = 0
        self._item_id = ""
        self._text = ""

    def receive(self, activity: VoiceActivity) -> bool | None:
        """Take the server's word; return whether the caller begins, or ends, to speak."""
        self.reported = True
        match activity.type or activity.voice_activity_type:
            case "ACTIVITY_START":
                self.began()
                return True
            case "ACTIVITY_END" if self.ended():
                return False
            case _:
                return None

    def began(self) -> None:
        """Note that the server hears the caller."""
        if not self.speaking:
            self.settle()
            self.speaking = True
            self._report(SpeechStarted())
            self._open()  # its place in the conversation; the words come later, in any order

    def ended(self) -> bool:
        """Note that the server hears the caller no more; say whether it did before."""
        spoke, self.speaking = self.speaking, False
        if spoke:
            self._report(SpeechStopped())
        return spoke

    def add(self, piece: Transcription) -> None:
        """Take a piece of the transcript."""
        if piece.text:
            if not self._item_id:
                self._open()
            self._text += piece.text[: max(0, _LIMIT - len(self._text))]
            self._report(CallerTranscript(self._item_id, piece.text, final=False))
        if piece.finished:
            self.settle()

    def settle(self) -> None:
        """Report the whole of what was said, if anything is open."""
        if not self._item_id:
            return
        text = self._text.strip()
        self._report(CallerTranscript(self._item_id, text, final=True))
        if text:
            self._remember(Turn(text))
        self._item_id, self._text = "", ""

    def _open(self) -> None:
        self._count += 1
        self._item_id = f"{self._prefix}-caller-{self._count}"
        self._report(CallerTranscript(self._item_id, "", final=False))
