"""Coded recordings are found again in what a telephone heard, to the sample."""

import random

import numpy as np
import pytest

from tests.kit.coded import LEAST, Finder, Piece, coded, joined
from tests.kit.sound import FRAME, decode, encode

LENGTHS = {1: 3_170, 2: 900, 3: 5_001, 4: 250}


@pytest.fixture
def finder() -> Finder:
    return Finder([(number, coded(number, ms)) for number, ms in LENGTHS.items()])


def heard(finder: Finder, pcm: np.ndarray, codec: str = "PCMU") -> list[Piece | None]:
    data = encode(np.pad(pcm, (0, -len(pcm) % FRAME)), codec)
    found: list[Piece | None] = []
    for at in range(0, len(data), FRAME):
        pieces = finder.find(decode(data[at : at + FRAME], codec))
        found += [None] if pieces is None else pieces
    return found


def test_a_longer_recording_begins_with_the_shorter_one():
    assert np.array_equal(coded(7, 1_000)[:4_000], coded(7, 500))


def test_no_20_ms_are_like_any_other():
    frames = np.concatenate([coded(number, 2_000) for number in range(40)]).reshape(-1, FRAME)
    frames = frames / np.linalg.norm(frames, axis=1, keepdims=True)
    likeness = np.abs(frames @ frames.T - np.eye(len(frames)))
    assert likeness.max() < 0.5


@pytest.mark.parametrize("codec", ["PCMU", "PCMA"])
@pytest.mark.parametrize("lead", [0, 1, 57, 159])
def test_recordings_are_found_whole_wherever_packets_cut_them(finder, codec, lead):
    pause = np.zeros(500, np.int16)
    pcm = np.concatenate((np.zeros(lead, np.int16), coded(1, 3_170), coded(2, 900), pause, coded(3, 5_001)))
    found = heard(finder, pcm, codec)
    assert None not in found
    for number in (1, 2, 3):
        [piece] = joined([each for each in found if each.number == number])
        assert (piece.start <= LEAST, piece.end) == (True, LENGTHS[number] * 8)


def test_a_recording_that_was_cut_off_ends_where_it_was_cut(finder):
    rng = random.Random(5)
    for _ in range(20):
        frames, number = rng.randint(1, 100), rng.choice([1, 3])
        pcm = np.concatenate(
            (coded(number, 5_000)[: frames * FRAME], np.zeros(4_000, np.int16), coded(4, 250))
        )
        found = joined(heard(finder, pcm))
        assert found == [Piece(number, 0, frames * FRAME), Piece(4, 0, 2_000)]


def test_frames_that_are_missing_are_a_gap_and_nothing_else(finder):
    pcm = coded(3, 5_001)
    lost = np.concatenate((pcm[: 10 * FRAME], pcm[13 * FRAME :]))
    assert joined(heard(finder, lost)) == [Piece(3, 0, 10 * FRAME), Piece(3, 13 * FRAME, 5_001 * 8)]
    assert finder.searched == 1


def test_a_last_packet_alone_is_known(finder):
    pcm = coded(1, 3_170)
    assert heard(finder, pcm[158 * FRAME :]) == [Piece(1, 158 * FRAME, 3_170 * 8)]


def test_a_change_of_law_on_the_way_changes_nothing(finder):
    pcm = decode(encode(decode(encode(coded(1, 3_170), "PCMU"), "PCMU"), "PCMA"), "PCMA")
    assert joined(heard(finder, pcm)) == [Piece(1, 0, 3_170 * 8)]


def test_another_sound_is_none_of_them(finder):
    assert heard(finder, coded(9, 200)) == [None] * 10
    assert heard(finder, np.zeros(800, np.int16)) == []
