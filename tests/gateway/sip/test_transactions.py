from gateway.sip.message import Headers, Request, Response
from gateway.sip.parser import parse_message
from gateway.sip.timers import Timers
from gateway.sip.transaction import AckReceived, CancelReceived, ResponseReceived, Terminated
from gateway.sip.transactions import Transactions
from gateway.sip.uri import Uri
from tests.gateway.sip.rig import UDP, invite, request


class Bench:
    def __init__(self):
        self.out, self.events = [], []
        self.table = Transactions(Timers(), self.out)

    def heard(self, event, now):
        self.events.append((event, now))

    def serve(self, data, now=0.0):
        served = self.table.serve(parse_message(data), UDP, None, now=now)
        served.handler = self.heard
        return served


def answer(to, status):
    headers = Headers(
        [(name, value) for name, value in to.headers if name in {"Via", "From", "To", "Call-ID", "CSeq"}]
    )
    return Response(headers, b"", status, "x")


def ours(method="BYE", branch="z9hG4bKo") -> Request:
    headers = Headers(
        [
            ("Via", f"SIP/2.0/UDP 192.0.2.10;branch={branch}"),
            ("From", "<sip:us@h>;tag=1"),
            ("To", "<sip:a@h>;tag=2"),
            ("Call-ID", "c"),
            ("CSeq", f"1 {method}"),
        ]
    )
    return Request(headers, b"", method, Uri("sip:a@h"))


def test_a_repeated_request_goes_to_its_transaction():
    bench = Bench()
    served = bench.serve(request("BYE"))
    bench.table.respond(served, answer(served.request, 200), now=0.0)

    assert bench.table.receive_request(parse_message(request("BYE")), now=1.0) is served
    assert len(bench.out) == 2
    assert bench.table.receive_request(parse_message(request("BYE", branch="2")), now=1.0) is None


def test_the_ack_of_a_rejection_is_absorbed_and_the_table_empties():
    bench = Bench()
    served = bench.serve(invite())
    bench.table.respond(served, answer(served.request, 486), now=0.0)
    ack = parse_message(request("ACK", to_tag="us"))
    bench.table.receive_request(ack, now=1.0)
    bench.table.handle_timeout(now=6.0)

    assert bench.events == [(AckReceived(ack), 1.0), (Terminated(timed_out=False), 6.0)]
    assert bench.table.served_count == 0
    assert bench.table.next_timeout() is None
    assert not bench.table.is_merged(parse_message(invite(branch="2")))


def test_a_merged_request_is_known_while_the_first_lives():
    bench = Bench()
    bench.serve(invite())

    assert bench.table.is_merged(parse_message(invite(branch="2")))
    assert not bench.table.is_merged(parse_message(invite(branch="2", cseq=2)))
    assert not bench.table.is_merged(parse_message(invite(branch="2", from_tag="other")))


def test_a_cancel_is_told_to_the_owner_until_there_is_a_final_response():
    bench = Bench()
    served = bench.serve(invite())
    cancel = parse_message(request("CANCEL"))

    assert bench.table.find_cancelled(cancel) is served
    bench.table.cancel(served, now=1.0)
    bench.table.respond(served, answer(served.request, 200), now=2.0)
    bench.table.cancel(served, now=3.0)
    assert bench.events == [(CancelReceived(), 1.0)]
    assert bench.table.find_cancelled(parse_message(request("CANCEL", branch="9"))) is None


def test_a_response_finds_its_request():
    bench = Bench()
    bye = ours()
    bench.table.send(bye, UDP, None, bench.heard, now=0.0)
    ok = answer(bye, 200)

    assert bench.table.receive_response(ok, now=0.2)
    assert bench.events == [(ResponseReceived(ok), 0.2)]
    assert not bench.table.receive_response(answer(ours(branch="z9hG4bKother"), 200), now=0.2)
    bench.table.handle_timeout(now=5.2)
    assert not bench.table.receive_response(ok, now=5.3)
    assert bench.table.sent_count == 0


def test_an_invite_of_ours_gets_its_own_machine():
    bench = Bench()
    it = ours("INVITE")
    bench.table.send(it, UDP, None, bench.heard, now=0.0)
    busy = answer(it, 486)
    bench.table.receive_response(busy, now=0.1)

    assert bench.events == [(ResponseReceived(busy), 0.1)]
    assert [each.data.split()[0] for each in bench.out] == [b"INVITE", b"ACK"]


def test_a_failed_flow_ends_what_depends_on_it():
    bench = Bench()
    bench.serve(invite())
    bench.table.send(ours(), UDP, None, bench.heard, now=0.0)
    bench.table.transport_failed(UDP, now=1.0)

    assert bench.events == [(Terminated(timed_out=True, undelivered=True), 1.0)] * 2
    assert (bench.table.served_count, bench.table.sent_count) == (0, 0)
