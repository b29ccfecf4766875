"""Field reports about the opening of sessions, held on real calls through ``trunkline serve``."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kit import sound
from tests.kit.hear import hear
from tests.kit.model import Model
from tests.kit.office import NUMBER
from tests.kit.sound import Pcm, decode

pytestmark = pytest.mark.peers

GREETING = sound.utterance(1, 0.8)
ACCOUNT_NUMBER = sound.utterance(111, 2.3)
SCRIPT = """
    connect_after: 1.6
    speech: {speed: 50}
    steps:
      - {on: greeting, say: {audio: greeting.wav, text: Hello}}
"""


def voice_at(model: Model) -> Pcm:
    """Return the caller's audio as the model got it, at 8 kHz."""
    data = bytes(model.sessions[0].input_audio)
    if model.kind != "gemini":
        return decode(data, "PCMU")
    wide = np.frombuffer(data[: len(data) // 4 * 4], np.int16).astype(np.int32)
    return ((wide[0::2] + wide[1::2]) // 2).astype(np.int16)


@pytest.mark.report("BR-111")
@pytest.mark.parametrize("kind", ["openai", "gemini", "openai-live"])
def test_not_a_word_is_lost_of_a_caller_who_speaks_as_soon_as_the_call_is_answered(
    openai_office, tmp_path, kind
):
    """
    The session is there after 1.6 s, and the caller speaks for 2.3 s from 0.2 s after the answer on.

    Reported of a gateway that answers at once and has to buffer. This one answers when the session is
    configured, so that the caller hears ringing meanwhile; nothing is sent to a session before.
    """
    sound.write(tmp_path / "greeting.wav", GREETING)
    with Model(SCRIPT, tmp_path, kind=kind) as model:
        agent = {"providers": [kind], "prompt": "You answer the phone.", "greeting": None}
        gateway = openai_office.start(
            {
                "trunks": {"loopback": {"allow": ["127.0.0.0/8"]}},
                "providers": model.settings,
                "agents": {"reception": agent},
                "numbers": {NUMBER: {"agent": "reception"}},
            }
        )
        phone = openai_office.phone(gateway)
        phone.dial()
        ringing = phone.wait_for(lambda message: message.status == 180, 5, "180")
        assert ringing.status == 180
        phone.listen(1.4)
        assert 200 not in phone.statuses(), "nobody is told to speak to a model that is not there"
        phone.wait_for(lambda message: message.answers == "INVITE" and message.status == 200, 10, "200")
        phone.listen(0.2)
        phone.speak(ACCOUNT_NUMBER)
        phone.listen(1.0)
        heard = voice_at(model)
        phone.hang_up()
    told = hear(ACCOUNT_NUMBER, heard)
    assert told.whole, told
    assert abs(told.pauses_ms) <= 20
