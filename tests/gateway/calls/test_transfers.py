"""Transfers by a call of ours: to the two who talk, or back to the agent."""

import asyncio

import pytest

from gateway.calls import events as ev
from gateway.calls.state import State
from gateway.calls.transfers import Outcome
from gateway.dialogue.policy import CallPolicy
from gateway.legs.base import (
    UNSUPPORTED,
    CannotDial,
    DtmfReceived,
    HungUp,
    TransferProgress,
    TransferRequested,
    TransferState,
)
from providers.errors import SessionLost
from providers.types import AudioDone, CallerTranscript, Interrupted, SpeechStarted
from tests.gateway.calls.scene import BUSY, HOLD, Scene, audio, tool
from tools.types import EndRequest, TransferRequest

SALES = TransferRequest("c_transfer_call", "+12125551234", "Sales")
ASKED = TransferRequest("c_transfer_call", "+12125551234", "Sales", warm=True, summary="Ada wants a quote.")
REFUSED = [TransferProgress(TransferState.FAILED, 405, UNSUPPORTED)]
A, B = b"\x23" * 160, b"\x42" * 160


def steps(scene):
    return [(each.state, each.method, each.reason) for each in scene.watcher.of(ev.TransferChanged)]


async def announced(scene, request=SALES):
    scene.tools.terminal = request
    await scene.says(audio("a", 100), AudioDone("a"), tool("transfer_call"))
    await scene.hears(200)


@pytest.mark.parametrize("method", ["bridge", "auto"])
async def test_the_caller_and_the_called_hear_each_other_and_no_session_is_left(method):
    async with Scene(transfer=REFUSED, method=method) as scene:
        await announced(scene)
        assert scene.leg.transferred == (["+12125551234"] if method == "auto" else [])
        callee = scene.dialler.answer()
        await scene.settle()
        await scene.call

        assert scene.state.now is State.JOINED
        assert not scene.leg.gone
        scene.leg.speak(A)
        scene.leg.speak(A)
        callee.speak(B)
        callee.speak(B)
        assert (callee.hear(40), scene.leg.hear(40)) == (A * 2, B * 2)
        assert steps(scene) == [
            ("requested", "", ""),
            ("announced", "", ""),
            ("redirecting", "bridge", ""),
            ("confirmed", "bridge", ""),
        ]
        assert scene.audited == [("+12125551234", Outcome(True, "bridge", 200))]
        await scene.transfers.joined.close()
        assert callee.gone


async def test_the_model_hears_and_says_nothing_while_it_rings():
    async with Scene(method="bridge") as scene:
        await announced(scene)
        before = scene.session.heard
        scene.leg.speak(A)
        await scene.says(audio("b", 100, b"\x77"), audio("a", 100, b"\x77"))

        assert scene.session.heard == before
        assert b"\x77" not in await scene.hears(100)


@pytest.mark.parametrize(
    ("reason", "status"), [("busy", 486), ("declined", 603), ("no_answer", 480), ("unreachable", 503)]
)
async def test_whoever_cannot_be_reached_gives_the_caller_back_with_the_reason(reason, status):
    async with Scene(method="bridge", greeting=None) as scene:
        await announced(scene)
        scene.dialler.legs[0].gone = True
        scene.dialler.legs[0].happened.put(HungUp(by_caller=True, reason=reason, status=status))
        await scene.settle()

        assert scene.state.now is State.TALKING
        [(_, role, text), respond] = [told for told in scene.session.told if told[0] in {"text", "respond"}]
        assert (role, respond[0]) == ("system", "respond")
        assert f"transfer to Sales failed: {reason}" in text
        assert scene.leg.playout.queued_ms == 0  # the ringing is over
        assert steps(scene)[-1] == ("failed", "bridge", reason)
        scene.leg.speak(A)
        await scene.settle()
        assert scene.session.heard[-160:] == A


async def test_a_call_that_no_trunk_carries_is_a_failure_like_any_other():
    async with Scene(method="bridge") as scene:
        scene.dialler.error = CannotDial("no_route", "no trunk has an address")
        await announced(scene)

        assert steps(scene)[-1] == ("failed", "bridge", "no_route")
        assert scene.state.now is State.TALKING


async def test_a_model_that_is_lost_while_it_rings_does_not_stop_the_transfer():
    async with Scene(method="bridge") as scene:
        await announced(scene)
        await scene.says(SessionLost("the socket broke", code="1006"))
        scene.dialler.answer()
        await scene.call

        assert scene.transfers.joined is not None
        assert scene.leg.hung_up == []


async def test_a_caller_whose_model_is_lost_and_whom_nobody_takes_hears_the_apology():
    async with Scene(method="bridge") as scene:
        await announced(scene)
        await scene.says(SessionLost("the socket broke", code="1006"))
        scene.dialler.legs[0].leave(reason="busy")
        await scene.settle()

        assert await scene.hears(200) == b"\x55" * 1600
        assert scene.leg.hung_up


async def test_nobody_answers():
    async with Scene(method="bridge", ring_s=0.02) as scene:
        await announced(scene)
        await asyncio.sleep(0.05)
        await scene.settle()

        assert steps(scene)[-1] == ("failed", "bridge", "no_answer")


async def test_a_caller_who_leaves_while_it_rings_takes_the_call_back():
    async with Scene(method="bridge") as scene:
        await announced(scene)
        scene.leg.leave()
        await scene.call

        assert scene.dialler.legs[0].gone
        assert scene.transfers.joined is None
        assert steps(scene)[-1] == ("failed", "bridge", "gone")


@pytest.mark.parametrize(
    ("method", "routes", "progress", "dialled"),
    [
        ("refer", True, REFUSED, False),
        ("auto", False, REFUSED, False),
        ("auto", True, BUSY, False),
        ("auto", True, REFUSED, True),
    ],
)
async def test_only_a_refer_that_is_refused_itself_is_followed_by_a_call_of_ours(
    method, routes, progress, dialled
):
    async with Scene(transfer=progress, method=method) as scene:
        scene.dialler.routes = routes
        await announced(scene)

        assert bool(scene.dialler.dialled) is dialled
        assert len([each for each in steps(scene) if each[0] == "failed"]) == (0 if dialled else 1)


@pytest.mark.parametrize(
    ("method", "routes", "asked"), [("auto", True, False), ("auto", False, True), ("refer", True, True)]
)
async def test_a_peer_without_refer_in_its_allow_is_asked_only_where_nothing_else_is_left(
    method, routes, asked
):
    async with Scene(transfer=BUSY, method=method) as scene:
        scene.leg.takes_transfer, scene.dialler.routes = False, routes
        await announced(scene)

        assert bool(scene.leg.transferred) is asked
        assert bool(scene.dialler.dialled) is not asked


async def test_a_wish_of_the_callers_own_trunk_is_declined_while_the_agent_talks():
    async with Scene() as scene:
        scene.leg.happened.put(TransferRequested("sip:+12125551234@gw"))
        await scene.settle()

        assert scene.leg.told == [603]


# Warm.


async def asked(scene):
    """Let the agent ask the colleague, who has answered."""
    await announced(scene, ASKED)
    colleague = scene.dialler.answer()
    await scene.settle()
    return colleague


async def test_the_colleague_is_told_what_it_is_about_and_the_caller_waits():
    async with Scene(greeting=None) as scene:
        await announced(scene, ASKED)
        assert (await scene.hears(100)) == HOLD
        colleague = scene.dialler.answer()
        await scene.settle()

        [(_, role, text), (_, _, tools)] = [t for t in scene.session.told if t[0] in {"text", "respond"}]
        assert (role, tools) == ("system", False)
        assert "Ada wants a quote." in text
        await scene.says(audio("brief", 100, b"\x31"), AudioDone("brief"))
        assert colleague.hear(100) == b"\x31" * 800
        assert b"\x31" not in await scene.hears(100)
        colleague.speak(B)
        scene.leg.speak(A)
        await scene.settle()
        assert scene.session.heard[-160:] == B


async def test_the_colleagues_words_are_the_colleagues_in_the_transcript():
    async with Scene() as scene:
        colleague = await asked(scene)
        await scene.says(CallerTranscript("c1", "Who is it?", final=True))
        await scene.says(audio("brief", 100), AudioDone("brief"))
        colleague.hear(200)
        await scene.settle()

        assert [each.party for each in scene.watcher.of(ev.CallerSaid)] == ["colleague"]
        assert [(each.item_id, each.party) for each in scene.watcher.of(ev.AgentSaid)] == [
            ("a", "caller"),
            ("brief", "colleague"),
        ]


async def test_a_colleague_may_interrupt_the_agent():
    async with Scene() as scene:
        colleague = await asked(scene)
        await scene.says(audio("brief", 1000))
        colleague.hear(200)
        await scene.says(SpeechStarted(), Interrupted())

        assert colleague.playout.queued_ms == 0
        assert ("interrupt", "brief", 200) in scene.session.told


async def test_key_1_joins_the_two():
    async with Scene() as scene:
        colleague = await asked(scene)
        await scene.says(audio("brief", 1000, b"\x31"))
        colleague.happened.put(DtmfReceived("1"))
        await scene.call

        assert scene.state.now is State.JOINED
        await scene.says(audio("brief", 1000, b"\x31"))
        colleague.speak(B)
        colleague.speak(B)
        scene.leg.speak(A)
        scene.leg.speak(A)
        assert (scene.leg.hear(40), colleague.hear(40)) == (B * 2, A * 2)
        assert steps(scene)[2:] == [("redirecting", "warm", ""), ("confirmed", "warm", "")]


@pytest.mark.parametrize(
    ("event", "reason"),
    [(DtmfReceived("2"), "declined"), (HungUp(by_caller=True, reason="bye"), "hung_up")],
)
async def test_a_colleague_who_does_not_want_to_leaves_the_caller_with_the_agent(event, reason):
    async with Scene(greeting=None) as scene:
        colleague = await asked(scene)
        await scene.says(audio("brief", 1000, b"\x31"), SpeechStarted())
        colleague.happened.put(event)
        await scene.settle()

        assert colleague.gone
        assert scene.state.now is State.TALKING
        assert steps(scene)[-1] == ("failed", "warm", reason)
        assert f"failed: {reason}" in [t for t in scene.session.told if t[0] == "text"][-1][2]
        await scene.says(audio("back", 100, b"\x32"), AudioDone("back"))
        assert await scene.hears(100) == b"\x32" * 800
        scene.leg.speak(A)
        await scene.settle()
        assert scene.session.heard[-160:] == A


async def test_a_colleague_who_cannot_decide_is_not_waited_for():
    async with Scene(decide_s=0.02) as scene:
        colleague = await asked(scene)
        colleague.happened.put(DtmfReceived("7"))
        await asyncio.sleep(0.05)
        await scene.settle()

        assert steps(scene)[-1] == ("failed", "warm", "no_decision")
        assert colleague.gone


async def test_a_caller_who_does_not_wait_frees_the_colleague():
    async with Scene() as scene:
        colleague = await asked(scene)
        scene.leg.leave()
        await scene.call

        assert colleague.gone
        assert scene.transfers.joined is None


async def test_a_colleague_who_is_busy_is_not_asked():
    async with Scene(greeting=None) as scene:
        await announced(scene, ASKED)
        scene.dialler.legs[0].gone = True
        scene.dialler.legs[0].happened.put(HungUp(by_caller=True, reason="busy", status=486))
        await scene.settle()

        assert steps(scene)[-1] == ("failed", "warm", "busy")
        assert scene.state.now is State.TALKING


@pytest.mark.parametrize(
    ("says", "last"),
    [
        (SALES, ("confirmed", "warm", "")),
        (EndRequest("c_end_call"), ("failed", "warm", "declined")),
    ],
)
async def test_what_the_colleague_says_decides_as_well(says, last):
    async with Scene() as scene:
        colleague = await asked(scene)
        scene.tools.decision = says
        await scene.says(tool("transfer_call", response="r2"))
        await scene.settle()

        assert steps(scene)[-1] == last
        assert colleague.gone is (last[0] == "failed")


def test_only_a_word_about_this_transfer_decides():
    policy = CallPolicy()
    policy.claim(ASKED)
    assert policy.denial("lookup_caller") is not None
    policy.consult(True)

    assert policy.denial("transfer_call") is None
    assert not policy.decide(TransferRequest("c2", "+12125559999"))
    assert policy.decide(SALES)
    assert not policy.decide(EndRequest("c3"))
    policy.consult(False)
    assert policy.denial("transfer_call") is not None
