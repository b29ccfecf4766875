"""
Twelve ways in which a model leaves its caller in silence, each in a call through ``trunkline serve``.

When the fault became one, and when something was done about it, is measured at the other ends: by the server,
which plays the fault and sees what is asked of it next, and by the caller's telephone, which hears the agent
again. The seed says when the caller speaks and with which voice.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit import sound
from tests.kit.exchange import results
from tests.kit.gateway import Gateway
from tests.kit.model import Model, reports
from tests.kit.office import KEY
from tests.kit.phone import Audio, Phone
from tests.kit.ports import Ports

pytestmark = [pytest.mark.peers, pytest.mark.crowd]

WITHIN_S = 1.5
BACK_OFF_S = 1.5
"""After a rate limit nothing is asked for so long."""
REPLY_S = 5.5
"""``reply_within_s``: for so long a model may think."""
TURN_S = 4.0
"""More, while nobody says that the turn of the caller is over (``gateway.calls.repair.Patience``)."""
SEED = 20261130
SCRIPT = """
    speech: {speed: 4}
    otherwise: answer.flac
    steps:
      - {on: greeting, say: greeting.flac}
      - {on: caller_turn, say: answer.flac, repeat: true}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """
    A fault: which response it spoils, and what the record calls it.

    ``allowed`` is how long the silence after ``since`` is normal: what the server said or the caller did.
    """

    faults: str
    word: str
    since: str
    allowed: float


CASES = [
    Case("failed#2", "response_failed", "response.done", 0.0),
    Case("failed#2:rate_limit_exceeded", "response_failed", "response.done", BACK_OFF_S),
    Case("no_audio#2", "empty_response", "response.done", 0.0),
    Case("incomplete#2", "response_incomplete", "response.done", 0.0),
    Case("incomplete#2:content_filter", "response_incomplete", "response.done", 0.0),
    Case("silent_audio:0#2", "inaudible_audio", "response.created", 0.0),
    Case("silent_audio:3#2", "inaudible_audio", "response.created", 0.0),
    Case("hang#2", "speech_broken_off", "last audio", 0.0),
    Case("ignored#2", "no_audio", "input_audio_buffer.speech_stopped", REPLY_S),
    Case("freeze", "no_audio", "input_audio_buffer.speech_stopped", REPLY_S),
    Case("phantom_interrupted@1.5,freeze", "no_audio", "input_audio_buffer.speech_started", REPLY_S + TURN_S),
    Case("stall@4", "no_audio", "caller", REPLY_S + TURN_S),
]

ASKED = {"response.create", "response.cancel", "conversation.item.truncate", "conversation.item.create"}
LOUD = 500
SPEECH_S = 1.5
"""So much to hear is an answer, and no recording that only bridges the pause."""


def settings(model: Model, folder: Path) -> dict[str, object]:
    """Lay out a number, an agent and a faulty provider for each case, and a good one behind all of them."""
    parts: dict[str, dict[str, object]] = {"providers": {}, "agents": {}, "numbers": {}}
    openai = {"kind": "openai", "api_key": "${env:MODEL_KEY}", "base_url": model.server.url}
    parts["providers"]["spare"] = openai
    for number, case in enumerate(CASES):
        parts["providers"][f"p{number}"] = {**openai, "model": f"gpt-realtime-2.1~{case.faults}"}
        parts["agents"][f"a{number}"] = {
            "providers": [f"p{number}", "spare"],
            "prompt": f"This is case {number}.",
            "reply_within_s": REPLY_S,
        }
        parts["numbers"][called(number)] = {"agent": f"a{number}"}
    trunks = {"loopback": {"allow": ["127.0.0.0/8"]}}
    return {"trunks": trunks, "storage": {"recordings": str(folder / "recordings")}, **parts}


def called(number: int) -> str:
    return f"+1202555{number:04d}"


def fault_at(case: Case, model: Model, number: int, phone: Phone, spoke_until: float) -> float:
    """Say when silence became a fault, as the other ends saw it."""
    first = next(each for each in model.sessions if f"case {number}." in each.config.instructions)
    if case.since == "caller":
        return spoke_until + case.allowed
    if case.since == "last audio":  # of the half that came
        done = next(each.at for each in first.sent if each.type == "input_audio_buffer.speech_stopped")
        seen = asked_at(model, number, done)
        return max(at for at in loud([each for each in phone.audio if each.kind == 0]) if at < seen)
    found = [each.at for each in first.sent if each.type == case.since]
    spoilt = 1 if case.since.startswith("response") else 0
    return found[spoilt] + case.allowed


def asked_at(model: Model, number: int, after: float) -> float:
    """Say when something was done about it: asked of this session, or of another one."""
    mine = [each for each in model.sessions if f"case {number}." in each.config.instructions]
    times = [each.at for each in list(mine[0].received) if each.type in ASKED and each.at > after]
    times += [next(iter(each.received)).at for each in mine[1:] if each.received]
    assert times, (CASES[number], "nothing was done about it")
    return min(times)


def loud(packets: list[Audio]) -> list[float]:
    """Return when those packets came in which there is something to hear, on the clock of the server."""
    ahead = time.time() - time.monotonic()
    return [each.at - ahead for each in packets if abs(sound.decode(each.payload).astype(int)).max() > LOUD]


def endure(case: Case, number: int, model: Model, gateway: Gateway, ports: Ports) -> tuple[str, float]:
    """Call, hear the greeting, ask, hear the answer at last; return how long the fault stayed unseen."""
    chance = random.Random(SEED + number)
    with Phone(gateway.sip, ports, called=called(number)) as phone:
        phone.call(timeout=15)
        phone.listen(chance.uniform(0.8, 1.2) if case.faults == "freeze" else chance.uniform(4.2, 5.0))
        phone.speak(sound.utterance(SEED + number, chance.uniform(0.8, 1.4)))
        spoke_until = time.monotonic()
        phone.listen(24)
        at = fault_at(case, model, number, phone, spoke_until)
        seen = asked_at(model, number, at - min(case.allowed, 1.0))
        heard = [when for when in loud([each for each in phone.audio if each.kind == 0]) if when > seen]
        assert len(heard) * 0.02 > SPEECH_S, (case.faults, "the agent was not heard again", len(heard))
        phone.hang_up()
    return case.faults, seen - at


def test_each_silence_is_found_within_a_second_and_a_half_and_ended(ports, tmp_path):
    with (
        Model(SCRIPT, tmp_path) as model,
        Gateway(settings(model, tmp_path), ports, tmp_path / "gateway", env={"MODEL_KEY": KEY}) as gateway,
    ):
        acts = [lambda n=n, case=case: endure(case, n, model, gateway, ports) for n, case in enumerate(CASES)]
        took = results(acts)
        print(f"seed {SEED}:", {faults: round(seconds, 3) for faults, seconds in took})
        found = {each["called"]: each for each in reports(tmp_path / "recordings", len(CASES))}
        words = [found[called(n)]["missed_replies"][0]["fault"] for n in range(len(CASES))]
        samples = gateway.metrics()
        assert "Traceback" not in gateway.log
    assert words == [case.word for case in CASES]
    assert all(seconds <= WITHIN_S for _, seconds in took), took
    for word in {case.word for case in CASES}:
        assert samples[f'trunkline_missed_replies_total{{fault="{word}"}}'] >= words.count(word)
    for report in found.values():
        assert report["missed_replies"][-1]["heard_after_ms"] is not None
