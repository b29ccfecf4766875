"""
A certificate of one's own for a server on this machine, where a client insists on TLS.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)
_VALID_DAYS = 365


@dataclass(frozen=True, slots=True)
class Certificate:
    """Two PEM files. A client trusts the first."""

    certificate: Path
    private_key: Path


def own_certificate(folder: Path, *, host: str = "127.0.0.1") -> Certificate:
    """
    Return the certificate in ``folder``, made there when there is none that is still good for ``host``.

    It is for ``127.0.0.1``, ``localhost`` and ``host``, and signs itself; only the owner can read its key.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pair = Certificate(folder / "fake-cert.pem", folder / "fake-key.pem")
    if not _good(pair, host):
        _make(pair, host)
    return pair


def _good(pair: Certificate, host: str) -> bool:
    if not (pair.certificate.is_file() and pair.private_key.is_file()):
        return False
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    later = datetime.datetime.now(datetime.UTC) + _DAY
    return _name(host) in names and certificate.not_valid_after_utc > later


def _make(pair: Certificate, host: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "trunkline fake")])
    now = datetime.datetime.now(datetime.UTC)
    names = [_name(name) for name in dict.fromkeys(("127.0.0.1", "localhost", host))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _VALID_DAYS * _DAY)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pair.private_key.unlink(missing_ok=True)
    with os.fdopen(os.open(pair.private_key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
    signed = builder.sign(key, hashes.SHA256())
    pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
