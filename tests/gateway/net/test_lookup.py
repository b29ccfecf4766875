"""The look-ups against a name server of the tests, on loopback."""

import asyncio

import pytest
import structlog

from gateway.net import lookup
from gateway.net.lookup import Dns, Naptr, Srv
from tests.kit.name_server import NameServer

ZONE = (
    "sip.test A 192.0.2.1",
    "sip.test A 192.0.2.2",
    "sip.test AAAA 2001:db8::1",
    'domain.test NAPTR 10 50 "s" "SIP+D2U" "" _sip._udp.domain.test.',
    "_sip._udp.domain.test SRV 10 60 5070 sip.test.",
    "_sip._tcp.domain.test SRV 0 0 0 .",
)


class Clock:
    """Time that tests move."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def server():
    with NameServer(*ZONE) as server:
        yield server


@pytest.fixture
def names(server, clock):
    return Dns([server.address], clock)


async def test_each_kind_of_record_is_read(names):
    assert sorted(await names.addresses("sip.test", ipv6=False)) == ["192.0.2.1", "192.0.2.2"]
    assert await names.addresses("SIP.test", ipv6=True) == ["2001:db8::1"]
    assert await names.srv("_sip._udp.domain.test") == [Srv(10, 60, "sip.test", 5070)]
    assert await names.srv("_sip._tcp.domain.test") == [Srv(0, 0, "", 0)]
    assert await names.naptr("domain.test") == [Naptr(10, 50, "SIP+D2U", "s", "_sip._udp.domain.test")]


async def test_an_answer_is_kept_for_its_time(names, server, clock):
    assert names.cached("sip.test", ipv6=False) == []
    await names.addresses("sip.test", ipv6=False)
    clock.now += 59
    assert await names.addresses("sip.test", ipv6=False)
    assert names.cached("sip.test", ipv6=False)
    assert server.asked["sip.test A"] == 1
    clock.now += 2
    assert names.cached("sip.test", ipv6=False) == []
    await names.addresses("sip.test", ipv6=False)
    assert server.asked["sip.test A"] == 2


@pytest.mark.parametrize(("ttl", "kept"), [(0, 5), (100_000, 3600)])
async def test_no_time_to_live_is_too_short_or_too_long(clock, ttl, kept):
    with NameServer(*ZONE, ttl=ttl) as server:
        names = Dns([server.address], clock)
        for after, asked in ((0, 1), (kept - 1, 1), (2, 2)):
            clock.now += after
            await names.addresses("sip.test", ipv6=False)
            assert server.asked["sip.test A"] == asked


@pytest.mark.parametrize("name", ["nobody.test", "domain.test"])
async def test_that_there_is_nothing_is_kept_as_long_as_the_zone_says(names, server, clock, name):
    for after, asked in ((0, 1), (6, 1), (2, 2)):
        clock.now += after
        assert await names.addresses(name, ipv6=False) == []
        assert server.asked[f"{name} A"] == asked


async def test_when_no_server_answers_what_was_known_stays_good(names, server, clock):
    await names.addresses("sip.test", ipv6=True)
    server.broken = True
    clock.now += 61
    with structlog.testing.capture_logs() as logs:
        assert await names.addresses("sip.test", ipv6=True) == ["2001:db8::1"]
        assert await names.srv("_sip._udp.domain.test") == []
    assert [(entry["event"], entry["name"], entry["stale"]) for entry in logs] == [
        ("dns.failed", "sip.test", True),
        ("dns.failed", "_sip._udp.domain.test", False),
    ]
    asked = server.asked["sip.test AAAA"]
    clock.now += 29
    assert await names.addresses("sip.test", ipv6=True) == ["2001:db8::1"]
    assert server.asked["sip.test AAAA"] == asked  # nobody waits for the silent server again and again
    clock.now -= 29
    asked = server.asked["_sip._udp.domain.test SRV"]
    await names.srv("_sip._udp.domain.test")  # it is not asked again at once
    assert server.asked["_sip._udp.domain.test SRV"] == asked
    server.broken = False
    clock.now += 3
    assert await names.srv("_sip._udp.domain.test")


async def test_a_failure_is_told_once_in_a_while_and_its_end_once(names, server, clock):
    server.broken = True
    with structlog.testing.capture_logs() as logs:
        for _ in range(30):
            assert await names.addresses("sip.test", ipv6=False) == []
            clock.now += 30
        server.broken = False
        for _ in range(2):
            assert await names.addresses("sip.test", ipv6=False)
            clock.now += 61
    assert [(entry["event"], entry["kind"]) for entry in logs] == [
        ("dns.failed", "A"),
        ("dns.failed", "A"),
        ("dns.recovered", "A"),
    ]


async def test_what_was_known_is_good_for_an_hour_and_no_longer(names, server, clock):
    await names.addresses("sip.test", ipv6=True)
    server.broken = True
    for after, found in ((3000, ["2001:db8::1"]), (600, ["2001:db8::1"]), (61, [])):
        clock.now += after
        assert await names.addresses("sip.test", ipv6=True) == found


async def test_many_who_want_one_name_at_once_ask_once(names, server):
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(names.addresses("sip.test", ipv6=False)) for _ in range(50)]
    assert all(len(task.result()) == 2 for task in asking)
    assert server.asked["sip.test A"] == 1


async def test_who_gives_up_leaves_the_question_to_the_next(names, server):
    server.silent = True
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await names.addresses("sip.test", ipv6=False)
    server.silent = False
    assert len(await names.addresses("sip.test", ipv6=False)) == 2


async def test_a_silent_server_is_given_up(server, clock, monkeypatch):
    monkeypatch.setattr(lookup, "_TIMEOUT_S", 0.2)
    server.silent = True
    async with asyncio.timeout(3):
        assert await Dns([server.address], clock).addresses("sip.test", ipv6=False) == []


async def test_the_hosts_file_goes_first(names, server, tmp_path, monkeypatch, clock):
    hosts = tmp_path / "hosts"
    hosts.write_text("# mine\n10.0.0.7 PBX pbx.test # ours\nfe80::7 pbx\nrubbish here\n127.0.1.1 localhost\n")
    monkeypatch.setattr(lookup, "_HOSTS", hosts)
    assert await names.addresses("pbx.test", ipv6=False) == ["10.0.0.7"]
    assert names.cached("pbx", ipv6=True) == ["fe80::7"]
    assert await names.addresses("localhost", ipv6=False) == ["127.0.0.1"]
    assert await names.addresses("localhost", ipv6=True) == ["::1"]
    assert not server.asked
    hosts.unlink()
    clock.now += 11
    assert names.cached("pbx", ipv6=True) == []


async def test_memory_is_bounded(names, monkeypatch):
    monkeypatch.setattr(lookup, "_ENTRIES", 3)
    for number in range(6):
        await names.addresses(f"n{number}.test", ipv6=False)
    assert len(names._entries) == 3


async def test_without_servers_those_of_the_system_are_asked(clock, monkeypatch):
    made = []
    monkeypatch.setattr(
        lookup.dns.asyncresolver, "Resolver", lambda: made.append(1) or (_ for _ in ()).throw(OSError)
    )
    assert await Dns([], clock).addresses("sip.test", ipv6=False) == []
    assert made == [1]
