"""One bridged call under a test's hands."""

import asyncio
from collections import defaultdict
from decimal import Decimal

from config.prices import Price, Tariff
from config.recovery import AgentRecovery
from gateway.calls.bridge import Bridge
from gateway.calls.budget import Budget
from gateway.calls.bus import EventBus
from gateway.calls.conversation import Conversation
from gateway.calls.cost import Account, ModelName
from gateway.calls.ending import Ending
from gateway.calls.greeting import Greeting
from gateway.calls.limits import Allowed
from gateway.calls.model import LiveModel
from gateway.calls.opening import Opener, OpenSession
from gateway.calls.repair import Patience
from gateway.calls.report import Report
from gateway.calls.rounds import ToolRounds
from gateway.calls.silence import SilenceLimits
from gateway.calls.state import CallState, State
from gateway.calls.terms import BridgeSettings
from gateway.calls.transfers import TransferPlan, Transfers
from gateway.calls.vigil import Vigil, VigilSettings
from gateway.dialogue.policy import CallPolicy
from gateway.legs.base import TransferProgress, TransferState
from providers.failover import Failover, History
from providers.types import PCMU, AudioDelta, SessionSetup, ToolCallsRequested
from tests.gateway.calls.doubles import HandDialler, HandLeg, HandSession, Watcher
from tools.dispatcher import Batch
from tools.types import ToolCall, ToolResult, ToolStatus

CONFIRMED = [TransferProgress(TransferState.REDIRECTING, 202), TransferProgress(TransferState.CONFIRMED, 200)]
BUSY = [TransferProgress(TransferState.REDIRECTING, 202), TransferProgress(TransferState.FAILED, 486, "busy")]


NEVER_SILENT = SilenceLimits(None, 0, None)
PRICE = Price(audio_in=Decimal(10), audio_out=Decimal(20))
"""Of the model: dollars for a million tokens."""
MOMENT = b"\x44" * 800
"""What bridges a pause of the model."""
APOLOGY, CONNECTING = b"\x55" * 1600, b"\x33" * 800
HOLD = b"\x66" * 800
"""What a caller hears who waits for a colleague."""


def transfer_plan(method="auto", **times):
    return TransferPlan(
        method=method, trunk=None, ours="+12025550100", numbers=frozenset({"+12125551234", "+12125559999"}),
        **{"ring_s": 5.0, "decide_s": 5.0, "bridge_max_s": 60.0, **times},
    )  # fmt: skip


def bridge_settings(greeting, recovery, fallback):
    return BridgeSettings(
        greeting=Greeting(greeting) if isinstance(greeting, str) else greeting,
        recovery=AgentRecovery(**(recovery or {"max_swaps": 0})),
        moment=MOMENT, apology=APOLOGY, fallback=fallback, connecting=CONNECTING,
    )  # fmt: skip


class HandTools:
    """A dispatcher whose batches the test has laid out; a gate holds a batch back."""

    def __init__(self, policy):
        self._policy = policy
        self.terminal = None
        self.decision = None
        """What a colleague says who is asked."""
        self.ran: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, calls):
        self.ran += [call.name for call in calls]
        await self.gate.wait()
        if self.decision is not None:
            self.terminal = self.decision
        elif self.terminal is not None:
            self._policy.claim(self.terminal)
        results = tuple(ToolResult(call.call_id, call.name, ToolStatus.OK) for call in calls)
        return Batch(results, self.terminal)


class Scene:
    """
    One bridged call under a test's hands.

    Its first session is of the provider named ``hand``; without ``recovery`` a session that is lost is not
    replaced.
    """

    def __init__(
        self,
        *,
        transfer=None,
        safety_net_s=5.0,
        max_duration_s=None,
        max_cost_usd=None,
        greeting="Greet.",
        method="refer",
        providers=(),
        recovery=None,
        fallback=None,
        silence=NEVER_SILENT,
        **times,
    ):
        self.leg = HandLeg(transfer=transfer)
        self.session = HandSession()
        self.policy = CallPolicy()
        self.tools = HandTools(self.policy)
        self.state = CallState()
        self.state.now = State.TALKING
        bus = EventBus()
        self.watcher = Watcher(bus)
        self.now = 100.0
        self.unheard_ms, self.audited = 0.0, []
        report = Report(bus, "call-1", lambda: self.now)
        self.dialler = HandDialler()
        self.transfers = Transfers(
            leg=self.leg, dialler=self.dialler, plan=transfer_plan(method, **times), report=report
        )
        self.failover = Failover()
        self._group = asyncio.TaskGroup()
        self.budget = self._budget(report, Allowed(max_duration_s, max_cost_usd))
        self.opener = Opener(
            providers, voices={}, on_open=self.budget.follow, failover=self.failover,
            clock=lambda: self.now, group=self._group, name="call-1",
        )  # fmt: skip
        setup = SessionSetup("You answer the phone.", "", (), PCMU)
        self.model = LiveModel(OpenSession("hand", self.session), setup, History())
        talk = Conversation(self.policy, 2, 8)
        self.ending = Ending(
            leg=self.leg, model=self.model, policy=self.policy, state=self.state, report=report,
            transfers=self.transfers, hold=HOLD,
            on_transfer=lambda request, outcome: self.audited.append((request.number, outcome)),
            unheard_ms=lambda: self.unheard_ms, safety_net_s=safety_net_s,
        )  # fmt: skip
        self.vigil = self._vigil(report, silence)
        self.bridge = Bridge(
            leg=self.leg,
            model=self.model,
            opener=self.opener,
            rounds=ToolRounds(self.tools, self.model, talk, self.ending, report),
            talk=talk,
            ending=self.ending,
            budget=self.budget,
            vigil=self.vigil,
            settings=bridge_settings(greeting, recovery, fallback),
            report=report,
            clock=lambda: self.now,
        )

    def _vigil(self, report, silence):
        settings = VigilSettings(Patience(), silence, nudge="Are they there?", farewell="Say goodbye.")
        vigil = Vigil(settings, PCMU, self.session.capabilities, report, lambda: self.now)
        self.leg.listen_to_sent(vigil.frame_sent)
        return vigil

    def _budget(self, report, allowed):
        models = defaultdict(lambda: ModelName("hand", "hand-1"))
        budget = Budget(
            Account(Tariff({("hand", "hand-1"): PRICE}), models), allowed, report, lambda: self.now
        )
        budget.follow("hand", self.session)
        return budget

    async def time_passes(self, seconds):
        self.now += seconds
        self.budget.look()
        await self.settle()

    async def __aenter__(self):
        self._scope = asyncio.timeout(20)
        await self._scope.__aenter__()
        await self._group.__aenter__()
        self.call = self._group.create_task(self.bridge.run())
        await self.settle()
        return self

    async def __aexit__(self, kind, error, trace):
        self.leg.leave()
        self.opener.close()
        await self._group.__aexit__(kind, error, trace)
        await self._scope.__aexit__(kind, error, trace)

    async def settle(self):
        for _ in range(12):
            await asyncio.sleep(0)

    async def says(self, *events):
        self.session.say(*events)
        await self.settle()

    async def passes(self, seconds):
        """Let time pass in which nothing is heard, and those who watch look at the clock."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 0.25, end)
            self.vigil.look()
            await self.settle()

    async def hears(self, ms):
        heard = self.leg.hear(ms)
        self.now += ms / 1000
        await self.settle()
        return heard


def audio(item, ms, byte=b"\x21"):
    return AudioDelta(item, byte * (8 * ms))


def tool(*names, response="resp_1"):
    return ToolCallsRequested(response, tuple(ToolCall(f"c_{name}", name, "{}", response) for name in names))
