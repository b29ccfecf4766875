"""
Calls and requests of ours against a peer that may do anything: drop, repeat, reorder, answer twice, lie.

Whatever happens: at most one answer and exactly one end for each call, exactly one answer for each
request, an ACK for each 2xx, no CANCEL before a provisional response, bounded tables, nothing left.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.sip import events as sip
from gateway.sip.errors import LocalProtocolError
from tests.gateway.sip.out_rig import CONTACT, CREDENTIALS, FIRST, SDP, SECOND, OutRig, answer, target
from tests.gateway.sip.rig import ANSWER
from tests.kit.sip_text import Message

PROVISIONAL = [100, 180, 183, 199]
FINAL = [200, 200, 200, 202, 302, 401, 407, 408, 422, 481, 486, 487, 488, 491, 500, 503, 603]
TAGS = st.sampled_from(["", "A", "B", "C"])
NONCES = st.integers(1, 3)
ANY = st.integers(0, 1000)
LIMIT = 400  # transactions that a history of 50 steps can at most have open


class Wire:
    """What the peer has seen of us, and what it has said."""

    def __init__(self) -> None:
        self.requests: list[Message] = []
        self.said: list[bytes] = []
        self.provisional: set[str] = set()

    def saw(self, messages: list[Message]) -> None:
        for message in messages:
            if message.method == "CANCEL":
                assert message["via"] in self.provisional, "a CANCEL before any provisional response"
            if message.method and message.method != "ACK" and message not in self.requests:
                self.requests.append(message)


class AnyHistory(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.rig = OutRig()
        self.wire = Wire()
        self.calls: list[str] = []
        self.asked: list[str] = []
        self.happened: list[sip.SipEvent] = []

    # Ours.

    @precondition(lambda self: len(self.calls) < 3)
    @rule(two=st.booleans(), known=st.booleans(), ring_for=st.sampled_from([5.0, 60.0]))
    def dial(self, two: bool, known: bool, ring_for: float) -> None:
        flows = (FIRST, SECOND) if two else (FIRST,)
        to = target(*flows, credentials=CREDENTIALS if known else None)
        self.calls.append(self.rig.ua.invite(to, ANSWER, ring_for=ring_for, now=self.rig.now))
        self.look()

    @precondition(lambda self: len(self.asked) < 3)
    @rule(known=st.booleans())
    def ask(self, known: bool) -> None:
        to = target(FIRST, SECOND, credentials=CREDENTIALS if known else None)
        self.asked.append(self.rig.ua.request("OPTIONS", to, now=self.rig.now))
        self.look()

    @precondition(lambda self: self.calls)
    @rule(which=ANY, what=st.sampled_from(["cancel", "bye", "reoffer", "refer", "answer", "refuse", "trust"]))
    def command(self, which: int, what: str) -> None:
        call, ua, now = self.calls[which % len(self.calls)], self.rig.ua, self.rig.now
        try:
            match what:
                case "cancel":
                    ua.cancel(call, now=now)
                case "bye":
                    ua.bye(call, now=now)
                case "reoffer":
                    ua.reoffer(call, ANSWER, now=now)
                case "refer":
                    ua.refer(call, "sip:x@h", now=now)
                case "answer":
                    ua.answer_reoffer(call, ANSWER, now=now)
                case "refuse":
                    ua.answer_reoffer(call, None, now=now)
                case "trust":
                    ua.use_credentials(call, CREDENTIALS, now=now)
        except LocalProtocolError:
            pass  # it made no sense in this state
        self.look()

    # The peer's.

    @precondition(lambda self: self.wire.requests)
    @rule(which=ANY, status=st.sampled_from(PROVISIONAL), tag=TAGS, sdp=st.booleans(), rseq=st.integers(0, 4))
    def ring(self, which: int, status: int, tag: str, sdp: bool, rseq: int) -> None:
        to = self.wire.requests[which % len(self.wire.requests)]
        reliable = (("Require", "100rel"), ("RSeq", str(rseq))) if rseq else ()
        extra = (CONTACT, ("Allow", "INVITE, UPDATE"), *reliable)
        self.wire.provisional.add(to["via"])
        self.say(answer(to, status, "Wait", tag=tag, extra=extra, body=SDP if sdp else ""))

    @precondition(lambda self: self.wire.requests)
    @rule(
        which=ANY,
        status=st.sampled_from(FINAL),
        tag=TAGS,
        sdp=st.booleans(),
        nonce=NONCES,
        stale=st.booleans(),
    )
    def finish(self, which: int, status: int, tag: str, sdp: bool, nonce: int, stale: bool) -> None:
        to = self.wire.requests[which % len(self.wire.requests)]
        if to.method == "INVITE" and status < 300:
            tag = tag or "A"  # only what is older than RFC 3261 answers without a tag
        challenge = f'Digest realm="r", nonce="n{nonce}", qop="auth", stale={str(stale).lower()}'
        extra = (
            CONTACT,
            ("WWW-Authenticate" if status == 401 else "Proxy-Authenticate", challenge),
            ("Min-SE", str(90 + nonce)),
            ("Retry-After", str(nonce)),
        )
        sent = self.say(answer(to, status, "Done", tag=tag, extra=extra, body=SDP if sdp else ""))
        events = self.rig.events()
        self.happened += events
        dropped = any(isinstance(each, sip.MessageDropped) for each in events)
        if to.method == "INVITE" and status < 300 and not dropped:
            acks = [each for each in sent if each.method == "ACK" and each.cseq == to.cseq]
            assert [each.tag("to") for each in acks] == [to.tag("to") or tag]

    @precondition(lambda self: self.wire.said)
    @rule(which=ANY)
    def repeat(self, which: int) -> None:
        self.say(self.wire.said[which % len(self.wire.said)], again=True)

    @precondition(lambda self: any(each.method == "INVITE" for each in self.wire.requests))
    @rule(
        which=ANY,
        method=st.sampled_from(["BYE", "INVITE", "UPDATE", "ACK", "OPTIONS", "NOTIFY", "PRACK", "CANCEL"]),
        tag=TAGS,
        cseq=st.integers(0, 6),
        sdp=st.booleans(),
    )
    def demand(self, which: int, method: str, tag: str, cseq: int, sdp: bool) -> None:
        invites = [each for each in self.wire.requests if each.method == "INVITE"]
        self.rig.invite = invites[which % len(invites)]
        self.say(self.rig.from_peer(method, cseq, tag=tag or "X", body=SDP if sdp else ""))

    @rule(flow=st.sampled_from([FIRST, SECOND]))
    def fail(self, flow) -> None:
        self.rig.ua.transport_failed(flow, now=self.rig.now)
        self.look()

    @rule(seconds=st.sampled_from([0.0, 0.1, 0.5, 2.0, 6.0, 33.0]))
    def wait(self, seconds: float) -> None:
        self.wire.saw([message for _, message in self.rig.advance(self.rig.now + seconds)])
        self.look()

    # What must hold.

    @invariant()
    def each_call_is_answered_and_ended_at_most_once(self) -> None:
        if not hasattr(self, "rig"):
            return
        self.happened += self.rig.events()
        answered, over, told = Counter[str](), Counter[str](), Counter[str]()
        for event in self.happened:
            match event:
                case sip.CallAccepted(call):
                    assert not over[call]
                    answered[call] += 1
                case sip.CallProgressed(call):
                    assert not over[call]
                    assert not answered[call]
                case sip.CallReoffered(call):
                    assert not over[call]
                case sip.CallEnded(call):
                    over[call] += 1
                case sip.RequestAnswered(request):
                    told[request] += 1
        assert max([*answered.values(), *over.values(), *told.values()], default=0) <= 1
        assert self.rig.ua.active_calls == len(self.calls) - len(over)

    @invariant()
    def the_tables_are_bounded(self) -> None:
        if hasattr(self, "rig"):
            assert self.rig.ua.dialogs <= len(self.calls)
            assert self.rig.ua.transactions <= LIMIT

    def teardown(self) -> None:
        if not hasattr(self, "rig"):
            return
        for call in self.calls:
            try:
                self.rig.ua.cancel(call, now=self.rig.now)
            except LocalProtocolError:
                self.rig.ua.bye(call, now=self.rig.now)
        self.rig.sent()
        self.rig.advance(self.rig.now + 1000.0)
        self.happened += self.rig.events()
        ua = self.rig.ua

        assert (ua.active_calls, ua.dialogs, ua.transactions, ua.next_timeout()) == (0, 0, 0, None)
        ended = Counter(each.call for each in self.happened if isinstance(each, sip.CallEnded))
        told = Counter(each.request for each in self.happened if isinstance(each, sip.RequestAnswered))
        assert ended == Counter(self.calls)
        assert told == Counter(self.asked)
        assert not vars(ua)["_requests"]

    # Small parts.

    def say(self, data: bytes, *, again: bool = False) -> list[Message]:
        if not again:
            self.wire.said.append(data)
        sent = self.rig.feed(data)
        self.wire.saw(sent)
        return sent

    def look(self) -> None:
        self.wire.saw(self.rig.sent())


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
