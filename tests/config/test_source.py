from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.source import parse_source


def parse(text: str, environ=None):
    return parse_source(text, path=Path("x.yaml"), environ=environ or {}, files=set())


def lines(text: str) -> list[str]:
    return [str(problem) for problem in parse(text).problems]


def plus(line: int, path: str, number: str) -> str:
    what = f"YAML takes the unquoted {number} for an integer and drops its plus sign"
    return f'x.yaml:{line}: {path}: {what}; quote this number: "{number}"'


def test_scalars_are_those_of_the_core_schema():
    source = parse(
        "[1, -2, 0, 1.5, 1e3, .5, 0x1F, 0o17, true, False, null, ~, yes, on, 12:30:45, 2026-01-01, '7']"
    )

    assert source.data == [
        1, -2, 0, 1.5, 1000.0, 0.5, 31, 15, True, False, None, None,
        "yes", "on", "12:30:45", "2026-01-01", "7",
    ]  # fmt: skip
    assert source.problems == ()


def test_an_older_yaml_version_changes_nothing():
    assert parse("%YAML 1.1\n---\na: yes\nb: 12:30\n").data == {"a": "yes", "b": "12:30"}


@pytest.mark.report("BR-148")
def test_an_unquoted_number_with_a_plus_sign_is_a_problem_with_its_line():
    text = """\
numbers:
  - did: +12025550100
transfer_targets:
  sales: +442079460958
  desk: 4012
"""
    assert lines(text) == [
        plus(2, "numbers[0].did", "+12025550100"),
        plus(4, "transfer_targets.sales", "+442079460958"),
    ]
    assert parse(text).data["numbers"][0]["did"] == "+12025550100"
    assert parse(text).data["transfer_targets"] == {"sales": "+442079460958", "desk": 4012}


@pytest.mark.report("BR-148")
def test_an_unquoted_number_as_a_key_is_a_problem_too():
    assert lines("numbers:\n  +12025550100: {agent: x}\n") == [
        plus(2, 'numbers."+12025550100"', "+12025550100")
    ]


@pytest.mark.report("BR-149")
@pytest.mark.parametrize("version", ["", "%YAML 1.1\n---\n"])
def test_numbers_with_leading_zeros_are_never_changed_silently(version):
    text = version + "emergency_desk: 0112\nivr_pin: 0042\nmobile: 0606\nfreephone: 0800\n"
    first = version.count("\n") + 1
    source = parse(text)

    assert source.data == {"emergency_desk": "0112", "ivr_pin": "0042", "mobile": "0606", "freephone": "0800"}
    assert [problem.line for problem in source.problems] == [first, first + 1, first + 2, first + 3]
    assert [problem.write for problem in source.problems] == [
        f'quote this number: "{number}"' for number in ("0112", "0042", "0606", "0800")
    ]


@pytest.mark.report("BR-148")
@pytest.mark.report("BR-149")
@pytest.mark.parametrize("number", ["+12025550100", "0112", "0042", "0606", "0800", "00442079460958"])
@pytest.mark.parametrize("form", ['"{}"', "'{}'", "!!str {}", ">-\n  {}", "|-\n  {}"])
def test_quoted_numbers_stay_as_they_are(number, form):
    source = parse(f"a: {form.format(number)}\n")

    assert source.problems == ()
    assert source.data == {"a": number}


def test_every_key_has_its_line():
    marks = parse("a:\n  b: 1\n  c:\n    - 2\n    - d: 3\n").marks

    assert marks.line(("a",)) == 1
    assert marks.line(("a", "c")) == 3
    assert marks.line(("a", "c", 1, "d")) == 5
    assert marks.line(("a", "c", 1, "missing", "deeper")) == 5
    assert marks.line(()) == 1


@pytest.mark.report("BR-151")
def test_a_duplicate_key_names_both_lines():
    assert lines("duplicate_key: 1\nother: 2\nduplicate_key: 2\n") == [
        "x.yaml:3: duplicate_key: stands here twice, first on line 1; keep one of the two"
    ]


def test_all_duplicates_are_reported_at_once():
    assert [p.line for p in parse("a: {x: 1, x: 2}\nb:\n  y: 1\n  y: 2\nb: 3\n").problems] == [1, 4, 5]


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a: [1\nb: 2\n", 2, "flow sequence"),
        ("a: b: c\n", 1, "a colon where none may stand"),
        ("a: 1\n  b: 2\n", 2, "a colon where none may stand"),
        ("x:\n    a: 1\n   b: 2\n", 3, "indented otherwise"),
        ("x:\n    a: 1\n   - b\n", 3, "indented otherwise"),
        ('a: "x" y\nb: 1\n', 1, "block end"),
        ("a: 1\n\tb: 2\n", 2, "tab"),
        ("a: *nobody\n", 1, "nobody"),
        ("a: 'x\n\n", 1, "quoted scalar"),
        ("a: 1\n---\nb: 2\n", 2, "second document"),
        ("- a\nb: 1\n", 2, "block"),
        ("a: 1\nb: \x01\n", 2, "control character"),
        ("a: @x\n", 1, "@"),
        ("a: &x [*x]\n", 1, "nested"),
        ("[" * 4000, 1, "nested"),
        ("", 1, "empty"),
        ("# only a comment\n", 1, "empty"),
    ],
)
def test_what_is_not_yaml_is_one_line_with_its_place(text, line, word):
    source = parse(text)

    assert source.data is None
    (problem,) = source.problems
    assert problem.line == line
    assert word in problem.what
    assert problem.write
    assert "\n" not in str(problem)


def test_a_file_that_names_itself_a_billion_times_is_refused():
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]

    (problem,) = parse("\n".join(levels)).problems
    assert "nested" in problem.what


def test_aliases_and_merge_keys_share_settings():
    source = parse("base: &base {a: 1, b: 2}\nother:\n  <<: *base\n  b: 3\ncopy: *base\n")

    assert source.problems == ()
    assert source.data["other"] == {"a": 1, "b": 3}
    assert source.data["copy"] == {"a": 1, "b": 2}


def test_tags_and_keys_that_are_not_words_are_problems():
    text = "a: !secret x\n? [1, 2]\n: b\n'': c\nd: {<<: 5}\n"

    assert [(p.line, p.what) for p in parse(text).problems] == [
        (1, "the tag '!secret' is not known"),
        (2, "a key is a list or a mapping"),
        (4, "a key is empty"),
        (5, "<< names something that is no mapping"),
    ]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text):
    for problem in parse(text).problems:
        assert "\n" not in str(problem)


@settings(max_examples=100, deadline=None)
@given(st.from_regex(r"[+-]?[0-9]{1,20}", fullmatch=True))
def test_a_plain_integer_keeps_its_digits_or_is_reported(number):
    source = parse(f"a: {number}\n")
    value = source.data["a"]

    assert str(value) == number or (value == number and source.problems) or (number == "-0" and value == 0)
