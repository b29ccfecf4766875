import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.net.lookup import Naptr, Srv
from gateway.net.resolver import MAX_PLACES, Place, Resolver, order
from gateway.sip.uri import SipUri


class Zone:
    """Names of a test; satisfies ``Names``."""

    def __init__(self, **records):
        self.records = records
        self.asked: list[str] = []

    def _find(self, name, kind):
        self.asked.append(f"{kind} {name}")
        return list(self.records.get(f"{kind} {name}", []))

    async def naptr(self, name):
        return self._find(name, "NAPTR")

    async def srv(self, name):
        return self._find(name, "SRV")

    async def addresses(self, name, *, ipv6):
        return self._find(name, "AAAA" if ipv6 else "A")

    def cached(self, name, *, ipv6):
        return []


def heaviest_last(top):
    return 0


ZONE = {
    "A sip.test": ["192.0.2.1"],
    "A a.test": ["192.0.2.10", "192.0.2.11"],
    "AAAA a.test": ["2001:db8::10"],
    "A b.test": ["192.0.2.20"],
    "SRV _sip._udp.plain.test": [Srv(20, 0, "b.test", 5080), Srv(10, 0, "a.test", 5070)],
    "SRV _sip._tcp.plain.test": [Srv(0, 0, "b.test", 5090)],
    "SRV _sips._tcp.plain.test": [Srv(0, 0, "b.test", 5091)],
    "NAPTR chosen.test": [
        Naptr(20, 0, "SIP+D2U", "s", "_sip._udp.plain.test"),
        Naptr(10, 5, "SIPS+D2T", "s", "_sips._tcp.plain.test"),
        Naptr(10, 9, "SIP+D2S", "s", "_sip._sctp.plain.test"),
        Naptr(10, 1, "SIP+D2T", "s", "_sip._tcp.plain.test"),
    ],
    "SRV _sip._udp.gone.test": [Srv(0, 0, "", 0), Srv(1, 0, "a.test", 0)],
    "A gone.test": ["192.0.2.30"],
}


async def places(uri, *, transports=("udp", "tcp", "tls"), **kwargs):
    resolver = Resolver(Zone(**ZONE), transports, heaviest_last)
    found = await resolver.resolve(SipUri.parse(uri), **kwargs)
    return [f"{each.transport} {each.host}:{each.port} {each.domain}".strip() for each in found]


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("sip:192.0.2.5", ["udp 192.0.2.5:5060"]),
        ("sip:192.0.2.5:5070;transport=tcp", ["tcp 192.0.2.5:5070"]),
        ("sips:192.0.2.5", ["tls 192.0.2.5:5061"]),
        ("sip:[2001:db8::5];transport=TLS", ["tls 2001:db8::5:5061"]),
        ("sip:a@sip.test:5099", ["udp 192.0.2.1:5099 sip.test"]),
        ("sip:a@sip.test", ["udp 192.0.2.1:5060 sip.test"]),
        ("sip:a@sip.test;transport=tls", ["tls 192.0.2.1:5061 sip.test"]),
        ("sip:a@elsewhere.test;maddr=sip.test", ["udp 192.0.2.1:5060 sip.test"]),
        (
            "sip:plain.test;transport=udp",
            [
                "udp 192.0.2.10:5070 plain.test",
                "udp 192.0.2.11:5070 plain.test",
                "udp 2001:db8::10:5070 plain.test",
                "udp 192.0.2.20:5080 plain.test",
            ],
        ),
        ("sip:plain.test;transport=tcp", ["tcp 192.0.2.20:5090 plain.test"]),
        ("sips:plain.test", ["tls 192.0.2.20:5091 plain.test"]),
        (
            "sip:chosen.test",
            [
                "tcp 192.0.2.20:5090 chosen.test",
                "tls 192.0.2.20:5091 chosen.test",
                "udp 192.0.2.10:5070 chosen.test",
                "udp 192.0.2.11:5070 chosen.test",
                "udp 2001:db8::10:5070 chosen.test",
                "udp 192.0.2.20:5080 chosen.test",
            ],
        ),
        ("sip:nobody.test", []),
        ("sip:sip.test;transport=sctp", []),
        ("sip:sip.test;transport=ws", []),
    ],
)
async def test_where_a_uri_leads_to(uri, expected):
    assert await places(uri) == expected


async def test_without_naptr_each_transport_is_looked_for():
    assert [each.split()[0] for each in await places("sip:plain.test")] == ["udp"] * 4 + ["tcp", "tls"]
    assert [each.split()[0] for each in await places("sip:plain.test", transports=("tls",))] == ["tls"]


async def test_only_families_that_are_of_use():
    assert await places("sip:plain.test;transport=udp", ipv4=False) == ["udp 2001:db8::10:5070 plain.test"]
    assert await places("sip:192.0.2.5", ipv4=False) == []
    assert len(await places("sip:plain.test;transport=udp", ipv6=False)) == 3


async def test_a_settled_transport_with_and_without_a_port():
    resolver = Resolver(Zone(**ZONE), ("udp", "tcp"), heaviest_last)
    assert await resolver.look_up("tcp", "plain.test", 0) == [Place("tcp", "192.0.2.20", 5090, "plain.test")]
    assert await resolver.look_up("tcp", "b.test", 5062) == [Place("tcp", "192.0.2.20", 5062, "b.test")]
    assert await resolver.look_up("tls", "b.test", 5062) == []
    assert await resolver.addresses("a.test") == ["192.0.2.10", "192.0.2.11", "2001:db8::10"]
    assert await resolver.addresses("192.0.2.9") == ["192.0.2.9"]


async def test_a_name_of_very_many_addresses_is_cut():
    many = Zone(**{"A big.test": [f"192.0.2.{n}" for n in range(99)]})
    assert (
        len(await Resolver(many, ("udp",), heaviest_last).resolve(SipUri.parse("sip:big.test"))) == MAX_PLACES
    )


async def test_names_that_take_for_ever_are_given_up(monkeypatch):
    monkeypatch.setattr("gateway.net.resolver._LOOK_UP_S", 0.05)

    class Slow(Zone):
        async def naptr(self, name):
            await asyncio.sleep(60)
            return []

    assert await Resolver(Slow(), ("udp",), heaviest_last).resolve(SipUri.parse("sip:slow.test")) == []


def test_within_a_priority_chance_decides_by_weight():
    import random

    chance = random.Random(7)
    records = [Srv(1, 90, "heavy", 1), Srv(1, 10, "light", 1), Srv(1, 0, "none", 1), Srv(0, 0, "first", 1)]
    second = Counter(order(records, lambda top: chance.randint(0, top))[1].target for _ in range(2000))
    assert second["heavy"] > 1600
    assert second["light"] > 120
    assert second["none"] < 60


@given(
    st.lists(st.builds(Srv, st.integers(0, 3), st.integers(0, 5), st.sampled_from("abc"), st.just(1))),
    st.randoms(use_true_random=False),
)
def test_no_record_is_lost_and_priorities_hold(records, chance):
    ordered = order(records, lambda top: chance.randint(0, top))
    assert Counter(ordered) == Counter(records)
    assert [each.priority for each in ordered] == sorted(each.priority for each in records)
