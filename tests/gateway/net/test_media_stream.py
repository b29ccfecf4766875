"""A call's media over real UDP sockets on loopback, on both event loops."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import time
from dataclasses import replace

import pytest
from aiortc.rtp import RtcpByePacket, RtcpPacket

from gateway.media.keypad import ToneDetector, ToneHeard, tone_frames
from gateway.net.media_stream import MediaRules
from gateway.rtp.session import DtmfReceived, MediaLost, MediaResumed
from providers.types import PCM16_16K, PCMA


async def test_what_is_enqueued_comes_out_whole_and_its_mark_is_reached_after_the_last_packet(line) -> None:
    said = bytes(range(1, 201)) * 4
    line.playout.enqueue(said, item_id="a")
    line.playout.finish("a")
    mark = line.playout.mark()
    line.stream.start(line.media)
    await line.peer.until(lambda: line.marks == [mark])
    packets = line.peer.packets()
    assert b"".join(packet.payload for packet in packets).strip(b"\xff") == said
    assert {len(packet.payload) for packet in packets} == {160}
    assert [packet.marker for packet in packets] == [1] + [0] * (len(packets) - 1)
    assert len({packet.ssrc for packet in packets}) == 1
    first = packets[0]
    for number, packet in enumerate(packets):
        assert packet.payload_type == 0
        assert packet.sequence_number == (first.sequence_number + number) & 0xFFFF
    times = [(packet.timestamp - first.timestamp) & 0xFFFF_FFFF for packet in packets]
    assert all(time % 160 == 0 for time in times)
    assert times == sorted(set(times))
    assert line.playout.heard_ms("a") == 100


@pytest.mark.report("BR-068")
async def test_silence_of_the_codec_is_sent_while_there_is_nothing_to_say(line) -> None:
    line.stream.start(line.media)
    await line.peer.until(lambda: len(line.peer.received) >= 5)
    assert {packet.payload for packet in line.peer.packets()} == {b"\xff" * 160}
    line.stream.reconfigure(replace(line.media, codec="PCMA", payload_type=8))
    await line.peer.until(lambda: line.peer.packets()[-1].payload_type == 8)
    assert line.peer.packets()[-1].payload == b"\xd5" * 160


async def test_a_listener_gets_what_is_sent_of_the_playout_but_not_the_silence_between(lines) -> None:
    sent: list[bytes] = []
    line = await lines(on_sent=sent.append)
    line.stream.start(line.media)
    line.playout.enqueue(b"\x11" * 400, item_id="a")
    line.playout.finish("a")
    line.playout.mark()
    await line.peer.until(lambda: bool(line.marks) and len(line.peer.received) >= 6)
    assert sent == [b"\x11" * 160, b"\x11" * 160, b"\x11" * 80 + b"\xff" * 80]


async def test_the_peers_audio_arrives_in_order_across_the_wrap_of_its_numbers(line) -> None:
    line.stream.start(line.media)
    for number in range(20):
        line.peer.send(line.stream.port, bytes([number]) * 160)
    await line.peer.until(lambda: len(line.audio) >= 20)
    assert line.audio[:20] == [(bytes([number]) * 160, number * 20) for number in range(20)]
    assert line.stream.stats().quality.statistics.received == 20


async def test_a_lost_packet_is_made_up_for(line) -> None:
    line.stream.start(line.media)
    line.peer.send(line.stream.port, b"\x10" * 160)
    line.peer.send(line.stream.port, b"\x20" * 160, skip=1)
    await line.peer.until(lambda: any(audio == b"\x20" * 160 for audio, _ in line.audio))
    assert [at_ms for _, at_ms in line.audio[:3]] == [0, 20, 40]
    assert len(line.audio[1][0]) == 160
    assert line.stream.stats().quality.statistics.lost == 1


async def test_keys_are_reported_once(line) -> None:
    line.stream.start(line.media)
    for ended in (0, 0, 0x80, 0x80, 0x80):
        event = bytes((5, ended | 10, 1, 0x40))
        line.peer.send(line.stream.port, event, payload_type=101)
        line.peer.timestamp -= 4
    await line.peer.until(lambda: bool(line.events))
    assert line.events == [DtmfReceived("5")]


@pytest.mark.report("BR-145")
@pytest.mark.report("BR-144")
async def test_keys_are_sent_as_events_of_the_agreed_number(line) -> None:
    line.stream.start(replace(line.media, dtmf_payload_type=97))
    line.stream.send_dtmf("2#")
    await line.peer.until(lambda: sum(packet.payload_type == 97 for packet in line.peer.packets()) == 14)
    await line.peer.until(lambda: line.peer.packets()[-1].payload_type == 0)
    packets = line.peer.packets()
    events = [packet for packet in packets if packet.payload_type == 97]
    for digit, presses in ((2, events[:7]), (11, events[7:])):
        assert len({packet.timestamp for packet in presses}) == 1
        assert [packet.marker for packet in presses] == [1, 0, 0, 0, 0, 0, 0]
        assert [packet.payload[0] for packet in presses] == [digit] * 7
        assert [packet.payload[1] >> 7 for packet in presses] == [0, 0, 0, 0, 1, 1, 1]
        durations = [int.from_bytes(packet.payload[2:], "big") for packet in presses]
        assert durations == [160, 320, 480, 640, 800, 800, 800]
    assert (events[7].timestamp - events[0].timestamp) & 0xFFFF_FFFF >= 800 + 400  # a pause of 50 ms
    numbers = [packet.sequence_number for packet in packets]
    assert numbers == [(numbers[0] + number) & 0xFFFF for number in range(len(numbers))]
    after = packets[packets.index(events[-1]) + 1]
    assert (after.timestamp - events[7].timestamp) & 0xFFFF_FFFF >= 800


@pytest.mark.report("BR-144")
async def test_to_a_peer_without_events_keys_are_sent_as_tones(line) -> None:
    line.stream.start(replace(line.media, dtmf_payload_type=None))
    line.stream.send_dtmf("9#")
    await line.peer.until(
        lambda: sum(packet.payload != b"\xff" * 160 for packet in line.peer.packets()) == 10
    )
    detector = ToneDetector("pcmu")
    assert "".join(detector.hear(packet.payload) for packet in line.peer.packets()) == "9#"
    with pytest.raises(ValueError, match="not a telephone key"):
        line.stream.send_dtmf("x")


async def test_tones_in_the_audio_are_keys_where_there_are_no_events_and_only_there(line) -> None:
    for events in (101, None, 101):
        media = replace(line.media, dtmf_payload_type=events)
        if events and not line.events:
            line.stream.start(media)
        else:
            line.stream.reconfigure(media)
        heard = len(line.audio)
        for frame in tone_frames("5", "pcmu"):
            line.peer.send(line.stream.port, frame)
        await line.peer.until(lambda heard=heard: len(line.audio) >= heard + 9)
    assert line.events == [ToneHeard("5")]


@pytest.mark.report("BR-050")
async def test_a_reinvite_moves_the_stream_at_once_and_its_numbers_go_on(line) -> None:
    line.stream.start(line.media)
    line.peer.send(line.stream.port, b"\x10" * 160)
    await line.peer.until(lambda: len(line.peer.received) >= 3)
    other = await line.another_peer()
    before = len(line.peer.received)
    line.stream.reconfigure(replace(line.media, remote=other.address))
    await other.until(lambda: len(other.received) >= 3)
    last, first = line.peer.packets()[-1], other.packets()[0]
    assert len(line.peer.received) == before
    assert first.ssrc == last.ssrc
    assert first.sequence_number == (last.sequence_number + 1) & 0xFFFF
    assert (first.timestamp - last.timestamp) & 0xFFFF_FFFF in {160, 320, 480}


@pytest.mark.report("BR-056")
async def test_on_hold_nothing_is_sent_and_the_playout_waits(line) -> None:
    line.playout.enqueue(b"\x11" * 1600, item_id="a")
    held = replace(line.media, sends=False, remote=("0.0.0.0", line.media.remote[1]))
    line.stream.start(held)
    ticks = 0
    done = asyncio.Event()

    def count(at: float) -> None:
        nonlocal ticks
        ticks += 1
        if ticks == 5:
            done.set()

    handle = line.pacer.add(count)
    async with asyncio.timeout(5):
        await done.wait()
    line.pacer.remove(handle)
    assert line.peer.received == []
    assert line.playout.heard_ms("a") == 0
    line.stream.reconfigure(line.media)
    line.playout.finish("a")
    await line.peer.until(lambda: line.playout.heard_ms("a") == 200)


@pytest.mark.report("BR-061")
async def test_a_peer_behind_nat_is_answered_where_it_sends_from(line) -> None:
    line.playout.enqueue(b"\x11" * 1600, item_id="a")
    line.stream.start(replace(line.media, remote=("192.168.255.254", 7078)))
    line.peer.send(line.stream.port, b"\x10" * 160)
    await line.peer.until(lambda: line.playout.heard_ms("a") >= 60)
    assert len(line.peer.received) >= 3


@pytest.mark.report("BR-063")
async def test_to_a_private_address_the_greeting_waits_for_a_packet_for_half_a_second_at_most(lines) -> None:
    sent: list[float] = []
    line = await lines(on_sent=lambda frame: sent.append(time.monotonic()))
    line.playout.enqueue(b"\x11" * 480, item_id="greeting")
    line.playout.finish("greeting")
    line.playout.mark()
    started = time.monotonic()
    line.stream.start(replace(line.media, remote=("192.168.255.254", 7078)))
    await line.peer.until(lambda: bool(line.marks))
    assert len(sent) == 3  # nothing of it was skipped
    assert sent[0] - started >= 0.49


async def test_a_fault_of_ours_ends_the_media_and_is_told(lines) -> None:
    reports: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))
    line = await lines(on_sent=lambda frame: 1 / 0)
    line.playout.enqueue(b"\x11" * 480, item_id="a")
    line.stream.start(line.media)
    await line.peer.until(lambda: bool(line.events))
    assert line.events == [MediaLost(0)]
    assert (line.pool.leased, line.pacer.active) == (0, 0)
    assert isinstance(reports[0]["exception"], ZeroDivisionError)


async def test_lost_media_and_its_return_are_reported(lines) -> None:
    line = await lines(rules=MediaRules(lost_after_ms=60))
    line.stream.start(line.media)
    await line.peer.until(lambda: len(line.events) == 1)
    assert isinstance(line.events[0], MediaLost)
    line.peer.send(line.stream.port, b"\x10" * 160)
    await line.peer.until(lambda: len(line.events) >= 2)
    assert isinstance(line.events[1], MediaResumed)


async def test_a_ptime_of_10_ms_is_kept(line) -> None:
    line.stream.start(replace(line.media, ptime_ms=10))
    await line.peer.until(lambda: len(line.peer.received) >= 8)
    packets = line.peer.packets()
    assert {len(packet.payload) for packet in packets} == {80}
    assert [(packet.timestamp - packets[0].timestamp) & 0xFFFF_FFFF for packet in packets[:2]] == [0, 80]


async def test_a_codec_that_was_changed_is_converted_both_ways(lines) -> None:
    line = await lines(PCMA)
    line.stream.start(line.media)
    line.playout.enqueue(b"\xd5" * 80 + b"\x55" * 80, item_id="a")
    line.playout.finish("a")
    line.peer.send(line.stream.port, b"\xff" * 160)
    await line.peer.until(lambda: bool(line.audio) and line.playout.heard_ms("a") == 20)
    assert line.audio[0] == (b"\xd5" * 160, 0)
    assert b"\xfe" * 80 + b"\x7e" * 80 in [packet.payload for packet in line.peer.packets()]


@pytest.mark.report("BR-166")
@pytest.mark.report("BR-172")
async def test_closing_says_goodbye_and_gives_everything_back(lines) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    line = await lines()
    assert line.pool.leased == 1
    line.stream.start(line.media)
    await line.peer.until(lambda: bool(line.peer.received))
    line.stream.close()
    line.stream.close()
    await line.rtcp_peer.until(lambda: bool(line.rtcp_peer.received))
    goodbye = RtcpPacket.parse(line.rtcp_peer.received[0])[-1]
    assert isinstance(goodbye, RtcpByePacket)
    assert goodbye.sources == [line.peer.packets()[0].ssrc]
    assert line.pool.leased == 0
    assert line.pacer.active == 0
    await line.close()
    await asyncio.sleep(0)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_packets_before_the_answer_are_not_heard(line) -> None:
    line.peer.send(line.stream.port, b"\x10" * 160)
    line.stream.start(line.media)
    line.peer.send(line.stream.port, b"\x20" * 160)
    await line.peer.until(lambda: bool(line.audio))
    assert line.stream.stats().quality.statistics.sent >= 0


async def test_an_unreachable_peer_is_only_counted(line) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        nobody = sock.getsockname()
    line.stream.start(replace(line.media, remote=nobody))
    mark_frames = []
    line.playout.enqueue(b"\x11" * 1600, item_id="a")
    line.playout.finish("a")
    mark_frames.append(line.playout.mark())
    await line.peer.until(lambda: line.marks == mark_frames)
    assert line.stream.stats().quality.statistics.sent >= 10


async def test_an_address_of_another_family_is_only_counted(line) -> None:
    line.stream.start(replace(line.media, remote=("::1", 9), remote_rtcp=("::1", 10)))
    line.playout.enqueue(b"\x11" * 480, item_id="a")
    line.playout.finish("a")
    mark = line.playout.mark()
    await line.peer.until(lambda: line.marks == [mark])
    assert line.stream.stats().send_errors >= 3
    assert line.events == []


async def test_a_playout_that_is_not_g711_is_refused(lines) -> None:
    with pytest.raises(ValueError, match=r"G\.711"):
        await lines(PCM16_16K)


async def test_asyncio_reads_small_datagrams_only(line) -> None:
    """Its buffer of 256 KiB for each packet would cost three system calls; uvloop has no such attribute."""
    uses_asyncio = isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop)
    for transport in (line.stream._rtp, line.stream._rtcp):
        assert getattr(transport, "max_size", None) == (2048 if uses_asyncio else None)
