"""The DTLS handshake, between two of ours."""

from __future__ import annotations

import hashlib
import time

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL

from gateway.net.dtls import GIVE_UP_S, KEEP_S, Certificate, DtlsHandshake, State, own_certificate
from gateway.rtp.srtp import Srtp
from gateway.sdp import Fingerprint, Suite


@pytest.fixture(scope="module")
def theirs() -> Certificate:
    return Certificate()


@pytest.fixture(scope="module")
def ours() -> Certificate:
    return Certificate()


def pair(ours: Certificate, theirs: Certificate, *, expected: Fingerprint | None = None):
    """Return our handshake, which begins, and theirs."""
    active = DtlsHandshake(ours, active=True, fingerprints=(expected or theirs.fingerprint,), now=0.0)
    passive = DtlsHandshake(theirs, active=False, fingerprints=(ours.fingerprint,), now=0.0)
    return active, passive


def exchange(*ends: DtlsHandshake, lost: int = 0, now: float = 0.0) -> int:
    """Carry datagrams until both are silent, but for the one of that number. Return the longest."""
    longest, count = 0, 0
    while any(end.has_output for end in ends):
        for end, other in (ends, ends[::-1]):
            for datagram in end.to_send():
                longest, count = max(longest, len(datagram)), count + 1
                if count != lost:
                    other.receive(datagram, now)
    return longest


def test_both_come_to_the_same_keys_in_datagrams_that_fit(ours, theirs) -> None:
    active, passive = pair(ours, theirs)
    assert exchange(active, passive) <= 1200
    assert (active.state, passive.state) == (State.UP, State.UP)
    assert active.keys is not None
    assert passive.keys is not None
    assert active.keys == passive.keys[::-1]
    assert active.keys[0].suite is Suite.AEAD_AES_256_GCM
    packet = b"\x80\x00\x00\x01" + bytes(8) + b"hello"
    assert Srtp(*passive.keys).unprotect(Srtp(*active.keys).protect(packet)) == packet
    for end in (active, passive):
        assert end.next_timeout() == GIVE_UP_S + KEEP_S
        end.handle_timeout(GIVE_UP_S + KEEP_S)
        assert end.next_timeout() is None
        end.receive(b"\x16\xfe\xfd", GIVE_UP_S + KEEP_S)  # nobody is there any more
        assert not end.has_output
    assert "key" not in repr(active.keys[0])


def test_a_certificate_with_another_fingerprint_is_refused(ours, theirs) -> None:
    active, passive = pair(ours, theirs, expected=Fingerprint("sha-256", bytes(32)))
    exchange(active, passive)
    assert active.state is State.FAILED
    assert active.keys is None
    assert "fingerprint" in active.reason


@pytest.mark.parametrize("function", ["sha-1", "sha-224", "sha-384", "sha-512"])
def test_other_hash_functions_are_checked_as_well(ours, theirs, function) -> None:
    probe = DtlsHandshake(theirs, active=False, fingerprints=(ours.fingerprint,), now=0.0)
    first = DtlsHandshake(ours, active=True, fingerprints=(theirs.fingerprint,), now=0.0)
    exchange(first, probe)
    certificate = first._connection.get_peer_certificate(as_cryptography=True)
    digest = hashlib.new(function.replace("-", ""), certificate.public_bytes(Encoding.DER)).digest()
    active, passive = pair(ours, theirs, expected=Fingerprint(function, digest))
    exchange(active, passive)
    assert active.state is State.UP


def test_a_handshake_without_an_answer_is_given_up(ours, theirs) -> None:
    for end in pair(ours, theirs):
        end.handle_timeout(GIVE_UP_S - 0.01)
        assert end.state is State.SHAKING
        end.handle_timeout(GIVE_UP_S)
        assert end.state is State.FAILED
        assert end.reason == "no handshake in time"
        assert end.next_timeout() == GIVE_UP_S + KEEP_S
        end.handle_timeout(GIVE_UP_S + KEEP_S)
        assert end.next_timeout() is None


@pytest.mark.parametrize("lost", [1, 4])
def test_a_lost_flight_is_sent_again_also_by_who_is_up_already(ours, theirs, lost) -> None:
    active, passive = pair(ours, theirs)
    exchange(active, passive, lost=lost)
    assert active.state is State.SHAKING
    assert passive.state is (State.SHAKING if lost == 1 else State.UP)
    again = active.next_timeout()
    assert again is not None
    assert 0.5 < again <= 1.0
    began = time.monotonic()  # OpenSSL looks at a clock of its own
    while active.state is State.SHAKING and (now := time.monotonic() - began) < 5:
        active.handle_timeout(now)
        exchange(active, passive, now=now)
    assert (active.state, passive.state) == (State.UP, State.UP)


@pytest.mark.parametrize(
    "noise", [b"", b"\x16", b"\x16\xfe\xfd" + bytes(40), bytes(range(20, 64)) * 20, b"\x17" * 1200]
)
def test_noise_neither_ends_nor_fails_a_handshake(ours, theirs, noise) -> None:
    active, passive = pair(ours, theirs)
    for end in (active, passive):
        end.receive(noise, 0.0)
    exchange(active, passive)
    for end in (active, passive):
        end.receive(noise, 0.0)
        assert end.state is State.UP


def test_a_peer_without_srtp_is_refused(ours) -> None:
    bare = SSL.Connection(_plain_context(), None)
    bare.set_connect_state()
    passive = DtlsHandshake(ours, active=False, fingerprints=(Fingerprint("sha-256", bytes(32)),), now=0.0)
    for _ in range(5):
        try:
            bare.do_handshake()
        except SSL.Error:
            pass
        try:
            passive.receive(bare.bio_read(65_536), 0.0)
        except SSL.WantReadError:
            break
        for datagram in passive.to_send():
            bare.bio_write(datagram)
    assert passive.state is State.FAILED
    assert passive.reason


def _plain_context() -> SSL.Context:
    context = SSL.Context(SSL.DTLS_METHOD)
    context.set_verify(SSL.VERIFY_NONE, lambda *_: True)
    return context


def test_the_process_has_one_certificate() -> None:
    assert own_certificate() is own_certificate()
    assert own_certificate().fingerprint.function == "sha-256"
