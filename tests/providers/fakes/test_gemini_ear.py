"""Who speaks, and what was said, at the Gemini server."""

import base64

import pytest

from providers.fakes.gemini_models import Backend
from providers.fakes.speech import Tone, render, silence
from providers.types import PCM16_16K, PCM16_24K
from tests.kit.gemini import dial


def test_a_client_may_mark_activity_itself():
    line = dial(setup={"realtimeInputConfig": {"automaticActivityDetection": {"disabled": True}}})
    line.speak(2000)
    line.audio(silence(2000, PCM16_16K))
    assert line.session.turns == 0
    line.send(realtime_input={"activityStart": {}})
    line.speak(500)
    line.send(realtime_input={"activityEnd": {}})
    line.run(3)
    assert line.voice() == render(Tone(500, 2000), PCM16_24K)
    assert "voiceActivity" not in line.kinds


@pytest.mark.parametrize("mark", ["activityStart", "activity_end"])
def test_marks_are_refused_where_the_server_listens(mark):
    line = dial()
    line.send(realtime_input={mark: {}})
    assert line.session.closing.code == 1007


def test_vertex_may_signal_speech_in_a_second_way():
    model = "publishers/google/models/gemini-3.8-live"
    line = dial(backend=Backend.VERTEX, setup={"model": model, "explicitVadSignal": True})
    line.turn()
    line.run(1)
    signals = [each["vadSignalType"] for each in line.all("voiceActivityDetectionSignal")]
    assert signals == ["VAD_SIGNAL_TYPE_SOS", "VAD_SIGNAL_TYPE_EOS"]


def test_the_end_of_the_stream_ends_a_turn():
    line = dial()
    line.speak()
    line.send(realtime_input={"audioStreamEnd": True})
    line.run(3)
    assert line.voice() == render(Tone(500, 2000), PCM16_24K)


def test_the_settings_of_the_detector_are_those_of_the_setup():
    def heard(**detection):
        line = dial(setup={"realtimeInputConfig": {"automaticActivityDetection": detection}})
        line.speak(100)
        line.audio(silence(320, PCM16_16K))
        return line.session.turns

    assert heard() == 1
    assert heard(prefixPaddingMs=200) == 0
    assert heard(silence_duration_ms=400) == 0
    assert heard(endOfSpeechSensitivity="END_SENSITIVITY_LOW") == 0


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_both_alphabets_are_the_same_audio(encode):
    loud = bytes(range(256)) * 5
    line = dial()
    line.audio(loud, encode=encode)
    assert line.session.input_audio == loud


@pytest.mark.parametrize(
    "mime", ["audio/pcm", "audio/pcm;rate=fast", "audio/mp3;rate=16000", "", "audio/pcm;rate=1000"]
)
def test_audio_without_its_rate_is_refused(mime):
    line = dial()
    line.send(realtimeInput={"audio": {"data": "AAAA", "mimeType": mime}})
    assert line.session.closing.code == 1007


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 24000, 44100, 48000])
def test_any_rate_is_heard(rate):
    line = dial()
    loud = render(Tone(300, 1000), PCM16_16K)
    data = base64.b64encode((loud * 3)[: rate * 2]).decode()
    line.send(realtimeInput={"audio": {"data": data, "mimeType": f"audio/pcm;rate={rate}"}})
    assert line.session.heard_ms == pytest.approx(1000, rel=0.04)
    assert [each["type"] for each in line.all("voiceActivity")] == ["ACTIVITY_START"]


@pytest.mark.parametrize(
    "body",
    [
        {"mediaChunks": [{"data": "AAAA", "mimeType": "audio/pcm;rate=16000"}]},
        {"audio": {"data": "A!", "mimeType": "audio/pcm;rate=16000"}},
        {"audio": "AAAA"},
        {"music": {}},
    ],
)
def test_bad_input_closes_with_1007(body):
    line = dial()
    line.send(realtimeInput=body)
    assert line.session.closing.code == 1007
