"""
What Gemini is told was heard: it cannot truncate, so that the gateway tells it in words, after a barge-in.

The parties are those of ``test_heard_truth.py``. The model says one word in each tenth of a second of its
coded recordings, so the number of words in the note that it receives is how much it believes was heard. The
note can be no finer than a word, and words come with their audio in pieces.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.kit.counts import counts
from tests.peers.test_heard_truth import TURNS, interrupted_line, place_calls, ports, seed_of, talk_over

pytestmark = [pytest.mark.peers, pytest.mark.soak, pytest.mark.timeout(counts(test=240, full=900))]

__all__ = ["ports"]
AT_ONCE = counts(test=6, full=12)
BARGE_INS = counts(test=10, full=200)
WORD_MS = 100
ALLOWED_MS = 2 * WORD_MS


def test_gemini_is_told_the_words_that_were_really_played(ports, tmp_path):
    seed = seed_of("notes")
    rng = random.Random(seed)
    lines = [interrupted_line(index, rng) for index in range(AT_ONCE)]
    each = -(-BARGE_INS * 3 // 2 // TURNS // len(lines))
    calls_of = {line.index: each for line in lines}
    pairs = place_calls(lines, calls_of, seed, ports, tmp_path, talk_over, kind="gemini")
    errors = [
        len(words) * WORD_MS - sum(call.position_ms(number) for number in set(words))
        for call, told in pairs
        for words in told.notes
        if words
    ]
    off = np.abs(errors)
    p50, p99 = np.percentile(off, [50, 99])
    strange = sum(call.strange for call, _ in pairs)
    print(
        f"notes: {len(off)}; |told - played| p50 {p50:.0f}, p99 {p99:.0f}, max {off.max():.0f} ms; "
        f"frames that are in no recording: {strange}"
    )
    assert len(off) >= BARGE_INS
    assert p99 <= ALLOWED_MS
