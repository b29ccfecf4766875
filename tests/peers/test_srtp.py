"""Protected media with real peers: OpenSSL's client, baresip, and a telephone of our own."""

from __future__ import annotations

import json
import re
import subprocess

import numpy as np
import pytest

from gateway.net.dtls import Certificate, DtlsHandshake, State
from gateway.sdp import Fingerprint, Suite
from tests.kit import sound
from tests.kit.baresip import Baresip
from tests.kit.hear import hear
from tests.kit.linphone import Linphone
from tests.kit.office import NUMBER, Office, recording
from tests.kit.secure_phone import SUITES, SecurePhone
from tests.kit.udp import udp
from tests.peers.test_trunk_command import steps, trunkline, write

pytestmark = pytest.mark.peers


@pytest.mark.parametrize(
    ("profile", "suite", "length"),
    [
        ("SRTP_AES128_CM_SHA1_80", Suite.AES_CM_128_HMAC_SHA1_80, 60),
        ("SRTP_AES128_CM_SHA1_32", Suite.AES_CM_128_HMAC_SHA1_32, 60),
        ("SRTP_AEAD_AES_128_GCM", Suite.AEAD_AES_128_GCM, 56),
        ("SRTP_AEAD_AES_256_GCM", Suite.AEAD_AES_256_GCM, 88),
    ],
)
def test_openssls_own_client_comes_to_the_same_keys(tmp_path, ports, profile, suite, length) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    make = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -batch -keyout {key}"
    subprocess.run([*make.split(), "-out", certificate], check=True, capture_output=True)
    text = subprocess.run(
        ["openssl", "x509", "-in", certificate, "-noout", "-fingerprint", "-sha256"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    digest = bytes.fromhex(text.strip().partition("=")[2].replace(":", ""))
    port = ports.take(2)
    sock = udp(port)
    sock.setblocking(True)
    sock.settimeout(10)
    connect = f"openssl s_client -dtls1_2 -connect 127.0.0.1:{port} -use_srtp {profile} -cert {certificate}"
    export = f"-key {key} -keymatexport EXTRACTOR-dtls_srtp -keymatexportlen {length}"
    client = subprocess.Popen(
        [*connect.split(), *export.split()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        passive = DtlsHandshake(
            Certificate(), active=False, fingerprints=(Fingerprint("sha-256", digest),), now=0.0
        )
        while passive.state is State.SHAKING:
            datagram, source = sock.recvfrom(4096)
            passive.receive(datagram, 0.0)
            for each in passive.to_send():
                sock.sendto(each, source)
        assert passive.reason == ""
        output = client.communicate("Q\n", timeout=10)[0]
    finally:
        client.kill()
        client.wait()
        sock.close()
    material = bytes.fromhex(re.search(r"Keying material: ([0-9A-F]+)", output)[1])
    size = suite.key_bytes
    assert passive.keys is not None
    assert passive.keys[0].suite is suite
    assert passive.keys[1].key == material[:size] + material[2 * size :][: suite.salt_bytes]  # the client's
    assert passive.keys[0].key == material[size : 2 * size] + material[2 * size + suite.salt_bytes :]


GREETING, FAREWELL, THANKS = (recording(name) for name in ("greeting", "farewell", "caller_thanks"))


def kept(office: Office) -> tuple[dict[str, object], sound.Pcm]:
    """Return the record of the one call, and the caller's side of its recording."""
    office.stack.close()
    (path,) = (office.folder / "recordings").glob("*/call.json")
    record = json.loads(path.read_text())
    return record, sound.read(path.with_name(record["audio"]["file"]))


@pytest.mark.parametrize(
    ("mediaenc", "mux", "protection"),
    [
        ("srtp", False, "sdes"),
        ("srtp-mand", True, "sdes"),
        ("dtls_srtp", True, "dtls"),
        ("dtls_srtp", False, "dtls"),
    ],
)
def test_baresip_and_the_agent_hear_each_other_protected(
    fake_office, tmp_path, mediaenc, mux, protection
) -> None:
    gateway = fake_office.open("farewell", trunk={"srtp": "required"})
    words = np.concatenate((sound.silence(len(GREETING) / 8000 + 0.8), THANKS))
    uri = f"sip:{NUMBER}@{gateway.sip[0]}:{gateway.sip[1]}"
    folder = tmp_path / "baresip"
    with Baresip(uri, fake_office.ports, folder, words=words, mediaenc=mediaenc, mux=mux) as baresip:
        baresip.wait_for("Call established", 10)
        baresip.wait_for("session closed", 25)
        heard = baresip.heard
    assert hear(GREETING, heard).whole
    assert hear(FAREWELL, heard).whole
    record, caller = kept(fake_office)
    assert hear(THANKS, caller).whole
    assert str(record["media"]["protection"]).startswith(protection)


def secure(office: Office, gateway, **options: object) -> SecurePhone:
    return office.stack.enter_context(SecurePhone(gateway.sip, office.ports, called=NUMBER, **options))


@pytest.mark.parametrize(
    ("profile", "suites"),
    [
        ("RTP/SAVP", ("AES_CM_128_HMAC_SHA1_80",)),
        ("RTP/SAVPF", ("AES_CM_128_HMAC_SHA1_32",)),
        ("RTP/AVP", ("AES_CM_128_HMAC_SHA1_32", "AES_CM_128_HMAC_SHA1_80")),
        ("RTP/SAVP", tuple(SUITES)),
    ],
)
def test_a_phone_and_the_agent_hear_each_other_by_our_choice(fake_office, profile, suites) -> None:
    gateway = fake_office.open("farewell")
    phone = secure(fake_office, gateway, profile=profile, suites=suites)
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    phone.speak(THANKS)
    phone.wait_for_bye(15)
    assert hear(FAREWELL, phone.heard()).whole
    assert phone.undecryptable == 0
    assert gateway.metrics()['trunkline_calls_media_total{protection="sdes"}'] == 1
    record, caller = kept(fake_office)
    assert hear(THANKS, caller).whole
    assert record["media"]["protection"] == f"sdes {suites[-1]}"
    assert record["media"]["counted"]["undecryptable"] == 0
    assert not [key for _, key in phone.offered.values() if key.hex() in gateway.log]
    assert "inline:" not in gateway.log


@pytest.mark.report("BR-080")
def test_a_call_goes_on_through_reinvites_with_the_same_and_with_new_keys(fake_office) -> None:
    gateway = fake_office.open("farewell")
    phone = secure(fake_office, gateway)
    phone.sequence = 65_480  # wraps in the first second, as after 22 minutes of a long call
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    assert phone.sequence > 65_536
    assert phone.reinvite().status == 200
    phone.listen(0.3)
    phone.renew(("AES_CM_128_HMAC_SHA1_80",))
    assert phone.reinvite().status == 200
    phone.speak(THANKS)
    phone.wait_for_bye(15)
    assert hear(FAREWELL, phone.heard()).whole
    record, caller = kept(fake_office)
    assert hear(THANKS, caller).whole
    # What is on its way while the keys change may be lost, and no more.
    assert record["media"]["counted"]["undecryptable"] + phone.undecryptable <= 10


def test_with_a_wrong_key_a_call_is_silent_and_ends_and_the_next_one_is_served(fake_office) -> None:
    gateway = fake_office.open("farewell", server={"sip": {"media_timeout_s": 2}})
    liar = secure(fake_office, gateway, lies=True)
    liar.call()
    liar.say(THANKS)
    liar.wait_for_bye(15)
    honest = secure(fake_office, gateway)
    honest.call()
    honest.until_heard(GREETING, 10, "the greeting")
    honest.hang_up()
    fake_office.stack.close()
    files = (fake_office.folder / "recordings").glob("*/call.json")
    records = [json.loads(path.read_text()) for path in files]
    assert sorted(record["reason"] for record in records) == ["bye", "media_lost"]
    (lost,) = [record for record in records if record["reason"] == "media_lost"]
    assert lost["media"]["counted"]["received"] == 0
    assert lost["media"]["counted"]["undecryptable"] > 50
    assert "Traceback" not in gateway.log


class RoughPhone(SecurePhone):
    """Its network loses every 25th packet, doubles the others, and swaps some with the next."""

    held: bytes = b""

    def _send_packet(self, packet: bytes) -> None:
        assert self.out is not None
        protected = self.out.protect(packet)
        if self.sequence % 25 == 0 or not self.media:
            return
        if self.sequence % 10 == 3:
            self.held = protected
            return
        for each in (protected, protected, *([self.held] * bool(self.held))):
            self.rtp.sendto(each, self.media)
        self.held = b""


def test_protected_packets_may_be_lost_swapped_and_doubled(fake_office) -> None:
    gateway = fake_office.open("farewell")
    phone = fake_office.stack.enter_context(RoughPhone(gateway.sip, fake_office.ports, called=NUMBER))
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    phone.speak(THANKS)
    phone.wait_for_bye(15)
    record, caller = kept(fake_office)
    frames = len(THANKS) // sound.FRAME
    # Each lost packet, one of 25, lies across two of the frames that are compared at most.
    assert len(hear(THANKS, caller).missing) <= 2 * (frames // 25 + 1)
    counted = record["media"]["counted"]
    assert counted["replayed"] > 100
    assert counted["lost"] >= frames // 25
    assert counted["undecryptable"] == 0


@pytest.mark.report("BR-073")
@pytest.mark.parametrize(
    ("policy", "profile", "suites", "why"),
    [
        ("required", "RTP/AVP", (), "SRTP is required"),
        ("off", "RTP/SAVP", ("AES_CM_128_HMAC_SHA1_80",), "SRTP is off"),
        ("optional", "RTP/SAVP", (), "no usable a=crypto line"),
    ],
)
def test_what_the_policy_rules_out_is_refused(fake_office, policy, profile, suites, why) -> None:
    gateway = fake_office.open("farewell", trunk={"srtp": policy})
    phone = secure(fake_office, gateway, profile=profile, suites=suites)
    refusal = phone.dial_and_be_refused()
    assert refusal.status == 488
    assert refusal["warning"].startswith("399 ")
    assert why in refusal["warning"]


@pytest.mark.parametrize("suite", ["AES_CM_128_HMAC_SHA1_80", "AEAD_AES_128_GCM"])
def test_an_offer_of_ours_has_keys_where_they_are_required_and_the_answer_chooses(fake_office, suite) -> None:
    gateway = fake_office.open("farewell", trunk={"srtp": "required"})
    phone = secure(fake_office, gateway, suites=(suite,), late=True)
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    phone.speak(THANKS)
    phone.wait_for_bye(15)
    assert hear(FAREWELL, phone.heard()).whole
    record, caller = kept(fake_office)
    assert hear(THANKS, caller).whole
    assert record["media"]["protection"] == f"sdes {suite}"
    assert "inline:" not in gateway.log


def test_an_answer_without_keys_to_a_protected_offer_ends_the_call(fake_office) -> None:
    gateway = fake_office.open("farewell", trunk={"srtp": "required"})
    phone = secure(fake_office, gateway, late=True, profile="RTP/AVP")
    phone.call()
    phone.wait_for_bye(5)
    assert not phone.heard().any()


@pytest.mark.parametrize(("takes", "good"), [("srtp-mand", True), ("", False)])
def test_a_call_of_ours_is_protected_where_the_trunk_requires_it(ports, tmp_path, takes, good) -> None:
    folder = tmp_path / "baresip"
    with Baresip(None, ports, folder, words=sound.utterance(1, 3.0), mediaenc=takes) as baresip:
        baresip.wait_for("baresip is ready", 10)
        file = write(tmp_path, ports, address=f"sip:127.0.0.1:{baresip.sip[1]}", srtp="required")
        to = f"sip:baresip@127.0.0.1:{baresip.sip[1]}"
        code, output = trunkline("test", "pbx", "--config", str(file), "--call", to)
        assert (code == 0) is good, output
        if good:
            assert re.search(r"answered after .*; 1[0-9]{2} packets of audio", steps(output)["call"])
            assert "SRTP is Enabled (cryptosuite=AEAD_AES_256_GCM)" in baresip.log
        else:
            assert "488" in steps(output)["call"]


def test_a_later_offer_that_the_policy_rules_out_is_refused_and_the_call_goes_on(fake_office) -> None:
    gateway = fake_office.open("farewell", trunk={"srtp": "required"})
    phone = secure(fake_office, gateway)
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    phone.profile, phone.offered = "RTP/AVP", {}
    refusal = phone.reinvite()
    assert refusal.status == 488
    assert "SRTP is required" in refusal["warning"]
    phone.speak(THANKS)
    phone.wait_for_bye(15)
    assert hear(FAREWELL, phone.heard()).whole
    assert "call.offer_refused" in gateway.log


@pytest.mark.parametrize(("encryption", "protection"), [("srtp", "sdes"), ("dtls", "dtls")])
def test_linphone_and_the_agent_hear_each_other(fake_office, tmp_path, encryption, protection) -> None:
    gateway = fake_office.open("farewell", trunk={"srtp": "required"})
    folder = tmp_path / "linphone"
    words = np.concatenate((sound.silence(len(GREETING) / 8000 + 0.8), THANKS))
    with Linphone(fake_office.ports, folder, words=words, encryption=encryption) as linphone:
        linphone.tell(f"call sip:{NUMBER}@127.0.0.1:{gateway.sip[1]}")
        linphone.wait_for("Media streams established", 15)
        linphone.tell(f"play {linphone.words}")
        linphone.wait_for(r"ended \(No error\)", 30)
        linphone.stop()
    heard = sound.read(folder / "heard.wav")
    record, caller = kept(fake_office)
    for words, where in ((GREETING, heard), (FAREWELL, heard), (THANKS, caller)):
        found = hear(words, where)  # its clock without a sound card drops a frame now and then
        assert found.heard_ms >= 0.9 * found.audible_ms, found
    assert record["media"]["protection"].startswith(protection)
