import dataclasses

import matplotlib.image
import numpy as np
import pytest

from deploy.demo.picture import _wrap, draw
from deploy.demo.scene import BargeInMark, Figure, Moment, Scene, ToolMark, Turn
from tests.kit import sound

SCENE = Scene(
    title="+12125550142 calls +12125550100",
    subtitle="a test",
    caller=np.concatenate((sound.silence(3.0), sound.utterance(1, 2.0), sound.silence(3.0))),
    agent=np.concatenate((sound.utterance(2, 2.5), sound.silence(5.5))),
    caller_turns=(Turn(3.0, 5.0, "When are you open, please? " * 8),),
    agent_turns=(Turn(0.0, 2.5, "Hello."), Turn(5.5, 6.0, "We are open " * 9, cut_short=True)),
    tools=(ToolMark(5.1, 5.2, "lookup_caller", "ok"), ToolMark(5.1, 5.15, "query_knowledge", "ok")),
    barge_ins=(BargeInMark(6.0, "barge-in", 4.0),),
    moments=(Moment(0.1, "answered"), Moment(7.9, "BYE")),
    figures=(Figure("41 ms", "set-up"), Figure("0.4 ms", "jitter")),
)

LEFT, WIDTH = 1920 * 0.055, 1920 * 0.93


@pytest.fixture(scope="module")
def pixels(tmp_path_factory):
    path = tmp_path_factory.mktemp("picture") / "call.png"
    draw(SCENE, path)
    return (matplotlib.image.imread(path)[:, :, :3] * 255).round().astype(int)


def columns_of(pixels, rows, colour):
    near = (np.abs(pixels[rows] - np.array(colour)) < 12).all(axis=2)
    columns = np.nonzero(near.any(axis=0))[0]
    return columns[columns >= int(LEFT) - 8]  # left of it stand the names of the bands


def test_the_picture_is_full_hd(pixels):
    assert pixels.shape == (1080, 1920, 3)


def test_each_voice_is_drawn_where_it_speaks(pixels):
    agent = columns_of(pixels, slice(300, 480), (0x4A, 0x45, 0xC4))
    caller = columns_of(pixels, slice(640, 800), (0x0D, 0x7F, 0x74))

    assert (agent[0] - LEFT) / WIDTH * 8 == pytest.approx(0.0, abs=0.15)
    assert agent[agent < LEFT + WIDTH * 4 / 8][-1] == pytest.approx(LEFT + WIDTH * 2.5 / 8, abs=30)
    assert (caller[0] - LEFT) / WIDTH * 8 == pytest.approx(3.0, abs=0.15)


def test_the_barge_in_is_a_line_through_all_three_bands_at_its_time(pixels):
    for rows in (slice(480, 490), slice(530, 560), slice(640, 800)):
        line = columns_of(pixels, rows, (0xD5, 0x30, 0x2F))
        assert line.mean() == pytest.approx(LEFT + WIDTH * 6 / 8, abs=WIDTH * 0.01)


def test_without_a_barge_in_nothing_is_red(tmp_path):
    draw(dataclasses.replace(SCENE, barge_ins=()), tmp_path / "call.png")
    pixels = (matplotlib.image.imread(tmp_path / "call.png")[:, :, :3] * 255).round().astype(int)

    assert columns_of(pixels, slice(0, 1080), (0xD5, 0x30, 0x2F)).size == 0


def test_words_that_were_cut_off_are_shortened_and_say_so():
    lines = _wrap("one two three four five six seven eight nine ten", 14, cut_short=True)

    assert len(lines) == 3
    assert lines[-1].endswith("… (cut off)")


def test_words_that_fit_are_all_there():
    assert " ".join(_wrap("one two three four", 10, cut_short=False)) == "one two three four"


def test_a_call_without_audio_and_events_is_drawn_all_the_same(tmp_path):
    nothing = np.zeros(0, np.int16)
    draw(Scene("a", "b", nothing, np.zeros(800, np.int16), (), (), (), (), (), ()), tmp_path / "call.png")

    assert (tmp_path / "call.png").stat().st_size > 1000
