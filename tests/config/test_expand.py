from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.expand import Expander


def expand(text, environ=None, base=Path()):
    return Expander(base, environ or {}, set()).expand(text)


def test_a_reference_may_be_the_whole_text_or_stand_inside_it():
    environ = {"A": "1", "B": "2"}

    assert expand("${env:A}", environ) == ("1", [])
    assert expand("x${env:A}y${env:B}z", environ) == ("x1y2z", [])


def test_two_dollars_make_a_literal_reference():
    assert expand("$${env:A} costs $5", {"A": "1"}) == ("${env:A} costs $5", [])


def test_what_comes_out_is_not_expanded_again():
    assert expand("${env:A}", {"A": "${env:B}", "B": "no"}) == ("${env:B}", [])


def test_a_file_loses_its_last_line_break_and_is_remembered(tmp_path):
    (tmp_path / "key").write_text("secret\n")
    files = set()

    assert Expander(tmp_path, {}, files).expand("Bearer ${file:key}") == ("Bearer secret", [])
    assert files == {tmp_path / "key"}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("${env:NOPE}", "the environment variable NOPE is not set"),
        ("${env:EMPTY}", "the environment variable EMPTY is empty"),
        ("${file:nope}", "the file nope cannot be read: No such file or directory"),
        ("${file:.}", "the file . cannot be read: Is a directory"),
        ("${file:empty}", "the file empty is empty"),
        ("${file:binary}", "the file binary cannot be read: it is not UTF-8 text"),
        ("${file:big}", "the file big is larger than 64 KiB"),
        ("${HOME}", "${HOME} is not a reference"),
        ("${env:}", "${env:} is not a reference"),
        ("${env:A B}", "${env:A B} is not a reference"),
        ("${file:}", "${file:} is not a reference"),
        ("${env:A", "a ${ is not closed"),
    ],
)
def test_what_cannot_be_replaced_is_said(tmp_path, text, what):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "big").write_bytes(b"x" * 70_000)

    _, faults = expand(text, {"EMPTY": ""}, tmp_path)
    assert [fault[0] for fault in faults] == [what]
    assert all(fault[1] for fault in faults)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="${}envfile:AB x", max_size=30))
def test_any_text_comes_back_or_has_faults(text):
    expanded, faults = expand(text, {"A": "1", "B": "2"})
    if "${" not in text:
        assert (expanded, faults) == (text, [])
