import pytest

from gateway.sip.fields import CSeq, Via


def test_all_parts_of_a_via():
    via = Via.parse('SIP / 2.0 / udp   [2001:db8::1] : 5070 ;branch = z9hG4bKaB;rport;x="1;2"')

    assert via == Via(
        "udp", "2001:db8::1", 5070, (("branch", "z9hG4bKaB"), ("rport", None), ("x", '"1;2"')), "2.0"
    )
    assert via.branch == "z9hg4bkab"
    assert via.is_rfc3261
    assert via.sent_by == ("2001:db8::1", 5070)
    assert str(via) == 'SIP/2.0/udp [2001:db8::1]:5070;branch=z9hG4bKaB;rport;x="1;2"'


@pytest.mark.parametrize(
    ("branch", "known"),
    [(";branch=z9hG4bK7", True), (";branch=z9hG4bK", False), (";branch=390skdjuw", False), ("", False)],
)
def test_which_branches_identify_a_transaction(branch, known):
    assert Via.parse(f"SIP/2.0/UDP h{branch}").is_rfc3261 is known


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SIP/2.0/UDP",
        "SIP/2.0 h",
        "HTTP/1.1/TCP h",
        "SIP/2.0/UDP h;;branch=1",
        "SIP/2.0/UDP h:99999",
        "SIP/2.0/UDP h x",
        'SIP/2.0/UDP h;branch="open',
    ],
)
def test_what_is_no_via(text):
    with pytest.raises(ValueError):
        Via.parse(text)


def test_the_source_is_noted_when_the_peer_asks_for_it():
    via = Via.parse("SIP/2.0/UDP 192.168.88.15:5060;branch=z9hG4bKm;rport")

    seen = via.seen_from("203.0.113.77", 21044)

    assert str(seen) == "SIP/2.0/UDP 192.168.88.15:5060;branch=z9hG4bKm;rport=21044;received=203.0.113.77"


def test_received_is_added_only_where_the_host_differs():
    assert str(Via.parse("SIP/2.0/UDP 192.0.2.1;branch=b").seen_from("192.0.2.1", 9)) == (
        "SIP/2.0/UDP 192.0.2.1;branch=b"
    )
    assert str(Via.parse("SIP/2.0/UDP pbx.example;branch=b").seen_from("192.0.2.1", 9)) == (
        "SIP/2.0/UDP pbx.example;branch=b;received=192.0.2.1"
    )


def test_a_received_that_the_peer_wrote_is_replaced():
    via = Via.parse("SIP/2.0/UDP h;received=203.0.113.99;branch=b;rport=1").seen_from("192.0.2.1", 9)

    assert str(via) == "SIP/2.0/UDP h;branch=b;rport=9;received=192.0.2.1"


def test_cseq_allows_leading_zeros_and_any_blank():
    assert CSeq.parse(" 0009 \t INVITE") == CSeq(9, "INVITE")
    assert str(CSeq(9, "INVITE")) == "9 INVITE"
    assert CSeq.parse("2147483647 BYE").number == 2**31 - 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "INVITE",
        "-1 INVITE",
        "2147483648 INVITE",
        "36893488147419103232 REGISTER",
        "1 A B",
        "1 IN/ITE",
    ],
)
def test_what_is_no_cseq(text):
    with pytest.raises(ValueError):
        CSeq.parse(text)
