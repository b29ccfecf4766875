"""The settings of the process: listeners, certificates, addresses, name servers."""

import pytest

from config.fields import Listen, NameServer
from tests.kit.certificates import Authority


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "tls")


def with_tls(good, pair, **extra):
    files = {"certificate": pair.certificate, "private_key": pair.private_key, **extra}
    tls = ", ".join(f"{key}: {value}" for key, value in files.items())
    return f"{good}server: {{sip: {{listen: ['tls:0.0.0.0:5061', 'wss:[::]:5062'], tls: {{{tls}}}}}}}\n"


def test_a_certificate_its_key_and_the_authority_are_read_and_watched(folder, good, authority):
    pair = authority.sign("gw.example")
    loaded = folder.load(with_tls(good, pair, ca=authority.file, verify_client="true"))
    sip = loaded.settings.server.sip

    assert sip.listen == (Listen("tls", "0.0.0.0", 5061), Listen("wss", "::", 5062))
    assert sip.tls.verify_client
    assert {pair.certificate, pair.private_key, authority.file} <= set(loaded.files)
    assert loaded.warnings == ()


def test_a_key_of_another_certificate_is_refused(folder, good, authority):
    one, other = authority.sign("gw.example"), authority.sign("gw.example")
    mixed = with_tls(good, one).replace(str(one.private_key), str(other.private_key))

    [line] = folder.problems(mixed)
    assert line.endswith(
        "server.sip.tls: private_key does not belong to certificate; write the paths of a pair"
    )


def test_a_key_with_a_password_and_an_authority_that_is_none_are_refused(folder, good, authority):
    hidden = authority.sign("gw.example", password=b"secret")
    [line] = folder.problems(with_tls(good, hidden))
    assert line.endswith("private_key has a password; write the path of a key without one")
    pair = authority.sign("gw.example")
    [line] = folder.problems(with_tls(good, pair, ca=pair.private_key))
    assert line.endswith("ca holds no certificate; write the path of a PEM file")


@pytest.mark.parametrize(("days", "word"), [((-9, 3), "expires on"), ((-9, -1), "has expired on")])
def test_a_certificate_that_ends_is_warned_of(folder, good, authority, days, word):
    [warning] = folder.load(with_tls(good, authority.sign("gw.example", days=days))).warnings

    assert word in str(warning)
    assert "server.sip.tls.certificate" in str(warning)


@pytest.mark.parametrize(
    "value", ["auto", "auto:eth0", "auto:eth0.100", "stun:stun.example.com", "stun:192.0.2.1:3478",
              "stun:[2001:db8::1]:3478", "203.0.113.5", "2001:db8::5"],
)  # fmt: skip
def test_what_a_public_address_may_be(folder, good, value):
    loaded = folder.load(f"{good}server: {{sip: {{public_address: '{value}'}}}}\n")

    assert loaded.settings.server.sip.public_address == value


def test_a_listener_may_have_a_public_address_of_its_own(folder, good):
    loaded = folder.load(
        f"{good}server: {{sip: {{listen: ['udp:10.0.0.1:5060', 'udp:[::]:5060'],"
        " public_addresses: {'udp:10.0.0.1:5060': '203.0.113.5', 'udp:[::]:5060': auto}}}\n"
    )

    assert dict(loaded.settings.server.sip.public_addresses) == {
        "udp:10.0.0.1:5060": "203.0.113.5",
        "udp:[::]:5060": "auto",
    }


def test_name_servers_have_port_53_by_default(folder, good):
    loaded = folder.load(f"{good}server: {{dns: ['192.0.2.53', '192.0.2.54:5353', '[2001:db8::53]:53']}}\n")

    assert loaded.settings.server.dns == (
        NameServer("192.0.2.53", 53),
        NameServer("192.0.2.54", 5353),
        NameServer("2001:db8::53", 53),
    )
    assert str(loaded.settings.server.dns[2]) == "[2001:db8::53]:53"
