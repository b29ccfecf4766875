import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calls.facts import facts_of, other_spellings, with_facts
from gateway.legs.base import CallInfo


def test_an_ordinary_call_adds_nothing_to_the_prompt():
    parameters = {"sip_call_id": "1@x", "to": "+12025550100", "caller_name": "Ann", "caller_raw": "+1"}
    assert facts_of(parameters) == ""
    assert with_facts("## Available Tools", parameters) == "## Available Tools"


@pytest.mark.report("BR-195")
def test_the_agent_is_told_who_forwarded_the_call_and_of_the_configured_headers():
    facts = facts_of({"forwarded_from": "+12025550111, +12025550122", "x-account-id": "4711"})
    assert '- The call was forwarded from: "+12025550111, +12025550122" (the most recent first)' in facts
    assert '- x-account-id: "4711"' in facts
    assert with_facts("## Available Tools", {"x-a": "1"}).startswith("## Available Tools\n\n### This Call\n")
    assert with_facts("", {"x-a": "1"}).startswith("### This Call\n")


@given(st.text(max_size=80))
@settings(max_examples=100, deadline=None)
def test_whatever_a_header_says_stays_one_quoted_line(value):
    lines = facts_of({"x-note": value}).split("\n")
    assert len(lines) == 3
    assert lines[2].startswith('- x-note: "')
    assert lines[2].endswith('"')


@pytest.mark.report("BR-187")
def test_a_number_may_be_stored_as_it_was_written_or_with_a_plus_in_front_of_that():
    info = CallInfo("1", "+919876543210", "+493023125017", "pbx", {"caller_raw": "00919876543210"})
    assert other_spellings(info) == ("00919876543210", "+00919876543210")


@pytest.mark.parametrize("raw", ["+12025550123", ""])
def test_what_is_the_same_is_no_other_spelling(raw):
    assert other_spellings(CallInfo("1", "+12025550123", "+1", "pbx", {"caller_raw": raw})) == ()


def test_a_name_gets_no_plus():
    assert other_spellings(CallInfo("1", "alice", "+1", "pbx", {"caller_raw": "alice smith"})) == (
        "alice smith",
    )
