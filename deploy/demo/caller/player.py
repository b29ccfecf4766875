"""Plays a story over a phone and an RTP stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from deploy.demo.caller.media import FRAME_S, Media
from deploy.demo.caller.phone import CallFailed, Phone
from deploy.demo.caller.report import Said, read_wav
from deploy.demo.caller.story import AwaitBye, BargeIn, HangUp, Listen, Say, Step, TakeTransfer

AUDIO = Path(__file__).parents[1] / "audio"
POLL_S = 0.010


class Player:
    """
    Plays one story.

    Args:
        phone: The phone, whose INVITE was answered.
        media: The RTP stream, running.
        patience: How many seconds a step may take.
    """

    def __init__(self, phone: Phone, media: Media, *, patience: float) -> None:
        self._phone = phone
        self._media = media
        self._patience = patience
        self.said: list[Said] = []
        self.notified: list[str] = []
        self._lines = dict(
            line.split("\t", 1) for line in (AUDIO / "lines.tsv").read_text().splitlines() if line
        )

    async def play(self, story: tuple[Step, ...]) -> str:
        """Go through the steps; return a sentence about the one that failed, or an empty text."""
        try:
            await self._play(story)
        except CallFailed as error:
            return str(error)
        return ""

    async def _play(self, story: tuple[Step, ...]) -> None:
        for step in story:
            if self._phone.ended.is_set() and not isinstance(step, AwaitBye):
                raise CallFailed(f"the gateway hung up before the caller could {_name(step)}")
            try:
                async with asyncio.timeout(self._patience):
                    await self._do(step)
            except TimeoutError:
                raise CallFailed(f"the caller waited {self._patience:g} s in vain to {_name(step)}") from None

    async def _do(self, step: Step) -> None:
        match step:
            case Listen(quiet):
                await self._until(lambda: self._media.quiet_for() >= quiet)
                self._media.new_turn()
            case Say(line):
                await self._say(line, interrupting=False)
            case BargeIn(line, after):
                await self._until(lambda: self._media.heard_for() >= after)
                await self._say(line, interrupting=True)
                self._media.new_turn()
            case TakeTransfer(outcome):
                await self._phone.referred.wait()
                await self._notify("100 Trying", final=False)
                await self._notify(outcome, final=True)
                if outcome.startswith("2"):
                    await self._phone.ended.wait()
                self._media.new_turn()
            case AwaitBye():
                await self._phone.ended.wait()
            case HangUp():
                await self._phone.bye()

    async def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            if self._phone.ended.is_set():
                raise CallFailed("the gateway hung up in the middle of the conversation")
            await asyncio.sleep(POLL_S)

    async def _say(self, line: str, *, interrupting: bool) -> None:
        pcm = read_wav(AUDIO / f"{line}.wav")
        began_at = self._media.started_at + len(self._media.sent) * FRAME_S
        self._media.say(pcm)
        await self._until(lambda: not self._media.speaking)
        ended_at = self._media.started_at + len(self._media.sent) * FRAME_S
        self.said.append(Said(line, self._lines[line], began_at, ended_at, interrupting))

    async def _notify(self, fragment: str, *, final: bool) -> None:
        await self._phone.notify(fragment, final=final)
        self.notified.append(fragment)


def _name(step: Step) -> str:
    match step:
        case Listen():
            return "hear the agent speak and pause"
        case Say(line):
            return f"say {line!r}"
        case BargeIn(line):
            return f"interrupt the agent with {line!r}"
        case TakeTransfer():
            return "be transferred (REFER)"
        case AwaitBye():
            return "see the gateway hang up (BYE)"
        case HangUp():
            return "hang up"
