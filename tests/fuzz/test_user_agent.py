"""
The whole user agent under fire: mutated messages of every kind, and an application that does anything.

Nothing is raised, another call goes on, the tables keep their caps, and in the end nothing is left.
"""

from __future__ import annotations

import os
import random
import secrets
import time

import pytest

from gateway.sip import events as sip
from gateway.sip.errors import LocalProtocolError
from gateway.sip.flow import Flow
from gateway.sip.policy import PeerPolicy, Proof
from gateway.sip.settings import UaSettings
from gateway.sip.target import Credentials
from tests.gateway.sip.out_rig import target
from tests.gateway.sip.rig import ANSWER, OFFER, PEER, US, Rig, invite, request
from tests.kit import sip_text
from tests.kit.counts import counts
from tests.kit.fuzz import mutated

pytestmark = pytest.mark.soak

SECONDS = counts(test=4, full=600)
SEED = int(os.environ.get("TRUNKLINE_FUZZ_SEED") or secrets.randbelow(2**32))
MAX_TRANSACTIONS, MAX_DIALOGS = 300, 40
TIMER = (("Supported", "timer, 100rel"), ("Session-Expires", "90;refresher=uac"))
KNOWN = Proof(Credentials("alice", "secret", "lab"))


def messages(tag: str, call_id: str, cseq: int) -> list[bytes]:
    """Return one request of every kind for a call of that tag, and such as begin others."""

    def inside(method: str, **more: object) -> bytes:
        branch = f"{method}{cseq}"
        return request(method, branch=branch, to_tag=tag, call_id=call_id, cseq=cseq, **more)

    notify = (("Event", "refer;id=1"), ("Subscription-State", "active"))
    return [
        invite(branch=f"n{cseq}", call_id=f"new-{cseq}", extra=TIMER),
        invite(branch=f"r{cseq}", call_id=f"rel-{cseq}", extra=(("Require", "100rel"),)),
        invite(branch=f"l{cseq}", call_id=f"late-{cseq}", body=""),
        inside("INVITE", body=OFFER, extra=TIMER),
        inside("INVITE"),
        inside("UPDATE", body=OFFER),
        inside("UPDATE", extra=TIMER),
        inside("ACK", body=OFFER),
        inside("CANCEL"),
        inside("PRACK", extra=(("RAck", "1 1 INVITE"),)),
        inside("INFO", body="Signal=5\r\n", kind="application/dtmf-relay"),
        inside("NOTIFY", extra=notify, body="SIP/2.0 180 Ringing", kind="message/sipfrag"),
        inside("REFER", extra=(("Refer-To", "<sip:x@h>"),)),
        inside("SUBSCRIBE", extra=(("Event", "presence"),)),
        inside("BYE"),
        request("OPTIONS", branch=f"o{cseq}", call_id="ping"),
    ]


class Application:
    """Does with the user agent whatever comes to its mind."""

    def __init__(self, rig: Rig, rng: random.Random, spared: str) -> None:
        self.rig = rig
        self.rng = rng
        self.spared = spared
        self.calls: list[str] = []

    def handle(self, event: sip.SipEvent) -> None:
        ua, now = self.rig.ua, self.rig.now
        match event:
            case sip.CallOffered(call=call):
                self.calls = [*self.calls[-60:], call]
            case sip.CallReoffered(call=call):
                ua.answer_reoffer(call, self.rng.choice([ANSWER, None]), now=now)
            case sip.ReferReceived(call=call):
                ua.answer_refer(call, self.rng.choice([202, 603]), now=now)
            case sip.CallEnded(call=call):
                assert call != self.spared

    def act(self) -> None:
        ua, now, rng = self.rig.ua, self.rig.now, self.rng
        if rng.random() < 0.1:
            self.calls.append(ua.invite(target(), ANSWER, now=now))
        if not self.calls:
            return
        call = rng.choice(self.calls)
        acts = [
            lambda: ua.ring(call, now=now),
            lambda: ua.progress(call, ANSWER, now=now),
            lambda: ua.answer(call, ANSWER, now=now),
            lambda: ua.answer(call, ANSWER, now=now),
            lambda: ua.reject(call, 486, now=now),
            lambda: ua.bye(call, now=now),
            lambda: ua.cancel(call, now=now),
            lambda: ua.reoffer(call, ANSWER, now=now),
            lambda: ua.refer(call, "sip:x@h", now=now),
        ]
        try:
            rng.choice(acts)()
        except LocalProtocolError:
            pass  # it makes no sense in the call's state, and is told so


def a_policy(flow: Flow, user: str) -> PeerPolicy:
    del user
    odd = flow.remote[1] % 2 == 1
    return PeerPolicy(reliable_provisional=odd, proof=KNOWN if flow.remote[1] % 5 == 3 else None)


@pytest.mark.report("BR-163")
@pytest.mark.timeout(SECONDS + 120)
def test_nothing_that_peers_and_application_do_breaks_the_user_agent():
    print(f"\nuser agent   seed {SEED}")
    rng = random.Random(SEED)
    rig = Rig(UaSettings(max_transactions=MAX_TRANSACTIONS, max_dialogs=MAX_DIALOGS))
    spared = rig.confirmed(invite(call_id="bystander", branch="by"))
    rig.ua.treat(a_policy)
    app = Application(rig, rng, spared.call)
    corpus: list[bytes] = messages("us", "call-1", 1)
    ours: list[bytes] = []
    count, begun = 0, time.monotonic()
    while time.monotonic() - begun < SECONDS:
        count += 1
        if count % 50 == 1:
            call = next((each for each in rig.ua._calls if each.handle != spared.call), None)
            tag, call_id = ("us", "call-1") if call is None else (call.dialog.local_tag, call.dialog.call_id)
            corpus = messages(tag, call_id, count)
        base = rng.choice([*corpus, *ours])
        data = base if rng.random() < 0.4 else mutated(base, corpus, rng)
        flow = Flow("udp", (PEER[0], rng.choice((5060, rng.randrange(1024, 65536)))), US)
        rig.ua.receive(data, flow, now=rig.now)
        app.act()
        for event in rig.events():
            app.handle(event)
        for each in rig.ua.to_send():
            message = sip_text.read(each.data)
            if message.method and message.method != "ACK":
                status = rng.choice([100, 180, 183, 200, 401, 422, 481, 491, 500])
                ours = [*ours[-8:], sip_text.respond(message, status, "x", tag="p1")]
        assert len(rig.ua._calls) <= MAX_DIALOGS + len(app.calls)
        assert rig.ua._transactions.served_count <= MAX_TRANSACTIONS
        rig.advance(rig.now + rng.choice((0.0, 0.01, 0.1, 2.0)))
        for event in rig.events():
            app.handle(event)
    print(f"{count} messages in {SECONDS} s, {rig.now:.0f} s of its time")

    app.spared = ""
    (ok,) = rig.feed(request("BYE", branch="last", call_id="bystander", to_tag=spared.to_tag, cseq=2**30))
    assert ok.status == 200
    rig.advance(rig.now + 300.0)
    for call in rig.ua._calls:
        rig.ua.bye(call.handle, now=rig.now)
    rig.advance(rig.now + 2000.0)
    assert (rig.ua.active_calls, rig.ua.dialogs, rig.ua.transactions) == (0, 0, 0)
    assert rig.ua.next_timeout() is None
