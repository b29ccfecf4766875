"""
Normal calls, each of another seed, in which nobody waits in silence for longer than is normal.

The bridge, its watch, the recovery, the transcript and the playout are the real ones; line, model and clock
are the test's. Whoever sees a fault in one of these calls sees too much.
"""

import random

import pytest

from gateway.calls import events as ev
from gateway.calls.repair import Patience
from gateway.calls.silence import SilenceLimits
from gateway.legs.base import CallerAudio, DtmfReceived, HoldChanged
from providers.types import (
    AgentTranscript,
    AudioDelta,
    AudioDone,
    CallerTranscript,
    Interrupted,
    ResponseDone,
    ResponseStatus,
    SpeechStarted,
    SpeechStopped,
)
from tests.gateway.calls.scene import Scene, tool
from tests.kit import sound
from tests.kit.counts import counts

CALLS = counts(test=8, full=200)
SECONDS = 60.0
STEP_S = 0.06
QUIET = b"\xff" * 160


class NormalCall:
    """What a patient model and a caller of flesh and blood do, by a seed."""

    def __init__(self, scene, seed):
        self.scene = scene
        self.random = random.Random(seed)
        self.items = 0
        self.held = False
        level = self.random.choice([0.4, 0.4, 0.05])  # some callers are quiet
        speech = sound.encode(sound.utterance(seed, 2.0, level=level))
        self.speech = [speech[at : at + 160] for at in range(0, len(speech), 160)]

    async def passes(self, seconds, *, speaking=False):
        """Let time pass: the line plays and brings what it brings."""
        scene, end = self.scene, self.scene.now + seconds
        frame = 0
        while scene.now < end:
            for _ in range(3):
                scene.now += STEP_S / 3
                if not self.held:
                    scene.leg.hear(20)
                audio = self.speech[frame % len(self.speech)] if speaking else QUIET
                scene.leg.audio.put(CallerAudio(audio, 0))
                frame += 1
            scene.vigil.look()
            await scene.settle()

    async def replies(self, *, until=1.0, tools=False):
        """The model answers after a while of thought; ``until`` less than 1 stops in the middle."""
        think = self.random.choice([0.3, 1.0, 2.5, Patience().reply - 0.3])
        await self.passes(think)
        self.items += 1
        item, ms = f"item-{self.items}", self.random.randrange(300, 6000, 100)
        lead = min(self.random.choice([0, 200, 700]), ms // 3 // 100 * 100)
        await self.scene.says(AudioDelta(item, QUIET[:8] * lead))
        for at in range(lead, max(int(ms * until), lead + 200), 200):
            data = b"".join(self.speech[(at // 20 + n) % len(self.speech)] for n in range(10))
            await self.scene.says(AudioDelta(item, data))
            await self.passes(0.06)
        if until < 1.0:
            return
        if tools:
            await self.scene.says(AgentTranscript(item, "One moment.", final=True), AudioDone(item))
            return
        await self.scene.says(AgentTranscript(item, "Yes.", final=True), AudioDone(item), self.done())
        await self.passes(ms / 1000 + 0.1)

    def done(self, status=ResponseStatus.COMPLETED):
        return ResponseDone(f"resp-{self.items}", status)

    async def turn(self, *, interrupts=False):
        seconds = self.random.choice([0.5, 1.5, 3.0, 20.0])
        await self.scene.says(SpeechStarted(), Interrupted())
        if interrupts:
            await self.scene.says(self.done(ResponseStatus.CANCELLED))
        await self.passes(seconds, speaking=True)
        await self.passes(0.5)
        await self.scene.says(
            SpeechStopped(), CallerTranscript(f"turn-{self.scene.now}", "Well.", final=True)
        )

    async def question(self):
        await self.turn()
        await self.replies()

    async def barge_in(self):
        await self.turn()
        await self.replies(until=self.random.uniform(0.3, 0.9))
        await self.turn(interrupts=True)
        await self.replies()

    async def long_tool(self):
        self.scene.tools.gate.clear()
        await self.turn()
        if self.random.random() < 0.5:
            await self.replies(tools=True)
        await self.scene.says(tool("lookup_caller", response=f"resp-{self.scene.now}"), self.done())
        await self.passes(self.random.uniform(1, 30))
        self.scene.tools.gate.set()
        await self.scene.settle()
        await self.replies()

    async def hold(self):
        self.held = True
        self.scene.leg.happened.put(HoldChanged(held=True))
        await self.passes(self.random.uniform(1, 30))
        self.held = False
        self.scene.leg.happened.put(HoldChanged(held=False))
        await self.scene.settle()

    async def key(self):
        self.scene.leg.happened.put(DtmfReceived("#"))
        await self.scene.settle()
        await self.replies()

    async def think(self):
        await self.passes(self.random.uniform(1, 7))
        await self.question()

    async def run(self):
        await self.replies()
        end = self.scene.now + SECONDS
        acts = [self.question, self.question, self.barge_in, self.long_tool, self.hold, self.key, self.think]
        while self.scene.now < end:
            await self.random.choice(acts)()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(CALLS))
async def test_a_normal_call_raises_no_alarm(seed):
    async with Scene(silence=SilenceLimits(10.0, 2, 30.0)) as scene:
        await NormalCall(scene, seed).run()

        missed = scene.watcher.of(ev.ReplyMissed)
        steps = scene.watcher.of(ev.RecoveryStepTaken)
        silent = scene.watcher.of(ev.CallerWasSilent)
        assert missed == [], (seed, missed)
        assert (steps, silent) == ([], []), (seed, steps, silent)
        assert scene.leg.hung_up == []
