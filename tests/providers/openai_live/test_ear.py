"""The caller's speech is told from noise, clicks and the agent's own echo."""

from providers.openai_live.ear import Ear, Heard
from providers.openai_live.level import power_at

SPEECH, NOISE, SILENCE = power_at(-25.0), power_at(-55.0), 0.0


def ear() -> Ear:
    return Ear(threshold=0.5, silence_ms=500)


def hear(listening: Ear, power: float, ms: int, *, agent: bool = False) -> list[Heard]:
    heard = [listening.hear(power, 20, agent_heard=agent) for _ in range(ms // 20)]
    return [each for each in heard if each is not None]


def test_speech_is_heard_after_60_ms_and_its_end_after_the_silence():
    listening = ear()
    assert hear(listening, SILENCE, 1000) == []
    assert hear(listening, SPEECH, 40) == []
    assert hear(listening, SPEECH, 20) == [Heard.STARTED]
    assert listening.began_ms == 1000
    assert hear(listening, SPEECH, 1000) == []
    assert hear(listening, SILENCE, 480) == []
    assert listening.pausing_ms == 480
    assert hear(listening, SILENCE, 20) == [Heard.STOPPED]


def test_a_click_is_no_speech_and_a_pause_between_words_no_end():
    listening = ear()
    assert hear(listening, SPEECH, 40) + hear(listening, SILENCE, 400) == []
    hear(listening, SPEECH, 400)
    assert hear(listening, SILENCE, 400) + hear(listening, SPEECH, 400) == []


def test_the_noise_of_a_line_is_no_speech():
    assert hear(ear(), NOISE, 20_000) == []


def test_a_noisy_line_moves_the_threshold_and_speech_stands_out_still():
    listening = ear()
    car = power_at(-38.0)
    hear(listening, car, 15_000)
    assert hear(listening, car * 3, 400) == []
    assert hear(listening, SPEECH, 200) == [Heard.STARTED]
    assert hear(listening, car, 600) == [Heard.STOPPED]


def test_long_speech_is_not_taken_for_noise():
    listening = ear()
    hear(listening, NOISE, 2000)
    for _ in range(15):
        hear(listening, SPEECH, 900)
        hear(listening, NOISE, 100)
    assert listening.speaking
    assert listening.loud is False
    hear(listening, SPEECH, 20)
    assert listening.loud


def test_an_echo_of_the_agent_is_no_caller():
    echo = power_at(-31.0)
    assert hear(ear(), echo, 1000, agent=True) == []
    assert hear(ear(), echo, 1000, agent=False) == [Heard.STARTED]
    assert hear(ear(), SPEECH, 1000, agent=True) == [Heard.STARTED]


def test_the_agent_s_answer_ends_a_turn_before_its_silence_is_over():
    listening = ear()
    hear(listening, SPEECH, 400)
    hear(listening, SILENCE, 200)
    assert listening.stop() is Heard.STOPPED
    assert hear(listening, SILENCE, 1000) == []
