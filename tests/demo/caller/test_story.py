from pathlib import Path

import pytest

import deploy.demo
from deploy.demo.caller.player import AUDIO
from deploy.demo.caller.report import read_wav
from deploy.demo.caller.story import STORIES, BargeIn, Listen, Say, without_barge_in


@pytest.mark.parametrize("story", STORIES)
def test_every_line_of_a_story_is_recorded_and_has_its_words(story):
    words = dict(line.split("\t") for line in (AUDIO / "lines.tsv").read_text().splitlines())
    for step in STORIES[story]:
        if isinstance(step, Say | BargeIn):
            assert words[step.line]
            assert len(read_wav(AUDIO / f"{step.line}.wav")) > 8000


def test_a_patient_caller_waits_and_then_says_the_same():
    assert without_barge_in((BargeIn("interrupt"), Listen())) == (Listen(), Say("interrupt"), Listen())


def test_no_recording_is_left_over():
    named = {line.split("\t")[0] for line in (AUDIO / "lines.tsv").read_text().splitlines()}

    assert {path.stem for path in AUDIO.glob("*.wav")} == named
    assert Path(deploy.demo.__file__).parent / "audio" == AUDIO
