"""Two sessions that are joined by hand, and a certificate for each kind of mistake."""

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.net.tls import TlsContexts, TlsFailure, TlsFiles, is_for
from tests.kit.certificates import Authority


@pytest.fixture(scope="module", autouse=True)
def _contexts(authority):
    global CONTEXTS
    CONTEXTS = contexts(authority)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


def contexts(authority, *names, ca=None, verify_client=False, days=(-1, 10)):
    pair = authority.sign(*(names or ("sip.example",)), days=days)
    return TlsContexts(
        TlsFiles(pair.certificate, pair.private_key, ca or authority.file, verify_client=verify_client)
    )


def join(client, server):
    """Carry bytes between two sessions until neither has anything to say."""
    client.start()
    heard = {client: b"", server: b""}
    while True:
        there, back = client.to_send(), server.to_send()
        if not there and not back:
            return heard[client], heard[server]
        if there:
            heard[server] += server.receive(there)
        if back:
            heard[client] += client.receive(back)


def test_what_one_side_says_the_other_hears(authority):
    ours = contexts(authority)
    client, server = ours.connect("sip.example", verify=True), ours.accept()
    assert not client.send(b"too early")
    join(client, server)
    assert client.established
    assert server.established
    client.send(b"INVITE" * 10_000)
    assert server.receive(client.to_send()) == b"INVITE" * 10_000
    server.send(b"200")
    server.close()
    assert client.receive(server.to_send()) == b"200"
    assert client.finished


def test_bytes_may_come_one_by_one(authority):
    ours = contexts(authority)
    client, server = ours.connect("sip.example", verify=True), ours.accept()
    client.start()
    heard = b""
    for _ in range(4):
        for byte in client.to_send():
            heard += server.receive(bytes([byte]))
        for byte in server.to_send():
            client.receive(bytes([byte]))
        if client.established:
            client.send(b"x")
    assert heard == b"xxx"


@pytest.mark.parametrize(
    ("names", "asked", "why"),
    [
        (("sip.example",), "sip.other", "the certificate is not for sip.other"),
        (("sip.example",), "192.0.2.1", "the certificate is not for 192.0.2.1"),
        (("*.example",), "sip.example", "the certificate is not for sip.example"),
    ],
)
def test_a_certificate_of_somebody_else_is_refused(authority, names, asked, why):
    server = contexts(authority, *names).accept()
    with pytest.raises(TlsFailure, match=why):
        join(contexts(authority).connect(asked, verify=True), server)


def test_an_unknown_authority_is_refused_and_the_peer_is_told(authority, tmp_path):
    stranger = Authority(tmp_path / "stranger")
    client = contexts(authority).connect("sip.example", verify=True)
    server = contexts(stranger).accept()
    with pytest.raises(TlsFailure, match="not trusted"):
        join(client, server)
    with pytest.raises(TlsFailure, match="alert unknown ca"):
        server.receive(client.to_send())


def test_an_expired_certificate_is_refused(authority):
    server = contexts(authority, days=(-9, -1)).accept()
    with pytest.raises(TlsFailure, match="certificate has expired"):
        join(contexts(authority).connect("sip.example", verify=True), server)


def test_a_trunk_may_waive_the_check(authority, tmp_path):
    client = contexts(authority).connect("sip.other", verify=False)
    join(client, contexts(Authority(tmp_path / "stranger")).accept())
    assert client.established


def test_mutual_tls_asks_the_client_for_a_certificate(authority):
    asking = contexts(authority, verify_client=True)
    with_one, server = asking.connect("sip.example", verify=True), asking.accept()
    join(with_one, server)
    assert server.established

    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(authority.file)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = bare.wrap_bio(incoming, outgoing, server_hostname="sip.example"), asking.accept()

    def shake_hands():
        for _ in range(4):
            try:
                client.do_handshake()
            except ssl.SSLWantReadError:
                pass
            server.receive(outgoing.read())
            incoming.write(server.to_send())

    with pytest.raises(TlsFailure, match="peer did not return a certificate"):
        shake_hands()
    assert not server.established


@pytest.mark.parametrize(
    "rubbish",
    [b"INVITE sip:a@h SIP/2.0\r\n", b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\0" * 99],
)
def test_what_is_no_tls_is_refused_with_a_reason(authority, rubbish):
    server = contexts(authority).accept()
    with pytest.raises(
        TlsFailure, match=r"http request|wrong version|unexpected message|record|packet length"
    ):
        server.receive(rubbish)


def test_older_versions_are_refused(authority):
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        bare.minimum_version = bare.maximum_version = ssl.TLSVersion.TLSv1_1
    bare.set_ciphers("ALL:@SECLEVEL=0")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = bare.wrap_bio(incoming, outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with pytest.raises(TlsFailure, match="unsupported protocol"):
        contexts(authority).accept().receive(outgoing.read())


@pytest.mark.parametrize("name", ["a..b", ".a", "x" * 64 + ".test", "x" * 300, "a\0b", "ä" * 70])
def test_a_name_that_no_host_has_is_refused(authority, name):
    with pytest.raises(TlsFailure, match="is no host name"):
        contexts(authority).connect(name, verify=True)


def test_without_a_certificate_there_is_no_server(authority):
    with pytest.raises(TlsFailure, match="no certificate"):
        TlsContexts().accept()
    join(TlsContexts().connect("sip.example", verify=False), contexts(authority).accept())


def test_a_key_that_cannot_be_used_is_an_error_of_the_system(authority):
    one, other = authority.sign("a.example"), authority.sign("b.example")
    with pytest.raises(OSError, match="KEY_VALUES_MISMATCH"):
        TlsContexts(TlsFiles(one.certificate, other.private_key))
    hidden = authority.sign("c.example", password=b"secret")
    with pytest.raises(OSError, match="encrypted"):
        TlsContexts(TlsFiles(hidden.certificate, hidden.private_key))


@given(st.binary(max_size=60), st.booleans())
def test_no_bytes_raise_anything_else(rubbish, established):
    server = CONTEXTS.accept()
    if established:
        join(CONTEXTS.connect("sip.example", verify=False), server)
    try:
        server.receive(rubbish)
        server.receive(rubbish)
    except TlsFailure:
        pass
    server.send(b"x")
    server.close()
    server.to_send()


@pytest.mark.parametrize(
    ("entries", "name", "matches"),
    [
        ([("DNS", "sip.example")], "SIP.example.", True),
        ([("DNS", "*.example")], "sip.example", False),
        ([("URI", "sip:sip.example"), ("DNS", "www.example")], "sip.example", True),
        ([("URI", "sip:sip.example"), ("DNS", "www.example")], "www.example", False),
        ([("URI", "sip:bob@sip.example")], "sip.example", False),
        ([("URI", "https://sip.example"), ("DNS", "sip.example")], "sip.example", True),
        ([("IP Address", "192.0.2.1")], "192.0.2.1", True),
        ([("IP Address", "2001:DB8:0:0:0:0:0:1")], "2001:db8::1", True),
        ([("DNS", "192.0.2.1")], "192.0.2.1", False),
        ([], "sip.example", False),
    ],
)
def test_whom_a_certificate_is_for(entries, name, matches):
    """RFC 5922, sections 7.1 and 7.2."""
    assert is_for({"subjectAltName": entries}, name) is matches
