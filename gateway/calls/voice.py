"""
The agent's voice on the line: plays what the model says, and writes down what of it was heard.

The agent speaks to one line at a time: the caller's, or that of a colleague who is asked (warm transfer).
"""

from __future__ import annotations

import asyncio

from gateway.calls import events as ev
from gateway.calls.conversation import Conversation
from gateway.calls.record import heard_part
from gateway.calls.report import Report
from gateway.legs.base import CallLeg, Cleared
from gateway.media.convert import Utterances
from providers.failover import History
from providers.types import AudioFormat


class AgentVoice:
    """
    Plays the agent's items on a line.

    Args:
        leg: The caller's line.
        source: The format of the model's audio.
        talk: Counts what was generated.
        report: Takes what was said.
        history: The same for sessions to come.
    """

    def __init__(
        self, leg: CallLeg, source: AudioFormat, talk: Conversation, report: Report, history: History
    ) -> None:
        self._leg = leg
        self.line = leg
        """Where the agent is heard."""
        self._source = source
        self._talk = talk
        self._report = report
        self._history = history
        self._convert = Utterances(source, leg.format)
        self._item = ""
        self._complete = asyncio.Event()
        """Set whenever something that was being said is complete, or was cut."""

    @property
    def is_with_caller(self) -> bool:
        return self.line is self._leg

    @property
    def party(self) -> str:
        """Who hears the agent, in the words of the record."""
        return "caller" if self.is_with_caller else "colleague"

    def play(self, item_id: str, audio: bytes) -> None:
        """Queue a piece of an item."""
        if item_id != self._item:
            if self._item:
                self._end(self._item)
            self._item = item_id
            self._history.agent(item_id, "")
        self.line.play(self._convert.convert(audio), item_id=item_id)

    def play_recording(self, item_id: str, recording: bytes) -> None:
        """Queue a whole recording in the line's format, which stands for words of the agent."""
        self._history.agent(item_id, "")
        self.line.play(recording, item_id=item_id)
        self.line.finish(item_id)

    def finish(self, item_id: str) -> None:
        """No more of this item comes."""
        self._talk.complete(item_id)
        self._complete.set()
        self._end(item_id)

    def _end(self, item_id: str) -> None:
        """Let the line have the last millisecond, too, and end the item there."""
        if item_id == self._item and (rest := self._convert.finish()):
            self.line.play(rest, item_id=item_id)
        self.line.finish(item_id)

    def speak_in(self, source: AudioFormat) -> None:
        """Take audio of another session from now on; what is queued of the last one is heard."""
        self._source = source
        self._rest()

    def turn_to(self, line: CallLeg) -> None:
        """Be heard on another line from now on."""
        self.line = line
        self._rest()

    def silence(self) -> tuple[Cleared, bool]:
        """Drop what is queued, and say what was, and whether more of it would have come."""
        cleared = self.line.clear()
        self._talk.answered()
        self._rest()  # what was cut leaves no tail
        unfinished = self._talk.is_unfinished(cleared.item_id)
        self.tell(cut=True)
        return cleared, unfinished

    def break_off(self, *, now: float) -> bool:
        """End what is unfinished, since no more of it comes; say whether the agent was cut off."""
        broken = self._talk.broke_off(now=now, unheard_ms=self.unheard_ms)
        for item in self._talk.open_items:
            self.finish(item)
        self._talk.answered()
        self.promise()
        return broken

    def promise(self) -> None:
        """Write down as heard what is still queued: it will be."""
        for item in self._talk.open_items:
            self._history.agent(item, self._talk.items[item].text)

    @property
    def unheard_ms(self) -> float:
        """How much of what the agent said is still to be heard."""
        return self._talk.unheard_ms({item: self.line.heard_ms(item) for item in self._talk.open_items})

    async def spoken(self) -> None:
        """Return when nothing is being said of which more audio would come."""
        while self._talk.is_speaking:
            self._complete.clear()
            await self._complete.wait()

    async def settle(self) -> None:
        """Settle the transcript when what is queued now has been heard."""
        await self.line.mark()
        self.tell(cut=False)

    def tell(self, *, cut: bool) -> None:
        """Publish the utterances whose place in the transcript is settled now."""
        self._complete.set()
        line = self.line
        heard = {item: line.heard_ms(item) for item in self._talk.open_items}
        for spoken in self._talk.cut(heard) if cut else self._talk.settled(heard):
            item, total_ms = spoken.item, round(spoken.item.generated_ms)
            began = line.began_at(item.id)
            said = item.text if not spoken.interrupted else heard_part(item.text, spoken.heard_ms, total_ms)
            self._history.agent(item.id, said)
            self._report(
                ev.AgentSaid,
                item.id,
                item.text,
                spoken.heard_ms,
                total_ms,
                None if began is None else self._report.since(began),
                self.party,
            )

    def _rest(self) -> None:
        self._convert = Utterances(self._source, self.line.format)
        self._item = ""
