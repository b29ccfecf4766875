import numpy as np

from deploy.demo.caller import g711
from tests.kit import sound


def test_every_code_decodes_as_the_formulas_of_g711_say():
    codes = bytes(range(256))

    assert np.array_equal(g711.decode(codes), sound.decode(codes))


def test_every_code_survives_decoding_and_encoding():
    codes = np.array([code for code in range(256) if code != 0x7F], np.uint8)  # 0x7F is the second zero

    assert g711.encode(g711.decode(codes.tobytes())) == codes.tobytes()


def test_encoding_is_off_by_half_a_step_at_most():
    pcm = np.arange(-32000, 32001).astype(np.int16)
    error = np.abs(g711.decode(g711.encode(pcm)).astype(int) - pcm)

    assert (error <= (np.abs(pcm.astype(int)) + 132) / 32).all()  # a step is 1/16 of its segment's level


def test_silence_is_zero():
    assert g711.decode(bytes([g711.SILENCE]) * 3).tolist() == [0, 0, 0]
