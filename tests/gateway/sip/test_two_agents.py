"""Two user agents and a network between them that loses, repeats, delays and overtakes; time by force."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter

import pytest

from gateway.sip import events as sip
from gateway.sip.flow import Flow
from gateway.sip.policy import PeerPolicy, Proof
from gateway.sip.settings import UaSettings
from gateway.sip.target import Credentials, Target
from gateway.sip.ua import UserAgent
from tests.gateway.sip.rig import ANSWER, OFFER

HERE, THERE = ("192.0.2.10", 5060), ("198.51.100.7", 5060)
CALLS = 200


class Network:
    """Carries what one agent sends to the other, each message by its own luck."""

    def __init__(self, seed: int, *, loss: float, twice: float, jitter: float) -> None:
        self.random = random.Random(seed)
        self.loss, self.twice, self.jitter = loss, twice, jitter
        self.serial = itertools.count()
        self.under_way: list[tuple[float, int, UserAgent, bytes, Flow]] = []
        self.counted: Counter[str] = Counter()

    def carry(self, data: bytes, to: UserAgent, flow: Flow, now: float) -> None:
        if self.random.random() < self.loss:
            self.counted["lost"] += 1
            return
        for _ in range(1 + (self.random.random() < self.twice)):
            at = now + 0.02 + self.random.random() * self.jitter
            heapq.heappush(self.under_way, (at, next(self.serial), to, data, flow))
            self.counted["carried"] += 1


class World:
    """The caller's agent, the callee's, and what both are told."""

    def __init__(self, seed: int, **network: float) -> None:
        token = (f"t{n}" for n in itertools.count(1))
        settings = UaSettings(refer_timeout=10.0)
        self.caller = UserAgent(settings, lambda: next(token))
        self.callee = UserAgent(settings, lambda: next(token))
        self.network = Network(seed, **network)
        self.now = 0.0
        self.credentials: Credentials | None = None
        self.told: dict[str, list[sip.SipEvent]] = {"caller": [], "callee": []}

    def dial(self) -> str:
        flows = (Flow("udp", THERE, HERE),)
        target = Target("sip:1@198.51.100.7", "<sip:2@192.0.2.10>", flows, credentials=self.credentials)
        return self.caller.invite(target, ANSWER, now=self.now)

    def settle(self) -> None:
        for name, agent, other, flow in (
            ("caller", self.caller, self.callee, Flow("udp", HERE, THERE)),
            ("callee", self.callee, self.caller, Flow("udp", THERE, HERE)),
        ):
            while events := agent.events():
                self.told[name] += events
                for event in events:
                    self.react(agent, event)
            for each in agent.to_send():
                self.network.carry(each.data, other, flow, self.now)

    def react(self, agent: UserAgent, event: sip.SipEvent) -> None:
        match event:
            case sip.CallOffered(call):
                agent.ring(call, now=self.now)
                agent.answer(call, ANSWER, now=self.now)
            case sip.CallAccepted(call):
                agent.reoffer(call, ANSWER, now=self.now)
            case sip.CallReoffered(call):
                agent.answer_reoffer(call, ANSWER, now=self.now)
            case sip.ReofferAnswered(call):
                agent.bye(call, now=self.now)

    def run(self, until: float) -> None:
        self.settle()
        while True:
            times = [self.network.under_way[0][0]] if self.network.under_way else []
            times += [at for agent in (self.caller, self.callee) if (at := agent.next_timeout()) is not None]
            if not times or min(times) > until:
                return
            self.now = max(self.now, min(times))
            while self.network.under_way and self.network.under_way[0][0] <= self.now:
                _, _, to, data, flow = heapq.heappop(self.network.under_way)
                to.receive(data, flow, now=self.now)
            for agent in (self.caller, self.callee):
                agent.handle_timeout(now=self.now)
            self.settle()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_bad_network_loses_no_call_and_doubles_none(seed):
    """Every message has 10 % loss, 10 % doubling and up to 0.4 s of jitter, so that many overtake others."""
    world = World(seed, loss=0.10, twice=0.10, jitter=0.4)
    calls = []
    for _ in range(CALLS):
        calls.append(world.dial())
        world.run(world.now + 0.05)
    world.run(world.now + 400.0)

    told = world.told["caller"]
    accepted = Counter(event.call for event in told if isinstance(event, sip.CallAccepted))
    ended = [event for event in told if isinstance(event, sip.CallEnded)]
    answered = [event for event in told if isinstance(event, sip.ReofferAnswered)]
    assert accepted == Counter(calls)
    assert Counter(event.call for event in ended) == Counter(calls)
    assert Counter((event.reason, event.by_peer) for event in ended) == {("local", False): CALLS}
    assert Counter(event.status for event in answered) == {200: CALLS}
    offered = [event for event in world.told["callee"] if isinstance(event, sip.CallOffered)]
    over = [event for event in world.told["callee"] if isinstance(event, sip.CallEnded)]
    assert (len(offered), len(over)) == (CALLS, CALLS)
    assert world.network.counted["lost"] > CALLS
    for agent in (world.caller, world.callee):
        assert (agent.active_calls, agent.dialogs, agent.transactions) == (0, 0, 0)
        assert agent.next_timeout() is None


def test_the_offer_of_both_sides_at_the_same_time_is_settled_by_waiting():
    world = World(1, loss=0.0, twice=0.0, jitter=0.0)
    call = world.dial()
    # Only the first answer is reacted to; the offers are the test's.
    world.react = lambda agent, event: _answer(world, agent, event)  # type: ignore[method-assign]
    world.run(1.0)
    (peer,) = [event.call for event in world.told["callee"] if isinstance(event, sip.CallOffered)]
    world.caller.reoffer(call, ANSWER, now=world.now)
    world.callee.reoffer(peer, OFFER.encode(), now=world.now)
    world.run(world.now + 10.0)

    outcomes = [
        event for side in world.told.values() for event in side if isinstance(event, sip.ReofferAnswered)
    ]
    assert [event.status for event in outcomes] == [200, 200]
    refused = [
        event for side in world.told.values() for event in side if isinstance(event, sip.RequestRefused)
    ]
    assert [event.status for event in refused] == [491, 491]


def _answer(world: World, agent: UserAgent, event: sip.SipEvent) -> None:
    match event:
        case sip.CallOffered(call):
            agent.answer(call, ANSWER, now=world.now)
        case sip.CallReoffered(call):
            agent.answer_reoffer(call, ANSWER, now=world.now)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_callee_that_asks_for_a_digest_is_answered_on_a_bad_network(seed):
    world = World(seed, loss=0.10, twice=0.10, jitter=0.4)
    proof = Credentials("gw", "s3cret", "callee.example")
    world.callee.treat(lambda flow, caller: PeerPolicy(proof=Proof(proof)))
    world.credentials = Credentials("gw", "s3cret")
    calls = []
    for _ in range(60):
        calls.append(world.dial())
        world.run(world.now + 0.1)
    world.run(world.now + 400.0)

    ended = [event for event in world.told["caller"] if isinstance(event, sip.CallEnded)]
    assert Counter((event.reason, event.by_peer) for event in ended) == {("local", False): len(calls)}
    offered = [event for event in world.told["callee"] if isinstance(event, sip.CallOffered)]
    assert len(offered) == len(calls)


def test_a_wrong_password_ends_the_call_with_401():
    world = World(1, loss=0.0, twice=0.0, jitter=0.0)
    world.callee.treat(lambda flow, caller: PeerPolicy(proof=Proof(Credentials("gw", "s3cret", "r"))))
    world.credentials = Credentials("gw", "guess")
    world.dial()
    world.run(60.0)

    (ended,) = [event for event in world.told["caller"] if isinstance(event, sip.CallEnded)]
    assert (ended.reason, ended.status) == ("rejected", 401)
    assert not any(isinstance(event, sip.CallOffered) for event in world.told["callee"])
