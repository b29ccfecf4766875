import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from gateway.net import sip_gate
from gateway.net.sip_gate import Buckets, Gate, GateLimits

OPTIONS = b"OPTIONS sip:a@h SIP/2.0\r\nUser-Agent: %s\r\n\r\n"


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def gate(clock, *, allow=True, rate=10.0):
    return Gate(lambda host: allow, clock, GateLimits(messages_per_s=rate, connections_per_s=2.0))


def test_a_source_has_its_rate_and_a_burst_of_two_seconds(clock):
    found = gate(clock)
    assert [found.admit_datagram("a", b"x") for _ in range(21)] == [True] * 20 + [False]
    assert found.admit_datagram("b", b"x")  # another is not touched by it
    clock.now += 0.5
    assert [found.admit_datagram("a", b"x") for _ in range(6)] == [True] * 5 + [False]
    assert found.dropped == {"flooded": 2} | dict.fromkeys(set(sip_gate.REASONS) - {"flooded"}, 0)


def test_a_connection_is_slowed_down_and_loses_nothing(clock):
    found = gate(clock)
    assert [found.pause_for("a") for _ in range(20)] == [0.0] * 20
    assert found.pause_for("a") == pytest.approx(0.1)
    clock.now += 0.1
    assert found.pause_for("a") == pytest.approx(0.1)
    clock.now += 1.0
    assert found.pause_for("a") == 0.0


def test_connections_have_a_rate_of_their_own(clock):
    found = gate(clock)
    assert [found.admit_connection("a") for _ in range(5)] == [True] * 4 + [False]


def test_strangers_are_counted_and_told_of_once_a_minute(clock):
    found = gate(clock, allow=False)
    with structlog.testing.capture_logs() as logs:
        for number in range(300):
            assert not found.admit_datagram(f"192.0.2.{number % 100}", b"x")
        assert not found.admit_connection("198.51.100.9")
        assert [(each["event"], each["source"]) for each in logs] == [("sip.denied", "192.0.2.0")]
        clock.now += 61
        found.admit_datagram("203.0.113.1", b"x")
    assert found.dropped["denied"] == 302
    assert len(logs) == 2
    assert logs[1]["total"] == 302
    assert "198.51.100.9" in logs[1]["others"]
    assert len(logs[1]["others"]) < 10


@pytest.mark.parametrize(
    "agent",
    [b"friendly-scanner", b"SIPVicious 0.3", b"sipcli/v1.8", b"sundayddr", b"VaxSIP friendly-request"],
)
def test_scanners_are_known_by_name(clock, agent):
    found = gate(clock)
    assert not found.admit_datagram("a", OPTIONS % agent)
    assert found.is_scan("a", OPTIONS % agent)
    assert found.dropped["scanned"] == 2


@pytest.mark.parametrize(
    "agent", [b"baresip v1.0", b"Asterisk PBX 20", b"FPBX-16", b"sipsak 0.9", b"my siparmy"]
)
def test_telephones_are_not(clock, agent):
    assert gate(clock).admit_datagram("a", OPTIONS % agent)
    assert gate(clock).admit_datagram("a", OPTIONS % b"x" + b"friendly-scanner in the body")


def test_a_failed_handshake_is_told_once_for_each_source_and_reason(clock):
    found = gate(clock)
    with structlog.testing.capture_logs() as logs:
        for host in ("a", "a", "b", "a"):
            found.refuse_tls(host, "alert unknown ca")
        found.refuse_tls("a", "http request")
        found.refuse_websocket("a", "no subprotocol")
    assert [(each["event"], each["source"], each["why"]) for each in logs] == [
        ("sip.tls_failed", "a", "alert unknown ca"),
        ("sip.tls_failed", "b", "alert unknown ca"),
        ("sip.tls_failed", "a", "http request"),
        ("sip.websocket_failed", "a", "no subprotocol"),
    ]
    assert found.dropped["tls_failed"] == 5


def test_memory_is_bounded(clock, monkeypatch):
    monkeypatch.setattr(sip_gate, "_SOURCES", 10)
    buckets = Buckets(1.0, 2.0)
    for number in range(100):
        buckets.take(str(number), 0.0)
    assert len(buckets) == 10


@given(st.lists(st.floats(0, 0.5), max_size=100))
def test_over_any_time_no_more_passes_than_rate_and_burst(pauses):
    buckets, now, passed = Buckets(4.0, 8.0), 0.0, 0
    for pause in pauses:
        now += pause
        passed += buckets.take("a", now)
    assert passed <= 8 + 4 * now + 1e-6
