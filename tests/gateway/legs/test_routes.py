import pytest

from config.trunks import TrunkSettings
from gateway.legs.outbound import Identity, Unroutable
from gateway.legs.routes import TrunkRoutes
from gateway.sip.flow import Flow
from gateway.sip.target import Credentials

FLOWS = (Flow("udp", ("203.0.113.7", 5060), ("192.0.2.1", 5060)),)
OURS = Identity("+12025550100", "+12025550123")


class Names:
    """Finds everything at one place, and remembers what it was asked for."""

    def __init__(self, found=FLOWS):
        self.found = found
        self.asked = []
        self.listeners = []

    async def __call__(self, uri, listener=None):
        self.asked.append(uri)
        self.listeners.append(listener)
        return self.found


def routes(names=None, **trunks):
    made = {name: TrunkSettings(**settings) for name, settings in trunks.items()}
    return TrunkRoutes(made, lambda trunk: f"contact-{trunk}", names or Names())


async def target(destination="+12025551234", identity=OURS, names=None, **trunk):
    return await routes(names, carrier=trunk).find("carrier").target(destination, identity)


async def test_a_number_is_called_at_the_trunks_address_as_our_own_number():
    names = Names()
    made = await target(names=names, address="sip:sip.carrier.example:5070;transport=tcp")
    assert made.uri == "sip:+12025551234@sip.carrier.example:5070"
    assert made.from_ == "<sip:+12025550100@192.0.2.1>"
    assert (made.flows, made.user, made.credentials, made.headers) == (FLOWS, "contact-carrier", None, ())
    assert names.asked == ["sip:sip.carrier.example:5070;transport=tcp"]


async def test_a_registered_trunk_calls_as_its_user_with_its_credentials():
    made = await target(register="sip:200@pbx.example.com", password="s3cret", address="sip:10.0.0.10")
    assert made.uri == "sip:+12025551234@pbx.example.com"
    assert made.from_ == "<sip:200@pbx.example.com>"
    assert made.credentials == Credentials("200", "s3cret")


async def test_from_is_as_the_operator_wants_it():
    made = await target(address="sip:10.0.0.10", from_user="trunk42", from_host="gw.example.com")
    assert made.from_ == "<sip:trunk42@gw.example.com>"
    withheld = await target(identity=Identity(""), address="sip:10.0.0.10")
    assert withheld.from_ == "<sip:anonymous@192.0.2.1>"


async def test_numbers_are_written_as_the_peer_wants_them():
    pbx = {"address": "sip:10.0.0.10", "number_format": "national", "country": "US", "dial_prefix": "9"}
    assert (await target(**pbx)).uri == "sip:92025551234@10.0.0.10"
    assert (await target("+493023125017", **pbx)).uri == "sip:9011493023125017@10.0.0.10"
    assert (await target("sip:ann@other.example", **pbx)).uri == "sip:ann@other.example"
    assert (await target(address="sip:10.0.0.10", number_format="digits")).uri == "sip:12025551234@10.0.0.10"


async def test_only_a_trusted_trunk_is_told_who_really_calls():
    made = await target(address="sip:10.0.0.10", trusted=True)
    assert made.headers == (
        ("P-Asserted-Identity", "<sip:+12025550123@192.0.2.1>"),
        ("Diversion", "<sip:+12025550100@192.0.2.1>;reason=deflection;counter=1"),
    )
    assert (await target(identity=Identity("+1"), address="sip:10.0.0.10", trusted=True)).headers == ()
    odd = await target(identity=Identity("+1", "a b"), address="sip:10.0.0.10", trusted=True)
    assert odd.headers == ()


async def test_a_sip_uri_is_called_as_it_is_by_way_of_the_trunk():
    names = Names()
    made = await target("sip:ann@other.example", names=names, address="sip:10.0.0.10")
    assert made.uri == "sip:ann@other.example"
    assert names.asked == ["sip:10.0.0.10"]


async def test_a_trunk_with_a_listener_of_its_own_calls_from_there():
    names = Names()
    await target(names=names, address="sip:10.0.0.10", listen="udp:0.0.0.0:5062")
    await target(names=names, address="sip:10.0.0.10")
    assert names.listeners == [("udp", "0.0.0.0", 5062), None]


@pytest.mark.parametrize("destination", ["a b", "<sip:x@y>", "x\r\nVia: y", "sip:"])
async def test_what_makes_no_address_is_not_called(destination):
    with pytest.raises(Unroutable):
        await target(destination, address="sip:10.0.0.10")


async def test_a_trunk_whose_name_leads_nowhere_cannot_be_called():
    with pytest.raises(Unroutable, match=r"sip:nobody\.example of the trunk carrier has no address"):
        await target(names=Names(()), address="sip:nobody.example")


def test_only_a_trunk_with_a_peer_takes_calls_of_ours():
    made = routes(inbound={"allow": ["192.0.2.9"]}, carrier={"address": "sip:10.0.0.10"})
    assert made.find("inbound") is None
    assert made.find("unknown") is None
    assert made.only().trunk == "carrier"
    assert routes(a={"address": "sip:10.0.0.1"}, b={"address": "sip:10.0.0.2"}).only() is None
    assert routes().only() is None
