"""
Calls over a bad network: 3 % loss, 40 ms of jitter, swapped and doubled datagrams, on signalling and audio.

None is lost, none is doubled, every key is heard exactly once, and how it sounded is measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.kit.counts import counts
from tests.kit.far_phone import FarPhone
from tests.kit.gateway import Gateway
from tests.kit.hear import hear
from tests.kit.office import NUMBER, Office, recording
from tests.kit.relay import Relay, Weather

pytestmark = [pytest.mark.peers, pytest.mark.soak, pytest.mark.timeout(1200)]

CALLS = counts(test=12, full=200)
AT_ONCE = 6
SEED = 20261130
WEATHER = Weather(loss=0.03, jitter_ms=40.0, held_back=0.01, twice=0.01, delay_ms=5.0)
KEYS = ("1590#*", "2468", "777#", "0042*", "99", "13579#")
GREETING = recording("greeting")


def one_call(gateway: Gateway, office: Office, relay: Relay, number: int) -> str:
    """Place a call, listen, press keys, hang up; return what was heard of the greeting."""
    name = str(number)
    with FarPhone(gateway.sip, office.ports, relay, name, WEATHER, called=NUMBER) as phone:
        phone.call(timeout=32)
        phone.listen(len(GREETING) / 8000 + 0.6)
        phone.dial_digits(KEYS[number % len(KEYS)])
        phone.listen(0.3)
        phone.report()
        phone.hang_up(timeout=32)
        heard = hear(GREETING, phone.heard())
        assert heard.heard_ms >= 0.8 * heard.audible_ms, heard
        return f"{heard.heard_ms / heard.audible_ms:.0%} of the greeting, {phone.repeated} requests repeated"


def all_calls(call: Callable[[int], str]) -> list[str]:
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        return list(pool.map(call, range(CALLS)))


def reports(office: Office) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in (office.folder / "recordings").glob("*/call.json")]


def test_no_call_is_lost_or_doubled_and_every_key_is_heard_once(fake_office, tmp_path: Path):
    office = fake_office
    gateway = office.open(trunk={"jitter_ms": {"min": 40, "max": 200}}, rtp_ports=200)
    with Relay(SEED, office.ports) as relay:
        went = all_calls(lambda number: one_call(gateway, office, relay, number))
        sip = relay.counts(link for link in relay.links if link.name.endswith("sip"))
        rtp = relay.counts(link for link in relay.links if link.name.endswith("rtp"))
    gateway.until(lambda: gateway.metrics()["trunkline_calls_active"] == 0, 40, "without calls")
    gateway.until(lambda: len(reports(office)) >= CALLS, 40, f"done with {CALLS} recordings")
    print(f"seed {SEED}, {CALLS} calls, {AT_ONCE} at once; first: {went[0]}")
    for what, (inward, outward) in (("signalling", sip), ("audio", rtp)):
        print(f"{what} to the gateway: {inward}")
        print(f"{what} to the telephone: {outward}")
    found = reports(office)
    callers = sorted(str(each["caller"]) for each in found)
    assert callers == sorted(f"+1202556{number:04d}" for number in range(CALLS))
    for each in found:
        number = int(str(each["caller"])[-4:])
        assert "".join(key["digit"] for key in each["dtmf"]) == KEYS[number % len(KEYS)], each["caller"]
        assert (each["reason"], each["by"]) == ("bye", "caller")
        assert each["audio"]["seconds"] == pytest.approx(each["ended"], abs=0.1)
    judge_sound(found, rtp[0].lost / rtp[0].came)
    samples = gateway.metrics()
    assert samples['trunkline_call_mos_count{trunk="loopback",voice="caller"}'] == CALLS
    assert samples['trunkline_calls_ended_total{reason="bye",trunk="loopback"}'] == CALLS


def judge_sound(found: list[dict[str, object]], loss: float) -> None:
    """Print how the calls sounded and compare the gateway's figures with the relay's."""
    media = [each["media"] for each in found]
    lost = sum(each["counted"]["lost"] for each in media)
    received = sum(each["counted"]["received"] for each in media)
    assert lost / (lost + received) == pytest.approx(loss, rel=0.2)
    for voice in ("caller", "agent"):
        told = [each[voice] for each in media if each[voice]]
        assert len(told) >= 0.9 * len(media), f"{len(told)} of {len(media)} calls know of the {voice}'s voice"
        mos = [each["mos"] for each in told]
        loss, late, jitter_ms = (
            np.mean([each[name] for each in told]) for name in ("loss", "discard", "jitter_ms")
        )
        print(
            f"{voice}: MOS {min(mos):.2f} to {max(mos):.2f}, median {np.median(mos):.2f}; "
            f"loss {loss:.1%}, late {late:.1%}, jitter {jitter_ms:.0f} ms"
        )
        assert 3.0 <= np.median(mos) <= 4.3
    concealed = [each["counted"]["concealed_ms"] for each in media]
    waits = [each["counted"]["target_ms"] for each in media]
    delays = [each["counted"]["buffer_ms"] for each in media]
    print(
        f"concealed {np.median(concealed):.0f} ms a call; the buffer delayed by {np.median(delays):.0f} ms "
        f"and waited for {min(waits)} to {max(waits)} ms"
    )
    assert np.median(concealed) > 0
    assert 40 <= max(waits) <= 200
