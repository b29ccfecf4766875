from gateway.sip.message import Headers, Response
from gateway.sip.parser import parse_message
from gateway.sip.timers import Timers
from gateway.sip.transactions import Transactions
from gateway.sip.unacked import Due, UnackedAnswer
from tests.gateway.sip.rig import UDP, invite


def test_it_is_resent_from_t1_doubling_to_t2_and_expires_at_64_t1():
    served = Transactions(Timers(), []).serve(parse_message(invite(cseq=9)), UDP, None, now=0.0)
    ok = Response(Headers(), b"", 200)
    it = UnackedAnswer(served, ok, ours_offered=False, timers=Timers(), now=10.0)
    log = []
    while True:
        at = it.next_timeout()
        due = it.due(at)
        log.append((at - 10.0, due))
        if due is Due.EXPIRED:
            break

    assert it.cseq == 9
    assert it.due(10.1) is Due.NOTHING
    assert [at for at, _ in log] == [0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5, 31.5, 32.0]
    assert {due for _, due in log[:-1]} == {Due.RESEND}
