"""Protected media with real peers: OpenSSL's client, baresip, and a telephone of our own."""

from __future__ import annotations

import re
import subprocess

import pytest

from gateway.net.dtls import Certificate, DtlsHandshake, State
from gateway.sdp import Fingerprint, Suite
from tests.kit.ports import Ports
from tests.kit.udp import udp

pytestmark = pytest.mark.peers


@pytest.fixture
def ports():
    with Ports() as found:
        yield found


@pytest.mark.parametrize(
    ("profile", "suite", "length"),
    [
        ("SRTP_AES128_CM_SHA1_80", Suite.AES_CM_128_HMAC_SHA1_80, 60),
        ("SRTP_AES128_CM_SHA1_32", Suite.AES_CM_128_HMAC_SHA1_32, 60),
        ("SRTP_AEAD_AES_128_GCM", Suite.AEAD_AES_128_GCM, 56),
        ("SRTP_AEAD_AES_256_GCM", Suite.AEAD_AES_256_GCM, 88),
    ],
)
def test_openssls_own_client_comes_to_the_same_keys(tmp_path, ports, profile, suite, length) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    make = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -batch -keyout {key}"
    subprocess.run([*make.split(), "-out", certificate], check=True, capture_output=True)
    text = subprocess.run(
        ["openssl", "x509", "-in", certificate, "-noout", "-fingerprint", "-sha256"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    digest = bytes.fromhex(text.strip().partition("=")[2].replace(":", ""))
    port = ports.take(2)
    sock = udp(port)
    sock.setblocking(True)
    sock.settimeout(10)
    connect = f"openssl s_client -dtls1_2 -connect 127.0.0.1:{port} -use_srtp {profile} -cert {certificate}"
    export = f"-key {key} -keymatexport EXTRACTOR-dtls_srtp -keymatexportlen {length}"
    client = subprocess.Popen(
        [*connect.split(), *export.split()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        passive = DtlsHandshake(
            Certificate(), active=False, fingerprints=(Fingerprint("sha-256", digest),), now=0.0
        )
        while passive.state is State.SHAKING:
            datagram, source = sock.recvfrom(4096)
            passive.receive(datagram, 0.0)
            for each in passive.to_send():
                sock.sendto(each, source)
        assert passive.reason == ""
        output = client.communicate("Q\n", timeout=10)[0]
    finally:
        client.kill()
        client.wait()
        sock.close()
    material = bytes.fromhex(re.search(r"Keying material: ([0-9A-F]+)", output)[1])
    size = suite.key_bytes
    assert passive.keys is not None
    assert passive.keys[0].suite is suite
    assert passive.keys[1].key == material[:size] + material[2 * size :][: suite.salt_bytes]  # the client's
    assert passive.keys[0].key == material[size : 2 * size] + material[2 * size + suite.salt_bytes :]
