"""aiortc as the far end: full ICE, DTLS-SRTP and one port for all, as a browser does it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.legs.description import CallDescription
from gateway.net.dtls import own_certificate
from tests.kit import sound
from tests.kit.browser import Browser, only_loopback
from tests.kit.hear import hear

OURS, THEIRS = sound.utterance(1, 2.0), sound.utterance(2, 2.0)


@pytest.fixture
async def browser():
    with only_loopback():
        found = Browser(THEIRS)
        yield found
        await found.connection.close()


async def test_a_browsers_call_is_found_by_ice_protected_by_dtls_and_heard_both_ways(lines, browser) -> None:
    line = await lines()
    description = CallDescription.for_offer(
        (await browser.offer()).encode(),
        host="127.0.0.1",
        port=line.stream.port,
        codecs=("PCMU",),
        fingerprint=own_certificate().fingerprint,
    )
    media = description.media
    assert media is not None
    assert media.ice is not None
    assert media.rtcp_mux
    line.playout.enqueue(sound.encode(OURS), item_id="a")
    line.playout.finish("a")
    line.stream.start(media)
    await browser.take(description.local().decode())
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(browser.listen(4.0))
        await line.peer.until(lambda: len(line.audio) >= 150)
        # A description that changes nothing leaves ICE, keys and audio as they are.
        line.stream.reconfigure(media)
        before = len(line.audio)
        await line.peer.until(lambda: len(line.audio) >= before + 20)
    assert line.events == []
    assert line.stream.stats().quality.protection.startswith("dtls ")
    said = b"".join(audio for audio, _ in line.audio)
    assert hear(THEIRS, sound.decode(said)).whole
    assert hear(OURS, browser.heard).whole
