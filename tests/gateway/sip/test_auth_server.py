"""The digest of who calls us; the client's side is written here by hand (RFC 7616, section 3.4.1)."""

import hashlib
import itertools
import re

import pytest

from gateway.sip import auth_server
from gateway.sip import events as sip
from gateway.sip.auth_server import AuthServer
from gateway.sip.digest import Algorithm
from gateway.sip.parser import parse_message
from gateway.sip.policy import PeerPolicy, Proof
from gateway.sip.target import Credentials
from tests.gateway.sip.rig import ANSWER, OFFER, Rig, invite, request, statuses

BOTH = (Algorithm.SHA256, Algorithm.MD5)
WANTED = Proof(Credentials("alice", "open sesame", "pbx.example"), BOTH)
URI = "sip:+12125550100@192.0.2.10"
SUMS = {"MD5": hashlib.md5, "SHA-256": hashlib.sha256}


def server():
    count = itertools.count(1)
    return AuthServer(lambda: f"t{next(count)}")


def params(challenge):
    return dict(re.findall(r'(\w+)="?([^",]*)"?', challenge.removeprefix("Digest ")))


def authorization(
    challenge, *, method="INVITE", user="alice", password="open sesame", nc=1, uri=URI, qop="auth", **changes
):
    """Answer a challenge as a client does."""
    told = params(challenge)
    made = SUMS[told["algorithm"]]

    def h(text):
        return made(text.encode()).hexdigest()

    realm, nonce = told["realm"], told["nonce"]
    secret, what = h(f"{user}:{realm}:{password}"), h(f"{method}:{uri}")
    middle = f"{nc:08x}:c0:{qop}:" if qop else ""
    values = {
        "username": f'"{user}"',
        "realm": f'"{realm}"',
        "nonce": f'"{nonce}"',
        "uri": f'"{uri}"',
        "response": '"' + h(f"{secret}:{nonce}:{middle}{what}") + '"',
        "algorithm": told["algorithm"],
    }
    if qop:
        values |= {"qop": qop, "nc": f"{nc:08x}", "cnonce": '"c0"'}
    values |= changes
    return "Digest " + ", ".join(f"{name}={value}" for name, value in values.items())


def asked(*authorizations, method="INVITE", uri=URI):
    extra = tuple(("Authorization", each) for each in authorizations)
    return parse_message(request(method, uri=uri, extra=extra))


def challenged(auth, *, now=0.0):
    refusal = auth.judge(asked(), WANTED, now=now)
    return [value for _, value in refusal.headers]


@pytest.fixture
def auth():
    return server()


def test_a_challenge_offers_sha_256_and_md5_with_qop(auth):
    refusal = auth.judge(asked(), WANTED, now=0.0)
    sha, md5 = (params(value) for _, value in refusal.headers)

    assert (refusal.status, refusal.quiet) == (401, True)
    assert {name for name, _ in refusal.headers} == {"WWW-Authenticate"}
    assert (sha["algorithm"], md5["algorithm"]) == ("SHA-256", "MD5")
    assert sha["realm"] == "pbx.example"
    assert sha["qop"] == "auth"
    assert "stale" not in sha


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("qop", ["auth", ""])
def test_the_right_answer_passes_once(auth, which, qop):
    answer = authorization(challenged(auth)[which], qop=qop)

    assert auth.judge(asked(answer), WANTED, now=1.0) is None
    replayed = auth.judge(asked(answer), WANTED, now=2.0)
    assert (replayed.status, params(replayed.headers[0][1])["stale"]) == (401, "true")


def test_a_count_that_rises_passes_and_one_that_falls_is_stale(auth):
    challenge = challenged(auth)[0]
    for nc in (1, 2, 7):
        assert auth.judge(asked(authorization(challenge, nc=nc)), WANTED, now=1.0) is None
    for nc in (7, 3):
        assert auth.judge(asked(authorization(challenge, nc=nc)), WANTED, now=1.0).why == "a stale nonce"


@pytest.mark.parametrize(
    "changes",
    [
        {"password": "open"},
        {"user": "bob"},
        {"response": '"0"'},
        {"response": '"é"'},
        {"qop": "auth-int"},
    ],
)
def test_a_wrong_answer_is_challenged_again_and_told(auth, changes):
    refusal = auth.judge(asked(authorization(challenged(auth)[0], **changes)), WANTED, now=1.0)

    assert (refusal.status, refusal.why, refusal.quiet) == (401, "wrong credentials", False)
    assert "stale" not in params(refusal.headers[0][1])


@pytest.mark.parametrize(
    "changes", [{"realm": '"other"'}, {"algorithm": "MD5-sess"}, {"algorithm": "SHA-512"}, {"nonce": '""'}]
)
def test_an_answer_to_another_challenge_counts_as_none_or_wrong(auth, changes):
    refusal = auth.judge(asked(authorization(challenged(auth)[0], **changes)), WANTED, now=1.0)

    assert (refusal.status, refusal.why in {"no credentials", "wrong credentials"}) == (401, True)


@pytest.mark.parametrize("uri", ["sip:192.0.2.10", "sip:+19005550199@gw.example;transport=tcp", ""])
def test_the_address_in_the_answer_need_not_be_the_one_called(auth, uri):
    """A proxy may have changed it (RFC 3261, section 22.4); SIPp leaves the user out."""
    answer = authorization(challenged(auth)[0], uri=uri)

    assert auth.judge(asked(answer), WANTED, now=1.0) is None


def test_an_answer_for_another_realm_beside_the_right_one_does_no_harm(auth):
    right = authorization(challenged(auth)[1])

    assert auth.judge(asked('Digest realm="proxy", nonce="x"', "Basic abc", right), WANTED, now=1.0) is None


def test_an_old_nonce_is_stale_and_a_new_one_is_given(auth):
    challenge = challenged(auth)[0]
    late = auth.judge(asked(authorization(challenge)), WANTED, now=auth_server.NONCE_LIFE_S + 1)

    assert params(late.headers[0][1])["stale"] == "true"
    again = authorization(late.headers[0][1])
    assert auth.judge(asked(again), WANTED, now=auth_server.NONCE_LIFE_S + 2) is None


def test_a_nonce_of_somebody_else_is_stale(auth):
    for foreign in (
        challenged(server())[0].replace("t3", "t9"),
        challenged(auth)[0].replace('e="0-', 'e="9-'),
    ):
        refusal = auth.judge(asked(authorization(foreign)), WANTED, now=1.0)
        assert refusal.why == "a stale nonce"


def test_a_nonce_of_another_realm_is_stale(auth):
    other = auth.judge(asked(), Proof(Credentials("alice", "open sesame", "b"), BOTH), now=0.0).headers[0][1]
    refusal = auth.judge(asked(authorization(other.replace('"b"', '"pbx.example"'))), WANTED, now=1.0)

    assert refusal.why == "a stale nonce"


def test_counts_are_bounded_and_what_was_forgotten_cannot_be_replayed(auth, monkeypatch):
    monkeypatch.setattr(auth_server, "MAX_NONCES", 3)
    answers = [authorization(challenged(auth, now=float(n))[0]) for n in range(5)]
    for answer in answers:
        assert auth.judge(asked(answer), WANTED, now=5.0) is None
    assert len(auth._counts) == 3
    for answer in answers:
        assert auth.judge(asked(answer), WANTED, now=5.0).why == "a stale nonce"
    assert auth.judge(asked(authorization(challenged(auth, now=6.0)[0])), WANTED, now=6.0) is None


def test_without_a_realm_of_its_own_a_trunk_gets_ours(auth):
    refusal = auth.judge(asked(), Proof(Credentials("a", "b")), now=0.0)

    assert params(refusal.headers[0][1])["realm"] == "trunkline"


def test_only_the_algorithms_of_the_trunk_are_offered_and_taken(auth):
    only_md5 = Proof(WANTED.credentials)
    sha, md5 = challenged(auth)
    refusal = auth.judge(asked(authorization(sha)), only_md5, now=1.0)

    assert [params(value)["algorithm"] for _, value in refusal.headers] == ["MD5"]
    assert auth.judge(asked(authorization(md5)), only_md5, now=1.0) is None


# At the user agent.


@pytest.fixture
def rig():
    guarded = Rig()
    guarded.ua.treat(lambda flow, _user: PeerPolicy(proof=WANTED if flow.transport == "udp" else None))
    return guarded


def test_a_call_is_challenged_and_taken_with_the_answer(rig):
    (refused,) = rig.feed(invite())
    assert refused.status == 401
    assert rig.feed(request("ACK", to_tag=refused.tag("to"))) == []
    assert rig.events() == []
    answer = authorization(refused["www-authenticate"])
    call = rig.offered(invite(branch="2", cseq=2, extra=(("Authorization", answer),)))
    rig.ua.answer(call, ANSWER, now=rig.now)

    assert statuses(rig.sent()) == [200]


def test_wrong_credentials_are_reported(rig):
    (refused,) = rig.feed(invite())
    answer = authorization(refused["www-authenticate"], password="x")
    (again,) = rig.feed(invite(branch="2", cseq=2, extra=(("Authorization", answer),)))

    assert again.status == 401
    assert [event.why for event in rig.events() if isinstance(event, sip.RequestRefused)] == [
        "wrong credentials"
    ]
    assert rig.ua.active_calls == 0


def test_in_a_call_only_what_moves_its_media_is_challenged(rig):
    (refused,) = rig.feed(invite())
    answer = authorization(refused["www-authenticate"])
    made = rig.answered(invite(branch="2", cseq=2, extra=(("Authorization", answer),)))

    def in_call(method, cseq, **more):
        return rig.feed(request(method, branch=f"{method}{cseq}", to_tag=made.to_tag, cseq=cseq, **more))

    in_call("ACK", 2)
    assert statuses(in_call("INVITE", 3, body=OFFER)) == [401]
    assert statuses(in_call("UPDATE", 4, body=OFFER)) == [401]
    assert statuses(in_call("REFER", 10, extra=(("Refer-To", "<sip:x@h>"),))) == [401]
    assert statuses(in_call("UPDATE", 5)) == [200]
    assert statuses(in_call("INFO", 6)) == [200]
    assert statuses(rig.feed(request("OPTIONS", branch="o", call_id="ping"))) == [200]
    (asks,) = in_call("INVITE", 7, body=OFFER)
    again = authorization(asks["www-authenticate"])
    assert statuses(in_call("INVITE", 8, body=OFFER, extra=(("Authorization", again),))) == [100]
    assert statuses(in_call("BYE", 9))[0] == 200


def test_cancel_is_never_challenged(rig):
    (refused,) = rig.feed(invite())
    answer = authorization(refused["www-authenticate"])
    rig.offered(invite(branch="2", cseq=2, extra=(("Authorization", answer),)))

    assert statuses(rig.feed(request("CANCEL", branch="2", cseq=2))) == [200, 487]


def test_the_ack_of_a_second_refusal_ends_it(rig):
    (refused,) = rig.feed(invite())
    rig.feed(request("ACK", to_tag=refused.tag("to")))
    wrong = authorization(refused["www-authenticate"], password="x")
    (again,) = rig.feed(invite(branch="2", cseq=2, extra=(("Authorization", wrong),)))
    rig.events()
    rig.feed(request("ACK", branch="2", cseq=2, to_tag=again.tag("to")))

    assert rig.events() == []
    assert rig.advance(40.0) == []
