"""Trunks with a peer of their own: registrars, real and scripted, and peers that come and go."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.kit import sip_text, sound
from tests.kit.baresip import Baresip
from tests.kit.gateway import Gateway
from tests.kit.hear import hear
from tests.kit.kamailio import Kamailio
from tests.kit.office import NUMBER, Office, recording
from tests.kit.phone import Phone
from tests.kit.ports import Ports
from tests.kit.registrar import Registrar

pytestmark = pytest.mark.peers

PASSWORD = "correct horse"


def open_office(
    office: Office,
    trunks: dict[str, object],
    *,
    numbers: tuple[str, ...] = (NUMBER, "200"),
    server: dict[str, object] | None = None,
) -> Gateway:
    settings = {
        "server": server or {},
        "trunks": trunks,
        "providers": {"fake": office._provider("talk", ())},
        "agents": {"reception": office._agent()},
        "numbers": {number: {"agent": "reception"} for number in numbers},
        "storage": {"recordings": str(office.folder / "recordings")},
    }
    return office.start(settings)


def registered_at(address: tuple[str, int], **more: object) -> dict[str, object]:
    return {
        "register": "sip:200@pbx.example",
        "address": f"sip:{address[0]}:{address[1]}",
        "password": PASSWORD,
        **more,
    }


def trunk(gateway: Gateway, name: str = "pbx"):
    [found] = [each for each in json.loads(gateway.get("/trunks")[1])["trunks"] if each["name"] == name]
    return found


def until_registered(gateway: Gateway, state: str = "registered", timeout: float = 10) -> None:
    gateway.until(lambda: trunk(gateway)["registration"]["state"] == state, timeout, state)


@pytest.mark.parametrize("algorithm", ["MD5", "SHA-256"])
def test_kamailio_registers_us_and_a_call_to_our_contact_is_answered(fake_office, ports, tmp_path, algorithm):
    users = {"200": PASSWORD}
    with Kamailio(ports, tmp_path / "kamailio", users=users, algorithm=algorithm) as kamailio:
        gateway = open_office(fake_office, {"pbx": registered_at(kamailio.sip)})
        until_registered(gateway)
        assert gateway.metrics()['trunkline_trunk_registered{trunk="pbx"}'] == 1

        with Phone(kamailio.sip, ports, called="200") as phone:
            phone.call()
            assert trunk(gateway)["calls"] == 1
            phone.hang_up()
        [contact] = kamailio.registered("200")
        assert "sip:200@" not in contact
        report = call_report(fake_office, gateway)
        assert (report["trunk"], report["called"]) == ("pbx", "200")

        gateway.signal(signal.SIGTERM)
        assert gateway.wait(10) == 0
        assert kamailio.log.count("registered 200 as") == 2
        assert "for 0" in kamailio.log
        with Phone(kamailio.sip, ports, called="200") as phone:
            assert phone.dial_and_be_refused().status == 404


def test_refreshes_go_on_when_the_nonce_of_the_first_has_become_stale(fake_office, ports, tmp_path):
    options = {"users": {"200": PASSWORD}, "nonce_s": 1, "max_expires": 4}
    with Kamailio(ports, tmp_path / "kamailio", **options) as kamailio:
        gateway = open_office(fake_office, {"pbx": registered_at(kamailio.sip)})
        kamailio.until(lambda: len(kamailio.registered("200")) >= 3, 15, "registered three times")
        assert len(set(kamailio.registered("200"))) == 1
        assert len(kamailio.requests("REGISTER")) >= 5  # each refresh was challenged anew
        assert "trunk.refresh_failed" not in gateway.log
        assert gateway.log.count("trunk.registered") == 1


class Again(Ports):
    """Gives the port of somebody who is gone first, then ports as usual."""

    def __init__(self, port: int, ports: Ports) -> None:
        super().__init__()
        self.given = iter([port])
        self.ports = ports

    def take(self, count: int = 1) -> int:
        return next(self.given, 0) or self.ports.take(count)


def test_a_registrar_that_was_started_anew_and_has_forgotten_us_is_told_again(fake_office, ports, tmp_path):
    timers = {"t1_ms": 20, "t2_ms": 80}  # silence is over after 1.3 s
    users = {"200": PASSWORD}
    with Kamailio(ports, tmp_path / "first", users=users) as kamailio:
        trunks = {"pbx": registered_at(kamailio.sip, qualify_s=1)}
        gateway = open_office(fake_office, trunks, server={"sip": {"timers": timers}})
        until_registered(gateway)
        gateway.until(lambda: trunk(gateway)["reach"]["state"] == "up", 5, "up")
    gateway.until(lambda: trunk(gateway)["reach"]["state"] == "down", 20, "down")
    with Kamailio(Again(kamailio.sip[1], ports), tmp_path / "second", users=users) as kamailio:
        gateway.until(lambda: trunk(gateway)["reach"]["state"] == "up", 20, "up again")
        kamailio.until(lambda: kamailio.registered("200"), 40, "registered again")
        with Phone(kamailio.sip, ports, called="200") as phone:
            phone.call()
            phone.hang_up()


def test_baresip_calls_the_user_that_we_have_registered_and_hears_the_agent(fake_office, ports, tmp_path):
    with Kamailio(ports, tmp_path / "kamailio", users={"200": PASSWORD}) as kamailio:
        gateway = open_office(fake_office, {"pbx": registered_at(kamailio.sip)})
        until_registered(gateway)
        uri = f"sip:200@127.0.0.1:{kamailio.sip[1]}"
        with Baresip(uri, ports, tmp_path / "baresip", words=sound.silence(1)) as baresip:
            baresip.wait_for("Call established", 15)
            baresip.until(lambda: hear(recording("greeting"), baresip.heard).whole, 15, "greeted")


def call_report(office: Office, gateway: Gateway):
    folder = office.folder / "recordings"
    gateway.until(lambda: list(folder.glob("*/call.json")), 5, "recorded")
    (report,) = folder.glob("*/call.json")
    return json.loads(report.read_text())


def test_a_wrong_password_is_said_and_not_tried_again_and_again(fake_office, ports, tmp_path):
    with Kamailio(ports, tmp_path / "kamailio", users={"200": "another"}) as kamailio:
        gateway = open_office(fake_office, {"pbx": registered_at(kamailio.sip)})
        until_registered(gateway, "failed")
        assert trunk(gateway)["last_error"]["what"] == "REGISTER: 401 Unauthorized"
        assert len(kamailio.requests("REGISTER")) == 2
        assert PASSWORD not in gateway.log + gateway.get("/trunks")[1]
        # Nothing of it hurts the calls of other trunks, nor the gateway's readiness.
        assert gateway.get("/readyz")[0] == 200


def test_two_registrations_at_one_registrar_are_two_trunks(fake_office, ports, tmp_path):
    users = {"200": PASSWORD, "201": PASSWORD}
    with Kamailio(ports, tmp_path / "kamailio", users=users) as kamailio:
        trunks = {
            "pbx": registered_at(kamailio.sip),
            "second": registered_at(kamailio.sip, register="sip:201@pbx.example", max_calls=1),
        }
        gateway = open_office(fake_office, trunks, numbers=("200", "201"))
        until_registered(gateway)
        gateway.until(
            lambda: trunk(gateway, "second")["registration"]["state"] == "registered", 5, "registered"
        )
        for called, name in (("200", "pbx"), ("201", "second")):
            with Phone(kamailio.sip, ports, called=called) as phone:
                phone.call()
                assert [trunk(gateway, each)["calls"] for each in ("pbx", "second")] == [
                    int(each == name) for each in ("pbx", "second")
                ]
                phone.hang_up()


def test_a_call_that_goes_past_the_contact_belongs_to_no_registered_trunk(fake_office, ports):
    with Registrar(ports) as registrar:
        trunks = {
            "pbx": registered_at(registrar.sip),
            "second": registered_at(registrar.sip, register="sip:201@pbx.example"),
        }
        gateway = open_office(fake_office, trunks)
        for _ in trunks:
            registrar.grant(registrar.next(), 600)
        gateway.until(lambda: trunk(gateway)["registration"]["state"] == "registered", 5, "registered")
        with Phone(gateway.sip, ports, called=NUMBER) as phone:
            assert phone.dial_and_be_refused().status == 403


def test_the_registrars_time_for_our_contact_counts_and_423_is_obeyed(fake_office, ports):
    with Registrar(ports) as registrar:
        gateway = open_office(fake_office, {"pbx": registered_at(registrar.sip, register_expires_s=60)})
        first = registrar.next()
        assert (first[0]["expires"], first[0].uri("to")) == ("60", "sip:200@pbx.example")
        registrar.answer(first, 423, "Interval Too Brief", ("Min-Expires", "120"))
        second = registrar.next(2)
        assert second[0]["expires"] == "120"
        assert (second[0]["call-id"], second[0].cseq) == (first[0]["call-id"], first[0].cseq + 1)
        granted = time.monotonic()
        registrar.grant(second, 3)
        until_registered(gateway)
        third = registrar.next(5)
        assert 1.2 <= time.monotonic() - granted <= 2.5
        assert third[0]["contact"] == second[0]["contact"]
        # The refresh goes unanswered: the registration runs out, and is told of.
        gateway.until(lambda: "trunk.registration_failed" in gateway.log, 10, "failed")
        assert trunk(gateway)["registration"]["state"] != "registered"


def test_a_peer_that_does_not_answer_is_down_and_up_again_when_it_does(fake_office, ports):
    with Registrar(ports) as registrar:
        address = f"sip:{registrar.sip[0]}:{registrar.sip[1]}"
        timers = {"t1_ms": 10, "t2_ms": 40}  # so that silence is over after 0.6 s
        gateway = fake_office.open(
            server={"sip": {"timers": timers}}, trunk={"address": address, "qualify_s": 1}
        )

        def state():
            return trunk(gateway, "loopback")["reach"]["state"]

        registrar.answer(registrar.next(method="OPTIONS"), 403, "Who are you")
        gateway.until(lambda: state() == "up", 5, "up")
        gateway.until(lambda: state() == "down", 10, "down")
        assert gateway.metrics()['trunkline_trunk_reachable{trunk="loopback"}'] == 0
        assert trunk(gateway, "loopback")["last_error"]["what"] == "OPTIONS: no answer"
        deadline = time.monotonic() + 10
        while state() != "up":
            assert time.monotonic() < deadline
            registrar.waiting.clear()
            registrar.answer(registrar.next(method="OPTIONS"), 200, "OK")
        assert gateway.log.count("trunk.down") == 1
        assert gateway.log.count("trunk.up") == 2
        # Calls come all the same: nobody is turned away for what OPTIONS says.
        with Phone(gateway.sip, ports, called=NUMBER) as phone:
            phone.call()
            phone.hang_up()


def test_over_tcp_a_call_comes_by_the_connection_that_registered_us(fake_office, ports):
    with Registrar(ports, tcp=True) as registrar:
        address = f"sip:{registrar.sip[0]}:{registrar.sip[1]};transport=tcp"
        gateway = open_office(fake_office, {"pbx": {**registered_at(registrar.sip), "address": address}})
        register = registrar.next()
        registrar.grant(register, 600)
        until_registered(gateway)
        contact, (host, port) = register[0].uri("contact"), registrar.sip
        headers = [
            ("Via", f"SIP/2.0/TCP {host}:{port};branch={sip_text.branch()}"),
            ("From", f"<sip:+12025550123@{host}>;tag=1"),
            ("To", "<sip:200@pbx.example>"),
            ("Call-ID", "by-the-same-connection"),
            ("CSeq", "1 INVITE"),
            ("Contact", f"<sip:{host}:{port};transport=tcp>"),
            ("Max-Forwards", "70"),
        ]
        register[1].sendall(sip_text.write(f"INVITE {contact} SIP/2.0", headers, sip_text.offer(host, 9)))
        statuses = [int(registrar.next_response(10).split()[1]) for _ in range(3)]
        assert statuses == [100, 180, 200]
        assert trunk(gateway)["calls"] == 1


def test_a_changed_trunk_is_registered_anew_and_the_old_contact_taken_away(fake_office, ports):
    with Registrar(ports) as registrar:
        gateway = open_office(fake_office, {"pbx": registered_at(registrar.sip)})
        first = registrar.next()
        registrar.grant(first, 600)
        until_registered(gateway)
        changed = registered_at(registrar.sip, register="sip:201@pbx.example")
        gateway.write({**gateway.settings, "trunks": {"pbx": changed}})
        seen = {}
        for _ in range(2):
            request = registrar.next()
            seen[request[0].uri("to")] = request[0]["expires"]
            registrar.grant(request, 600)
        assert seen == {"sip:200@pbx.example": "0", "sip:201@pbx.example": "600"}


def test_over_tcp_a_connection_that_is_cut_is_registered_on_anew(fake_office, ports):
    with Registrar(ports, tcp=True) as registrar:
        address = f"sip:{registrar.sip[0]}:{registrar.sip[1]};transport=tcp"
        gateway = open_office(fake_office, {"pbx": {**registered_at(registrar.sip), "address": address}})
        first = registrar.next()
        assert "transport=tcp" in first[0].uri("contact")
        registrar.answer(first, 503, "Later", ("Retry-After", "1"))
        # Nothing is registered, and nothing was refused for good: what was cut is tried again at once.
        gateway.until(lambda: "trunk.registration_failed" in gateway.log, 5, "failed")
        registrar.cut()
        second = registrar.next(5)
        assert second[1] is not first[1]
        registrar.grant(second, 600)
        until_registered(gateway)
