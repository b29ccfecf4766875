"""Decisions of a script: which step, in which order, how often."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.fakes.director import (
    MAX_PENDING,
    CallerSpoke,
    CallerWasIdle,
    Director,
    TextArrived,
    ToolAnswered,
    dtmf_keys,
)
from providers.fakes.script import Say
from providers.fakes.script_parser import Path, parse_script


@pytest.fixture
def director(script_of):
    return lambda text, instructions="": Director(script_of(text), instructions)


def said(reaction):
    return [act.text for act in reaction.acts if isinstance(act, Say)]


def tone(text):
    return f"{{tone: 440, ms: 100, text: {text}}}"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("DTMF 5 pressed", "5"),
        ("DTMF 12 pressed", "12"),
        ("DTMF: #", "#"),
        ("The caller pressed the key 9.", "9"),
        ("The caller pressed *", "*"),
        ("dtmf digit 0", "0"),
        ("DTMF A pressed", "A"),
        ("Call me at 5", ""),
        ("The caller pressed on", ""),
        ("DTMF Beethoven", ""),
        ("", ""),
    ],
)
def test_keys_are_found_in_the_ways_they_are_told(text, keys):
    assert dtmf_keys(text) == keys


def test_steps_are_taken_from_the_top_and_once(director):
    mind = director(f"steps: [{{on: caller_turn, say: {tone('a')}}}, {{on: caller_turn, say: {tone('b')}}}]")
    answers = []
    for _ in range(3):
        mind.notice(CallerSpoke(barged_in=False))
        answers += said(mind.react())
    assert answers == ["a", "b", "Okay."]


def test_a_repeated_step_is_taken_as_often_as_it_says(director):
    mind = director(f"steps: [{{on: caller_turn, repeat: 2, say: {tone('a')}}}]")
    answers = []
    for _ in range(3):
        mind.notice(CallerSpoke(barged_in=False))
        answers += said(mind.react())
    assert answers == ["a", "a", "Okay."]


def test_steps_behind_then_come_first_and_only_afterwards(director):
    mind = director(f"""
        steps:
          - {{on: caller_turn, say: {tone("a")}, then: [{{on: caller_turn, say: {tone("inner")}}}]}}
          - {{on: caller_turn, say: {tone("b")}}}
    """)
    answers = []
    for _ in range(3):
        mind.notice(CallerSpoke(barged_in=False))
        answers += said(mind.react())
    assert answers == ["a", "inner", "b"]


def test_a_greeting_fits_until_the_caller_has_spoken(director):
    steps = f"steps: [{{on: greeting, say: {tone('hello')}}}, {{on: caller_turn, say: {tone('yes')}}}]"
    mind = director(steps)
    mind.notice(TextArrived("The caller is Ada."))
    assert said(mind.react()) == ["hello"]
    mind = director(steps)
    mind.notice(CallerSpoke(barged_in=False))
    assert said(mind.react()) == ["yes"]


def test_a_barge_in_is_also_a_turn(director):
    mind = director(f"""
        steps:
          - {{on: barge_in, say: {tone("sorry")}}}
          - {{on: caller_turn, repeat: true, say: {tone("yes")}}}
    """)
    for barged_in, answer in ((False, "yes"), (True, "sorry"), (True, "yes")):
        mind.notice(CallerSpoke(barged_in))
        assert said(mind.react()) == [answer]


def test_all_results_of_a_list_have_to_be_there(director):
    mind = director(f"steps: [{{on: {{tool_result: [a, b]}}, say: {tone('both')}}}]")
    mind.notice(ToolAnswered("a", "{}"))
    mind.notice(ToolAnswered("b", "{}"))
    assert said(mind.react()) == ["both"]
    mind = director(f"steps: [{{on: {{tool_result: [a, b]}}, say: {tone('both')}}}]")
    mind.notice(ToolAnswered("a", "{}"))
    assert said(mind.react()) == ["Okay."]


def test_the_content_of_a_result_can_decide(director):
    mind = director(f"""
        steps:
          - on: {{tool_result: {{tool: transfer_call, output: '"ok":false'}}}}
            say: {tone("refused")}
          - {{on: {{tool_result: transfer_call}}, say: {tone("fine")}}}
    """)
    mind.notice(ToolAnswered("transfer_call", '{"ok":true}'))
    assert said(mind.react()) == ["fine"]
    mind.notice(ToolAnswered("transfer_call", '{"ok":false}'))
    assert said(mind.react()) == ["refused"]


def test_keys_that_were_pressed_one_by_one_are_one_number(director):
    mind = director(
        f'steps: [{{on: {{dtmf: "42"}}, say: {tone("answer")}}}, {{on: {{dtmf: any}}, say: {tone("key")}}}]'
    )
    mind.notice(TextArrived("DTMF 4 pressed"))
    mind.notice(TextArrived("DTMF 2 pressed"))
    assert said(mind.react()) == ["answer"]
    mind.notice(TextArrived("DTMF 7 pressed"))
    assert said(mind.react()) == ["key"]


def test_idleness_is_noticed(director):
    mind = director(
        f"steps: [{{on: {{idle: 4}}, say: {tone('there')}}}, {{on: {{idle: 9}}, say: {tone('gone')}}}]"
    )
    assert mind.idle_after() == 4.0
    mind.notice(CallerWasIdle())
    assert said(mind.react()) == ["there"]
    assert mind.idle_after() == 9.0
    assert director("steps: []").idle_after() is None


def test_what_was_noticed_is_used_up(director):
    mind = director(f"steps: [{{on: caller_turn, repeat: true, say: {tone('a')}}}]")
    mind.notice(CallerSpoke(barged_in=False))
    assert said(mind.react()) == ["a"]
    assert said(mind.react()) == ["Okay."]


def test_a_reaction_can_be_taken_back(director):
    mind = director(f"steps: [{{on: caller_turn, say: {tone('a')}}}]")
    mind.notice(CallerSpoke(barged_in=False))
    mind.react()
    mind.take_back()
    assert said(mind.react()) == ["a"]


def test_without_tools_calls_are_left_out_and_steps_of_calls_alone_skipped(director):
    mind = director(f"""
        steps:
          - {{on: greeting, call: {{tool: a}}}}
          - {{on: greeting, say: {tone("hello")}, call: {{tool: b}}}}
    """)
    reaction = mind.react(tools=False)
    assert [type(act) for act in reaction.acts] == [Say]
    assert said(reaction) == ["hello"]
    assert mind.react().acts[0].tool == "a"


def test_a_remark_uses_up_nothing_that_was_noticed(director):
    mind = director(
        f"steps: [{{on: caller_turn, say: {tone('a')}}}, {{on: {{text: sum}}, say: {tone('sum')}}}]"
    )
    mind.notice(CallerSpoke(barged_in=False))
    assert said(mind.remark(["sum up"])) == ["sum"]
    assert said(mind.react()) == ["a"]


def test_transcripts_are_those_of_the_next_turn_and_numbered_without_one(director):
    mind = director(f"steps: [{{on: caller_turn, heard: Hello, say: {tone('a')}}}]")
    assert mind.transcript(barged_in=False) == "Hello"
    mind.notice(CallerSpoke(barged_in=False))
    mind.react()
    assert mind.transcript(barged_in=False) == "Turn 2 of the caller."


STIMULI = st.lists(
    st.sampled_from([
        CallerSpoke(barged_in=False), CallerSpoke(barged_in=True), TextArrived("DTMF 1 pressed"),
        ToolAnswered("a", "{}"), CallerWasIdle(), None,
    ]),
    max_size=40,
)  # fmt: skip
EVERYTHING = """
steps:
  - {on: greeting, say: {tone: 440, ms: 100, text: s1}}
  - on: barge_in
    say: {tone: 440, ms: 100, text: s2}
    then: [{on: idle, say: {tone: 440, ms: 100, text: s3}}]
  - {on: {tool_result: a}, say: {tone: 440, ms: 100, text: s4}}
  - {on: {dtmf: "1"}, say: {tone: 440, ms: 100, text: s5}}
  - {on: caller_turn, say: {tone: 440, ms: 100, text: s6}}
"""
SCRIPT = parse_script(EVERYTHING, Path("everything.yaml"))


@settings(deadline=None)
@given(STIMULI)
def test_no_step_is_used_twice_and_every_question_gets_an_answer(stimuli):
    """``None`` asks for an answer; everything else is noticed."""
    mind = Director(SCRIPT, "")
    answers = []
    for stimulus in stimuli:
        if stimulus is None:
            answers += said(mind.react())
        else:
            mind.notice(stimulus)
    steps = [answer for answer in answers if answer != "Okay."]
    assert len(steps) == len(set(steps))
    assert len(answers) == stimuli.count(None)
    assert ("s3" in steps) <= ("s2" in steps)


def test_what_nobody_asks_about_is_forgotten(director):
    mind = director(f"steps: [{{on: {{text: first}}, say: {tone('a')}}}]")
    mind.notice(TextArrived("first"))
    for _ in range(MAX_PENDING):
        mind.notice(TextArrived("more"))
    assert said(mind.react()) == ["Okay."]


def test_a_step_that_wants_to_know_something_waits_until_all_of_it_was_put_in(director):
    mind = director(
        f"steps: [{{on: {{knows: [4711, '\"ok\":true']}}, say: {tone('I know')}}}, "
        f"{{on: greeting, repeat: true, say: {tone('Hello')}}}]"
    )
    mind.notice(TextArrived("My number is 4711."))
    answers = said(mind.react())
    mind.notice(ToolAnswered("lookup_caller", '{"ok":true}'))
    answers += said(mind.react())
    answers += said(mind.react())
    assert answers == ["Hello", "I know", "Hello"]
