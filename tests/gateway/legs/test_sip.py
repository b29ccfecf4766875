"""The SIP leg with its user agent played by hand; its media are real sockets on loopback."""

import asyncio

import pytest

from gateway.legs.base import (
    UNSUPPORTED,
    HangupCause,
    HoldChanged,
    HungUp,
    LegGone,
    TransferProgress,
    TransferRequested,
    TransferState,
)
from gateway.legs.sip import PEER_BUFFER_S
from gateway.sip import events as sip
from tests.gateway.legs.sip_line import Line, offer


@pytest.fixture
async def line():
    async with Line() as one:
        yield one


@pytest.fixture
async def answered(line):
    await line.answered()
    return line


async def test_a_leg_is_answered_when_the_ack_is_here(line):
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(line.leg.answer())
        while not line.agent.asked:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
        line.leg.handle(sip.CallConfirmed("c1", None))

    [(command, sdp)] = line.agent.asked
    assert command == "answer"
    assert f"m=audio {line._lease.port} RTP/AVP 0 101".encode() in sdp


async def test_a_caller_who_gave_up_cannot_be_answered(line):
    line.leg.handle(sip.CallEnded("c1", by_peer=True, reason="cancel"))

    with pytest.raises(LegGone, match="gave up"):
        await line.leg.answer()
    assert line.agent.asked == []
    assert line.pool.leased == 0


async def test_a_caller_who_hangs_up_right_behind_the_ack_was_answered(line):
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(line.leg.answer())
        while not line.agent.asked:
            await asyncio.sleep(0)
        line.leg.handle(sip.CallConfirmed("c1", None))
        line.leg.handle(sip.CallEnded("c1", by_peer=True, reason="bye"))

    assert [event async for event in line.leg.events()] == [HungUp(by_caller=True, reason="bye")]


@pytest.mark.report("BR-003")
async def test_an_answer_that_is_never_acknowledged_is_no_call(line):
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(_refused(line.leg))
        while not line.agent.asked:
            await asyncio.sleep(0)
        line.leg.handle(sip.CallEnded("c1", by_peer=False, reason="ack_timeout"))

    assert "never acknowledged" in task.result()
    assert line.pool.leased == 0


@pytest.mark.report("BR-001")
async def test_a_late_offer_is_answered_in_the_ack():
    async with Line(late_offer=True) as line:
        await line.answered(offer(line.port))
        line.leg.play(b"\x42" * 160, item_id="a")
        line.leg.finish("a")

        await line.hears(b"\x42")


async def test_an_ack_without_the_answer_to_our_offer_ends_the_call():
    async with Line(late_offer=True) as line, asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(_refused(line.leg))
        while not line.agent.asked:
            await asyncio.sleep(0)
        line.leg.handle(sip.CallConfirmed("c1", None))
        assert line.agent.asked[-1] == ("bye",)
        line.leg.handle(sip.CallEnded("c1", by_peer=False, reason="local"))

    assert "never acknowledged" in task.result()


async def test_audio_is_played_to_the_peer_and_marked_when_it_was_heard(answered):
    answered.leg.play(b"\x42" * 320, item_id="a")
    answered.leg.finish("a")
    assert answered.leg.heard_ms("a") == 0

    async with asyncio.timeout(5):
        await answered.leg.mark()
    assert answered.leg.heard_ms("a") == 40
    await answered.hears(b"\x42")


async def test_a_mark_waits_for_what_the_jitter_buffer_of_a_telephone_holds(answered):
    loop = asyncio.get_running_loop()
    answered.leg.play(b"\x42" * 320, item_id="a")
    answered.leg.finish("a")
    async with asyncio.timeout(5):
        await answered.hears(b"\x42")
        began = loop.time()
        while answered.leg.heard_ms("a") < 40:
            await asyncio.sleep(0.01)
        await answered.leg.mark()  # set behind what was sent a moment ago
    assert loop.time() - began >= PEER_BUFFER_S


async def test_a_mark_without_anything_to_hear_is_reached_at_once(answered):
    async with asyncio.timeout(1):
        await answered.leg.mark()


async def test_clearing_releases_whoever_waits_for_a_mark(answered):
    answered.leg.play(b"\x42" * 80_000, item_id="a")
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(answered.leg.mark())
        await answered.hears(b"\x42")
        cleared = answered.leg.clear()

    assert cleared.item_id == "a"
    assert cleared.heard_ms + cleared.dropped_ms == 10_000
    assert cleared.heard_ms >= 20


async def test_a_line_that_is_gone_releases_whoever_waits(answered):
    answered.leg.play(b"\x42" * 80_000, item_id="a")
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(answered.leg.mark())
        await answered.hears(b"\x42")
        answered.leg.handle(sip.CallEnded("c1", by_peer=True, reason="bye"))

    assert [event async for event in answered.leg.events()] == [HungUp(by_caller=True, reason="bye")]
    assert all(frame.audio for frame in [frame async for frame in answered.leg.frames()])
    assert answered.pool.leased == 0
    assert len(answered.media) == 1


async def test_the_end_is_told_once(answered):
    for _ in range(2):
        answered.leg.handle(sip.CallEnded("c1", by_peer=True, reason="bye"))

    assert [event async for event in answered.leg.events()] == [HungUp(by_caller=True, reason="bye")]


@pytest.mark.parametrize(
    ("cause", "status"),
    [
        (HangupCause.NORMAL, 480),
        (HangupCause.BUSY, 486),
        (HangupCause.DECLINED, 603),
        (HangupCause.NOT_FOUND, 404),
        (HangupCause.OVERLOADED, 503),
        (HangupCause.UNAVAILABLE, 503),
        (HangupCause.FAILED, 500),
    ],
)
async def test_a_ringing_line_is_refused_with_a_status(line, cause, status):
    await line.leg.hang_up(cause)

    [(command, sent, _)] = line.agent.asked
    assert (command, sent) == ("reject", status)


async def test_an_answered_line_is_hung_up_with_bye(answered):
    await answered.leg.hang_up()

    assert answered.agent.asked[-1] == ("bye",)


async def test_nothing_is_sent_on_a_line_that_is_gone(answered):
    answered.leg.handle(sip.CallEnded("c1", by_peer=True, reason="bye"))
    await answered.leg.hang_up()
    answered.leg.play(b"\x42" * 160, item_id="a")

    assert ("bye",) not in answered.agent.asked
    assert answered.leg.heard_ms("a") == 0


@pytest.mark.report("BR-002")
async def test_hold_is_answered_and_told_and_resumed(answered):
    answered.leg.handle(sip.CallReoffered("c1", offer(answered.port, direction="sendonly", version=2)))
    answered.leg.handle(sip.CallReoffered("c1", offer(answered.port, version=3)))

    (_, first), (_, second) = answered.agent.asked[-2:]
    assert b"a=recvonly" in first
    assert b"a=sendrecv" in second
    assert answered.events_now() == [HoldChanged(True), HoldChanged(False)]


async def test_a_held_call_is_resumed_by_a_re_invite_without_an_offer(answered):
    """RFC 3261, section 14.2: the offer is ours then, and the answer comes in the ACK."""
    answered.leg.handle(sip.CallReoffered("c1", offer(answered.port, direction="sendonly", version=2)))
    answered.leg.handle(sip.CallReoffered("c1", None))

    (_, ours) = answered.agent.asked[-1]
    assert b"a=sendrecv" in ours
    assert b"RTP/AVP 0 8 101" in ours
    answered.leg.handle(sip.CallConfirmed("c1", offer(answered.port, version=3)))
    assert answered.events_now() == [HoldChanged(True), HoldChanged(False)]
    answered.leg.play(b"\x42" * 160, item_id="a")
    answered.leg.finish("a")
    await answered.hears(b"\x42")


@pytest.mark.parametrize("answer", [None, b"v=0\r\nnonsense"])
async def test_a_re_invite_whose_ack_brings_no_answer_changes_nothing(answered, answer):
    answered.leg.handle(sip.CallReoffered("c1", None))
    answered.leg.handle(sip.CallConfirmed("c1", answer))

    answered.leg.play(b"\x42" * 160, item_id="a")
    answered.leg.finish("a")
    await answered.hears(b"\x42")


async def test_a_later_offer_that_cannot_be_accepted_leaves_the_call_as_it_was(answered):
    answered.leg.handle(sip.CallReoffered("c1", b"v=0\r\nnonsense"))

    assert answered.agent.asked[-1] == ("answer_reoffer", "session description has no usable o= line")
    answered.leg.play(b"\x42" * 160, item_id="a")
    answered.leg.finish("a")
    await answered.hears(b"\x42")


BUSY = TransferProgress(TransferState.FAILED, 486, "busy")
REDIRECTING = TransferProgress(TransferState.REDIRECTING, 202)


@pytest.mark.report("BR-094")
@pytest.mark.parametrize(
    ("happens", "last"),
    [
        ([sip.ReferProgressed("c1", 486, "Busy Here", final=True)], BUSY),
        (
            [sip.ReferProgressed("c1", 600, "", final=True)],
            TransferProgress(TransferState.FAILED, 600, "busy"),
        ),
        (
            [sip.ReferProgressed("c1", 603, "", final=True)],
            TransferProgress(TransferState.FAILED, 603, "declined"),
        ),
        (
            [sip.ReferProgressed("c1", 480, "", final=True)],
            TransferProgress(TransferState.FAILED, 480, "no_answer"),
        ),
        (
            [sip.ReferProgressed("c1", 404, "", final=True)],
            TransferProgress(TransferState.FAILED, 404, "refused"),
        ),
        (
            [sip.ReferProgressed("c1", 0, "unknown", final=True)],
            TransferProgress(TransferState.FAILED, 0, "unknown"),
        ),
        (
            [sip.ReferProgressed("c1", 0, "timeout", final=True)],
            TransferProgress(TransferState.FAILED, 0, "timeout"),
        ),
        ([sip.ReferAnswered("c1", 403)], TransferProgress(TransferState.FAILED, 403, UNSUPPORTED)),
        ([sip.ReferAnswered("c1", 404)], TransferProgress(TransferState.FAILED, 404, "refused")),
        ([sip.ReferAnswered("c1", 408)], TransferProgress(TransferState.FAILED, 408, "timeout")),
        (
            [
                sip.ReferProgressed("c1", 100, "Trying", final=False),
                sip.ReferProgressed("c1", 200, "OK", final=True),
            ],
            TransferProgress(TransferState.CONFIRMED, 200),
        ),
        (
            [sip.CallEnded("c1", by_peer=True, reason="bye")],
            TransferProgress(TransferState.CONFIRMED, 0),
        ),
    ],
)
async def test_a_transfer_tells_what_the_peer_said_of_it(answered, happens, last):
    steps = answered.leg.transfer("+12125551234")
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(_all(steps))
        while ("refer", "+12125551234") not in answered.agent.asked:
            await asyncio.sleep(0)
        if not isinstance(happens[0], sip.ReferAnswered):
            answered.leg.handle(sip.ReferAnswered("c1", 202))
        for event in happens:
            answered.leg.handle(event)

    assert task.result()[-1] == last


async def test_a_caller_who_hangs_up_before_the_refer_is_accepted_was_not_transferred(answered):
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(_all(answered.leg.transfer("+12125551234")))
        while ("refer", "+12125551234") not in answered.agent.asked:
            await asyncio.sleep(0)
        answered.leg.handle(sip.CallEnded("c1", by_peer=True, reason="bye"))

    assert task.result() == [TransferProgress(TransferState.FAILED, 0, "gone")]


async def _all(steps):
    return [step async for step in steps]


async def _refused(leg):
    """Try to answer a line that goes away meanwhile; return the sentence of the refusal."""
    with pytest.raises(LegGone) as caught:
        await leg.answer()
    return str(caught.value)


async def test_a_caller_who_sends_faster_than_time_passes_is_cut_to_its_speed(answered):
    """Ten seconds of audio in no time: a little is a burst, the rest a flood."""
    taken = 0
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:

        async def take():
            nonlocal taken
            async for frame in answered.leg.frames():
                taken += len(frame.audio)

        reader = group.create_task(take())
        for _ in range(500):
            answered.leg._heard(b"\xff" * 160, 0)
            await asyncio.sleep(0)
        reader.cancel()

    assert 2.9 <= taken / 8000 <= 3.5
    assert answered.leg.dropped_frames == 500 - taken // 160


async def test_the_peers_own_wish_to_transfer_is_answered_in_its_own_terms(answered):
    answered.leg.handle(sip.ReferReceived("c1", "sip:+12025550177@gw.example"))
    answered.leg.answer_transfer(603)

    assert answered.events_now() == [TransferRequested("sip:+12025550177@gw.example")]
    assert answered.agent.asked[-1] == ("answer_refer", 603)


async def test_a_listener_takes_the_place_of_the_frames(answered):
    heard = []
    answered.leg.listen(heard.append)
    answered.leg._heard(b"\x42" * 160, 0)
    answered.leg.listen(None)
    answered.leg._heard(b"\x43" * 160, 20)

    assert heard == [b"\x42" * 160]
    assert (await anext(answered.leg.frames())).audio == b"\x43" * 160


async def test_the_answer_to_a_refresh_that_says_nothing_new_touches_nothing(answered):
    answered.leg.handle(sip.ReofferAnswered("c1", 200, offer(answered.port, version=2)))
    touched = []
    answered.leg._stream.reconfigure = touched.append
    answered.leg.handle(sip.ReofferAnswered("c1", 200, offer(answered.port, version=2)))
    assert touched == []
    answered.leg.handle(sip.ReofferAnswered("c1", 200, offer(answered.port + 2, version=3)))

    assert [media.remote[1] for media in touched] == [answered.port + 2]


async def test_the_answer_to_a_refresh_of_ours_moves_the_media(answered):
    answered.leg.handle(sip.ReofferAnswered("c1", 200, offer(answered.port, direction="sendonly", version=2)))
    answered.leg.handle(sip.ReofferAnswered("c1", 488, None))

    assert answered.events_now()[-1] == HoldChanged(True)


@pytest.mark.parametrize("status", [400, 403, 405, 406, 415, 420, 421, 488, 489, 501, 603, 606])
async def test_a_peer_that_refuses_the_refer_itself_leaves_it_to_us(answered, status):
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(_all(answered.leg.transfer("+12125551234")))
        while ("refer", "+12125551234") not in answered.agent.asked:
            await asyncio.sleep(0)
        answered.leg.handle(sip.ReferAnswered("c1", status))

    assert task.result() == [TransferProgress(TransferState.FAILED, status, UNSUPPORTED)]
