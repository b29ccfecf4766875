"""One trunk's peer and all of them, on a clock that the tests turn and a line that records what is asked."""

import asyncio
import itertools

import pytest
import structlog

from config.trunks import TrunkSettings
from gateway.legs.outbound import Identity
from gateway.legs.peer import (
    LOOK_UP_AGAIN_S,
    PeerContext,
    TrunkPeer,
    credentials_of,
    figures_of,
    status_without_peer,
)
from gateway.legs.registrar import Registrar
from gateway.legs.routes import TrunkRoutes
from gateway.legs.trunks import Match, TrunkEntry, TrunkTable
from gateway.sip.errors import LocalProtocolError
from gateway.sip.events import RequestAnswered
from gateway.sip.flow import Flow
from gateway.sip.message import Headers
from gateway.sip.target import Credentials

FLOWS = (Flow("udp", ("203.0.113.7", 5060), ("192.0.2.1", 5060)),)
OFFICE = {"register": "sip:200@pbx.example.com", "password": "s3cret"}


class Line:
    """Satisfies ``gateway.legs.peer.Line``; the test answers what was asked."""

    def __init__(self):
        self.asked = asyncio.Queue()
        self.flows_of = {}
        self.refuses = None

    async def flows(self, uri, listener=None):
        return self.flows_of.get(uri, FLOWS)

    def ask(self, method, target, *, headers=(), series, answered):
        if self.refuses:
            raise LocalProtocolError(self.refuses)
        self.asked.put_nowait(Asked(method, target, dict(headers), series, answered))


class Asked:
    def __init__(self, method, target, headers, series, answered):
        self.method, self.target, self.headers, self.series = method, target, headers, series
        self._answered = answered

    def answer(self, status, reason="", *headers):
        self._answered(RequestAnswered("1", status, reason, Headers(headers)))

    def grant(self, expires):
        self.answer(200, "OK", ("Contact", f"<sip:{self.target.user}@192.0.2.1>;expires={expires}"))


class House:
    """Peers on the loop's own clock, moved on by the tests."""

    def __init__(self):
        self.line = Line()
        self.table = TrunkTable()
        self.offset = 0.0
        tokens = itertools.count()
        self.context = PeerContext(
            line=self.line,
            clock=lambda: asyncio.get_running_loop().time() + self.offset,
            wall_clock=lambda: 1_800_000_000.0,
            token=lambda: f"token{next(tokens)}",
            spread=lambda: 0.0,
            on_addresses=self.table.set_peer,
        )

    def peer(self, **settings):
        self.table.use({"office": TrunkEntry(registers="register" in settings, user="200")})
        return TrunkPeer("office", TrunkSettings(**settings), self.context)

    async def asked(self):
        async with asyncio.timeout(5):
            return await self.line.asked.get()


@pytest.fixture
def house():
    return House()


class Tasks:
    """Owns the tasks of a test; what a failed test has left running does not hold up the others."""

    def __init__(self, group):
        self._group = group
        self.made = []

    def create_task(self, work):
        self.made.append(self._group.create_task(work))
        return self.made[-1]


@pytest.fixture
async def group():
    async with asyncio.TaskGroup() as group:
        tasks = Tasks(group)
        yield tasks
        for task in tasks.made:
            task.cancel()


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_peer_is_registered_at_and_its_addresses_may_call(house, group):
    peer = house.peer(**OFFICE)
    with structlog.testing.capture_logs() as logs:
        task = group.create_task(peer.run())
        register = await house.asked()
        assert register.method == "REGISTER"
        assert register.target.uri == "sip:pbx.example.com"
        assert register.target.to == register.target.from_ == "<sip:200@pbx.example.com>"
        assert register.target.user == peer.contact
        assert register.headers == {"Expires": "600"}
        assert (register.target.credentials.username, register.target.credentials.password) == (
            "200",
            "s3cret",
        )
        assert house.table.knows("203.0.113.7")

        register.grant(300)
        await settle()
        assert peer.status.registration == "registered"
        assert peer.status.registration_since == 1_800_000_000.0
        assert figures_of(peer.status) == (1.0, None)

        peer.stop()
        (await house.asked()).answer(200)
        await task
    assert [entry["event"] for entry in logs] == ["trunk.registered", "trunk.unregistered"]
    assert "s3cret" not in str(logs) + str(peer.status)
    assert figures_of(peer.status) == (0.0, None)


@pytest.mark.parametrize(
    ("written", "route"),
    [
        ("<sip:p1.example;lr>, <sip:p2.example;lr>", ("<sip:p1.example;lr>", "<sip:p2.example;lr>")),
        ("<sip:p1.example>", ()),
        ("<tel:+1;lr>", ()),
        ("<broken", ()),
    ],
)
async def test_calls_go_by_the_proxies_that_the_registrar_names(house, group, written, route):
    registrar = Registrar(house.table, house.context)
    registrar.use({"office": TrunkSettings(**OFFICE)})
    group.create_task(registrar.run())
    (await house.asked()).answer(200, "OK", ("Service-Route", written))
    await settle()
    assert registrar.service_route("office") == route
    assert registrar.service_route("other") == ()
    routes = TrunkRoutes(
        {"office": TrunkSettings(**OFFICE)}, registrar.contact, house.line.flows, registrar.service_route
    )
    target = await routes.find("office").target("+12025551234", Identity("+12025550100"))
    assert (target.routes, target.user) == (route, registrar.contact("office"))
    registrar.stop()
    (await house.asked()).answer(200)


async def test_every_register_of_a_registration_continues_one_series(house, group):
    peer = house.peer(**OFFICE)
    group.create_task(peer.run())
    first = await house.asked()
    first.answer(423, "Interval Too Brief", ("Min-Expires", "1800"))
    second = await house.asked()
    assert second.series is first.series
    assert second.headers == {"Expires": "1800"}
    second.answer(403, "Forbidden")
    peer.stop()


async def test_a_refused_registration_is_told_with_its_reason_and_the_next_try(house, group):
    peer = house.peer(**OFFICE)
    with structlog.testing.capture_logs() as logs:
        group.create_task(peer.run())
        (await house.asked()).answer(403, "Wrong password")
        await settle()
        peer.stop()
    [failed] = [entry for entry in logs if entry["event"] == "trunk.registration_failed"]
    assert (failed["status"], failed["why"], failed["retry_s"]) == (403, "Wrong password", 600)
    assert peer.status.last_error == "REGISTER: 403 Wrong password"


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (408, "timeout", "no answer"),
        (408, "transport", "no connection"),
        (408, "Request Timeout", "408 Request Timeout"),
        (503, "timeout", "503 timeout"),
    ],
)
async def test_silence_is_not_shown_as_an_answer_of_the_peer(house, group, status, reason, words):
    peer = house.peer(**OFFICE)
    group.create_task(peer.run())
    (await house.asked()).answer(status, reason)
    await settle()
    peer.stop()
    assert peer.status.last_error == f"REGISTER: {words}"


async def test_a_peer_whose_name_has_no_address_is_looked_up_again(house, group):
    house.line.flows_of["sip:pbx.example.com"] = ()
    peer = house.peer(address="sip:pbx.example.com")
    with structlog.testing.capture_logs() as logs:
        task = group.create_task(peer.run())
        await settle()
        assert peer.status.last_error == "sip:pbx.example.com has no address"
        assert [entry["event"] for entry in logs] == ["trunk.unresolved"]
        house.line.flows_of.clear()
        house.offset += LOOK_UP_AGAIN_S
        peer._wake.set()
        await settle()
        assert house.table.find(FLOWS[0]) == Match("office")
        peer.stop()
        await task


async def test_a_name_with_other_addresses_each_time_lets_all_of_them_in_for_a_while(house, group):
    peer = house.peer(address="sip:pbx.example.com")
    for second in range(100):
        address = f"203.0.113.{second}"
        house.line.flows_of["sip:pbx.example.com"] = (Flow("udp", (address, 5060), ("192.0.2.1", 5060)),)
        house.offset += 10
        await peer._look_up()
    assert house.table.knows("203.0.113.99")
    assert house.table.knows("203.0.113.50")
    assert not house.table.knows("203.0.113.20")  # more than 64 others came since
    house.offset += 3600
    await peer._look_up()
    assert [house.table.knows(f"203.0.113.{last}") for last in (98, 99)] == [False, True]


async def test_an_options_finds_out_whether_the_peer_is_alive_and_how_fast(house, group):
    peer = house.peer(address="sip:carrier.example:5070", qualify_s=60)
    with structlog.testing.capture_logs() as logs:
        task = group.create_task(peer.run())
        options = await house.asked()
        assert (options.method, options.target.uri) == ("OPTIONS", "sip:carrier.example:5070")
        assert options.target.from_ == "<sip:trunkline@192.0.2.1>"
        house.offset += 0.05
        options.answer(404, "Not Found")
        await settle()
        assert peer.status.reach == "up"
        assert 50 <= peer.status.latency_ms < 1000
        assert figures_of(peer.status) == (None, 1.0)
        peer.stop()
        await task
    assert [entry["event"] for entry in logs] == ["trunk.up"]


async def test_a_peer_that_is_back_is_registered_at_anew(house, group):
    peer = house.peer(**OFFICE, qualify_s=1)
    group.create_task(peer.run())
    by_method = {}
    for _ in range(2):
        asked = await house.asked()
        by_method[asked.method] = asked
    by_method["REGISTER"].grant(3600)
    by_method["OPTIONS"].answer(408, "timeout")
    for _ in range(2):
        asked = await house.asked()
        assert asked.method == "OPTIONS"
        asked.answer(200, "OK")
    assert (await house.asked()).method == "REGISTER"
    peer.stop()
    # what is under way is answered first, then the contact is taken away
    await settle()
    peer._registration.answered(408, "timeout", Headers(), now=house.context.clock())
    peer._wake.set()
    while (asked := await house.asked()).headers.get("Expires") != "0":
        pass
    asked.answer(200)


async def test_a_setting_that_makes_no_header_is_a_refusal_and_no_crash(house, group):
    peer = house.peer(**OFFICE)
    house.line.refuses = "line break"
    group.create_task(peer.run())
    await settle()
    assert peer.status.last_error == "REGISTER: 400 line break"
    peer.stop()


async def test_a_registrar_that_sees_us_elsewhere_is_told_of(house, group):
    peer = house.peer(**OFFICE)
    via = "SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK1;rport=1024;received=198.51.100.4"
    with structlog.testing.capture_logs() as logs:
        group.create_task(peer.run())
        (await house.asked()).answer(403, "no", ("Via", via))
        await settle()
        peer.stop()
    [seen] = [entry for entry in logs if entry["event"] == "trunk.seen_from"]
    assert (seen["address"], seen["told"]) == ("198.51.100.4:1024", "192.0.2.1:5060")
    assert peer.status.seen_from == "198.51.100.4:1024"


async def test_a_new_configuration_leaves_alone_what_did_not_change(house, group):
    registrar = Registrar(house.table, house.context)
    trunks = {
        "a": TrunkSettings(register="sip:200@a.example"),
        "b": TrunkSettings(register="sip:201@b.example"),
        "c": TrunkSettings(allow=["192.0.2.9"]),
    }
    house.table.use({name: TrunkEntry(registers=name != "c", user=name) for name in trunks})
    registrar.use(trunks)
    running = group.create_task(registrar.run())
    for _ in range(2):
        (await house.asked()).grant(600)
    await settle()
    assert [status.registration for status in registrar.statuses] == ["registered", "registered", "none"]
    assert registrar.statuses[2] == status_without_peer("c")
    contact = registrar.contact("a")

    registrar.use({"a": trunks["a"], "b": TrunkSettings(register="sip:202@b.example"), "c": trunks["c"]})
    changed = [await house.asked() for _ in range(2)]
    assert {(each.target.to, each.headers["Expires"]) for each in changed} == {
        ("<sip:201@b.example>", "0"),
        ("<sip:202@b.example>", "600"),
    }
    for each in changed:
        each.grant(600)
    assert registrar.contact("a") == contact
    assert house.table.find(FLOWS[0], contact) == Match("a", "a")

    registrar.stop()
    for _ in range(2):
        last = await house.asked()
        assert last.headers["Expires"] == "0"
        last.answer(200)
    await running


def test_a_realm_keeps_the_password_from_others():
    settings = TrunkSettings(**{**OFFICE, "realm": "pbx.example.com"})

    assert credentials_of(settings) == Credentials("200", "s3cret", "pbx.example.com")
    assert credentials_of(TrunkSettings(**OFFICE)) == Credentials("200", "s3cret", None)
