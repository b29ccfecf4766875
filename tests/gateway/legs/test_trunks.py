import pytest

from gateway.legs.trunks import TrunkTable


@pytest.fixture
def trunks():
    return TrunkTable(
        {"carrier": ["54.172.60.0/30", "2001:db8::/32"], "pbx": ["192.0.2.10"], "lab": ["192.0.2.0/24"]}
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
    assert trunks.find(host) == trunk
    assert trunks.find(host) == trunk


def test_without_trunks_nobody_gets_service():
    assert TrunkTable({}).find("127.0.0.1") is None


def test_a_flood_of_addresses_does_not_grow_the_cache_without_end(trunks):
    for index in range(10_000):
        trunks.find(f"10.{index % 250}.{index // 250}.1")

    assert trunks.find("192.0.2.10") == "pbx"
    assert len(trunks._cache) <= 4096
