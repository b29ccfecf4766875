import pytest

from config.trunks import TrunkSettings
from gateway.legs.base import CallInfo, CannotDial
from gateway.legs.dialler import TrunkDialler
from gateway.legs.routes import TrunkRoutes
from gateway.net.pacer import Pacer
from gateway.net.ports import PortPool
from providers.types import PCMU

CALLER = CallInfo("call-1", "+12025550123", "+12025550100", "carrier")


async def nowhere(uri, listener=None):
    return ()


def dialler(*, full=(), **trunks):
    made = {name: TrunkSettings(**settings) for name, settings in trunks.items()}
    return TrunkDialler(
        line=None,  # nothing is sent in these tests
        routes=TrunkRoutes(made, lambda trunk: "", nowhere),
        pool=PortPool(20000, 20010),
        pacer=Pacer(on_error=lambda error: None),
        clock=lambda: 0.0,
        on_media=lambda figures: None,
        is_full=full.__contains__,
    )


async def refused(made, trunk=None):
    with pytest.raises(CannotDial) as caught:
        await made.dial("+12025551234", caller=CALLER, number="+12025550100", line=PCMU, trunk=trunk)
    return caught.value.reason, str(caught.value)


async def test_a_trunk_that_carries_its_max_calls_takes_no_call_of_ours():
    made = dialler(full=["carrier"], carrier={"address": "sip:10.0.0.10"})
    assert await refused(made) == ("overloaded", "the trunk carrier carries its max_calls")


async def test_what_no_trunk_carries_is_not_dialled():
    made = dialler(inbound={"allow": ["192.0.2.9"]})
    assert not made.has_route("inbound", None)
    assert (await refused(made))[0] == "no_route"
    assert (await refused(dialler(a={"address": "sip:10.0.0.10"}), "b"))[0] == "no_route"


async def test_a_trunk_without_an_address_that_is_found_cannot_be_dialled():
    made = dialler(other={"address": "sip:nobody.example"})
    assert made.has_route("carrier", None)
    assert await refused(made) == ("no_route", "sip:nobody.example of the trunk other has no address")
