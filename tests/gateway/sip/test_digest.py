"""The sums and the text of digest authentication; the vectors are those of RFC 7616, section 3.9.1."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sip import digest
from gateway.sip.digest import Algorithm
from gateway.sip.message import Headers

MUFASA = {"username": "Mufasa", "realm": "http-auth@example.org", "password": "Circle of Life"}
EXAMPLE = {
    "method": "GET",
    "uri": "/dir/index.html",
    "nonce": "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
    "nc": 1,
    "cnonce": "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
    "qop": "auth",
}


def challenges(*lines: str) -> list[digest.Challenge]:
    return digest.challenges(Headers(("WWW-Authenticate", line) for line in lines), "WWW-Authenticate")


def authorizations(*lines: str) -> list[digest.Authorization]:
    return digest.authorizations(Headers(("Authorization", line) for line in lines), "Authorization")


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (Algorithm.MD5, "8ca523f5e9506fed4657c9700eebdbec"),
        (Algorithm.SHA256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ],
)
def test_the_examples_of_rfc_7616(algorithm, expected):
    secret = digest.secret(algorithm, **MUFASA)

    assert digest.response(algorithm, secret=secret, **EXAMPLE) == expected


def test_the_example_of_rfc_2069_without_qop():
    # RFC 2069, section 2.4, with the corrected value of its errata.
    secret = digest.secret(
        Algorithm.MD5, username="Mufasa", realm="testrealm@host.com", password="CircleOfLife"
    )
    example = {"method": "GET", "uri": "/dir/index.html", "nonce": "dcd98b7102dd2f0e8b11d0f600bfb0c093"}

    assert digest.response(Algorithm.MD5, secret=secret, **example) == "1949323746fe6a43ef61f9606e7febea"


@pytest.mark.parametrize(("plain", "sess"), [("MD5", "MD5-sess"), ("SHA-256", "SHA-256-sess")])
def test_a_session_puts_both_nonces_into_the_first_sum(plain, sess):
    algorithm = Algorithm.of(sess)
    secret = digest.secret(Algorithm.of(plain), **MUFASA)
    first = algorithm.sum(f"{secret}:{EXAMPLE['nonce']}:{EXAMPLE['cnonce']}".encode())

    assert digest.response(algorithm, secret=secret, **EXAMPLE) == digest.response(
        Algorithm.of(plain), secret=first, **EXAMPLE
    )


def test_auth_int_covers_the_body():
    secret = digest.secret(Algorithm.MD5, **MUFASA)
    sums = {
        digest.response(Algorithm.MD5, secret=secret, **{**EXAMPLE, "qop": "auth-int"}, body=body)
        for body in (b"", b"v=0\r\n")
    }

    assert len(sums) == 2


def test_a_challenge_with_everything():
    (it,) = challenges(
        'Digest realm="a, b", domain="sip:x", nonce="n=1", opaque="", stale=TRUE, algorithm=sha-256, '
        'qop="auth,auth-int"'
    )

    assert it == digest.Challenge("a, b", "n=1", Algorithm.SHA256, "auth", "", stale=True)


@pytest.mark.parametrize(
    ("line", "qop"),
    [
        ('Digest realm="r", nonce="n"', ""),
        ('Digest realm="r", nonce="n", qop=""', ""),
        ('Digest realm="r", nonce="n", qop=auth', "auth"),
        ('Digest realm="r", nonce="n", qop="AUTH-INT , auth"', "auth"),
        ('Digest realm="r", nonce="n", qop="auth-int"', "auth-int"),
        ('DIGEST  REALM = "r" , NONCE="n",,Qop="auth"', "auth"),
    ],
)
def test_auth_is_chosen_before_auth_int(line, qop):
    assert [each.qop for each in challenges(line)] == [qop]


@pytest.mark.report("BR-037")
def test_challenges_on_several_lines_and_several_on_one_keep_their_order():
    found = challenges(
        'Digest realm="a", nonce="1", algorithm=SHA-256, qop="auth", Digest realm="a", nonce="2"',
        'Basic realm="b, Digest nonce=9", Digest nonce="3",realm="c"',
    )

    assert [(each.realm, each.nonce, each.algorithm) for each in found] == [
        ("a", "1", Algorithm.SHA256),
        ("a", "2", Algorithm.MD5),
        ("c", "3", Algorithm.MD5),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Basic realm=x",
        'Digest realm="r"',
        'Digest nonce="n"',
        'Digest realm="r", nonce=""',
        'Digest realm="r", nonce="n", algorithm=SHA-512-256',
        'Digest realm="r", nonce="n", qop="token"',
        'Digest realm="r", nonce="never closed',
        'NTLM realm="r", nonce="n"',
        ', , =, "',
    ],
)
def test_what_cannot_be_answered_is_left_out(line):
    assert [each for each in challenges(line) if each.nonce != '"never closed'] == []


def test_values_keep_their_escapes():
    (it,) = challenges(r'Digest realm="a \"b\" c", nonce="n\\1"')

    assert (it.realm, it.nonce) == (r"a \"b\" c", r"n\\1")


def test_many_challenges_are_not_all_read():
    assert len(challenges(*['Digest realm="r", nonce="n"'] * 100)) == digest.MAX_CHALLENGES


def test_what_a_server_reads_and_checks():
    secret = digest.secret(Algorithm.MD5, username="gw", realm="r", password="pw")
    sums = {"method": "INVITE", "uri": "sip:x@h", "nonce": "n", "nc": 17, "cnonce": "c", "qop": "auth"}
    line = digest.write(
        [
            ("username", "gw", True),
            ("realm", "r", True),
            ("nonce", "n", True),
            ("uri", "sip:x@h", True),
            ("response", digest.response(Algorithm.MD5, secret=secret, **sums).upper(), True),
            ("cnonce", "c", True),
            ("qop", "auth", False),
            ("nc", "00000011", False),
        ]
    )
    (it,) = authorizations(line)

    assert (it.username, it.realm, it.nonce, it.nc, it.qop) == ("gw", "r", "n", 17, "auth")
    assert it.proves(secret, method="INVITE")
    assert not it.proves(secret, method="BYE")
    assert not it.proves(
        digest.secret(Algorithm.MD5, username="gw", realm="r", password="no"), method="INVITE"
    )
    assert it.response not in repr(it)


BASE = 'Digest username="u", realm="r", nonce="n", uri="sip:h", response="00"'


@pytest.mark.parametrize(
    "line",
    [
        'Digest username="u", realm="r", nonce="n", uri="sip:h"',
        BASE + ", qop=auth",
        BASE + ', qop=auth, nc=00000000, cnonce="c"',
        BASE + ', qop=auth, nc=xyz, cnonce="c"',
        BASE + ', qop=auth, nc=-1, cnonce="c"',
        BASE + ', qop=auth, nc=1ffffffff, cnonce="c"',
        BASE + ", qop=auth, nc=00000001",
        BASE + ", qop=other",
        BASE + ", algorithm=none",
        "Bearer abc",
    ],
)
def test_incomplete_credentials_are_none(line):
    assert authorizations(line) == []


def test_a_response_that_is_no_ascii_proves_nothing():
    (it,) = authorizations(BASE.replace('"00"', '"é\udcff"'))

    assert not it.proves("secret", method="INVITE")


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=("Cs",)), max_size=80))
def test_any_text_can_be_read(text):
    for line in (text, f"Digest {text}", f'Digest realm="r", nonce="n", {text}'):
        challenges(line)
        authorizations(line)
