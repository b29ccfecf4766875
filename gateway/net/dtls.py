"""
DTLS that makes keys for SRTP (RFC 5764): a handshake over datagrams that the owner carries.

Nothing is sent through the tunnel itself. OpenSSL keeps its own clock for retransmissions; everything else
is told the time.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from OpenSSL import SSL, crypto

from gateway.sdp import Fingerprint, Suite

KEEP_S = 60.0
"""How long a handshake that is done answers a peer whose last flight was lost; its memory is 80 KiB."""
GIVE_UP_S = 10.0
"""A handshake that takes longer has failed; the caller hears silence meanwhile."""

_VERSION_1_2 = 0xFEFD
_MAX_DATAGRAM = 1200
_MAX_WAITING = 65_536  # bytes of a flight
_RECORD = struct.Struct("!BHHIHH")  # type, version, epoch, sequence in 48 bits, length
_LABEL = b"EXTRACTOR-dtls_srtp"
_PROFILES = {
    b"SRTP_AEAD_AES_256_GCM": Suite.AEAD_AES_256_GCM,
    b"SRTP_AEAD_AES_128_GCM": Suite.AEAD_AES_128_GCM,
    b"SRTP_AES128_CM_SHA1_80": Suite.AES_CM_128_HMAC_SHA1_80,
    b"SRTP_AES128_CM_SHA1_32": Suite.AES_CM_128_HMAC_SHA1_32,
}
_HASHES = {
    "sha-1": hashlib.sha1,
    "sha-224": hashlib.sha224,
    "sha-256": hashlib.sha256,
    "sha-384": hashlib.sha384,
    "sha-512": hashlib.sha512,
}


class State(Enum):
    """How far a handshake has come."""

    SHAKING = "shaking"
    UP = "up"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DtlsKey:
    """The key of one direction, as :class:`gateway.rtp.srtp.Key`."""

    suite: Suite
    key: bytes = field(repr=False)
    lifetime: int = 2**48
    mki: bytes = b""


class Certificate:
    """A self-signed certificate that proves nothing but its own fingerprint (RFC 5763 section 5)."""

    def __init__(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "trunkline")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=3650))
            .sign(key, hashes.SHA256())
        )
        self.fingerprint = Fingerprint("sha-256", certificate.fingerprint(hashes.SHA256()))
        """For ``a=fingerprint``."""
        self.context = SSL.Context(SSL.DTLS_METHOD)
        """What each handshake begins with."""
        self.context.set_min_proto_version(_VERSION_1_2)
        self.context.set_options(SSL.OP_NO_QUERY_MTU)
        self.context.use_certificate(certificate)
        self.context.use_privatekey(key)
        self.context.set_tlsext_use_srtp(b":".join(_PROFILES))
        # The peer must show a certificate; which one is right, its fingerprint says.
        self.context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, lambda *_: True)


@cache
def own_certificate() -> Certificate:
    """Return this process's certificate; it is made for the first call that needs it."""
    return Certificate()


class DtlsHandshake:
    """
    One association, from nothing to the keys of SRTP.

    Args:
        certificate: Ours.
        active: Whether we send the ClientHello.
        fingerprints: The peer's certificate must have one of them.
        now: The present time in seconds.
    """

    def __init__(
        self, certificate: Certificate, *, active: bool, fingerprints: tuple[Fingerprint, ...], now: float
    ) -> None:
        self.state = State.SHAKING
        self.reason = ""
        """Why it failed."""
        self.keys: tuple[DtlsKey, DtlsKey] | None = None
        """Ours and the peer's, once it is up."""
        self._active = active
        self._fingerprints = fingerprints
        self._give_up_at = now + GIVE_UP_S
        self._again_at: float | None = None
        self._to_send: list[bytes] = []
        self._forget_at = now + GIVE_UP_S + KEEP_S
        connection = SSL.Connection(certificate.context, None)
        connection.set_ciphertext_mtu(_MAX_DATAGRAM)
        self._connection: SSL.Connection | None = connection
        if active:
            connection.set_connect_state()
            self._go_on(connection, now)
        else:
            connection.set_accept_state()

    def receive(self, datagram: bytes, now: float) -> None:
        """Take a DTLS datagram of the peer's; also when it is up, for its last flight may have been lost."""
        connection = self._connection
        if connection is None or self.state is State.FAILED:
            return
        try:
            connection.bio_write(datagram)
        except SSL.Error:
            return
        self._go_on(connection, now)

    def handle_timeout(self, now: float) -> None:
        """Send a flight again, give up, or let go of what is done. Calling early is harmless."""
        connection = self._connection
        if connection is None:
            return
        if self.state is not State.SHAKING:
            if now >= self._forget_at:
                self._connection = None
        elif now >= self._give_up_at:
            self._fail("no handshake in time")
        elif self._again_at is not None and now >= self._again_at:
            try:
                connection.DTLSv1_handle_timeout()
            except SSL.Error:
                self._fail("the peer does not answer")
                return
            self._collect(connection, now)

    def next_timeout(self) -> float | None:
        """When to call :meth:`handle_timeout`, or ``None`` for never."""
        if self.state is not State.SHAKING:
            return None if self._connection is None else self._forget_at
        return self._give_up_at if self._again_at is None else min(self._again_at, self._give_up_at)

    @property
    def has_output(self) -> bool:
        """Whether :meth:`to_send` has something."""
        return bool(self._to_send)

    def to_send(self) -> list[bytes]:
        """Take the datagrams that are ready for the wire."""
        ready, self._to_send = self._to_send, []
        return ready

    def _go_on(self, connection: SSL.Connection, now: float) -> None:
        try:
            if self.state is State.SHAKING:
                connection.do_handshake()
                self._finish(connection)
            else:
                connection.recv(1)
        except (SSL.WantReadError, SSL.ZeroReturnError):
            pass  # more has to come; or the peer closes, and then its BYE tells
        except SSL.Error as error:
            if self.state is State.SHAKING:
                self._fail(_sentence(error))
        self._collect(connection, now)

    def _finish(self, connection: SSL.Connection) -> None:
        certificate = connection.get_peer_certificate()
        suite = _PROFILES.get(connection.get_selected_srtp_profile())
        if certificate is None:
            self._fail("the peer shows no certificate")
        elif not self._is_known(crypto.dump_certificate(crypto.FILETYPE_ASN1, certificate)):
            self._fail("the peer's certificate has not the fingerprint that was signalled")
        elif suite is None:
            self._fail("no common SRTP profile")
        else:
            self.keys = self._export(connection, suite)
            self.state = State.UP

    def _is_known(self, certificate: bytes) -> bool:
        return any(
            _HASHES[known.function](certificate).digest() == known.digest for known in self._fingerprints
        )

    def _export(self, connection: SSL.Connection, suite: Suite) -> tuple[DtlsKey, DtlsKey]:
        """Derive the keys (RFC 5764 section 4.2): both keys, then both salts, the client's first."""
        key, salt = suite.key_bytes, suite.salt_bytes
        material = connection.export_keying_material(_LABEL, 2 * (key + salt))
        client = material[:key] + material[2 * key : 2 * key + salt]
        server = material[key : 2 * key] + material[2 * key + salt :]
        ours, theirs = (client, server) if self._active else (server, client)
        return DtlsKey(suite, ours), DtlsKey(suite, theirs)

    def _fail(self, reason: str) -> None:
        self.state, self.reason = State.FAILED, reason

    def _collect(self, connection: SSL.Connection, now: float) -> None:
        """Take what OpenSSL wrote, and when it wants to write it again."""
        try:
            written = connection.bio_read(_MAX_WAITING)
        except SSL.WantReadError:
            written = b""
        self._to_send += _datagrams(written)
        wait = connection.DTLSv1_get_timeout()
        self._again_at = None if wait is None else now + wait


def _datagrams(records: bytes) -> Iterator[bytes]:
    """Pack records into datagrams: OpenSSL's memory has no borders between them, UDP needs some."""
    datagram = b""
    position = 0
    while position < len(records):
        *_, length = _RECORD.unpack_from(records, position)
        record = records[position : position + _RECORD.size + length]
        position += len(record)
        if datagram and len(datagram) + len(record) > _MAX_DATAGRAM:
            yield datagram
            datagram = b""
        datagram += record
    if datagram:
        yield datagram


def _sentence(error: SSL.Error) -> str:
    """Say what OpenSSL found, in its own words."""
    reasons = [part[-1] for part in (error.args[0] if error.args else ()) if part]
    return "the DTLS handshake failed: " + (str(reasons[-1]) if reasons else type(error).__name__)
