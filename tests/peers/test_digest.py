"""
A real telephone proves who it is to a trunk that asks for a digest.

Debian's baresip (libre) gives up with "Function not implemented" as soon as one of several challenges names
SHA-256, wherever it stands: that is why MD5 alone is offered unless the trunk says otherwise.
"""

from __future__ import annotations

import pytest

from tests.kit import sound
from tests.kit.baresip import Baresip
from tests.kit.office import NUMBER, Office

pytestmark = pytest.mark.peers


def dial(office: Office, tmp_path, password: str) -> Baresip:
    gateway = office.open(trunk={"auth": {"username": "baresip", "password": "open-sesame"}})
    uri = f"sip:{NUMBER}@{gateway.sip[0]}:{gateway.sip[1]}"
    return Baresip(uri, office.ports, tmp_path / "baresip", words=sound.silence(1.0), password=password)


def test_baresip_answers_the_challenge_and_is_connected(fake_office: Office, tmp_path):
    with dial(fake_office, tmp_path, "open-sesame") as baresip:
        baresip.wait_for("Call established", 10)


def test_baresip_with_a_wrong_password_gets_no_call(fake_office: Office, tmp_path):
    with dial(fake_office, tmp_path, "guess") as baresip:
        baresip.wait_for("session closed: ", 10)
        assert "Call established" not in baresip.log
