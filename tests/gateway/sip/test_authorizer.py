"""Which challenge is answered, with what, and how often."""

import itertools
import re

import pytest

from gateway.sip import digest
from gateway.sip.authorizer import MAX_TRIES, Authorizer, Tries, is_challenge
from gateway.sip.digest import Algorithm
from gateway.sip.message import Headers, Request, Response
from gateway.sip.target import Credentials
from gateway.sip.uri import Uri

WORD = "s3cret-Word"
INVITE = Request(Headers(), b"", "INVITE", Uri("sip:bob@carrier.example"))


def authorizer(realm=None, username="gw") -> Authorizer:
    count = itertools.count(1)
    return Authorizer(Credentials(username, WORD, realm), lambda: f"c{next(count)}")


def challenge(*values: str, status=401) -> Response:
    name = "WWW-Authenticate" if status == 401 else "Proxy-Authenticate"
    return Response(Headers((name, value) for value in values), b"", status)


def digest_of(nonce="n1", realm="r", rest='algorithm=MD5, qop="auth"') -> str:
    return f'Digest realm="{realm}", nonce="{nonce}", {rest}'


def fields(value: str) -> dict[str, str]:
    found = re.findall(r'(\w+)=(?:"([^"]*)"|([^\s,]+))', value)
    return {name: quoted or bare for name, quoted, bare in found}


def test_nothing_is_sent_before_a_challenge():
    it = authorizer()

    assert it.headers(INVITE) == []


def test_an_answer_proves_the_password():
    it = authorizer()
    assert it.take(challenge(digest_of(rest='algorithm=MD5, qop="auth", opaque="o1"')), Tries())
    ((name, value),) = it.headers(INVITE)
    read = fields(value)
    secret = digest.secret(Algorithm.MD5, username="gw", realm="r", password=WORD)

    assert name == "Authorization"
    assert read == {
        "username": "gw",
        "realm": "r",
        "nonce": "n1",
        "uri": "sip:bob@carrier.example",
        "algorithm": "MD5",
        "qop": "auth",
        "nc": "00000001",
        "cnonce": "c1",
        "opaque": "o1",
        "response": read["response"],
    }
    assert digest.authorizations(Headers([(name, value)]), name)[0].proves(secret, method="INVITE")
    assert WORD not in value


def test_the_nonce_is_counted_and_used_again_without_being_asked():
    it = authorizer()
    it.take(challenge(digest_of()), Tries())

    assert [fields(it.headers(INVITE)[0][1])["nc"] for _ in range(3)] == ["00000001", "00000002", "00000003"]
    assert {fields(it.headers(INVITE)[0][1])["cnonce"] for _ in range(3)} == {"c1"}


def test_a_new_nonce_is_counted_from_one():
    it = authorizer()
    it.take(challenge(digest_of("n1")), Tries())
    it.headers(INVITE)
    it.take(challenge(digest_of("n2", rest="stale=true")), Tries())
    read = fields(it.headers(INVITE)[0][1])

    assert (read["nonce"], "nc" in read, "qop" in read, "algorithm" in read) == ("n2", False, False, False)


@pytest.mark.report("BR-037")
def test_the_first_algorithm_that_we_know_is_taken():
    it = authorizer()
    assert it.take(
        challenge(
            digest_of("n0", rest="algorithm=SHA-512-256"),
            digest_of("n1", rest='algorithm=SHA-256, qop="auth"'),
            digest_of("n2"),
            status=407,
        ),
        Tries(),
    )
    ((name, value),) = it.headers(INVITE)

    assert name == "Proxy-Authorization"
    assert (fields(value)["algorithm"], fields(value)["nonce"]) == ("SHA-256", "n1")


def test_each_realm_on_the_way_gets_its_own():
    it = authorizer()
    it.take(challenge(digest_of(realm="proxy"), status=407), Tries())
    it.take(challenge(digest_of(realm="server")), Tries())

    assert [(name, fields(value)["realm"]) for name, value in it.headers(INVITE)] == [
        ("Proxy-Authorization", "proxy"),
        ("Authorization", "server"),
    ]


def test_a_refused_password_is_not_tried_again():
    it, tries = authorizer(), Tries()

    assert it.take(challenge(digest_of("n1")), tries)
    assert not it.take(challenge(digest_of("n2")), tries)


@pytest.mark.report("BR-010")
def test_a_stale_nonce_is_replaced_but_not_for_ever():
    it, tries = authorizer(), Tries()

    assert it.take(challenge(digest_of("n1")), tries)
    assert [it.take(challenge(digest_of(f"n{n}", rest="stale=true")), tries) for n in range(2, 6)] == [
        True,
        True,
        False,
        False,
    ]
    assert tries.count == MAX_TRIES


def test_an_old_nonce_that_is_refused_in_a_later_request_is_replaced_once():
    it = authorizer()
    it.take(challenge(digest_of("n1")), Tries())
    later = Tries()

    assert it.take(challenge(digest_of("n2")), later)  # without stale, as old servers do
    assert not it.take(challenge(digest_of("n3")), later)


@pytest.mark.parametrize(("realm", "answered"), [("r", True), ("other", False), (None, True)])
def test_credentials_of_one_realm_go_nowhere_else(realm, answered):
    it = authorizer(realm)

    assert it.take(challenge(digest_of()), Tries()) is answered
    assert bool(it.headers(INVITE)) is answered


def test_a_realm_is_compared_without_its_escapes():
    assert authorizer('a "b"').take(challenge(r'Digest realm="a \"b\"", nonce="n"'), Tries())


@pytest.mark.parametrize(
    "response", [challenge("Basic realm=x"), Response(Headers(), b"", 401), Response(Headers(), b"", 403)]
)
def test_what_is_no_challenge_of_ours_is_not_answered(response):
    assert not authorizer().take(response, Tries())


def test_only_401_and_407_challenge():
    assert [status for status in (400, 401, 403, 407, 422) if is_challenge(Response(status=status))] == [
        401,
        407,
    ]


def test_without_credentials_nothing_is_answered():
    it = Authorizer(None, lambda: "c")

    assert not it.take(challenge(digest_of()), Tries())
    it.use(Credentials("gw", WORD))
    assert it.take(challenge(digest_of()), Tries())


def test_other_credentials_forget_the_nonces():
    it = authorizer()
    it.take(challenge(digest_of()), Tries())
    it.use(Credentials("gw", WORD))
    assert it.headers(INVITE)
    it.use(Credentials("gw", "another"))

    assert it.headers(INVITE) == []


def test_a_peer_that_asks_for_many_realms_fills_no_table():
    it = authorizer()
    it.take(challenge(*(digest_of(realm=f"r{n}") for n in range(16))), Tries())

    assert len(it.headers(INVITE)) == 4


def test_a_session_algorithm_without_qop_still_names_its_cnonce():
    it = authorizer()
    it.take(challenge(digest_of(rest="algorithm=MD5-sess")), Tries())
    read = fields(it.headers(INVITE)[0][1])

    assert (read["cnonce"], "qop" in read) == ("c1", False)


def test_a_user_name_with_quotes_is_escaped_in_text_and_sum():
    it = authorizer(username='a"b')
    it.take(challenge(digest_of()), Tries())
    ((name, value),) = it.headers(INVITE)
    (read,) = digest.authorizations(Headers([(name, value)]), name)

    assert read.username == r"a\"b"
    assert read.proves(
        digest.secret(Algorithm.MD5, username=read.username, realm="r", password=WORD), method="INVITE"
    )


def test_no_repr_holds_the_password():
    it = authorizer()
    it.take(challenge(digest_of()), Tries())

    assert WORD not in repr(it) + repr(Credentials("gw", WORD)) + repr(vars(it)["_credentials"])
