"""Which certificate a server shows, and whether we would accept it: for people who look for the reason."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509

from gateway.net.tls import TlsContexts, TlsFailure, TlsSession
from gateway.sip.flow import Address

_CHUNK = 65_536
_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Shown:
    """A server's certificate."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    """Alternative names of any kind that can be written down."""
    until: datetime
    """When it ends, in UTC."""
    fault: str
    """Why it is not accepted; empty when it is."""


async def probe(contexts: TlsContexts, address: Address, name: str) -> Shown:
    """
    Connect, shake hands, and look.

    Args:
        contexts: As our connections use them.
        address: IP address and port.
        name: The domain or address that the certificate is to be for.

    Raises:
        OSError: Nobody answers.
        TlsFailure: It is no TLS, or the server refuses us.
    """
    fault = ""
    try:
        encoded = await _certificate(contexts.connect(name, verify=True), address)
    except TlsFailure as error:
        fault = str(error)
        encoded = await _certificate(contexts.connect(name, verify=False), address)
    found = x509.load_der_x509_certificate(encoded)
    return Shown(
        subject=found.subject.rfc4514_string(),
        issuer=found.issuer.rfc4514_string(),
        names=_names(found),
        until=found.not_valid_after_utc,
        fault=fault,
    )


async def _certificate(session: TlsSession, address: Address) -> bytes:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            reader, writer = await asyncio.open_connection(*address)
            try:
                session.start()
                while not session.established:
                    writer.write(session.to_send())
                    await writer.drain()
                    data = await reader.read(_CHUNK)
                    if not data:
                        raise TlsFailure("the server closed the connection")
                    session.receive(data)
            finally:
                writer.close()
    except TimeoutError as error:
        raise OSError(f"no answer in {_PATIENCE_S:g} s") from error
    return session.peer_certificate


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    kinds = (x509.DNSName, x509.UniformResourceIdentifier, x509.IPAddress)
    return tuple(str(entry.value) for entry in found if isinstance(entry, kinds))
