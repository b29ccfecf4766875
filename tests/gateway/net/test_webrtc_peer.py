"""aiortc as the far end: full ICE, DTLS-SRTP and one port for all, as a browser does it."""

from __future__ import annotations

import asyncio
import fractions

import aioice.ice
import numpy as np
import pytest
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from av import AudioFrame

from gateway.legs.description import CallDescription
from gateway.net.dtls import own_certificate
from tests.kit import sound
from tests.kit.hear import hear

SAMPLES = sound.FRAME


class Saying(MediaStreamTrack):
    """Says a recording in real time, then is silent."""

    kind = "audio"

    def __init__(self, words: sound.Pcm) -> None:
        super().__init__()
        self.words = words
        self.at = 0
        self.began = 0.0

    async def recv(self) -> AudioFrame:
        loop = asyncio.get_running_loop()
        self.began = self.began or loop.time()
        await asyncio.sleep(max(0.0, self.began + self.at / sound.RATE - loop.time()))
        piece = self.words[self.at : self.at + SAMPLES]
        piece = np.pad(piece, (0, SAMPLES - len(piece))).astype(np.int16)
        frame = AudioFrame.from_ndarray(piece.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = sound.RATE, self.at, fractions.Fraction(1, sound.RATE)
        self.at += SAMPLES
        return frame


@pytest.fixture
async def browser(monkeypatch):
    # Loopback is the only network that a test may count on.
    monkeypatch.setattr(aioice.ice, "get_host_addresses", lambda use_ipv4, use_ipv6: ["127.0.0.1"])
    found = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    yield found
    await found.close()


async def test_a_browsers_call_is_found_by_ice_protected_by_dtls_and_heard_both_ways(lines, browser) -> None:
    line = await lines()
    ours, theirs = sound.utterance(1, 2.0), sound.utterance(2, 2.0)
    heard: list[sound.Pcm] = []

    async def listen(track: MediaStreamTrack) -> None:
        while sum(map(len, heard)) < sound.RATE * 4:
            frame = await track.recv()
            assert (frame.sample_rate, frame.layout.nb_channels) == (sound.RATE, 1)
            heard.append(frame.to_ndarray()[0])

    async with asyncio.TaskGroup() as group, asyncio.timeout(30):
        done: list[asyncio.Task[None]] = []
        browser.on("track", lambda track: done.append(group.create_task(listen(track))))
        browser.addTrack(Saying(theirs))
        await browser.setLocalDescription(await browser.createOffer())
        description = CallDescription.for_offer(
            browser.localDescription.sdp.encode(),
            host="127.0.0.1",
            port=line.stream.port,
            codecs=("PCMU",),
            fingerprint=own_certificate().fingerprint,
        )
        media = description.media
        assert media is not None
        assert media.ice is not None
        assert media.rtcp_mux
        line.playout.enqueue(sound.encode(ours), item_id="a")
        line.playout.finish("a")
        line.stream.start(media)
        await browser.setRemoteDescription(RTCSessionDescription(description.local().decode(), "answer"))
        await line.peer.until(lambda: len(line.audio) >= 150)
        # A description that changes nothing leaves ICE, keys and audio as they are.
        line.stream.reconfigure(media)
        before = len(line.audio)
        await line.peer.until(lambda: len(line.audio) >= before + 20)
        for task in done:
            await task
    assert line.events == []
    assert line.stream.stats().quality.protection.startswith("dtls ")
    said = b"".join(audio for audio, _ in line.audio)
    assert hear(theirs, sound.decode(said)).whole
    assert hear(ours, np.concatenate(heard)).whole
