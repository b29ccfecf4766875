"""``trunkline trunk``, as an operator types it, against real and scripted peers."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.kit import sip_text
from tests.kit.certificates import Authority
from tests.kit.gateway import COMMAND
from tests.kit.kamailio import Kamailio
from tests.kit.office import NUMBER
from tests.kit.ports import Ports
from tests.kit.process import Process
from tests.kit.registrar import Registrar
from tests.peers.test_trunks import PASSWORD, open_office, registered_at, until_registered

pytestmark = pytest.mark.peers


def write(folder: Path, ports: Ports, server: dict[str, object] | None = None, **trunk: object) -> Path:
    http, rtp = ports.take(2), ports.take(20)
    settings = {
        "server": {
            "sip": {
                "rtp_ports": f"{rtp}-{rtp + 19}",
                "listen": [f"udp:127.0.0.1:{ports.take(2)}"],
                **(server or {}),
            },
            "http": {"listen": f"127.0.0.1:{http}"},
        },
        "trunks": {"pbx": trunk},
        "providers": {"fake": {}},
        "agents": {"reception": {"providers": ["fake"], "prompt": "You answer."}},
        "numbers": {"200": {"agent": "reception"}},
    }
    file = folder / "trunk.yaml"
    with file.open("w") as out:
        YAML().dump(settings, out)
    return file


def trunkline(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [COMMAND, "trunk", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def steps(output: str) -> dict[str, str]:
    """Return verdict and text by step."""
    lines = (line.split(maxsplit=2) for line in output.splitlines())
    return {step: f"{verdict} {text}" for verdict, step, text in lines}


def test_a_good_trunk_passes_every_step(ports, tmp_path):
    with Kamailio(ports, tmp_path / "kamailio", users={"200": PASSWORD}) as kamailio:
        file = write(tmp_path, ports, **registered_at(kamailio.sip))
        code, output = trunkline("test", "pbx", "--config", str(file))
        found = steps(output)
        assert code == 0, output
        assert list(found) == ["address", "OPTIONS", "REGISTER", "unregister"]
        assert all(text.startswith("PASS") for text in found.values())
        assert "200 OK after" in found["OPTIONS"]
        assert "sip:200@pbx.example, for 600 s" in found["REGISTER"]
        assert PASSWORD not in output
        assert kamailio.log.count("registered 200 as") == 2


def test_a_wrong_password_fails_with_what_to_do(ports, tmp_path):
    with Kamailio(ports, tmp_path / "kamailio", users={"200": "another"}) as kamailio:
        file = write(tmp_path, ports, **registered_at(kamailio.sip))
        code, output = trunkline("test", "pbx", "--config", str(file))
        found = steps(output)
        assert code == 1
        assert found["OPTIONS"].startswith("PASS")
        assert found["REGISTER"].startswith("FAIL 401 Unauthorized")
        assert found["REGISTER"].endswith("; the registrar refuses username and password: correct them")


def test_a_silent_peer_and_a_trunk_without_one_fail(ports, tmp_path):
    silent = f"sip:127.0.0.1:{ports.take(2)}"
    code, output = trunkline("test", "pbx", "--config", str(write(tmp_path, ports, address=silent)))
    assert code == 1
    assert steps(output)["OPTIONS"].startswith("FAIL no answer")
    file = write(tmp_path, ports, **registered_at(("127.0.0.1", ports.take(2))))
    code, output = trunkline("test", "pbx", "--config", str(file))
    assert (code, steps(output)["REGISTER"].split(" after ")[0]) == (1, "FAIL no answer")
    code, output = trunkline("test", "pbx", "--config", str(write(tmp_path, ports, allow=["127.0.0.1"])))
    assert (code, output.split(";")[0]) == (
        1,
        "FAIL  address       this trunk only calls us: there is nobody to ask",
    )


def test_a_name_without_an_address_fails(ports, tmp_path):
    file = write(tmp_path, ports, address="sip:nobody.invalid")
    code, output = trunkline("test", "pbx", "--config", str(file))
    assert (code, steps(output)["address"][:4]) == (1, "FAIL")


def test_a_trunk_that_does_not_exist_is_answered_with_the_nearest(ports, tmp_path):
    code, output = trunkline("test", "pbz", "--config", str(write(tmp_path, ports, allow=["127.0.0.1"])))
    assert code == 2
    assert output.endswith("there is no trunk 'pbz'; did you mean pbx?\n")


@pytest.mark.parametrize(
    ("status", "verdict", "todo"),
    [
        (404, "PASS", ""),
        (403, "PASS", ""),
        (503, "FAIL", "the peer says that it cannot serve; ask its operator"),
    ],
)
def test_whoever_answers_options_is_there_unless_it_says_that_it_cannot_serve(
    ports, tmp_path, status, verdict, todo
):
    with Registrar(ports) as registrar:
        file = write(tmp_path, ports, address=f"sip:{registrar.sip[0]}:{registrar.sip[1]}")
        log = tmp_path / "test.log"
        with Process([COMMAND, "trunk", "test", "pbx", "-c", str(file)], log) as process:
            request = registrar.next(method="OPTIONS")
            registrar.answer(request, status, "Indeed", ("Server", "An\x1b[31mother PBX"))
            assert process.wait(20) == (0 if verdict == "PASS" else 1)
        text = steps(log.read_text())["OPTIONS"]
        assert text.startswith(f"{verdict} {status} Indeed after")
        assert "An[31mother PBX" in text
        assert text.endswith(todo)


class TlsPeer:
    """A peer that shakes hands and answers each OPTIONS, in a thread until the ``with`` block ends."""

    def __init__(self, ports, pair):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pair.certificate, pair.private_key)
        self.server = socket.create_server(("127.0.0.1", ports.take(2)))
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self.server.getsockname()[1]

    def __exit__(self, *_):
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.thread.join(5)

    def serve(self):
        while True:
            try:
                plain, _ = self.server.accept()
            except OSError:
                return
            try:
                with self.context.wrap_socket(plain, server_side=True) as connection:
                    while data := connection.recv(65_536):
                        connection.sendall(sip_text.respond(sip_text.read(data), 200, "OK", tag="peer"))
            except (OSError, ValueError):
                continue  # the probe hangs up when it has seen the certificate


@pytest.mark.parametrize(
    ("names", "trunk", "code", "verdict", "why"),
    [
        (("127.0.0.1",), {}, 0, "PASS", "until "),
        (("other.example",), {}, 1, "FAIL", "the certificate is not for 127.0.0.1; write the peer's name"),
        (("other.example",), {"tls_verify": False}, 0, "NOTE", "tls_verify: false lets it pass"),
    ],
)
def test_over_tls_the_certificate_is_told(ports, tmp_path, names, trunk, code, verdict, why):
    authority = Authority(tmp_path / "tls")
    ours = authority.sign("gw.example")
    files = {"certificate": ours.certificate, "private_key": ours.private_key, "ca": authority.file}
    with TlsPeer(ports, authority.sign(*names, days=(-1, 60))) as port:
        address = f"sip:127.0.0.1:{port};transport=tls"
        file = write(
            tmp_path, ports, server={"tls": {k: str(v) for k, v in files.items()}}, address=address, **trunk
        )
        found, output = trunkline("test", "pbx", "--config", str(file))
    assert found == code, output
    assert steps(output)["certificate"].startswith(
        f"{verdict} {names[0]}, from CN=Authority of the tests, until "
    )
    assert why in steps(output)["certificate"]
    assert steps(output)["OPTIONS"].startswith("PASS 200 OK")


def test_a_test_call_through_the_trunk_is_answered_and_heard(fake_office, ports, tmp_path):
    gateway = fake_office.open()
    users = {"200": PASSWORD}
    with Kamailio(ports, tmp_path / "kamailio", users=users, gateway=gateway.sip, challenge=True) as kamailio:
        file = write(
            tmp_path, ports, address=f"sip:127.0.0.1:{kamailio.sip[1]}", username="200", password=PASSWORD
        )
        code, output = trunkline("test", "pbx", "--config", str(file), "--call", NUMBER)
        assert code == 0, output
        found = re.fullmatch(
            rf"PASS {re.escape(NUMBER)} answered after \d\.\d s; (\d+) packets of audio in 3 s",
            steps(output)["call"],
        )
        assert found, output
        assert 100 <= int(found[1]) <= 160
        assert list(steps(output)) == ["address", "OPTIONS", "call"]


def test_a_test_call_that_nobody_takes_says_why(ports, tmp_path):
    with Kamailio(ports, tmp_path / "kamailio") as kamailio:
        file = write(tmp_path, ports, address=f"sip:127.0.0.1:{kamailio.sip[1]}")
        code, output = trunkline("test", "pbx", "--config", str(file), "--call", "+12025550199")
        assert code == 1
        assert steps(output)["call"] == (
            "FAIL refused: 404 Not Found;"
            " the peer knows no such number: check it, number_format and dial_prefix"
        )


def test_the_trunks_of_a_running_gateway_are_listed(fake_office, ports, tmp_path):
    with Kamailio(ports, tmp_path / "kamailio", users={"200": PASSWORD}) as kamailio:
        gateway = open_office(fake_office, {"pbx": registered_at(kamailio.sip, qualify_s=60)})
        until_registered(gateway)
        gateway.until(lambda: "trunk.up" in gateway.log, 5, "up")
        code, output = trunkline("list", "--config", str(gateway.config))
        head, line = output.splitlines()
        assert code == 0
        assert head.split() == ["TRUNK", "CALLS", "PEER", "REACH", "REGISTRATION", "LAST", "ERROR"]
        assert line.startswith("pbx    0      sip:127.0.0.1:")
        assert "registered " in line
        assert " ms " in line
        assert line.endswith(" -")


def test_without_a_gateway_the_list_says_where_it_looked(ports, tmp_path):
    file = write(tmp_path, ports, allow=["127.0.0.1"])
    code, output = trunkline("list", "--config", str(file))
    assert code == 1
    assert output.startswith("no gateway answers at 127.0.0.1:")
