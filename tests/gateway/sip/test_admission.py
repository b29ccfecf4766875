import pytest

from gateway.sip.policy import PeerPolicy
from gateway.sip.settings import UaSettings
from tests.gateway.sip.rig import TCP, UDP, Rig, invite, request, statuses


def test_calls_in_memory_are_bounded():
    rig = Rig(UaSettings(max_dialogs=2))
    made = [rig.confirmed(invite(call_id=f"c{n}", branch=f"c{n}")) for n in range(2)]
    (refused,) = rig.feed(invite(call_id="c3", branch="c3"))

    assert (refused.status, refused["retry-after"]) == (503, "5")
    assert rig.ua.dialogs == 2
    assert statuses(rig.feed(request("OPTIONS", branch="o", call_id="ping"))) == [200]
    rig.feed(request("BYE", branch="b", call_id="c0", to_tag=made[0].to_tag, cseq=2))
    assert statuses(rig.feed(invite(call_id="c4", branch="c4"))) == [100]


def test_who_sent_a_request_decides_how_it_is_treated():
    rig, asked = Rig(), []

    def policies(flow, user):
        asked.append((flow.transport, user))
        return PeerPolicy(session_timers=flow.transport == "tcp")

    rig.ua.treat(policies)
    by_udp, by_tcp = (
        rig.feed(request("OPTIONS", branch=str(flow), call_id=str(flow)), flow) for flow in (UDP, TCP)
    )

    assert [message["supported"] for message in (*by_udp, *by_tcp)] == ["100rel", "timer, 100rel"]
    assert asked == [("udp", "+12125550100"), ("tcp", "+12125550100")]


def test_a_call_keeps_the_policy_that_it_began_with():
    rig = Rig()
    made = rig.confirmed()
    rig.ua.treat(lambda _flow, _user: PeerPolicy(session_timers=False))

    def required(to_tag):
        return request("UPDATE", branch="u", to_tag=to_tag, cseq=2, extra=(("Require", "timer"),))

    assert statuses(rig.feed(required(made.to_tag))) == [200]
    assert statuses(rig.feed(required("nobody"))) == [200]  # a copy: its transaction answers


@pytest.mark.parametrize("value", [0, -1])
def test_a_cap_is_positive(value):
    with pytest.raises(ValueError, match="positive"):
        UaSettings(max_dialogs=value)
