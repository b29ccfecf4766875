"""A caller and a colleague talk over lines of ours; the colleague may pass the caller on."""

import asyncio

import pytest

from gateway.calls import events as ev
from gateway.calls.bus import EventBus
from gateway.calls.dialling import NotReached
from gateway.calls.joined import Joined, destination
from gateway.calls.report import Report
from gateway.legs.base import GONE, TransferRequested
from tests.gateway.calls.doubles import HandLeg, Watcher

NIGHT = "+12025550177"
WISH = TransferRequested(f"sip:{NIGHT}@gw.example")
A, B = b"\x21" * 160, b"\x42" * 160


class Talk:
    """Two people who talk; whoever is called next answers when the test says so."""

    def __init__(self, *, limit_s=60.0):
        self.caller, self.callee, self.third = HandLeg(), HandLeg(), HandLeg()
        self.called = []
        self.found = asyncio.get_running_loop().create_future()
        bus = EventBus()
        self.watcher = Watcher(bus)
        self.joined = Joined(
            self.caller,
            self.callee,
            reach=self._reach,
            numbers=frozenset({NIGHT}),
            report=Report(bus, "call-1", lambda: 0.0),
            limit_s=limit_s,
        )

    async def _reach(self, number, gone):
        self.called.append(number)
        waiter = asyncio.ensure_future(gone.wait())
        done, _ = await asyncio.wait({waiter, self.found}, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        return self.found.result() if self.found in done else NotReached(GONE)

    async def __aenter__(self):
        self._scope = asyncio.timeout(20)
        await self._scope.__aenter__()
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self.run = self._group.create_task(self.joined.run())
        await settle()
        return self

    async def __aexit__(self, *error):
        self.caller.leave()
        await self._group.__aexit__(*error)
        await self._scope.__aexit__(*error)

    async def wishes(self, event=WISH, leg=None):
        (leg or self.callee).happened.put(event)
        await settle()

    def steps(self):
        return [(each.state, each.reason) for each in self.watcher.of(ev.TransferChanged)]


async def settle():
    for _ in range(12):
        await asyncio.sleep(0)


@pytest.mark.parametrize("who", ["caller", "callee"])
async def test_whoever_hangs_up_ends_the_other(who):
    async with Talk() as talk:
        getattr(talk, who).leave()

        assert await talk.run == who
        assert talk.caller.gone
        assert talk.callee.gone


async def test_a_line_that_breaks_is_the_gateways_end():
    async with Talk() as talk:
        talk.callee.leave(by_caller=False, reason="timeout")

        assert await talk.run == "gateway"
        assert talk.caller.gone


async def test_the_longest_talk_has_an_end():
    async with Talk(limit_s=0.01) as talk:
        assert await talk.run == "gateway"
        assert talk.caller.gone
        assert talk.callee.gone


async def test_the_colleague_passes_the_caller_on():
    async with Talk() as talk:
        await talk.wishes()
        assert (talk.callee.told, talk.called) == ([100], [NIGHT])
        talk.found.set_result(talk.third)
        await settle()

        assert talk.callee.told == [100, 200]
        assert talk.callee.gone
        assert not talk.run.done()
        talk.third.speak(B)
        talk.third.speak(B)
        assert talk.caller.hear(40) == B * 2
        assert talk.steps() == [("redirecting", ""), ("confirmed", "")]
        talk.third.leave()
        assert await talk.run == "callee"


@pytest.mark.report("BR-101")
async def test_a_colleague_who_hangs_up_after_the_202_leaves_the_caller_with_whoever_answers():
    async with Talk() as talk:
        await talk.wishes()
        talk.callee.leave()
        await settle()
        assert not talk.caller.gone
        talk.found.set_result(talk.third)
        await settle()

        assert not talk.caller.gone
        talk.caller.speak(A)
        talk.caller.speak(A)
        assert talk.third.hear(40) == A * 2


async def test_a_caller_who_was_left_behind_and_reaches_nobody_is_hung_up():
    async with Talk() as talk:
        await talk.wishes()
        talk.callee.leave()
        await settle()
        talk.found.set_result(NotReached("busy", 486))

        assert await talk.run == "callee"
        assert talk.caller.gone


async def test_where_nobody_answers_the_two_talk_on():
    async with Talk() as talk:
        await talk.wishes()
        talk.found.set_result(NotReached("busy", 486))
        await settle()

        assert talk.callee.told == [100, 486]
        talk.callee.speak(B)
        talk.callee.speak(B)
        assert talk.caller.hear(40) == B * 2
        assert talk.steps() == [("redirecting", ""), ("failed", "busy")]
        await talk.wishes()
        assert talk.called == [NIGHT, NIGHT]


async def test_a_caller_who_leaves_meanwhile_ends_everything():
    async with Talk() as talk:
        await talk.wishes()
        talk.caller.leave()

        assert await talk.run == "caller"
        assert talk.callee.gone


@pytest.mark.parametrize(
    ("event", "by"),
    [
        (TransferRequested("sip:+19005550000@gw.example"), "callee"),
        (WISH, "caller"),
    ],
)
async def test_other_wishes_are_declined_and_change_nothing(event, by):
    async with Talk() as talk:
        leg = getattr(talk, by)
        await talk.wishes(event, leg)

        assert (leg.told, talk.called) == ([603], [])
        talk.callee.speak(B)
        talk.callee.speak(B)
        assert talk.caller.hear(40) == B * 2


@pytest.mark.parametrize(
    ("uri", "number"),
    [
        ("sip:+12025550177@gw.example;user=phone", NIGHT),
        ("tel:+12025550177", NIGHT),
        ("sip:12025550177@gw.example", NIGHT),
        ("sip:night@pbx.example.com;transport=tcp", "sip:night@pbx.example.com"),
        ("sip:night@elsewhere.example.com", None),
        ("sip:%2B12025550177@gw.example", NIGHT),
        ("sip:gw.example", None),
    ],
)
def test_a_refer_to_means_one_of_the_configured_numbers_or_nobody(uri, number):
    assert destination(uri, frozenset({NIGHT, "sip:night@pbx.example.com"})) == number
