"""A browser's call from end to end: SIP over WebSocket, ICE, DTLS, SRTP."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tests.kit import sound
from tests.kit.browser import Browser, only_loopback
from tests.kit.certificates import Authority
from tests.kit.hear import hear
from tests.kit.office import NUMBER
from tests.peers.test_srtp import FAREWELL, GREETING, THANKS, kept
from tests.peers.test_tls import open_secure

pytestmark = pytest.mark.peers


def browse(port: int, authority: Authority, **options: bool) -> Browser:
    """Call, say thanks after the greeting, and return when the gateway has hung up."""

    async def call() -> Browser:
        words = np.concatenate((sound.silence(len(GREETING) / sound.RATE + 0.8), THANKS))
        browser = Browser(words, **options)
        try:
            async with asyncio.timeout(40):
                await browser.call(port, authority.file, NUMBER)
        finally:
            await browser.connection.close()
        return browser

    with only_loopback():
        return asyncio.run(call())


def test_a_browser_with_another_certificate_than_it_signalled_is_hung_up(fake_office, tmp_path) -> None:
    authority = Authority(tmp_path / "tls")
    gateway, port, _ = open_secure(fake_office, authority, "wss")
    browser = browse(port, authority, lies=True)
    assert not browser.pieces
    record, caller = kept(fake_office)
    assert (record["reason"], record["by"]) == ("media_insecure", "gateway")
    assert not caller.any()
    assert "fingerprint" in gateway.log


def test_a_browser_and_the_agent_hear_each_other(fake_office, tmp_path) -> None:
    authority = Authority(tmp_path / "tls")
    gateway, port, _ = open_secure(fake_office, authority, "wss")
    browser = browse(port, authority)
    assert hear(GREETING, browser.heard).whole
    assert hear(FAREWELL, browser.heard).whole
    assert gateway.metrics()['trunkline_calls_media_total{protection="dtls"}'] == 1
    record, caller = kept(fake_office)
    assert hear(THANKS, caller).whole
    assert record["media"]["protection"] == "dtls AEAD_AES_256_GCM"
    assert record["reason"] == "end_call"
