"""Whole calls with a line and a model played by hand, real tools and a real switchboard."""

import asyncio
from decimal import Decimal

import httpx2
import numpy as np
import pytest
import soundfile

from config.agent_tools import AgentToolConfig
from config.models import AgentSettings
from config.prices import Price, PriceList
from gateway.calls import events as ev
from gateway.calls.admission import Admission
from gateway.calls.bus import EventBus
from gateway.calls.call import Services
from gateway.calls.cost import ModelName
from gateway.calls.plan import Plan
from gateway.calls.prompts import Prompts
from gateway.calls.routing import Router
from gateway.calls.switchboard import RETRY_AFTER_S, Switchboard
from gateway.legs.base import CallInfo, HangupCause, LegGone, TransferProgress, TransferState
from gateway.legs.refusal import Refusal
from gateway.store.memory import LogAudit, MemoryLedger
from providers.errors import ProviderRejected, ProviderUnavailable, SessionLost
from providers.failover import Failover
from providers.types import AudioDelta, AudioDone, ToolCallsRequested, Usage
from tests.gateway.calls.doubles import HandDialler, HandLeg, HandProvider, Watcher
from tools import OrganizationSettings, ToolBuilders
from tools.ports import PortError
from tools.types import ToolCall

NUMBER = "+12025550100"
SALES = {"transfer_call": {"numbers": [{"number": "+12125551234", "label": "Sales"}]}}


class Sources:
    """Settings of one organization; the store may be out of reach."""

    def __init__(self, *, url=None, broken=False):
        self._url = url
        self._broken = broken
        self.http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))
        self.knowledge = None
        self.asked = []

    async def organization(self, organization_id):
        if self._broken:
            raise PortError("the store is out of reach")
        return OrganizationSettings(client_lookup_url=self._url)

    async def knowledge_base_ids(self, agent_id):
        return ()

    def _answer(self, request):
        self.asked.append(str(request.url))
        return httpx2.Response(200, content=_streamed(b"Ada Lovelace, gold customer"))


async def _streamed(body):
    yield body


class House:
    """A switchboard with one number."""

    def __init__(self, *providers, sources=None, tools=None, voices=None, **agent):
        self.providers = providers or (HandProvider(),)
        tools = tools or {}
        settings = AgentSettings(
            providers=tuple(provider.name for provider in self.providers),
            prompt="You answer the phone.",
            greeting="Greet.",
            tools=tools,
            **agent,
        )
        plan = Plan(
            number=NUMBER,
            agent_id="reception",
            organization_id="default",
            agent=settings,
            tools=AgentToolConfig.model_validate(tools),
            providers=self.providers,
            builders=ToolBuilders(sources or Sources()),
            trunk_methods={"lab": "refer"},
            transfer_numbers=frozenset(),
            models={provider.name: ModelName("hand", "hand-1") for provider in self.providers},
            voices=voices or {},
            prices=PriceList({"hand": {"hand-1": (Price(audio_out=Decimal(20)),)}}),
        )
        self.dialler = HandDialler()
        self.admission = Admission(2, {"lab": None})
        self.bus = EventBus()
        self.watcher = Watcher(self.bus)
        self.audit = []
        self.board = Switchboard(
            Router({NUMBER: plan}),
            self.admission,
            Services(
                clock=asyncio.get_running_loop().time,
                bus=self.bus,
                prompts=Prompts(),
                audit=LogAudit(lambda event, **fields: self.audit.append(fields)),
                ledger=MemoryLedger(),
                dialler=self.dialler,
                failover=Failover(),
            ),
        )

    @property
    def session(self):
        return self.providers[-1].session

    async def __aenter__(self):
        self._scope = asyncio.timeout(20)
        await self._scope.__aenter__()
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self._running = self._group.create_task(self.board.run())
        await settle()
        return self

    async def __aexit__(self, kind, error, trace):
        await self.board.drain(0.0)
        await self._group.__aexit__(kind, error, trace)
        await self._scope.__aexit__(kind, error, trace)

    async def ring(self, leg=None):
        leg = leg or HandLeg()
        assert self.board.admit(leg.info) is None
        self.board.take(leg)
        await settle()
        return leg

    async def ended(self):
        while not self.watcher.of(ev.CallEnded):
            await asyncio.sleep(0)
        [event] = self.watcher.of(ev.CallEnded)
        return event.reason, event.by


async def settle():
    for _ in range(60):
        await asyncio.sleep(0)


async def until(condition):
    while not condition():
        await asyncio.sleep(0)


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "sorry.wav"
    tone = (8000 * np.sin(np.arange(1600) * 0.3)).astype(np.int16)
    soundfile.write(path, tone, 8000)
    return path


async def test_a_line_is_answered_only_when_the_session_is_configured():
    provider = HandProvider()
    provider.ready.clear()
    async with House(provider) as house:
        leg = await house.ring()
        assert not leg.answered

        provider.ready.set()
        await until(lambda: leg.answered)
        await settle()
        assert house.session.told == [("respond", "Greet.", True)]


async def test_the_session_gets_prompt_tools_and_addendum():
    async with House(
        tools={"transfer_call": {"numbers": [{"number": "+12125551234", "label": "Sales"}]}}
    ) as house:
        leg = await house.ring()
        await until(lambda: leg.answered)

    [setup] = house.providers[0].setups
    assert [tool.name for tool in setup.tools] == ["transfer_call", "end_call"]
    assert setup.instructions.startswith("You answer the phone.\n\n## Available Tools\n\n### Call Transfer")


@pytest.mark.report("BR-195")
async def test_the_session_is_told_who_forwarded_the_call_and_what_the_trunk_says():
    parameters = {"forwarded_from": "+12025550111", "x-account-id": "4711", "caller_raw": "0012025550123"}
    async with House() as house:
        leg = await house.ring(HandLeg(info=CallInfo("call-1", "+12025550123", NUMBER, "lab", parameters)))
        await until(lambda: leg.answered)

    [setup] = house.providers[0].setups
    assert setup.instructions.endswith(
        'The call was forwarded from: "+12025550111" (the most recent first)\n- x-account-id: "4711"'
    )
    [started] = house.watcher.of(ev.CallStarted)
    assert started.parameters == parameters


async def test_a_caller_who_gives_up_while_the_session_opens_closes_it():
    provider = HandProvider()
    provider.ready.clear()
    async with House(provider) as house:
        leg = await house.ring()
        leg.leave(reason="cancel")

        assert await house.ended() == ("cancel", "caller")
        assert provider.closed == 1
        assert not leg.answered
    assert house.admission.active == 0


async def test_the_next_provider_is_tried_when_one_is_out_of_reach():
    first = HandProvider("first", error=ProviderUnavailable("no answer"))
    second = HandProvider("second")
    async with House(first, second) as house:
        leg = await house.ring()
        await until(lambda: leg.answered)

        await settle()
        assert [event.provider for event in house.watcher.of(ev.CallAnswered)] == ["second"]


async def test_each_provider_gets_its_own_voice():
    first = HandProvider("first", error=ProviderUnavailable("no answer"))
    second, third = HandProvider("second"), HandProvider("third")
    voices = {"first": "marin", "second": "Kore", "third": "verse"}
    async with House(first, second, third, voices=voices) as house:
        leg = await house.ring()
        await until(lambda: leg.answered)
    assert [setup.voice for provider in (first, second, third) for setup in provider.setups] == [
        "marin",
        "Kore",
    ]


async def test_the_bill_of_a_call_holds_what_its_session_told_when_it_was_closed():
    provider = HandProvider()
    provider.bill_at_the_end = Usage(audio_out=250_000)
    async with House(provider) as house:
        leg = await house.ring()
        await until(lambda: leg.answered)
        leg.leave()
        await house.ended()
        bills = [event.bill.total for event in house.watcher.of(ev.CostChanged)]
        assert bills == [Decimal(5)]
        assert isinstance(house.watcher.seen[-1], ev.CallEnded)


async def test_a_session_is_paid_for_though_the_caller_gave_up_while_it_rang():
    provider = HandProvider()
    provider.bill_at_the_end = Usage(audio_out=250_000)
    async with House(provider) as house:
        leg = await house.ring()
        leg.gone = True  # between the opening of the session and the answer
        await until(lambda: provider.setups)
        await settle()
        leg.gone = False
        leg.leave(reason="cancel")
        await house.ended()
        assert [event.bill.total for event in house.watcher.of(ev.CostChanged)] == [Decimal(5)]
        assert house.watcher.of(ev.CallAnswered) == []


async def test_without_any_provider_the_call_is_refused_before_it_is_answered():
    async with House(HandProvider(error=ProviderRejected("the key is refused", code="401"))) as house:
        leg = await house.ring()

        assert await house.ended() == ("unavailable_rejected", "gateway")
        assert leg.hung_up == [HangupCause.UNAVAILABLE]
        assert not leg.answered


async def test_a_call_is_refused_when_its_tools_cannot_be_collected():
    sources = Sources(url="https://crm.example.com", broken=True)
    async with House(sources=sources, tools={"lookup_caller": {"enabled": True}}) as house:
        leg = await house.ring()

        assert await house.ended() == ("unavailable_rejected", "gateway")
        assert house.providers[0].setups == []
        assert leg.hung_up == [HangupCause.UNAVAILABLE]


async def test_an_unavailable_agent_says_so_and_hangs_up(recording):
    policy = {"say": str(recording)}
    async with House(HandProvider(error=ProviderUnavailable("down")), on_unavailable=policy) as house:
        leg = await house.ring()
        await until(lambda: leg.playout.queued_ms)
        assert leg.answered

        assert len(leg.hear(200)) == 1600
        assert await house.ended() == ("unavailable_said", "gateway")


@pytest.mark.parametrize(
    ("state", "outcome"),
    [(TransferState.CONFIRMED, "transferred"), (TransferState.FAILED, "transfer_failed")],
)
async def test_an_unavailable_agent_transfers_to_the_fallback_number(state, outcome):
    leg = HandLeg(transfer=[TransferProgress(state, 200)])
    policy = {"transfer": "+12125559999"}
    async with House(HandProvider(error=ProviderUnavailable("down")), on_unavailable=policy) as house:
        await house.ring(leg)

        assert await house.ended() == (f"unavailable_{outcome}", "gateway")
        assert leg.transferred == ["+12125559999"]
        assert leg.hung_up == [HangupCause.NORMAL]


async def test_tools_run_on_a_call_and_the_hang_up_comes_last():
    sources = Sources(url="https://crm.example.com/lookup")
    tools = {
        "lookup_caller": {},
        "transfer_call": {"numbers": [{"number": "+12125551234", "label": "Sales"}]},
    }
    async with House(sources=sources, tools=tools) as house:
        leg = await house.ring()
        await until(lambda: leg.answered)
        calls = (ToolCall("c1", "lookup_caller", "{}"), ToolCall("c2", "end_call", "{}"))
        house.session.say(
            AudioDelta("bye", b"\x21" * 1600), AudioDone("bye"), ToolCallsRequested("r1", calls)
        )
        await until(lambda: ("result", "c2", "ok") in house.session.told)

        leg.hear(200)
        assert await house.ended() == ("end_call", "agent")
        assert sources.asked == ["https://crm.example.com/lookup?phone=%2B12025550111"]
        assert [row["tool"] for row in house.audit] == ["lookup_caller", "end_call"]
        assert [event.status for event in house.watcher.of(ev.ToolAnswered)] == ["ok", "ok"]


async def test_a_number_that_is_not_configured_is_refused_and_the_call_goes_on():
    async with House(tools=SALES) as house:
        leg = await house.ring()
        await until(lambda: leg.answered)
        call = ToolCall("c1", "transfer_call", '{"phone_number": "+19005550000"}')
        house.session.say(ToolCallsRequested("r1", (call,)))
        await until(lambda: len(house.session.told) == 3)

        assert house.session.told[1:] == [("result", "c1", "denied"), ("respond", None, True)]
        [answer] = house.watcher.of(ev.ToolAnswered)
        assert answer.reason_code == "phone_number_not_configured"
        assert leg.transferred == []
        assert leg.hung_up == []


@pytest.mark.report("BR-166")
async def test_nothing_of_a_call_is_left_however_it_ends():
    before = len(asyncio.all_tasks())
    async with House() as house:
        running = len(asyncio.all_tasks())
        for how in ("greeting", "tool", "lost"):
            leg = HandLeg(info=CallInfo(how, "", NUMBER, "lab"))
            await house.ring(leg)
            await until(lambda leg=leg: leg.answered)
            match how:
                case "tool":
                    house.session.say(ToolCallsRequested("r", (ToolCall("c", "end_call", "{}"),)))
                case "lost":
                    house.session.say(SessionLost("gone"))
            leg.leave()
            await until(lambda: house.board.active == 0)
        assert len(asyncio.all_tasks()) == running
        assert house.providers[0].closed == len(house.providers[0].setups)
        assert len(house.watcher.of(ev.CallEnded)) == 3
    assert len(asyncio.all_tasks()) == before


async def test_a_fault_in_one_call_ends_that_call_alone():
    async with House() as house:
        good = await house.ring()
        await until(lambda: good.answered)
        bad = HandLeg(info=CallInfo("call-2", "", NUMBER, "lab"))

        async def broken():
            raise RuntimeError("a fault of ours")

        bad.answer = broken
        await house.ring(bad)
        await until(lambda: bad.hung_up)

        assert bad.hung_up == [HangupCause.FAILED]
        assert good.hung_up == []
        assert house.board.active == 1


@pytest.mark.report("BR-168")
async def test_draining_refuses_new_calls_and_lets_running_ones_finish():
    async with House() as house:
        leg = await house.ring()
        await until(lambda: leg.answered)
        async with asyncio.TaskGroup() as group:
            drain = group.create_task(house.board.drain(60.0))
            await settle()
            assert house.board.admit(leg.info) == Refusal(
                503, "Service Unavailable", "draining", retry_after_s=RETRY_AFTER_S
            )
            assert not drain.done()
            leg.leave()
        assert await house.ended() == ("bye", "caller")


async def test_a_drain_that_takes_too_long_ends_the_calls_that_are_left():
    async with House() as house:
        leg = await house.ring()
        await until(lambda: leg.answered)
        await house.board.drain(0.0)

        assert await house.ended() == ("drain", "gateway")
        assert leg.hung_up


async def test_a_full_house_says_when_to_try_again():
    async with House() as house:
        for name in ("a", "b"):
            await house.ring(HandLeg(info=CallInfo(name, "", NUMBER, "lab")))

        refusal = house.board.admit(CallInfo("c", "", NUMBER, "lab"))
        assert (refusal.status, refusal.why, refusal.retry_after_s) == (503, "max_calls", RETRY_AFTER_S)


async def test_an_unknown_number_is_not_found():
    async with House() as house:
        refusal = house.board.admit(CallInfo("c", "", "+12025550199", "lab"))

        assert refusal.status == 404
        assert "+12025550199" in refusal.why


async def test_a_call_that_comes_before_the_switchboard_runs_is_asked_to_come_again():
    house = House()
    refusal = house.board.admit(CallInfo("early", "", NUMBER, "lab"))
    assert refusal == Refusal(503, "Service Unavailable", "starting", retry_after_s=RETRY_AFTER_S)


async def test_a_caller_who_leaves_in_the_recording_of_an_unavailable_agent_has_hung_up(recording):
    provider = HandProvider(error=ProviderUnavailable("down"))
    async with House(provider, on_unavailable={"say": recording}) as house:
        leg = await house.ring()
        await until(lambda: leg.playout.queued_ms)
        leg.leave()

        assert await house.ended() == ("unavailable_said", "caller")
        assert [event.provider for event in house.watcher.of(ev.CallAnswered)] == [""]


@pytest.mark.parametrize("reason", ["bye", "cancel", "ack_timeout"])
async def test_a_line_that_goes_away_while_it_is_answered_says_how(reason):
    leg = HandLeg()

    async def leaves():
        leg.leave(by_caller=reason != "ack_timeout", reason=reason)
        raise LegGone

    leg.answer = leaves
    async with House() as house:
        await house.ring(leg)
        assert await house.ended() == (reason, "gateway" if reason == "ack_timeout" else "caller")
        assert house.watcher.of(ev.CallAnswered) == []
