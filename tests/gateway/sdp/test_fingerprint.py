"""Fingerprints of certificates."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sdp.fingerprint import Fingerprint, Setup, read_fingerprints, read_setup

SHA256 = hashlib.sha256(b"x").digest()
SHA1 = hashlib.sha1(b"x").digest()


def test_a_fingerprint_is_read_in_any_case_and_written_in_capitals() -> None:
    (found,) = read_fingerprints([f"SHA-256 {SHA256.hex(':')}"])
    assert found == Fingerprint("sha-256", SHA256)
    assert str(found) == f"a=fingerprint:sha-256 {SHA256.hex(':').upper()}"


def test_only_those_of_the_strongest_function_count() -> None:
    lines = [f"sha-1 {SHA1.hex(':')}", f"sha-256 {SHA256.hex(':')}", f"sha-256 {SHA256[::-1].hex(':')}"]
    assert read_fingerprints(lines) == (Fingerprint("sha-256", SHA256), Fingerprint("sha-256", SHA256[::-1]))


@pytest.mark.parametrize(
    "value",
    ["", "sha-256", "sha-256 AB:CD", "md5 " + "AB:" * 15 + "AB", "sha-256 " + "XY:" * 31 + "XY", "sha-256 é"],
)
def test_what_is_broken_or_weak_is_left_out(value) -> None:
    assert read_fingerprints([value]) == ()


def test_the_role_is_read() -> None:
    assert [read_setup(value) for value in ("actpass", "ACTIVE", "passive", "holdconn", "x", None)] == [
        Setup.ACTPASS,
        Setup.ACTIVE,
        Setup.PASSIVE,
        Setup.HOLDCONN,
        None,
        None,
    ]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=100), max_size=3))
def test_no_text_is_too_odd(values) -> None:
    read_fingerprints([*values, *(f"sha-256 {value}" for value in values)])
