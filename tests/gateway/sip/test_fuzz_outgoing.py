"""Mutated answers to calls and requests of ours, with fixed seeds: nothing is raised, all is forgotten."""

from __future__ import annotations

import random

import pytest

from gateway.sip import events as sip
from gateway.sip.errors import LocalProtocolError
from tests.gateway.sip.out_rig import CONTACT, CREDENTIALS, FIRST, SDP, SECOND, OutRig, answer, target
from tests.gateway.sip.rig import ANSWER
from tests.gateway.sip.test_fuzz import mutated
from tests.kit.sip_text import Message

EXTRAS = [
    ("Require", "100rel"),
    ("RSeq", "1"),
    ("RSeq", "2"),
    ("Record-Route", "<sip:198.51.100.20;lr>, <sip:p2.example>"),
    (
        "WWW-Authenticate",
        'Digest realm="a, b", nonce="n1", qop="auth,auth-int", algorithm=SHA-256, stale=true',
    ),
    ("Proxy-Authenticate", 'Basic realm="x", Digest realm="r", nonce="n2", opaque="o", algorithm=MD5-sess'),
    ("Retry-After", "3 (busy);duration=60"),
    ("Session-Expires", "120;refresher=uac"),
    ("Min-SE", "200"),
    ("Allow", "INVITE, UPDATE, BYE"),
    ("Contact", "<sip:bob@198.51.100.7:5070;transport=tcp>"),
]
STATUSES = [100, 180, 183, 183, 200, 200, 200, 202, 302, 401, 407, 422, 481, 486, 491, 500, 503]


def some_answer(to: Message, rng: random.Random) -> bytes:
    extra = (CONTACT, *rng.sample(EXTRAS, rng.randint(0, 4)))
    body = SDP if rng.random() < 0.5 else ""
    return answer(to, rng.choice(STATUSES), "x", tag=rng.choice(["", "A", "B"]), extra=extra, body=body)


@pytest.mark.parametrize("seed", range(8))
def test_mutated_answers_never_raise_and_never_end_another_call(seed):
    rng = random.Random(seed)
    rig = OutRig()
    rig.accepted()
    bystander = rig.call
    ours: list[Message] = []
    for _ in range(8):
        rig.now += 0.05
        command(rig, rng, bystander)
        ours = [*ours, *filter(answerable, rig.sent())][-6:]
        if ours:
            to = rng.choice(ours)
            data = some_answer(to, rng)
            sent = rig.feed(data if rng.random() < 0.5 else mutated(data, rng))
            ours += filter(answerable, sent)
            if to.method == "INVITE" and rng.random() < 0.3:
                rig.invite = to
                method = rng.choice(["BYE", "INVITE", "UPDATE", "OPTIONS", "NOTIFY"])
                rig.feed(mutated(rig.from_peer(method, rng.randint(1, 9), tag="A", body=SDP), rng))
        rig.advance(rig.now)
        for event in rig.events():
            assert not (isinstance(event, sip.CallEnded) and event.call == bystander)
            if isinstance(event, sip.CallOffered):  # a request that lost the tag of its To
                rig.ua.reject(event.call, 486, now=rig.now)

    assert bystander in {call.handle for call in rig.ua._calls}
    for call in rig.ua._calls:
        rig.ua.cancel(call.handle, now=rig.now)
    rig.advance(rig.now + 300.0)
    assert (rig.ua.active_calls, rig.ua.dialogs, rig.ua.transactions) == (0, 0, 0)
    assert rig.ua.next_timeout() is None


def answerable(message: Message) -> bool:
    """Whether the rig can write an answer; a mutated tag that we repeat may be no text."""
    return message.method not in {"", "ACK"} and all(value.isascii() for _, value in message.headers)


def command(rig: OutRig, rng: random.Random, bystander: str) -> None:
    """Begin something, or change something that is under way."""
    credentials = CREDENTIALS if rng.random() < 0.7 else None
    to = target(*rng.choice([(FIRST,), (FIRST, SECOND)]), credentials=credentials)
    calls = [call.handle for call in rig.ua._calls if call.handle != bystander]
    try:
        match rng.randrange(12):
            case 0 if len(calls) < 5:
                rig.ua.invite(to, ANSWER, ring_for=20.0, now=rig.now)
            case 1:
                rig.ua.request(rng.choice(["OPTIONS", "REGISTER"]), to, now=rig.now)
            case 2 if calls:
                rig.ua.reoffer(rng.choice(calls), ANSWER, now=rig.now)
            case 3 if calls:
                rig.ua.refer(rng.choice(calls), "sip:x@h", now=rig.now)
            case 4 if calls:
                rig.ua.answer_reoffer(rng.choice(calls), rng.choice([ANSWER, None]), now=rig.now)
            case 5 if calls and rng.random() < 0.3:
                rig.ua.cancel(rng.choice(calls), now=rig.now)
            case _:
                pass
    except LocalProtocolError:
        pass  # it made no sense in this state


@pytest.mark.parametrize("seed", range(4))
def test_what_leaves_is_always_a_well_formed_request(seed):
    """Whatever came in, our requests have one head, no stray line and a correct length."""
    rng = random.Random(100 + seed)
    rig = OutRig()
    for _ in range(40):
        invite = rig.dial(target(credentials=CREDENTIALS))
        for _ in range(6):
            rig.feed(mutated(some_answer(invite, rng), rng))
        rig.ua.cancel(rig.call, now=rig.now)
        rig.sent()
        rig.events()
    for each in rig.outgoing:
        head, _, body = each.data.partition(b"\r\n\r\n")
        start, *lines = head.split(b"\r\n")
        assert start.endswith(b" SIP/2.0")
        assert not {b"\r", b"\n"} & {head.replace(b"\r\n", b"")[at : at + 1] for at in range(len(head))}
        assert all(b":" in line and not line.startswith((b" ", b"\t")) for line in lines)
        assert b"Content-Length: %d" % len(body) in lines
