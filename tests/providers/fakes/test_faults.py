"""Faults as text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.fakes.faults import FAULTS, Fault, FaultError, Faults, parse_faults


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("stall", Fault("stall")),
        ("close:1011@2.5", Fault("close", "1011", at=2.5)),
        ("close@2.5:1011", Fault("close", "1011", at=2.5)),
        ("failed#2:rate_limit_exceeded", Fault("failed", "rate_limit_exceeded", response=2)),
        (" transcript:late ", Fault("transcript", "late")),
    ],
)
def test_a_fault_has_a_name_a_value_a_time_and_a_response(text, fault):
    assert parse_faults(text).all == (fault,)


def test_several_are_joined_by_commas():
    assert [fault.name for fault in parse_faults("status:429,late_handshake:0.5,").all] == [
        "status",
        "late_handshake",
    ]


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_works_with_its_default(name):
    (fault,) = parse_faults(name).all
    assert fault.setting == fault.setting.strip()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("clsoe", "did you mean close"),
        ("zzz", "write one of"),
        ("failed@3", "leave out @3"),
        ("close#1", "leave out #1"),
        ("stall:5", "leave out :5"),
        ("close:abc", "from 1000 to 4999"),
        ("status:200", "from 400 to 599"),
        ("transcript:loud", "failed, empty, late, unordered"),
        ("failed#x", "write a number"),
        ("!", "is no fault"),
    ],
)
def test_a_mistake_is_explained(text, says):
    with pytest.raises(FaultError, match=says):
        parse_faults(text)


def test_a_fault_without_a_number_is_meant_for_every_response():
    faults = parse_faults("failed#2,no_audio")
    assert faults.get("failed", response=1) is None
    assert faults.get("failed", response=2)
    assert faults.get("no_audio", response=7)


def test_faults_of_a_connection_come_before_those_of_the_server():
    both = parse_faults("close:1011@5") + parse_faults("close:1008@1")
    assert both.get("close").value == "1008"
    assert len(both.timed()) == 2
    assert Faults().get("close") is None


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_with_a_sentence(text):
    try:
        names = [fault.name for fault in parse_faults(text).all]
    except FaultError:
        return
    assert set(names) <= set(FAULTS)
