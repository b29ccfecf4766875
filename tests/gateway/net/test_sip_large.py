import pytest

from gateway.net import sip_large
from gateway.net.sip_large import LargeRequests, over
from gateway.sip.flow import Flow

UDP = Flow("udp", ("192.0.2.1", 5060), ("192.0.2.9", 5060), 1)
TCP = Flow("tcp", ("192.0.2.1", 5060), ("192.0.2.9", 5060))


def request(method="INVITE", branch="z9hG4bK1", size=1400):
    head = (
        f"{method} sip:a@192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9;rport;branch={branch}\r\n"
        "Via: SIP/2.0/UDP 192.0.2.8;branch=z9hG4bK0\r\n\r\n"
    ).encode()
    return head + b"x" * (size - len(head))


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def large(clock):
    return LargeRequests(clock, 1300)


def test_a_long_request_goes_by_tcp_and_a_short_one_does_not(large):
    assert large.move(UDP, request(size=1301)) == (TCP, False)
    assert large.move(UDP, request(branch="z9hG4bK2", size=1300)) is None


def test_what_belongs_to_it_follows_it(large):
    large.move(UDP, request())
    assert large.move(UDP, request()) == (TCP, True)
    assert large.move(UDP, request("CANCEL", size=300)) == (TCP, False)
    assert large.move(UDP, request("ACK", size=300)) == (TCP, False)
    assert large.move(UDP, request("BYE", branch="z9hG4bK2", size=300)) is None


def test_responses_and_other_transports_stay_as_they_are(large):
    assert (
        large.move(UDP, b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\n\r\n" + b"x" * 2000) is None
    )
    assert large.move(TCP, request()) is None


def test_who_takes_no_tcp_is_not_asked_again_for_ten_minutes(large, clock):
    large.move(UDP, request())
    large.refuse(UDP, request())
    assert large.move(UDP, request()) is None  # its repetition goes by UDP
    assert large.move(UDP, request(branch="z9hG4bK2")) is None
    clock.now = 601.0
    assert large.move(UDP, request(branch="z9hG4bK3")) == (TCP, False)


def test_it_may_be_switched_off(clock):
    assert LargeRequests(clock, None).move(UDP, request(size=9000)) is None


def test_memory_is_bounded(large, monkeypatch):
    monkeypatch.setattr(sip_large, "_REMEMBERED", 3)
    for number in range(10):
        large.move(UDP, request(branch=f"z9hG4bK{number}"))
        large.refuse(Flow("udp", ("192.0.2.1", number), UDP.local), b"")
    assert len(large._moved) == 3
    assert len(large._refused) == 3


def test_the_topmost_via_names_the_transport():
    moved = over(request(), "tcp")
    assert moved.count(b"SIP/2.0/TCP 192.0.2.9") == 1
    assert moved.count(b"SIP/2.0/UDP 192.0.2.8") == 1
    response = b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\n\r\n"
    assert over(response, "tcp") == response
