"""The caller's words, turn by turn."""

from providers.openai_live.turns import SETTLE_S, CallerTurns
from providers.types import CallerTranscript


def finals(turns: CallerTurns) -> list[str]:
    return [each.text for each in turns.events() if each.final]


def test_a_turn_opens_with_its_first_words_and_settles_a_while_after_the_last():
    turns = CallerTurns()
    turns.began(1000)
    turns.words("Good", 1000, 1200, now=2.0)
    turns.words(" morning", 1200, 1500, now=2.2)
    assert turns.next_timeout() is None  # the caller is still speaking
    turns.stopped(now=2.5)
    assert turns.events() == [
        CallerTranscript("caller_1", "", final=False),
        CallerTranscript("caller_1", "Good", final=False),
        CallerTranscript("caller_1", " morning", final=False),
    ]
    turns.handle_timeout(now=2.5 + SETTLE_S - 0.01)
    assert turns.events() == []
    turns.handle_timeout(now=2.5 + SETTLE_S)
    assert turns.events() == [CallerTranscript("caller_1", "Good morning", final=True)]
    assert turns.next_timeout() is None


def test_speech_after_a_pause_without_an_answer_is_the_same_turn():
    turns = CallerTurns()
    turns.began(0)
    turns.words("I would", 0, 400, now=1.0)
    turns.stopped(now=1.2)
    turns.began(1500)
    turns.words(" like to", 1500, 1900, now=2.1)
    turns.stopped(now=2.3)
    turns.settle()
    assert finals(turns) == ["I would like to"]


def test_speech_after_the_agent_s_is_another_turn():
    turns = CallerTurns()
    turns.began(0)
    turns.words("Hello", 0, 400, now=0.6)
    turns.stopped(now=0.9)
    turns.agent_began()
    turns.began(1200)
    turns.words("Stop", 1250, 1400, now=1.6)
    turns.settle()
    assert finals(turns) == ["Hello", "Stop"]


def test_late_words_belong_to_the_turn_in_which_they_were_said():
    turns = CallerTurns()
    turns.began(0)
    turns.words("Are you", 0, 400, now=0.6)
    turns.stopped(now=0.9)
    turns.agent_began()
    turns.began(2000)
    turns.words(" open?", 400, 800, now=2.2)
    turns.words("Never mind", 2000, 2500, now=2.6)
    turns.settle()
    assert finals(turns) == ["Are you open?", "Never mind"]


def test_words_of_a_speech_that_nobody_noticed_are_a_turn_of_their_own():
    turns = CallerTurns()
    turns.words("Hello", 0, 400, now=0.5)
    turns.agent_began()
    turns.words("Yes", 5000, 5200, now=5.5)
    turns.settle()
    assert finals(turns) == ["Hello", "Yes"]


def test_words_that_come_after_a_turn_was_settled_are_added_to_it():
    turns = CallerTurns()
    turns.began(0)
    turns.words("To Sales,", 0, 400, now=0.6)
    turns.stopped(now=0.9)
    turns.settle()
    turns.settle()
    turns.words(" please.", 400, 800, now=1.5)
    turns.handle_timeout(now=1.5 + SETTLE_S)
    finals = [each for each in turns.events() if each.final]
    assert [(each.item_id, each.text) for each in finals] == [
        ("caller_1", "To Sales,"),
        ("caller_1", "To Sales, please."),
    ]


def test_speech_without_words_leaves_no_turn():
    turns = CallerTurns()
    turns.began(0)
    turns.stopped(now=1.0)
    turns.settle()
    assert turns.events() == []
