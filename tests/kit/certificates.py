"""An authority of the tests and the certificates that it signs, as PEM files."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    private_key: Path

    @property
    def both(self) -> Path:
        """One file with both, as baresip wants it."""
        joined = self.certificate.with_suffix(".both.pem")
        joined.write_bytes(self.private_key.read_bytes() + self.certificate.read_bytes())
        return joined


class Authority:
    """
    Signs certificates.

    Args:
        folder: Where the files are put.
        name: Its own name.
    """

    def __init__(self, folder: Path, name: str = "Authority of the tests") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._serial = 0
        builder = self._builder(self._name, self._key, (-1, 90))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs=True), critical=True)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
        )
        self.file = folder / "ca.pem"
        self.file.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def sign(self, *names: str, days: tuple[int, int] = (-1, 90), password: bytes | None = None) -> Pair:
        """
        Sign a certificate.

        Args:
            names: IP addresses, ``sip:`` URIs and host names that it is for.
            days: From when to when it is valid, counted from now.
            password: For the key.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a peer of the tests")])
        builder = self._builder(subject, key, days)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
        )
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        signed = builder.sign(self._key, hashes.SHA256())
        pair = Pair(self.folder / f"{self._serial}.pem", self.folder / f"{self._serial}.key")
        pair.certificate.write_bytes(_pem(signed))
        hidden = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        pair.private_key.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
        )
        return pair

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: tuple[int, int]
    ) -> x509.CertificateBuilder:
        self._serial += 1
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + days[0] * DAY)
            .not_valid_after(now + days[1] * DAY)
        )


def _general_name(name: str) -> x509.GeneralName:
    if name.startswith("sip:"):
        return x509.UniformResourceIdentifier(name)
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
