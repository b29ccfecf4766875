import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sip.errors import UnsafeText
from gateway.sip.text import (
    param,
    parse_params,
    quote,
    require_safe,
    split_outside,
    unquote,
    write_params,
)


def test_commas_in_quotes_and_brackets_do_not_split():
    text = '"Bell, A. \\" x," <sip:a,b@h>;q=1, <sip:c@h>'

    assert split_outside(text, ",") == ['"Bell, A. \\" x," <sip:a,b@h>;q=1', "<sip:c@h>"]


@pytest.mark.parametrize("text", ['"open', "<sip:a@b", 'x, "y'])
def test_unbalanced_text_is_an_error(text):
    with pytest.raises(ValueError, match="never closed"):
        split_outside(text, ",")


def test_parameters_keep_order_case_and_quotes():
    params = parse_params('Tag = a ; lr ;x="1;2"')

    assert params == (("Tag", "a"), ("lr", None), ("x", '"1;2"'))
    assert param(params, "tag") == "a"
    assert param(params, "lr") == ""
    assert param(params, "missing") is None
    assert write_params(params) == ';Tag=a;lr;x="1;2"'


def test_empty_parameters_are_skipped_unless_strict():
    assert parse_params(";;a=1;") == (("a", "1"),)
    with pytest.raises(ValueError, match="no name"):
        parse_params(";;a=1", strict=True)
    with pytest.raises(ValueError, match="no name"):
        parse_params("=1")


@given(st.text())
def test_quoting_round_trips(text):
    assert unquote(quote(text)) == text


@pytest.mark.parametrize("text", ["a\r\nVia: x", "a\nb", "a\rb", "\ud800"])
def test_text_that_could_start_a_new_line_is_refused(text):
    with pytest.raises(UnsafeText):
        require_safe(text)


def test_bytes_of_no_known_encoding_may_pass():
    text = b"caf\xe9".decode("utf-8", "surrogateescape")

    assert require_safe(text).encode("utf-8", "surrogateescape") == b"caf\xe9"
