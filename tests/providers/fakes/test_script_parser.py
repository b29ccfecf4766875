"""What may stand in a script, and how mistakes are explained."""

import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.fakes.script import (
    Call,
    Connect,
    OnCallerTurn,
    OnDtmf,
    OnGreeting,
    OnIdle,
    OnKnows,
    OnText,
    OnToolResult,
    Outcome,
    Pace,
    Say,
    Script,
    ScriptError,
    Status,
)
from providers.fakes.script_parser import parse_script
from providers.fakes.speech import AUDIO_FOLDER, Recording, Tone
from providers.fakes.vad import VadSettings
from providers.types import PCM16_24K, PCMA


def only_step(script):
    ((step,),) = [scene.steps for scene in script.scenes]
    return step


@pytest.mark.parametrize(
    ("on", "trigger"),
    [
        ("greeting", OnGreeting()),
        ("caller_turn", OnCallerTurn(barge_in=False)),
        ("barge_in", OnCallerTurn(barge_in=True)),
        ('{dtmf: "1"}', OnDtmf("1")),
        ("{dtmf: 1}", OnDtmf("1")),
        ("{dtmf: any}", OnDtmf(None)),
        ('{dtmf: "*"}', OnDtmf("*")),
        ("{tool_result: lookup_caller}", OnToolResult(("lookup_caller",), None)),
        ("{tool_result: [a, b]}", OnToolResult(("a", "b"), None)),
        ("{knows: [a+, 4711]}", OnKnows((re.compile("a+", re.I), re.compile("4711", re.I)))),
        ("idle", OnIdle(8.0)),
        ("{idle: 2.5}", OnIdle(2.5)),
    ],
)
def test_every_event_can_be_written(script_of, on, trigger):
    assert only_step(script_of(f"steps: [{{on: {on}, say: okay.flac}}]")).on == trigger


def test_patterns_ignore_case(script_of):
    step = only_step(script_of('steps: [{on: {text: "Transfer .* FAILED"}, say: okay.flac}]'))
    assert isinstance(step.on, OnText)
    assert step.on.pattern.search("the transfer to Sales failed")
    step = only_step(script_of('steps: [{on: {tool_result: {tool: x, output: "denied"}}, say: okay.flac}]'))
    assert step.on.output.search('{"status":"DENIED"}')


def test_a_step_says_and_calls_in_the_order_that_is_written(script_of):
    say = Say(Recording(AUDIO_FOLDER / "okay.flac"), "Okay.")
    call = Call("end_call", "{}")
    assert only_step(script_of("steps: [{on: greeting, say: okay.flac, call: {tool: end_call}}]")).acts == (
        say,
        call,
    )
    assert only_step(script_of("steps: [{on: greeting, call: {tool: end_call}, say: okay.flac}]")).acts == (
        call,
        say,
    )


def test_sounds_and_arguments_have_several_forms(script_of):
    step = only_step(
        script_of("""
        steps:
          - on: greeting
            say: [okay.flac, {audio: okay.flac, text: Right}, {tone: 440, ms: 300, text: beep}]
            call:
              - {tool: a}
              - {tool: b, arguments: {n: [1, {m: null}]}}
              - {tool: c, arguments_text: "{not json"}
    """)
    )
    assert [act.text for act in step.acts if isinstance(act, Say)] == ["Okay.", "Right", "beep"]
    assert step.acts[2].sound == Tone(440, 300)
    assert [act.arguments for act in step.acts[3:]] == ["{}", '{"n":[1,{"m":null}]}', "{not json"]


def test_everything_else_of_a_step(script_of):
    step = only_step(
        script_of("""
        steps:
          - on: caller_turn
            heard: hello
            after: 0.5
            repeat: true
            outcome: {status: failed, code: rate_limit_exceeded}
            then: [{on: idle, outcome: incomplete}]
    """)
    )
    assert (step.heard, step.after, step.uses, step.line) == ("hello", 0.5, None, 3)
    assert step.outcome == Outcome(Status.FAILED, "rate_limit_exceeded")
    assert [(after.on, after.outcome.status, after.uses) for after in step.then] == [
        (OnIdle(8.0), Status.INCOMPLETE, 1)
    ]


def test_the_settings_of_a_script(script_of):
    script = script_of("""
        connect: hang
        connect_after: 1.5
        lose_after: 30
        formats: [pcma, pcm16_24k]
        speech: {speed: 5, delta_ms: [100, 200], latency_ms: 300}
        hearing: {threshold: 0.6, prefix_padding_ms: 200, silence_ms: 700, transcript_after_ms: 0}
        otherwise: silence
        steps: []
    """)
    assert (script.connect, script.connect_after, script.lose_after) == (Connect.HANG, 1.5, 30.0)
    assert script.formats == (PCMA, PCM16_24K)
    assert script.pace == Pace(5.0, (100, 200), 300)
    assert script.hearing.vad == VadSettings(0.6, 200, 700)
    assert script.otherwise == ()


def test_without_settings_the_defaults_hold(script_of):
    script = script_of("steps: []")
    assert script.pace == Pace(4.0, (200, 400, 100, 300), 0)
    assert script.hearing.vad.silence_ms == 500
    assert script.lose_after is None
    assert [say.text for say in script.otherwise] == ["Okay."]


def test_audio_beside_the_script_comes_first(tmp_path):
    shutil.copy(AUDIO_FOLDER / "okay.flac", tmp_path / "greeting.flac")
    script = parse_script("steps: [{on: greeting, say: greeting.flac}]", tmp_path / "s.yaml")
    assert only_step(script).acts == (Say(Recording(tmp_path / "greeting.flac"), ""),)


MISTAKES = [
    ("stepz: []", ":1: stepz: unknown key; did you mean steps?"),
    ("connect: accept", ":1: the script: has to have either `steps` or `scenes`"),
    ("steps: []\nscenes: []", ":1: the script: has to have either"),
    ("- a", ":1: the script: is not a mapping"),
    ("a: [", ": this is not YAML"),
    ("steps: [{on: greting, say: okay.flac}]", ":1: steps[0].on: 'greting' is no event; write greeting"),
    ("steps:\n  - on: greeting", ":2: steps[0].say: is missing; a step needs `say`, `call` or `outcome`"),
    (
        "steps:\n  - on: greeting\n    say: greetin.flac",
        ":3: steps[0].say: there is no recording greetin.flac; did you mean greeting.flac?",
    ),
    ("steps: [{on: greeting, say: {tone: 10, ms: 100}}]", "say.tone: 10 is not a number from 50 to 3500"),
    ("steps: [{on: greeting, say: {text: hello}}]", "steps[0].say: names no sound"),
    ("steps: [{on: greeting, call: {arguments: {}}}]", "steps[0].call.tool: is missing"),
    ("steps: [{on: greeting, call: {tool: a, arguments: {}, arguments_text: x}}]", "write only one of them"),
    ("steps: [{on: {dtmf: x}, say: okay.flac}]", "steps[0].on.dtmf: 'X' has no telephone keys"),
    ('steps: [{on: {text: "("}, say: okay.flac}]', "steps[0].on.text: is not a regular expression"),
    ("steps: [{on: {tool_result: []}, say: okay.flac}]", "names no tool"),
    ("steps: [{on: {rain: 1}, say: okay.flac}]", "steps[0].on.rain: unknown event"),
    ("steps: [{on: greeting, say: okay.flac, repeat: 0}]", "steps[0].repeat: 0 is not a number from 1"),
    ("steps: [{on: greeting, say: okay.flac, heard: 5}]", "steps[0].heard: 5 is not text; put it in quotes"),
    ("steps: [{on: greeting, outcome: crashed}]", "not known; write one of completed, failed, incomplete"),
    ("{connect: maybe, steps: []}", "connect: 'maybe' is not known; write one of accept, refuse"),
    ("{formats: [opus], steps: []}", "formats[0]: 'opus' is no format"),
    ("{speech: {speed: fast}, steps: []}", "speech.speed: 'fast' is not a number"),
    ("{speech: {delta_ms: [5]}, steps: []}", "speech.delta_ms[0]: 5 is not a length from 20 to 5000"),
    ("{hearing: {timeline: [{start_ms: 5, stop_ms: 5}]}, steps: []}", "the turns overlap"),
    ("scenes: [{name: a}]", "scenes[0].steps: is missing"),
    ("scenes: [{when: {colour: red}, steps: []}]", "scenes[0].when.colour: unknown key"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), MISTAKES, ids=[text for text, _ in MISTAKES])
def test_a_mistake_is_named_with_its_line(text, says):
    with pytest.raises(ScriptError) as error:
        parse_script(text, Path("my.yaml"))
    assert any(line.startswith("my.yaml:") and says in line for line in error.value.problems), str(
        error.value
    )


def test_all_mistakes_are_told_at_once():
    steps = "  - on: greting\n    say: none.flac\n  - {on: greeting, say: okay.flac, whn: 1}\n"
    text = f"connect: maybe\nsteps:\n{steps}"
    with pytest.raises(ScriptError) as error:
        parse_script(text, Path("my.yaml"))
    lines = sorted(problem.split(": ")[0] for problem in error.value.problems)
    assert lines == ["my.yaml:1", "my.yaml:3", "my.yaml:4", "my.yaml:5"]


WORDS = st.sampled_from(
    ["steps", "scenes", "on", "say", "call", "tool", "greeting", "okay.flac", "then", "repeat", "idle", "x"]
)
TREES = st.recursive(
    WORDS | st.integers() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=15,
)


@settings(deadline=None)
@given(TREES)
def test_any_yaml_is_a_script_or_a_list_of_mistakes(tree):
    text = (
        "{steps: " + str(tree).replace("None", "null").replace("True", "true").replace("False", "false") + "}"
    )
    try:
        script = parse_script(text, Path("my.yaml"))
    except ScriptError as error:
        mistakes = error.problems
    else:
        mistakes = ()
        assert isinstance(script, Script)
    assert all(line.startswith("my.yaml:") for line in mistakes)
