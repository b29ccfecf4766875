"""G.711 tables against values from ITU-T G.711 and against their own definition."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.media.g711 import PCMA_TO_PCMU, PCMU_TO_PCMA, decode, encode

ALL_CODES = bytes(range(256))
EVERY_SAMPLE = np.arange(-32768, 32768).astype(np.int16)


@pytest.mark.parametrize(
    ("law", "code", "value"),
    [
        ("pcmu", 0xFF, 0),
        ("pcmu", 0x7F, 0),
        ("pcmu", 0x80, 32124),
        ("pcmu", 0x00, -32124),
        ("pcmu", 0xFE, 8),
        ("pcmu", 0x8F, 16764),
        ("pcmu", 0xEF, 132),
        ("pcma", 0xD5, 8),
        ("pcma", 0x55, -8),
        ("pcma", 0xAA, 32256),
        ("pcma", 0x2A, -32256),
        ("pcma", 0xC5, 264),
        ("pcma", 0xF5, 528),
    ],
)
def test_known_codes_have_the_values_of_the_recommendation(law, code, value) -> None:
    assert decode(law, bytes([code])).tolist() == [value]


@pytest.mark.parametrize("law", ["pcmu", "pcma"])
def test_a_decoded_code_is_encoded_to_itself(law) -> None:
    again = encode(law, decode(law, ALL_CODES))
    # mu-law has two zeros: the negative one becomes the positive one
    assert again == (ALL_CODES.replace(b"\x7f", b"\xff") if law == "pcmu" else ALL_CODES)


@pytest.mark.parametrize("law", ["pcmu", "pcma"])
def test_every_sample_is_off_by_half_a_step_at_most_and_the_order_is_kept(law) -> None:
    samples = EVERY_SAMPLE.astype(int)
    values = decode(law, encode(law, EVERY_SAMPLE)).astype(int)
    assert (np.diff(values) >= 0).all()
    # A step is a sixteenth of its segment, and a segment begins at half of its end.
    half_step = np.maximum(8, (np.abs(samples) + 132) / 32 + 1)
    inside = np.abs(samples) < 32256
    assert (np.abs(values - samples)[inside] <= half_step[inside]).all()


@pytest.mark.parametrize("law", ["pcmu", "pcma"])
def test_speech_level_tones_keep_37_db(law) -> None:
    tone = (8000 * np.sin(2 * np.pi * 1004 * np.arange(8000) / 8000)).astype(np.int16)
    error = decode(law, encode(law, tone)).astype(float) - tone
    assert 10 * np.log10(np.mean(tone.astype(float) ** 2) / np.mean(error**2)) > 37


def test_the_laws_translate_into_each_other_as_through_16_bits() -> None:
    assert ALL_CODES.translate(PCMU_TO_PCMA) == encode("pcma", decode("pcmu", ALL_CODES))
    assert ALL_CODES.translate(PCMA_TO_PCMU) == encode("pcmu", decode("pcma", ALL_CODES))
    assert b"\xff".translate(PCMU_TO_PCMA) == b"\xd5"
    there_and_back = ALL_CODES.translate(PCMU_TO_PCMA).translate(PCMA_TO_PCMU)
    assert sum(a == b for a, b in zip(there_and_back, ALL_CODES, strict=True)) > 200


def test_no_audio_is_no_audio() -> None:
    assert encode("pcmu", decode("pcmu", b"")) == b""
