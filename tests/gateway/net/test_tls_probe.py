"""Certificates looked at, on real sockets."""

import asyncio
import ssl
from datetime import UTC, datetime

import pytest

from gateway.net.tls import TlsContexts, TlsFailure, TlsFiles
from gateway.net.tls_probe import probe
from tests.kit.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def trusting(authority):
    pair = authority.sign("client.example")
    return TlsContexts(TlsFiles(pair.certificate, pair.private_key, authority.file))


async def looked_at(pair, contexts, name, *, context=None):
    """Probe a server that shows a certificate."""
    if context is None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.private_key)

    async def serve(reader, writer):
        try:
            await reader.read()
        except (ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context or None)
    async with server, asyncio.timeout(10):
        return await probe(contexts, server.sockets[0].getsockname(), name)


async def test_a_good_certificate_is_shown_with_its_names_and_its_end(authority, trusting):
    shown = await looked_at(
        authority.sign("sip.example", "127.0.0.1", days=(-1, 30)), trusting, "sip.example"
    )
    assert shown.fault == ""
    assert shown.names == ("sip.example", "127.0.0.1")
    assert 28 <= (shown.until - datetime.now(UTC)).days <= 30
    assert "Authority of the tests" in shown.issuer


async def test_one_for_another_name_or_out_of_date_or_of_nobody_is_shown_with_its_fault(authority, trusting):
    other = await looked_at(authority.sign("other.example"), trusting, "sip.example")
    assert (other.names, other.fault) == (("other.example",), "the certificate is not for sip.example")
    old = await looked_at(authority.sign("sip.example", days=(-9, -1)), trusting, "sip.example")
    assert "expired" in old.fault
    unknown = await looked_at(authority.sign("sip.example"), TlsContexts(), "sip.example")
    assert unknown.fault.startswith("the certificate is not trusted: ")


async def test_who_speaks_no_tls_or_is_not_there_is_an_error(trusting):
    async def speak(reader, writer):
        writer.write(b"SIP/2.0 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        with pytest.raises((TlsFailure, OSError)):
            await probe(trusting, server.sockets[0].getsockname(), "sip.example")
        address = server.sockets[0].getsockname()
    with pytest.raises(OSError):
        await probe(trusting, address, "sip.example")
