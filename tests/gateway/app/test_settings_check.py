"""Files of providers are judged before a call needs them."""

from __future__ import annotations

import json

import pytest

from config.errors import ConfigError
from config.load import load
from gateway.app.settings_check import check_settings
from tests.kit.certificates import Authority

HEAD = """
trunks: {}
agents: {reception: {providers: [gemini], prompt: "Hi."}}
numbers: {"+12125550100": {agent: reception}}
"""


def problems(tmp_path, provider: str) -> list[str]:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"{HEAD}providers: {{gemini: {provider}}}\n")
    try:
        load(file, environ={}, check_settings=check_settings)
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


@pytest.mark.parametrize("text", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nx\n"])
def test_a_file_without_certificates_is_named(tmp_path, text: str) -> None:
    (tmp_path / "ca.pem").write_text(text)
    (line,) = problems(tmp_path, "{api_key: k, ca_file: ca.pem}")
    assert "providers.gemini.ca_file: holds no certificate; write the path of a PEM file" in line


@pytest.mark.parametrize("held", ["", "[]", "{}", json.dumps({"client_email": 1, "private_key": "x"})])
def test_a_file_that_is_no_service_account_is_named(tmp_path, held: str) -> None:
    (tmp_path / "account.json").write_text(held)
    (line,) = problems(tmp_path, "{vertex: {project: p, credentials: account.json}}")
    assert "providers.gemini.vertex.credentials: is no key of a service account" in line


def test_good_files_are_good(tmp_path) -> None:
    ca = Authority(tmp_path / "tls").file
    account = {"client_email": "a@b", "private_key": "k", "token_uri": "https://oauth2.googleapis.com/token"}
    (tmp_path / "account.json").write_text(json.dumps(account))
    assert problems(tmp_path, f"{{api_key: k, ca_file: {ca}}}") == []
    assert problems(tmp_path, "{vertex: {project: p, credentials: account.json}}") == []
