"""Every asynchronous test of this folder runs on both event loops."""

from __future__ import annotations

import asyncio
import ssl

import pytest
import uvloop

from tests.kit.certificates import Authority
from tests.providers.gemini.hand_server import HandServer, Tls


def pytest_asyncio_loop_factories(config, item):
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def tls(tmp_path_factory) -> Tls:
    """An authority and a certificate for 127.0.0.1 that it signed."""
    authority = Authority(tmp_path_factory.mktemp("tls"))
    pair = authority.sign("127.0.0.1", "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.private_key)
    return Tls(context, authority.file)


@pytest.fixture
async def server(tls):
    """A server that accepts everybody and then says what the test says."""
    async with HandServer(tls) as running:
        yield running
