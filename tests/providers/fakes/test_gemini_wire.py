"""Pieces of the Gemini Live wire."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.fakes import gemini_wire as wire
from providers.fakes.gemini_shapes import Refused


@given(st.binary(max_size=50), st.booleans(), st.booleans())
def test_any_base64_is_read(data, url_safe, padded):
    """Fault 39: the SDK sends the URL-safe alphabet."""
    text = (base64.urlsafe_b64encode(data) if url_safe else base64.b64encode(data)).decode()
    assert wire.decode_base64(text if padded else text.rstrip("=")) == data


@pytest.mark.parametrize("text", ["A", "A===", "AA AA", "AÄ==", "A*AA"])
def test_what_is_no_base64_is_refused(text):
    with pytest.raises(Refused):
        wire.decode_base64(text)


@pytest.mark.parametrize(
    ("mime", "rate"),
    [("audio/pcm;rate=16000", 16000), ("audio/pcm; rate=8000", 8000), ("AUDIO/L16;RATE=44100", 44000)],
)
def test_the_type_of_audio_says_its_rate(mime, rate):
    audio, fmt = wire.decode_audio({"mimeType": mime, "data": "AAECAw=="})
    assert (audio, fmt.encoding, fmt.rate) == (b"\x00\x01\x02\x03", "pcm16", rate)


def test_half_a_sample_is_dropped():
    assert wire.decode_audio({"mimeType": "audio/pcm;rate=16000", "data": "AAEC"})[0] == b"\x00\x01"


@pytest.mark.parametrize(("seconds", "text"), [(50, "50s"), (1.28, "1.280s"), (0, "0s"), (0.2, "0.200s")])
def test_durations_are_those_of_protobuf(seconds, text):
    assert wire.duration(seconds) == text


def test_usage_leaves_out_what_is_nothing():
    usage = wire.usage(text_in=60, audio_in=150, text_out=0, audio_out=43)
    assert usage == {
        "promptTokenCount": 210,
        "responseTokenCount": 43,
        "totalTokenCount": 253,
        "promptTokensDetails": [
            {"modality": "TEXT", "tokenCount": 60}, {"modality": "AUDIO", "tokenCount": 150},
        ],
        "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 43}],
    }  # fmt: skip


def test_an_unknown_status_is_internal():
    assert wire.error("server_error")["error"]["code"] == 13
