"""How calls end when something else goes wrong at the same time."""

import asyncio
from decimal import Decimal

from gateway.calls import events as ev
from gateway.calls.ending import MARGIN_S
from gateway.calls.limits import GOODBYE_S, MOMENT_S
from gateway.legs.base import (
    GONE,
    DtmfReceived,
    HangupCause,
    MediaLost,
    MediaResumed,
    TransferProgress,
    TransferState,
)
from providers.errors import SessionLost
from providers.types import (
    NO_ANSWER,
    AudioDone,
    Interrupted,
    ProviderWarning,
    ResponseDone,
    ResponseStatus,
    SpeechStarted,
    SpeechStopped,
    Usage,
)
from tests.gateway.calls.scene import APOLOGY, BUSY, Scene, audio, tool
from tools.types import EndRequest, TransferRequest

DONE = ResponseDone("r", ResponseStatus.COMPLETED)
SALES = TransferRequest("c_transfer_call", "+12125551234", "Sales")


async def test_a_model_that_does_not_answer_is_apologised_for():
    async with Scene() as scene:
        for _ in range(3):
            await scene.says(ProviderWarning(NO_ANSWER, "it may not say what it would say"))
            await scene.passes(0.5)

        assert APOLOGY in await scene.hears(1000)
        assert scene.leg.hung_up == [HangupCause.FAILED]
        await scene.call
        assert scene.ending.reason == "response_failed"


async def test_a_model_that_does_not_answer_behind_its_farewell_changes_nothing():
    async with Scene() as scene:
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(audio("bye", 200), AudioDone("bye"), tool("end_call"))
        await scene.says(ProviderWarning(NO_ANSWER, "it did not answer twice"))

        assert await scene.hears(400) == b"\x21" * 1600
        assert scene.leg.hung_up == [HangupCause.NORMAL]
        assert scene.ending.reason == ""


async def test_keys_do_not_cut_the_apology():
    async with Scene(greeting=None) as scene:
        await scene.says(SessionLost("the socket broke", code="1006"))
        await scene.hears(60)
        scene.leg.happened.put(DtmfReceived("#"))
        await scene.settle()

        assert len(await scene.hears(200)) == 1600 - 480


async def test_the_apology_does_not_wait_for_a_caller_whose_silence_nobody_can_report():
    async with Scene() as scene:
        await scene.says(SpeechStarted(), SessionLost("the socket broke", code="1006"))
        await scene.hears(200)

        assert scene.leg.hung_up == [HangupCause.FAILED]


async def test_nothing_of_a_tool_that_ends_late_comes_behind_the_apology():
    async with Scene() as scene:
        await scene.says(SessionLost("the socket broke", code="1006"))
        scene.tools.terminal = SALES
        assert not scene.policy.claim(SALES)


async def test_a_session_lost_during_a_transfer_that_fails_ends_with_the_apology():
    async with Scene(transfer=BUSY) as scene:
        scene.tools.terminal = SALES
        await scene.says(audio("a", 100), AudioDone("a"), tool("transfer_call"))
        await scene.says(SessionLost("the socket broke", code="1006"))
        await scene.hears(120)
        await scene.settle()

        assert await scene.hears(200) == APOLOGY
        assert scene.leg.hung_up == [HangupCause.FAILED]
        await scene.call
        assert [event.state for event in scene.watcher.of(ev.TransferChanged)][-1] == "failed"


async def test_the_time_limit_of_a_call_holds_when_the_model_does_not_say_goodbye():
    async with Scene(max_duration_s=60.0) as scene:
        await scene.time_passes(60.0)
        await scene.time_passes(GOODBYE_S - 0.1)
        assert not scene.call.done()
        await scene.time_passes(0.1)
        await scene.call
        assert scene.leg.hung_up == [HangupCause.NORMAL]
        assert scene.ending.reason == "duration_limit"


async def test_the_time_limit_holds_behind_a_transfer_that_fails():
    async with Scene(max_duration_s=0.0, transfer=BUSY) as scene:
        scene.tools.terminal = SALES
        scene.leg.lose_marks = True
        await scene.says(audio("a", 100), AudioDone("a"), tool("transfer_call"))
        await scene.time_passes(GOODBYE_S)
        scene.leg.lose_marks = False
        await scene.hears(120)

        await scene.call
        assert scene.leg.hung_up == [HangupCause.NORMAL]
        assert scene.ending.reason == "duration_limit"


async def test_what_was_being_said_when_the_time_was_over_is_not_taken_for_the_goodbye():
    async with Scene(max_duration_s=60.0, greeting=None) as scene:
        await scene.says(audio("long", 400))
        await scene.time_passes(60.0)
        assert scene.session.told
        await scene.says(audio("long", 100), AudioDone("long"), DONE)
        await scene.hears(600)
        assert scene.leg.hung_up == []

        await scene.says(audio("bye", 100), AudioDone("bye"), DONE)
        assert len(await scene.hears(200)) == 800
        assert scene.leg.hung_up == [HangupCause.NORMAL]


async def test_an_answer_that_was_due_when_the_time_was_over_is_not_taken_for_the_goodbye():
    async with Scene(max_duration_s=60.0, greeting=None) as scene:
        await scene.says(SpeechStarted(), SpeechStopped())
        await scene.time_passes(60.0)
        await scene.says(audio("answer", 100), AudioDone("answer"), DONE)
        await scene.hears(100)
        await scene.time_passes(MOMENT_S - 0.2)
        assert scene.leg.hung_up == []

        await scene.says(audio("bye", 100), AudioDone("bye"), DONE)
        assert len(await scene.hears(100)) == 800
        assert scene.leg.hung_up == [HangupCause.NORMAL]


async def test_an_answer_that_was_the_goodbye_as_well_ends_the_call_a_moment_later():
    async with Scene(max_duration_s=60.0, greeting=None) as scene:
        await scene.says(SpeechStarted(), SpeechStopped())
        await scene.time_passes(60.0)
        await scene.says(audio("both", 100), AudioDone("both"), DONE)
        await scene.hears(100)
        assert scene.leg.hung_up == []
        await scene.time_passes(MOMENT_S)
        assert scene.leg.hung_up == [HangupCause.NORMAL]
        assert scene.ending.reason == "duration_limit"


async def test_a_goodbye_that_has_begun_when_the_moment_is_over_is_heard_to_its_end():
    async with Scene(max_duration_s=60.0, greeting=None) as scene:
        await scene.says(SpeechStarted(), SpeechStopped())
        await scene.time_passes(60.0)
        await scene.says(audio("answer", 100), AudioDone("answer"), DONE)
        await scene.says(audio("bye", 100))
        await scene.time_passes(MOMENT_S)
        await scene.hears(200)
        assert scene.leg.hung_up == []
        await scene.says(audio("bye", 60), AudioDone("bye"), DONE)
        assert len(await scene.hears(60)) == 480
        assert scene.leg.hung_up == [HangupCause.NORMAL]


async def test_the_cost_limit_lets_the_agent_say_goodbye():
    async with Scene(max_cost_usd=Decimal("0.01"), greeting=None) as scene:
        scene.session.usage = Usage(audio_out=499)
        await scene.says(audio("a", 100), AudioDone("a"), DONE)
        await scene.hears(100)
        assert scene.session.told == []
        assert [(told.reached, told.used) for told in scene.watcher.of(ev.LimitTold)] == [(False, 0.00998)]

        scene.session.usage = Usage(audio_out=500)
        await scene.says(audio("b", 100), AudioDone("b"), DONE)
        [(kind, instructions, tools)] = scene.session.told
        assert (kind, tools) == ("respond", False)
        assert "goodbye" in instructions

        await scene.hears(100)
        await scene.says(audio("bye", 100), AudioDone("bye"), DONE)
        assert len(await scene.hears(100)) == 800
        assert scene.leg.hung_up == [HangupCause.NORMAL]
        assert scene.ending.reason == "cost_limit"


async def test_the_cost_limit_ends_a_call_whose_model_does_not_say_goodbye():
    async with Scene(max_cost_usd=Decimal("0.01"), greeting=None) as scene:
        scene.session.usage = Usage(audio_out=5000)
        await scene.time_passes(1.0)
        await scene.time_passes(GOODBYE_S)
        await scene.call
        assert (scene.leg.hung_up, scene.ending.reason) == ([HangupCause.NORMAL], "cost_limit")


async def test_what_nobody_has_priced_never_ends_a_call():
    async with Scene(max_cost_usd=Decimal("0.01"), greeting=None) as scene:
        scene.session.usage = Usage(text_out=10**9)
        await scene.time_passes(1.0)
        assert scene.session.told == []
        [changed] = scene.watcher.of(ev.CostChanged)
        assert (changed.bill.total, changed.bill.known) == (None, 0)


async def test_a_farewell_that_is_longer_than_the_safety_net_is_heard():
    async with Scene(safety_net_s=0.01) as scene:
        assert MARGIN_S > 1
        scene.unheard_ms = 20_000
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(audio("bye", 20_000), AudioDone("bye"), tool("end_call"))
        await asyncio.sleep(0.05)
        assert scene.leg.hung_up == []

        await scene.hears(20_000)
        assert scene.leg.hung_up == [HangupCause.NORMAL]


async def test_the_time_for_a_caller_who_talks_begins_behind_the_farewell():
    async with Scene(safety_net_s=0.05) as scene:
        scene.unheard_ms = 1000
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(audio("bye", 100), AudioDone("bye"), tool("end_call"))
        await asyncio.sleep(0.06)
        await scene.says(SpeechStarted(), Interrupted())
        await scene.hears(100)
        assert scene.leg.hung_up == []

        await scene.says(SpeechStopped())
        assert scene.leg.hung_up == [HangupCause.NORMAL]


async def test_a_caller_who_never_stops_is_hung_up_on_at_the_limit():
    async with Scene(safety_net_s=0.02) as scene:
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(SpeechStarted(), tool("end_call"))

        await scene.call
        assert scene.leg.hung_up == [HangupCause.NORMAL]


async def test_a_trunk_that_sends_no_audio_while_it_transfers_is_not_hung_up_on():
    async with Scene() as scene:
        scene.leg.hold_transfer = True
        scene.tools.terminal = SALES
        await scene.says(tool("transfer_call"))
        scene.leg.happened.put(MediaLost(30_000))
        await scene.settle()

        assert scene.leg.hung_up == []


async def test_media_that_is_still_lost_when_the_transfer_has_failed_ends_the_call(monkeypatch):
    monkeypatch.setattr("gateway.calls.bridge.MEDIA_AGAIN_S", 0.01)
    async with Scene(transfer=BUSY) as scene:
        scene.tools.terminal = SALES
        await scene.says(audio("a", 100), AudioDone("a"), tool("transfer_call"))
        scene.leg.happened.put(MediaLost(30_000))
        await scene.settle()
        assert scene.leg.hung_up == []
        await scene.hears(120)

        assert (await scene.call).reason == "media_lost"


async def test_media_that_came_back_before_the_transfer_failed_lets_the_call_go_on(monkeypatch):
    monkeypatch.setattr("gateway.calls.bridge.MEDIA_AGAIN_S", 0.01)
    async with Scene(transfer=BUSY) as scene:
        scene.tools.terminal = SALES
        await scene.says(audio("a", 100), AudioDone("a"), tool("transfer_call"))
        scene.leg.happened.put(MediaLost(30_000))
        scene.leg.happened.put(MediaResumed())
        await scene.settle()
        await scene.hears(120)
        await asyncio.sleep(0.05)

        assert scene.leg.hung_up == []


async def test_a_caller_who_leaves_during_a_transfer_is_gone_at_once():
    async with Scene(transfer=[TransferProgress(TransferState.FAILED, reason=GONE)]) as scene:
        scene.leg.hold_transfer = True
        scene.tools.terminal = SALES
        await scene.says(tool("transfer_call"))
        scene.leg.leave()
        async with asyncio.timeout(1):
            await scene.call

        assert [each for each in scene.session.told if each[0] == "text"] == []


async def test_a_caller_who_leaves_during_the_announcement_is_not_transferred():
    async with Scene() as scene:
        scene.tools.terminal = SALES
        await scene.says(audio("a", 1000), AudioDone("a"), tool("transfer_call"))
        scene.leg.leave()
        await scene.call

        assert scene.leg.transferred == []
        assert [event.state for event in scene.watcher.of(ev.TransferChanged)] == ["requested"]


async def test_no_tool_begins_for_a_caller_who_has_hung_up():
    async with Scene(greeting=None) as scene:
        scene.tools.gate.clear()
        await scene.says(tool("slow"))
        scene.leg.leave()
        await scene.settle()
        await scene.says(tool("late", response="resp_2"))
        scene.tools.gate.set()
        await scene.call

        assert scene.tools.ran == ["slow"]
        assert scene.session.told == [("result", "c_slow", "ok")]


async def test_a_tool_that_is_still_running_when_the_grace_is_over_has_an_unknown_outcome(monkeypatch):
    monkeypatch.setattr("gateway.calls.bridge.TOOL_GRACE_S", 0.01)
    async with Scene() as scene:
        scene.tools.gate.clear()
        await scene.says(tool("slow"))
        scene.leg.leave()
        await scene.call

        [answered] = scene.watcher.of(ev.ToolAnswered)
        assert (answered.status, answered.reason_code) == ("completion_unknown", "call_ended")


async def test_an_item_that_ran_dry_is_interrupted_like_any_other():
    """What comes of it later must not be played, and the model must know what was heard."""
    async with Scene(greeting=None) as scene:
        await scene.says(audio("a", 200))
        await scene.hears(400)
        await scene.says(SpeechStarted(), Interrupted())

        assert scene.session.told == [("interrupt", "a", 200)]
        assert scene.watcher.of(ev.BargedIn) == []


async def test_a_caller_who_speaks_right_behind_the_request_to_end_does_not_cut_the_farewell():
    async with Scene() as scene:
        scene.tools.terminal = EndRequest("c_end_call")
        await scene.says(
            audio("bye", 400),
            AudioDone("bye"),
            tool("end_call"),
            SpeechStarted(),
            Interrupted(),
            SpeechStopped(),
        )

        assert len(await scene.hears(400)) == 3200
        assert scene.leg.hung_up == [HangupCause.NORMAL]
