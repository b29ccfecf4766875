import pytest

from gateway.legs.trunks import Listener, Match, TrunkEntry, TrunkTable
from gateway.sip.flow import Flow

TOKEN = "t0k3n-that-nobody-knows"


def flow(host, port=5060, *, local=("192.0.2.1", 5060), transport="udp", bound="", names=()):
    return Flow(transport, (host, port), local, bound=bound, names=frozenset(names))


@pytest.fixture
def trunks():
    return TrunkTable(
        {
            "carrier": TrunkEntry(("54.172.60.0/30", "2001:db8::/32")),
            "pbx": TrunkEntry(("192.0.2.10",)),
            "lab": TrunkEntry(("192.0.2.0/24",)),
        }
    )


@pytest.mark.parametrize(
    ("host", "trunk"),
    [
        ("54.172.60.3", "carrier"),
        ("54.172.60.4", None),
        ("192.0.2.10", "pbx"),
        ("192.0.2.11", "lab"),
        ("2001:db8::5", "carrier"),
        ("::ffff:192.0.2.10", "pbx"),
        ("fe80::1%eth0", None),
        ("not an address", None),
        ("", None),
    ],
)
def test_an_address_belongs_to_its_most_specific_trunk_or_to_none(trunks, host, trunk):
    for _ in range(2):
        assert trunks.find(flow(host)) == (Match(trunk) if trunk else None)
        assert trunks.knows(host) is (trunk is not None)


def test_without_trunks_nobody_gets_service():
    assert TrunkTable().find(flow("127.0.0.1")) is None
    assert not TrunkTable().knows("127.0.0.1")


def test_a_flood_of_addresses_does_not_grow_the_cache_without_end(trunks):
    for index in range(10_000):
        trunks.knows(f"10.{index % 250}.{index // 250}.1")

    assert trunks.find(flow("192.0.2.10")) == Match("pbx")
    assert len(trunks._cache) <= 4096


def test_a_peer_that_is_known_by_name_may_talk_once_its_addresses_are_looked_up():
    trunks = TrunkTable({"office": TrunkEntry(registers=True, user="200")})
    assert not trunks.knows("203.0.113.7")

    trunks.set_peer("office", ["203.0.113.7", "2001:db8::7"])
    assert trunks.find(flow("203.0.113.7")) == Match("office")
    assert trunks.knows("2001:db8::7")

    trunks.set_peer("office", ["203.0.113.8"])
    assert not trunks.knows("203.0.113.7")
    assert trunks.knows("203.0.113.8")


def test_two_registrations_at_one_registrar_are_told_apart_by_the_contact_that_is_called():
    trunks = TrunkTable(
        {"a": TrunkEntry(registers=True, user="200"), "b": TrunkEntry(registers=True, user="201")}
    )
    for name in "ab":
        trunks.set_peer(name, ["203.0.113.7"])
        trunks.set_contact(name, f"{TOKEN}-{name}")

    assert trunks.find(flow("203.0.113.7"), f"{TOKEN}-a") == Match("a", "200")
    assert trunks.find(flow("203.0.113.7"), f"{TOKEN}-b") == Match("b", "201")
    assert trunks.find(flow("203.0.113.7"), "200") is None


def test_a_contact_is_worth_nothing_from_an_address_that_is_not_its_trunks(trunks):
    trunks.use({"office": TrunkEntry(registers=True, user="200"), "lab": TrunkEntry(("192.0.2.0/24",))})
    trunks.set_peer("office", ["203.0.113.7"])
    trunks.set_contact("office", TOKEN)

    assert trunks.find(flow("192.0.2.11"), TOKEN) is None
    assert trunks.find(flow("203.0.113.7"), TOKEN) == Match("office", "200")


def test_a_call_past_the_registered_contact_belongs_to_the_trunk_that_does_not_register():
    trunks = TrunkTable({"a": TrunkEntry(("203.0.113.7",)), "b": TrunkEntry(registers=True, user="201")})
    trunks.set_peer("b", ["203.0.113.7"])
    trunks.set_contact("b", TOKEN)

    assert trunks.find(flow("203.0.113.7"), "+12025550100") == Match("a")
    assert trunks.find(flow("203.0.113.7"), TOKEN) == Match("b", "201")


def test_trunks_of_one_address_are_told_apart_by_the_listener():
    trunks = TrunkTable(
        {
            "a": TrunkEntry(("10.0.0.5",), Listener("udp", "0.0.0.0", 5060)),
            "b": TrunkEntry(("10.0.0.5",), Listener("udp", "192.0.2.1", 5062)),
        }
    )

    public = ("203.0.113.9", 5060)  # what peers are told says nothing of where we listen
    assert trunks.find(flow("10.0.0.5", local=public, bound="0.0.0.0")) == Match("a")
    public = ("203.0.113.9", 5062)
    assert trunks.find(flow("10.0.0.5", local=public, bound="192.0.2.1")) == Match("b")
    assert trunks.find(flow("10.0.0.5", local=public, bound="192.0.2.2")) is None
    assert trunks.find(flow("10.0.0.5", local=public, bound="192.0.2.1", transport="tcp")) is None


def test_trunks_of_one_address_are_told_apart_by_the_certificate():
    trunks = TrunkTable(
        {
            "a": TrunkEntry(("10.0.0.5",), certificate="a.example"),
            "b": TrunkEntry(("10.0.0.5",), certificate="b.example"),
        }
    )
    assert trunks.find(flow("10.0.0.5", transport="tls", names=["a.example", "x"])) == Match("a")
    assert trunks.find(flow("10.0.0.5", transport="tls", names=["b.example"])) == Match("b")
    assert trunks.find(flow("10.0.0.5", transport="tls")) is None
    assert trunks.find(flow("10.0.0.5")) is None


def test_a_new_configuration_keeps_the_addresses_and_contacts_of_trunks_that_stay():
    trunks = TrunkTable({"a": TrunkEntry(registers=True, user="200"), "b": TrunkEntry(registers=True)})
    for name, host in (("a", "203.0.113.7"), ("b", "203.0.113.8")):
        trunks.set_peer(name, [host])
        trunks.set_contact(name, f"{TOKEN}-{name}")

    trunks.use({"a": TrunkEntry(registers=True, user="200")})

    assert trunks.find(flow("203.0.113.7"), f"{TOKEN}-a") == Match("a", "200")
    assert trunks.find(flow("203.0.113.8"), f"{TOKEN}-b") is None


def test_a_new_contact_takes_the_place_of_the_old_one():
    trunks = TrunkTable({"a": TrunkEntry(("203.0.113.7",), registers=True, user="200")})
    trunks.set_contact("a", "old")
    trunks.set_contact("a", "new")

    assert trunks.find(flow("203.0.113.7"), "new") == Match("a", "200")
    assert trunks.find(flow("203.0.113.7"), "old") == Match("a")


def test_a_listener_is_known_by_its_own_address_also_where_peers_are_told_another():
    flow = Flow("udp", ("10.0.0.5", 5060), ("203.0.113.9", 5060), 1, bound="192.0.2.1")

    assert Listener("udp", "192.0.2.1", 5060).heard(flow)
    assert not Listener("udp", "192.0.2.2", 5060).heard(flow)
