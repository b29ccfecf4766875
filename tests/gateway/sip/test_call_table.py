from gateway.sip.flow import Flow
from gateway.sip.parser import parse_message
from tests.gateway.sip.out_rig import OutRig, answer
from tests.gateway.sip.rig import UDP, Rig, invite, request


def test_an_incoming_call_is_found_by_all_its_names_until_it_is_forgotten():
    rig = Rig()
    made = rig.confirmed()
    table = rig.ua._calls
    (call,) = table
    bye = parse_message(request("BYE", to_tag=made.to_tag, cseq=2))
    foreign = parse_message(request("BYE", to_tag=made.to_tag, from_tag="other", cseq=2))

    assert table.get(made.call) is table.of_request(bye) is call
    assert table.of_request(foreign) is None
    assert table.begun_by(parse_message(invite()))
    assert not table.begun_by(parse_message(invite(cseq=2)))
    assert (len(table), table.active) == (1, 1)
    assert table.forget(call)
    assert not table.forget(call)
    assert (table.get(made.call), table.of_request(bye), len(table)) == (None, None, 0)
    assert not table.begun_by(parse_message(invite()))


def test_a_call_of_ours_is_found_by_the_responses_to_its_invite():
    rig = OutRig()
    rig.dial()
    table = rig.ua._calls
    (call,) = table

    assert table.of_response(parse_message(answer(rig.invite, 200))) is call
    assert table.of_response(parse_message(answer(rig.invite, 486))) is call


def test_where_the_peers_of_calls_are_is_known_until_the_last_of_them_is_over():
    rig = Rig()
    first = rig.confirmed()
    rig.confirmed(invite(call_id="second", branch="second"))
    moved = Flow("udp", ("198.51.100.99", 5060), UDP.local)
    assert rig.ua.talks_with(UDP.remote[0])
    assert not rig.ua.talks_with(moved.remote[0])

    rig.feed(request("OPTIONS", branch="o", to_tag=first.to_tag, cseq=2), moved)
    assert rig.ua.talks_with(UDP.remote[0])
    assert rig.ua.talks_with(moved.remote[0])

    rig.feed(request("BYE", branch="b", to_tag=first.to_tag, cseq=3), moved)
    assert rig.ua.talks_with(UDP.remote[0])
    assert not rig.ua.talks_with(moved.remote[0])
