"""
A whole incoming call against a model peer: server transactions, offers and answers, reliable 18x, the end.

The peer is a caller that loses and repeats what it likes; the model knows what it may expect.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.sip import events as sip
from gateway.sip.errors import LocalProtocolError
from tests.gateway.sip.rig import Rig, invite, request
from tests.kit import sip_text
from tests.kit.sip_text import Message


def described(version: int) -> bytes:
    return f"v=0\r\no=us 1 {version} IN IP4 192.0.2.10\r\n".encode()


class CallModel(RuleBasedStateMachine):
    """
    The caller's view.

    ``phase`` is that of its call, ``pending`` its own offer in the dialog that has no answer (method, CSeq),
    ``unacked`` the CSeq of the INVITE whose 2xx it has not acknowledged.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig()
        self.call = ""
        self.phase = "offered"
        self.cseq = 1
        self.version = 0
        self.tag = ""
        self.reliable = False
        self.rung: list[Message] = []
        self.acked = 0
        self.answer: Message | None = None
        self.pending: tuple[str, int] | None = None
        self.unacked: int | None = None
        self.ended: list[sip.CallEnded] = []
        self.confirmed = 0
        self.invite = b""
        self.life = self.steps = self.copies = 0
        self.waited = 0.0
        self.final_of_invite: set[int] = set()

    # The caller begins.

    @initialize(begin=st.sampled_from(["offered", "late", "reliable", "confirmed"]), life=st.integers(3, 25))
    def a_call_comes_in(self, begin: str, life: int) -> None:
        self.life = life
        self.late, self.reliable = begin == "late", begin == "reliable"
        extra = (("Require", "100rel"),) if self.reliable else ()
        self.invite = invite(extra=extra, **({"body": ""} if self.late else {}))
        self.take(self.rig.feed(self.invite))
        assert self.call
        if begin == "reliable":
            self.it_rings()
        elif begin == "confirmed":
            self.it_answers()
            self.the_caller_acknowledges(twice=False)

    def old(self) -> bool:
        """Whether the call has had its life: an end too soon would leave little to see."""
        return self.steps > self.life

    # What comes back is read here, whoever caused it.

    def take(self, messages: list[Message]) -> None:
        for message in messages:
            if message.method == "BYE":
                self.rig.feed(sip_text.respond(message, 200, "OK"))
                self.phase = "over"
            elif message.answers == "INVITE" and message.cseq == 1:
                self.of_the_invite(message)
        for event in self.rig.events():
            match event:
                case sip.CallOffered(call=call):
                    assert not self.call
                    self.call = call
                case sip.CallEnded(call=call):
                    assert call == self.call
                    self.ended.append(event)
                case sip.CallConfirmed():
                    self.confirmed += 1

    def of_the_invite(self, message: Message) -> None:
        rung = {each["rseq"] for each in self.rung}
        if message.status == 180 and message["rseq"] and message["rseq"] not in rung:
            assert self.acked == len(self.rung)  # never a second before the PRACK of the first
            self.rung.append(message)
        if message.status >= 200:
            self.final_of_invite.add(message.status)
            assert len(self.final_of_invite) == 1  # a transaction has one final response
            self.tag = message.tag("to")
            if message.status == 200:
                self.answer = message

    def now(self, seconds: float) -> None:
        self.take([message for _, message in self.rig.advance(self.rig.now + seconds)])

    def in_dialog(self, method: str, *, cseq: int | None = None, **more: object) -> list[Message]:
        number = self.cseq if cseq is None else cseq
        data = request(method, branch=f"{method}{number}", to_tag=self.tag, cseq=number, **more)
        return self.rig.feed(data)

    # What the gateway's application does.

    @precondition(lambda self: self.phase == "offered")
    @rule()
    def it_rings(self) -> None:
        try:
            self.rig.ua.ring(self.call, now=self.rig.now)
        except LocalProtocolError:
            assert self.answer is not None or self.ended
        self.take(self.rig.sent())

    @precondition(lambda self: self.phase == "offered")
    @rule()
    def it_answers(self) -> None:
        self.version += 1
        assert self.rig.ua.answer(self.call, described(self.version), now=self.rig.now)
        self.take(self.rig.sent())
        assert self.answer is not None
        assert self.answer.body.encode() == described(self.version)
        self.phase, self.unacked = "answered", 1

    @precondition(lambda self: self.phase == "offered" and self.old())
    @rule(status=st.sampled_from([302, 404, 486, 503, 603]))
    def it_rejects(self, status: int) -> None:
        assert self.rig.ua.reject(self.call, status, now=self.rig.now)
        self.take(self.rig.sent())
        assert self.final_of_invite == {status}
        self.phase = "over"

    @precondition(lambda self: self.phase in {"answered", "confirmed"} and self.old())
    @rule()
    def it_hangs_up(self) -> None:
        was = self.phase
        assert self.rig.ua.bye(self.call, now=self.rig.now)
        self.take(self.rig.sent())
        # No BYE before the ACK (RFC 3261, section 15).
        assert (self.phase == "over") == (was == "confirmed")
        self.phase = "over" if was == "confirmed" else "hung up"
        self.pending = None

    @precondition(lambda self: self.pending is not None)
    @rule(accepts=st.booleans())
    def it_answers_the_offer(self, accepts: bool) -> None:
        method, cseq = self.pending
        self.version += 1
        sdp = described(self.version) if accepts else None
        assert self.rig.ua.answer_reoffer(self.call, sdp, now=self.rig.now)
        (final,) = self.rig.sent()
        assert (final.cseq, final.answers) == (cseq, method)
        assert (final.status, final.body.encode()) == ((200, sdp) if accepts else (488, b""))
        self.pending = None
        if accepts and method == "INVITE":
            self.unacked = cseq
        elif method == "INVITE":
            self.in_dialog("ACK", cseq=cseq)

    # What the caller does.

    @precondition(lambda self: self.rung)
    @rule(wrong=st.booleans())
    def the_caller_sends_a_prack(self, wrong: bool) -> None:
        rung = self.rung[-1]
        self.tag = rung.tag("to")
        self.cseq += 1
        extra = (("RAck", f"{int(rung['rseq']) + (7 if wrong else 0)} 1 INVITE"),)
        answers = self.in_dialog("PRACK", extra=extra)
        gone = self.phase in {"over", "hung up"}
        if not wrong and not gone:
            self.acked = len(self.rung)  # or it was already, and this is a copy
        self.take(answers)
        (status,) = (each.status for each in answers if each.answers == "PRACK")
        assert status == (481 if wrong or gone else 200)

    @precondition(lambda self: self.unacked is not None and self.answer is not None)
    @rule(twice=st.booleans())
    def the_caller_acknowledges(self, twice: bool) -> None:
        cseq, self.unacked = self.unacked, None
        body = {"body": sip_text.offer("198.51.100.7", 24500)} if self.late and cseq == 1 else {}
        for _ in range(2 if twice else 1):
            self.take(self.in_dialog("ACK", cseq=cseq, **body))
        if self.phase == "answered":
            assert self.confirmed == 1
            self.phase = "confirmed"
        elif self.phase == "hung up":
            self.phase = "over"

    @precondition(lambda self: self.copies < 3)
    @rule()
    def the_caller_repeats_its_invite(self) -> None:
        self.copies += 1
        before = len(self.ended)
        answers = self.rig.feed(self.invite)
        self.take(answers)
        assert len(self.ended) == before
        assert self.rig.ua.dialogs <= 1

    @precondition(lambda self: self.phase == "confirmed" and self.unacked is None)
    @rule(method=st.sampled_from(["INVITE", "UPDATE"]))
    def the_caller_offers(self, method: str) -> None:
        self.cseq += 1
        answers = self.in_dialog(method, body=sip_text.offer("198.51.100.7", 24500 + self.cseq))
        self.take(answers)
        if self.pending is None:
            assert [each.status for each in answers] == ([100] if method == "INVITE" else [])
            self.pending = method, self.cseq
        else:
            assert answers[-1].status == 500  # an offer is open (14.2)
            if method == "INVITE":
                self.in_dialog("ACK")

    @precondition(lambda self: self.phase in {"answered", "confirmed"})
    @rule()
    def the_caller_refreshes(self) -> None:
        self.cseq += 1
        (ok,) = self.in_dialog("UPDATE")
        assert (ok.status, ok.body) == (200, "")

    @precondition(lambda self: self.phase in {"answered", "confirmed"})
    @rule()
    def the_caller_repeats_an_old_number(self) -> None:
        number = self.rig.ua._calls.get(self.call).dialog.remote_cseq
        data = request("INFO", branch=f"old{self.rig.now}{self.cseq}", to_tag=self.tag, cseq=number)
        (refused,) = self.rig.feed(data)
        self.take([])
        assert refused.status == 500

    @precondition(lambda self: self.phase == "offered" and self.old())
    @rule()
    def the_caller_cancels(self) -> None:
        answers = self.rig.feed(request("CANCEL"))
        self.take(answers)
        assert answers[0].status == 200
        assert self.final_of_invite == {487}
        self.phase = "over"

    @precondition(lambda self: self.phase in {"answered", "confirmed"} and self.old())
    @rule()
    def the_caller_hangs_up(self) -> None:
        self.cseq += 1
        answers = self.in_dialog("BYE")
        self.take(answers)
        assert [each.status for each in answers if each.answers == "BYE"] == [200]
        self.phase, self.pending, self.unacked = "over", None, None

    @precondition(lambda self: self.phase == "over" or self.waited < 30)
    @rule(seconds=st.sampled_from([0.1, 0.5, 0.5, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.waited += seconds
        self.now(seconds)
        if self.ended and self.phase not in {"over", "hung up"}:
            # No PRACK, no ACK, or an application that says nothing for too long: all end the call.
            assert self.ended[0].reason in {"timeout", "ack_timeout"}
            self.phase, self.pending = "over", None

    # What is true at any time.

    @invariant()
    def the_end_is_told_once(self) -> None:
        self.steps += 1
        assert len(self.ended) <= 1
        if self.phase in {"over", "hung up"}:
            assert len(self.ended) == 1
        elif self.phase in {"answered", "confirmed"}:
            assert not self.ended

    def teardown(self) -> None:
        """Leave it alone: everything is forgotten in the end."""
        if not self.call:
            return
        self.now(400.0)
        self.rig.ua.bye(self.call, now=self.rig.now)
        self.take(self.rig.sent())
        self.now(400.0)
        assert (self.rig.ua.active_calls, self.rig.ua.dialogs, self.rig.ua.transactions) == (0, 0, 0)
        assert len(self.ended) == 1


TestCallModel = CallModel.TestCase
TestCallModel.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
