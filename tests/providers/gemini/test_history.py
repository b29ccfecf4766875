"""The call so far, in the words in which a model is told."""

from __future__ import annotations

from providers.gemini.config import instructions
from providers.gemini.history import account_of, turns_of
from providers.gemini.messages import Turn
from providers.gemini.models import profile_of
from providers.types import Said, ToolUsed
from tests.providers.gemini.hand_server import setup
from tools.types import ToolCall

HISTORY = (
    Said("caller", "Hi."),
    Said("agent", "Hello."),
    Said("system", "Line held."),
    ToolUsed(ToolCall("c", "look", "{}"), '{"ok":true}'),
)


def test_only_the_agents_words_are_the_models() -> None:
    assert turns_of(HISTORY) == (
        Turn("Hi."),
        Turn("Hello.", model=True),
        Turn("[Line held.]"),
        Turn('[You called look with {}. Its result: {"ok":true}]'),
    )


def test_a_model_that_takes_no_turns_reads_it_in_its_instructions() -> None:
    profile = profile_of("gemini-3.1-flash-live-preview", vertex=True)
    text = instructions(setup(history=HISTORY), profile)
    assert text.startswith("You answer the phone.\n\n## Tools\n\nThe call so far")
    assert text.endswith(account_of(HISTORY))
    assert "\nYou: Hello.\n" in text
    assert instructions(setup(), profile) == "You answer the phone.\n\n## Tools"
