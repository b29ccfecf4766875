"""The last second of the caller's voice."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.gemini.backlog import Backlog


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 4000), max_size=60))
def test_the_newest_pieces_up_to_a_second_are_kept_whole_and_in_order(sizes: list[int]) -> None:
    backlog, everything = Backlog(), b""
    for index, size in enumerate(sizes):
        piece = bytes([index]) * size
        backlog.add(piece)
        everything += piece
    kept = backlog.take()
    assert everything.endswith(kept)
    assert min(len(everything), 28_001) <= len(kept) <= 32_000 or len(kept) == len(everything)
    assert (bool(backlog), backlog.take()) == (False, b"")
