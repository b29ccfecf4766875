import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.arguments import MAX_ARGUMENT_CHARS, BadArguments, parse_arguments

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=5), below, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.report("BR-121")
@pytest.mark.parametrize("text", ["", " ", "\n", "null", "{}", " {} ", None])
def test_arguments_that_were_left_out_are_an_empty_object(text):
    assert parse_arguments(text) == {}


@pytest.mark.report("BR-121")
@pytest.mark.parametrize("text", ["[]", '"x"', "1", "true", "[{}]"])
def test_arguments_that_are_no_object_are_refused(text):
    with pytest.raises(BadArguments, match="must be a JSON object"):
        parse_arguments(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"destination":"sales",', "not JSON"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": -Infinity}', "-Infinity is no JSON number"),
        ('{"a": 1e999}', "out of range"),
        ('{"a": 1, "a": 2}', "same property twice"),
        ('{"a": {"b": 1, "b": 1}}', "same property twice"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"\\udfff": 1}', "surrogate"),
        ("[" * 50_000, "too deep"),
        ('{"a": ' + "9" * 10_000 + "}", "too large a number"),
        ('{"a": "' + "x" * MAX_ARGUMENT_CHARS + '"}', "longer than"),
        ("{} {}", "not JSON"),
    ],
    ids=["cut", "nan", "infinity", "overflow", "twice", "twice below", "surrogate", "surrogate key", "deep",
         "digits", "long", "two"],
)  # fmt: skip
def test_what_is_not_strict_json_is_refused_with_a_reason(text, reason):
    with pytest.raises(BadArguments, match=reason):
        parse_arguments(text)


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=8), json_values, max_size=4)
)
@settings(max_examples=100, deadline=None)
def test_any_object_that_was_written_as_json_is_read_back(value):
    assert parse_arguments(json.dumps(value)) == value


@given(st.text(max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_text_is_an_object_or_refused(text):
    try:
        value = parse_arguments(text)
    except BadArguments:
        return
    assert isinstance(value, dict)
