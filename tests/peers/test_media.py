"""Audio that stays away, comes from strangers or from behind NAT, and keys as tones, on a running gateway."""

from __future__ import annotations

import json
import secrets
import struct
import time
from collections.abc import Callable

import numpy as np
import pytest
import soundfile

from tests.kit import sip_text
from tests.kit.office import NUMBER, Office
from tests.kit.rogue import Manner, Rogue
from tests.kit.sound import Pcm
from tests.kit.udp import Address, udp

pytestmark = pytest.mark.peers

SILENT = Manner(sends_audio=False)
TALKING = Manner()
ROWS, COLUMNS, KEYS = (697, 770, 852, 941), (1209, 1336, 1477, 1633), "123A456B789C*0#D"


class Caller(Rogue):
    """Holds in the old way, and can leave telephone-events out of its offer."""

    old_hold = False
    events = True

    def dial(self) -> None:
        self.last_offer = 1
        host, port = self.offered
        body = sip_text.offer(host, port, codecs=(self.codec,))
        if not self.events:
            body = "".join(line for line in body.splitlines(True) if ":101" not in line).replace(" 101", "")
        self._send_request("INVITE", body=body, branch=self.invite_branch)

    def _description(self) -> str:
        text = super()._description()
        return text.replace("c=IN IP4 127.0.0.1", "c=IN IP4 0.0.0.0") if self.old_hold else text


def call_in(
    office: Office,
    *,
    manner: Manner = TALKING,
    server: dict[str, object] | None = None,
    trunk: dict[str, object] | None = None,
) -> Caller:
    """Start a gateway; return a caller that has not dialled."""
    gateway = office.open(server={"sip": server or {}}, trunk=trunk)
    return office.stack.enter_context(Caller(gateway.sip, office.ports, called=NUMBER, manner=manner))


def report(office: Office) -> dict[str, object]:
    found: list[dict[str, object]] = []
    end = time.monotonic() + 10
    while not found and time.monotonic() < end:
        found = [json.loads(path.read_text()) for path in (office.folder / "recordings").glob("*/call.json")]
        time.sleep(0.05)
    assert len(found) == 1
    return found[0]


def recorded(office: Office) -> Pcm:
    (path,) = (office.folder / "recordings").glob("*/call.flac")
    return soundfile.read(path, dtype="int16")[0]


def heard_in(phone: Caller, seconds: float) -> int:
    """Listen; return how many packets came in that time."""
    before = len(phone.audio)
    phone.listen(seconds)
    return len(phone.audio) - before


def flood(source: Address, target: Address, count: int, wait: Callable[[float], None]) -> None:
    """Send loud packets, each of a stream of its own, as whoever scans for calls does."""
    sock = udp(source[1], source[0])
    for number in range(count):
        header = struct.pack("!BBHII", 0x80, 0, number * 7919 & 0xFFFF, number * 160, secrets.randbits(32))
        sock.sendto(header + bytes([0x00, 0x80]) * 80, target)
        if number % 10 == 9:
            wait(0.02)
    sock.close()


def test_a_call_that_brings_no_audio_is_ended_with_its_reason(fake_office):
    phone = call_in(fake_office, manner=SILENT, server={"media_timeout_s": 2})
    phone.call()
    answered = time.time()
    assert 1.5 <= phone.wait_for_bye(6) - answered <= 4
    assert (report(fake_office)["reason"], report(fake_office)["by"]) == ("media_lost", "gateway")


@pytest.mark.report("BR-056")
@pytest.mark.parametrize("old", [True, False])
def test_a_held_call_survives_without_audio_until_the_limit_of_a_hold(fake_office, old):
    phone = call_in(fake_office, server={"media_timeout_s": 2, "hold_timeout_s": 5})
    phone.call()
    assert heard_in(phone, 0.5) >= 15
    phone.old_hold = old
    phone.re_invite("sendrecv" if old else "inactive")
    phone.manner = SILENT
    phone.listen(0.1)
    assert heard_in(phone, 3.5) == 0  # longer than audio may stay away, and nothing is sent to 0.0.0.0
    phone.old_hold, phone.manner = False, TALKING
    phone.re_invite("sendrecv")
    assert heard_in(phone, 3.0) >= 120  # it lives
    phone.old_hold = old
    phone.re_invite("sendrecv" if old else "inactive")
    phone.manner = SILENT
    held = time.time()
    assert 4.5 <= phone.wait_for_bye(9) - held <= 7
    assert report(fake_office)["reason"] == "hold_timeout"


@pytest.mark.report("BR-161")
def test_a_stranger_neither_gets_the_agents_voice_nor_is_heard(fake_office):
    phone = call_in(fake_office)
    phone.call()
    phone.listen(1.0)
    assert phone.media is not None
    before = len(phone.audio)
    flood(("127.0.0.66", fake_office.ports.take(2)), phone.media, 200, phone.listen)
    phone.listen(1.0)
    assert len(phone.audio) - before >= 60
    phone.hang_up()
    media = report(fake_office)["media"]
    assert media["counted"]["refused"] == 200
    assert media["counted"]["source_moves"] == media["counted"]["stream_changes"] == 0
    assert np.abs(recorded(fake_office)[:, 0].astype(int)).max() < 100


@pytest.mark.report("BR-061")
def test_a_caller_behind_nat_hears_the_agent_where_it_sends_from(fake_office):
    phone = call_in(fake_office)
    phone.offered = ("192.168.1.50", 7078)
    phone.call()
    assert heard_in(phone, 1.5) >= 50
    assert phone.media is not None
    flood(("127.0.0.200", fake_office.ports.take(2)), phone.media, 1, phone.listen)
    assert heard_in(phone, 0.5) >= 20
    phone.move_audio(fake_office.ports.take(2))
    phone.re_invite("sendrecv")
    assert heard_in(phone, 1.0) >= 40
    phone.hang_up()
    assert report(fake_office)["media"]["counted"]["refused"] == 1


def test_keys_of_a_telephone_without_events_are_heard_as_tones(fake_office):
    phone = call_in(fake_office)
    phone.events = False
    phone.call()
    phone.listen(0.5)
    phone.speak(tones("159#"))
    phone.listen(0.5)
    phone.hang_up()
    assert "".join(key["digit"] for key in report(fake_office)["dtmf"]) == "159#"


@pytest.mark.report("BR-140")
def test_a_press_that_comes_as_info_as_event_and_as_tone_is_one_press(fake_office):
    phone = call_in(fake_office, trunk={"inband_dtmf": True})
    phone.call()
    phone.listen(0.5)
    for key in "5*":
        phone.say(tones(key))
        phone.press(key)
        phone.dialog.cseq += 1
        text = f"Signal= {key}\r\nDuration= 160\r\n"
        phone._send_request("INFO", body=text, kind="application/dtmf-relay")
        phone.listen(0.6)
    assert phone.statuses("INFO") == [200, 200]
    phone.hang_up()
    assert "".join(key["digit"] for key in report(fake_office)["dtmf"]) == "5*"


def tones(keys: str) -> Pcm:
    """Return keys as their pairs of tones (ITU-T Q.23), 100 ms each and 100 ms of silence."""
    time_s = np.arange(800) / 8000
    pieces = []
    for key in keys:
        row, column = divmod(KEYS.index(key), 4)
        pair = np.sin(2 * np.pi * ROWS[row] * time_s) + np.sin(2 * np.pi * COLUMNS[column] * time_s)
        pieces += [5000 * pair, np.zeros(800)]
    return np.concatenate(pieces).astype(np.int16)
