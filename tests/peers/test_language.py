"""The language of an agent, and the voice that each of its providers has, on a real call."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kit import sound
from tests.kit.model import Model, received, reports
from tests.kit.office import NUMBER

pytestmark = pytest.mark.peers

GREETING, ANSWER = sound.utterance(1, 0.8), sound.utterance(2, 1.0)
YES = sound.utterance(5, 0.3)
"""A short word of 300 ms, such as the Italian for yes."""
BRAND = sound.utterance(6, 0.9)
SCRIPT = """
    speech: {speed: 50}
    steps:
      - {on: greeting, say: {audio: greeting.wav, text: Buongiorno}}
      - {on: caller_turn, heard: "sì", say: {audio: answer.wav, text: Bene}}
      - {on: {dtmf: any}, say: {audio: answer.wav, text: Bene}}
      - {on: caller_turn, heard: "Workspace Business", say: {audio: answer.wav, text: Bene}}
"""


def noise(seconds: float) -> np.ndarray:
    """Line noise at -45 dBFS."""
    samples = np.random.default_rng(199).normal(0.0, 32768 * 10 ** (-45 / 20), int(8000 * seconds))
    return samples.astype(np.int16)


@pytest.mark.report("BR-199")
def test_the_language_of_an_agent_is_told_and_neither_noise_nor_keys_nor_one_turn_change_it(
    openai_office, tmp_path
):
    """Heard: a short Italian word, two seconds of line noise, a key, an English name."""
    sound.write(tmp_path / "greeting.wav", GREETING)
    sound.write(tmp_path / "answer.wav", ANSWER)
    with Model(SCRIPT, tmp_path) as model:
        gateway = openai_office.start(
            {
                "trunks": {"loopback": {"allow": ["127.0.0.0/8"]}},
                "providers": model.settings,
                "agents": {
                    "reception": {
                        "providers": ["openai"],
                        "prompt": "Rispondi al telefono.",
                        "greeting": "Saluta.",
                        "language": "it-IT",
                        "voice": {"openai": "cedar"},
                    }
                },
                "numbers": {NUMBER: {"agent": "reception"}},
                "storage": {"recordings": str(tmp_path / "recordings")},
            }
        )
        phone = openai_office.phone(gateway)
        phone.call()
        phone.until_heard(GREETING, 10, "the greeting")
        phone.speak(YES)
        phone.listen(2.5)
        phone.speak(noise(2.0))
        phone.press("5")
        phone.listen(3.0)
        phone.speak(BRAND)
        phone.listen(2.5)
        phone.hang_up()
        [report] = reports(tmp_path / "recordings")
        [session] = model.sessions
        updates = [event["session"] for event in received(session, "session.update")]

    assert [update["audio"]["input"]["transcription"]["language"] for update in updates] == ["it"]
    assert updates[0]["audio"]["output"]["voice"] == "cedar"
    caller = [row["text"] for row in report["transcript"] if row["who"] == "caller"]
    assert caller == ["sì", "Workspace Business"]


def test_a_running_gateway_refuses_a_file_with_a_voice_that_nobody_has(fake_office):
    """The line says what there is; the old file stays in force, and the next call is served."""
    gateway = fake_office.open(
        agent={"voice": "anything"}, storage={"recordings": str(fake_office.folder / "recordings")}
    )
    wrong = {
        **gateway.settings,
        "providers": {
            **gateway.settings["providers"],
            "gemini": {"api_key": "k", "base_url": "https://127.0.0.1:9"},
        },
    }
    reception = {**gateway.settings["agents"]["reception"], "providers": ["gemini"], "voice": "kore"}
    gateway.write({**wrong, "agents": {"reception": reception}})
    gateway.until(lambda: "config.refused" in gateway.log, 10, "the refusal")
    [refused] = [line for line in gateway.log.splitlines() if "config.refused" in line]
    assert "agents.reception.voice: 'kore' is no voice of gemini; did you mean Kore? write one of" in refused
    phone = fake_office.phone(gateway)
    phone.call()
    phone.hang_up()
    reports(fake_office.folder / "recordings")
