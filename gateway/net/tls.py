"""
TLS over any byte stream: sessions without a socket, and the contexts that they are made from.

A session never blocks: bytes go in, bytes come out. So a peer's address is judged before the handshake costs
anything, a failed handshake has a reason, and both event loops behave alike.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files, and what is asked of peers."""

    certificate: Path
    """Ours, with the intermediate ones behind it."""
    private_key: Path
    ca: Path | None = None
    """Who may have signed a peer's certificate; ``None`` takes the system's authorities."""
    verify_client: bool = False
    """Whether who connects to us must show a certificate."""


class TlsFailure(Exception):
    """The session cannot go on; the sentence says why, in OpenSSL's words."""


class TlsContexts:
    """
    What new sessions are made from.

    Args:
        files: Our certificate; without it we are a client only, that trusts the system's authorities.

    Raises ``OSError`` (``ssl.SSLError`` is one) when a file cannot be used.
    """

    def __init__(self, files: TlsFiles | None = None) -> None:
        self._server = None if files is None else _server_context(files)
        self._verified = _client_context(files, verify=True)
        self._unverified = _client_context(files, verify=False)

    @property
    def can_accept(self) -> bool:
        """Whether there is a certificate of ours."""
        return self._server is not None

    def accept(self) -> TlsSession:
        """Make the server's side of a session."""
        if self._server is None:
            raise TlsFailure("there is no certificate of ours")
        return TlsSession(self._server, server=True, name="")

    def connect(self, name: str, *, verify: bool) -> TlsSession:
        """
        Make the client's side.

        Args:
            name: Domain or address whose certificate the peer must show.
            verify: Whether it must.

        Raises:
            TlsFailure: The name is none that a certificate could have.
        """
        context = self._verified if verify else self._unverified
        try:
            return TlsSession(context, server=False, name=name, verify=verify)
        except (TypeError, ValueError) as error:  # UnicodeError is one; a NUL gives the other
            raise TlsFailure(f"{name[:60]!r} is no host name") from error


class TlsSession:
    """
    One session (TLS 1.2 or newer); its peer is whoever carries the bytes.

    Args:
        context: OpenSSL's settings.
        server: Which side this is.
        name: As a client: whose certificate is expected; it is sent as SNI where it is a name.
        verify: As a client: whether the certificate must be for that name (RFC 5922).
    """

    def __init__(self, context: ssl.SSLContext, *, server: bool, name: str, verify: bool = False) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._in, self._out, server_side=server, server_hostname=name or None)
        self._name = name
        self._verify = verify
        self.established = False
        """Whether the handshake is done and the peer is who it should be."""
        self.finished = False
        """Whether the peer has said that nothing more comes."""

    @property
    def peer_certificate(self) -> bytes:
        """The peer's certificate (DER), empty before the handshake is done or where it shows none."""
        return self._object.getpeercert(binary_form=True) or b""

    @property
    def peer_names(self) -> frozenset[str]:
        """
        The names in the peer's certificate, in lower case, once the handshake is done.

        Empty where no certificate was asked for, or it did not have to be right. A name is a domain, an IP
        address, or the domain of a ``sip:`` URI (RFC 5922, section 7.1).
        """
        certificate: Mapping[str, object] = self._object.getpeercert() or {}
        entries = certificate.get("subjectAltName", ())
        assert isinstance(entries, Iterable)
        found = (str(value).lower() for _, value in entries)
        return frozenset(name.removeprefix("sip:") for name in found)

    def start(self) -> None:
        """Let a client's first flight be taken."""
        self._shake_hands()

    def receive(self, data: bytes) -> bytes:
        """
        Take bytes of the network and return what the peer said in them.

        Raises:
            TlsFailure: send what :meth:`to_send` still has (the alert), then close.
        """
        self._in.write(data)
        if not self.established and not self._shake_hands():
            return b""
        said = bytearray()
        try:
            while chunk := self._object.read(_CHUNK):
                said += chunk
            self.finished = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.finished = True
        except ssl.SSLError as error:
            raise TlsFailure(_reason(error)) from error
        return bytes(said)

    def send(self, data: bytes) -> bool:
        """Encrypt; ``False`` before the handshake is done, or after the end."""
        if not self.established:
            return False
        try:
            self._object.write(data)
        except ssl.SSLError:
            return False
        return True

    def close(self) -> None:
        """Say that nothing more comes."""
        try:
            self._object.unwrap()
        except ssl.SSLError:
            pass  # the peer's own notice is not there yet, and need not be waited for

    def to_send(self) -> bytes:
        """Take what is ready for the network."""
        return self._out.read()

    def _shake_hands(self) -> bool:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise TlsFailure(_reason(error)) from error
        if self._verify and not is_for(self._object.getpeercert() or {}, self._name):
            raise TlsFailure(f"the certificate is not for {self._name}")
        self.established = True
        return True


def is_for(certificate: Mapping[str, object], name: str) -> bool:
    """
    Whether a certificate names a SIP domain or address (RFC 5922, section 7.2).

    ``sip:`` URIs among its alternative names count; where there is none, its DNS names do. A wildcard
    never matches, and neither does the common name.

    Args:
        certificate: As from ``SSLObject.getpeercert``.
        name: A domain, or an IP address.
    """
    entries = certificate.get("subjectAltName", ())
    assert isinstance(entries, Iterable)
    found = [(str(kind), str(value)) for kind, value in entries]
    try:
        wanted = ip_address(name)
    except ValueError:
        pass
    else:
        return any(kind == "IP Address" and ip_address(value.strip()) == wanted for kind, value in found)
    domains = [value[4:] for kind, value in found if kind == "URI" and value[:4].lower() == "sip:"]
    names = domains or [value for kind, value in found if kind == "DNS"]
    return name.lower().rstrip(".") in {each.lower().rstrip(".") for each in names if "@" not in each}


def _server_context(files: TlsFiles) -> ssl.SSLContext:
    context = _bare_context(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.private_key, password=_no_password)
    if files.verify_client:
        _trust(context, files.ca, ssl.Purpose.CLIENT_AUTH)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _client_context(files: TlsFiles | None, *, verify: bool) -> ssl.SSLContext:
    context = _bare_context(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # RFC 5922 asks other questions; see is_for
    if files is not None:
        context.load_cert_chain(files.certificate, files.private_key, password=_no_password)
    if verify:
        context.verify_mode = ssl.CERT_REQUIRED
        _trust(context, None if files is None else files.ca, ssl.Purpose.SERVER_AUTH)
    else:
        context.verify_mode = ssl.CERT_NONE
    return context


def _bare_context(protocol: ssl._SSLMethod) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    return context


def _trust(context: ssl.SSLContext, ca: Path | None, purpose: ssl.Purpose) -> None:
    if ca is None:
        context.load_default_certs(purpose)
    else:
        context.load_verify_locations(ca)


def _no_password() -> str:
    raise ssl.SSLError("the private key is encrypted")


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()
