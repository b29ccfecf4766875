"""The tables against libsndfile, which has its own."""

import io

import numpy as np
import pytest
import soundfile

from providers.fakes.g711 import decode, encode

EVERY_SAMPLE = np.arange(-32768, 32768, dtype=np.int32).astype(np.int16)
NAMES = [("pcmu", "ULAW"), ("pcma", "ALAW")]


@pytest.mark.parametrize(("encoding", "subtype"), NAMES)
def test_every_code_decodes_as_libsndfile_decodes_it(encoding, subtype):
    codes = bytes(range(256))
    expected, _ = soundfile.read(
        io.BytesIO(codes), dtype="int16", samplerate=8000, channels=1, format="RAW", subtype=subtype
    )
    assert decode(codes, encoding).tolist() == expected.tolist()


@pytest.mark.parametrize(("encoding", "subtype"), NAMES)
def test_every_sample_is_encoded_to_a_nearest_code(encoding, subtype):
    levels = np.sort(decode(bytes(range(256)), encoding).astype(np.int32))
    after = np.clip(np.searchsorted(levels, EVERY_SAMPLE), 1, len(levels) - 1)
    gap = levels[after] - levels[after - 1]
    error = np.abs(decode(encode(EVERY_SAMPLE, encoding), encoding).astype(np.int32) - EVERY_SAMPLE)
    # Half a step of 2s; where a segment of step s meets one of 2s the gap is 1.5 s, the error up to s.
    assert np.all(error <= np.ceil(gap * 2 / 3))


@pytest.mark.parametrize("encoding", ["pcmu", "pcma"])
def test_what_was_decoded_encodes_to_itself(encoding):
    codes = bytes(code for code in range(256) if not (encoding == "pcmu" and code == 0x7F))  # minus zero
    assert encode(decode(codes, encoding), encoding) == codes


def test_silence_is_the_silence_of_the_wire():
    zeros = np.zeros(4, dtype=np.int16)
    assert (encode(zeros, "pcmu"), encode(zeros, "pcma"), encode(zeros, "pcm16")) == (
        b"\xff" * 4,
        b"\xd5" * 4,
        bytes(8),
    )


def test_half_a_sample_is_left_out():
    assert decode(b"\x01\x00\x02", "pcm16").tolist() == [1]
