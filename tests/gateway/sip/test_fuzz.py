"""Mutated messages with fixed seeds: nothing is raised, no other call is ended, everything is forgotten."""

from __future__ import annotations

import random

import pytest

from gateway.sip import events as sip
from gateway.sip.errors import LocalProtocolError
from gateway.sip.flow import Flow
from gateway.sip.settings import UaSettings
from gateway.sip.stream import FramingError, StreamFramer
from tests.gateway.sip.rig import ANSWER, OFFER, PEER, UDP, US, Rig, invite, request
from tests.kit import sip_text

JUNK = [
    b"\r\n", b"\n", b"\r", b"\0", b'"', b"<", b">", b";", b",", b":", b"@", b"?", b"%", b"\\", b" ", b"\t",
    b"\xff", b"\xc3\x28", b"4294967296", b"-1", b"SIP/2.0", b";tag=", b"Via: ", b"Require: x\r\n", b"[::",
    b"\r\n\r\n", b"=",
]  # fmt: skip


def mutated(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                data = data[:at] + rng.choice(JUNK) + data[at:]
            case 1:
                data = data[:at] + data[at + rng.randint(1, 30) :]
            case 2:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 3:
                lines = data.split(b"\r\n")
                lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
                data = b"\r\n".join(lines)
            case _:
                data = data[: max(at, 1)]
    return data


def seeds(tag: str) -> list[bytes]:
    """Return messages of all kinds, most of them for the call whose tag is given."""
    notify = (("Event", "refer;id=1"), ("Subscription-State", "active"))
    return [
        invite(branch="fz", call_id="fuzz", from_tag="fz"),
        invite(branch="re", to_tag=tag, cseq=50),
        request("ACK", branch="ak", to_tag=tag, body=OFFER),
        request("OPTIONS", branch="op", call_id="ping"),
        request("UPDATE", branch="up", to_tag=tag, cseq=60, body=OFFER),
        request("NOTIFY", branch="no", to_tag=tag, cseq=70, extra=notify, body="SIP/2.0 180 Ringing"),
        request("CANCEL", branch="re", to_tag=tag, cseq=50),
        request("INFO", branch="in", to_tag=tag, cseq=80, body="Signal=1", kind="application/dtmf-relay"),
        request("REFER", branch="rf", to_tag=tag, cseq=90),
    ]


@pytest.mark.parametrize("seed", range(8))
def test_mutated_messages_never_raise_and_never_end_another_call(seed):
    rng = random.Random(seed)
    rig = Rig(UaSettings(max_transactions=200))
    bystander = rig.confirmed(invite(call_id="bystander", branch="by"))
    victim = rig.confirmed(invite(call_id="victim", branch="vi"))
    ours: list[bytes] = []
    for step in range(400):
        rig.now += 0.05
        base = rng.choice([*seeds(victim.to_tag), *ours])
        source = Flow("udp", (PEER[0], rng.randrange(1024, 65536)), US)
        rig.feed(mutated(base.replace(b"call-1", b"victim"), rng), rng.choice([UDP, source]))
        for event in rig.events():
            if isinstance(event, sip.CallOffered):
                act = rng.choice([rig.ua.ring, lambda it, *, now: rig.ua.answer(it, ANSWER, now=now)])
                act(event.call, now=rig.now)
            elif isinstance(event, sip.CallReoffered):
                rig.ua.answer_reoffer(event.call, rng.choice([ANSWER, None]), now=rig.now)
            assert not (isinstance(event, sip.CallEnded) and event.call == bystander.call)
        if step % 40 == 20:
            try:
                rig.ua.refer(victim.call, "sip:x@h", now=rig.now)
            except LocalProtocolError:
                pass
        for message in rig.sent():
            if message.method:
                ours = [*ours[-4:], sip_text.respond(message, rng.choice([100, 200, 481]), "x")]
        rig.advance(rig.now)

    (ok,) = rig.feed(request("BYE", branch="last", call_id="bystander", to_tag=bystander.to_tag, cseq=9))
    assert ok.status == 200
    assert sip.CallEnded(bystander.call, by_peer=True, reason="bye") in rig.events()
    rig.advance(rig.now + 300.0)
    for call in rig.ua._calls:
        rig.ua.bye(call.handle, now=rig.now)
    rig.advance(rig.now + 300.0)
    assert (rig.ua.active_calls, rig.ua.dialogs, rig.ua.transactions) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(4))
def test_a_mutated_stream_is_followed_or_given_up(seed):
    rng = random.Random(seed)
    for _ in range(50):
        stream = mutated(b"".join(rng.choices(seeds("us"), k=3)), rng)
        framer, size = StreamFramer(), rng.randint(1, 200)
        taken: list[bytes] = []
        try:
            for at in range(0, len(stream), size):
                framer.receive(stream[at : at + size])
                taken += framer.messages()
        except FramingError as error:
            taken.append(error.head)
        assert sum(map(len, taken)) <= len(stream)


@pytest.mark.parametrize("seed", range(4))
def test_what_leaves_is_always_a_well_formed_message(seed):
    """Whatever came in, what we answer has one head, no stray line and a correct length."""
    rng = random.Random(100 + seed)
    rig = Rig()
    for _ in range(150):
        rig.feed(mutated(rng.choice(seeds("us")), rng))
        rig.events()
    assert rig.outgoing
    for each in rig.outgoing:
        head, _, body = each.data.partition(b"\r\n\r\n")
        start, *lines = head.split(b"\r\n")
        assert start.startswith(b"SIP/2.0 ")
        assert b"\r" not in head.replace(b"\r\n", b"")
        assert b"\n" not in head.replace(b"\r\n", b"")
        assert all(b":" in line and not line.startswith((b" ", b"\t")) for line in lines)
        assert lines[-1 if not body else -2].split(b":")[0] in {b"Content-Length", b"Content-Type"}
