import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calls import events as ev
from gateway.calls.cost import Bill, Line
from gateway.calls.record import CallRecord, heard_part, plain
from providers.types import PCMU, Usage

CALL = "c-1"


def started() -> ev.CallStarted:
    return ev.CallStarted(
        CALL, 0.0, 1_790_000_000.5, "+12125551234", "+12125550100", "carrier", "reception", PCMU, "default"
    )


def record(*events: ev.CallEvent, dropped: int = 0):
    record = CallRecord(started())
    for event in events:
        record.add(event)
    return record.to_json(audio=None, dropped_events=dropped)


def test_it_says_who_called_whom_and_how_it_ended():
    found = record(ev.CallAnswered(CALL, 0.4567, "openai"), ev.CallEnded(CALL, 31.25, "end_call", "agent"))

    assert {key: found[key] for key in ("call_id", "caller", "called", "trunk", "agent", "organization")} == {
        "call_id": CALL,
        "caller": "+12125551234",
        "called": "+12125550100",
        "trunk": "carrier",
        "agent": "reception",
        "organization": "default",
    }
    assert found["started_at"] == "2026-09-21T14:13:20.500+00:00"
    assert (found["provider"], found["codec"]) == ("openai", "pcmu")
    assert (found["answered"], found["ended"], found["reason"], found["by"]) == (
        0.457,
        31.25,
        "end_call",
        "agent",
    )
    assert found["latency"]["setup_ms"] == 457


def test_it_keeps_what_the_network_said_of_the_call():
    parameters = {"caller_raw": "0012025551234", "x-account-id": "4711"}
    found = CallRecord(replace(started(), parameters=parameters)).to_json(audio=None, dropped_events=0)

    assert found["parameters"] == parameters


def test_a_call_that_was_never_answered_says_so():
    found = record(ev.CallEnded(CALL, 2.0, "cancel", "caller"))

    assert (found["answered"], found["provider"], found["latency"]["setup_ms"]) == (None, "", None)


def test_a_call_whose_end_was_lost_says_so():
    found = record(ev.CallAnswered(CALL, 0.5, "openai"), dropped=3)

    assert (found["ended"], found["reason"], found["dropped_events"]) == (None, "unknown", 3)


def test_turns_stand_in_the_order_in_which_they_began_though_transcripts_come_late():
    found = record(
        ev.AgentSaid(CALL, 2.0, "a1", "Hello.", 1500, 1500, 0.5),
        ev.CallerSpeech(CALL, 3.0, started=True),
        ev.CallerSpeech(CALL, 4.0, started=False),
        ev.AgentSaid(CALL, 4.9, "a2", "Yes.", 400, 400, 4.5),
        ev.CallerSaid(CALL, 5.1, "u1", "Are you open?"),
    )

    assert [(t["who"], t["began"], t["ended"], t["text"]) for t in found["transcript"]] == [
        ("agent", 0.5, 2.0, "Hello."),
        ("caller", 3.0, 4.0, "Are you open?"),
        ("agent", 4.5, 4.9, "Yes."),
    ]


def test_a_turn_ended_when_it_was_heard_though_it_is_told_later():
    found = record(
        ev.AgentSaid(CALL, 5.0, "a1", "Hello.", 1500, 1500, 1.0),
        ev.AgentSaid(CALL, 6.0, "a2", "Never heard.", 0, 900),
    )

    assert [(t["began"], t["ended"], t["heard"]) for t in found["transcript"]] == [
        (1.0, 2.5, "Hello."),
        (6.0, 6.0, ""),
    ]


def test_two_turns_before_the_first_transcript_get_their_own_times():
    found = record(
        ev.CallerSpeech(CALL, 1.0, started=True),
        ev.CallerSpeech(CALL, 2.0, started=False),
        ev.CallerSpeech(CALL, 3.0, started=True),
        ev.CallerSpeech(CALL, 4.0, started=False),
        ev.CallerSaid(CALL, 4.1, "u1", "One."),
        ev.CallerSaid(CALL, 4.5, "u2", "Two."),
        ev.CallerSpeech(CALL, 10.0, started=True),
        ev.CallerSpeech(CALL, 11.0, started=False),  # a cough that is never written down
        ev.CallerSpeech(CALL, 30.0, started=True),
        ev.CallerSpeech(CALL, 31.0, started=False),
        ev.CallerSaid(CALL, 32.0, "u3", "Three."),
    )

    assert [(t["text"], t["began"], t["ended"]) for t in found["transcript"]] == [
        ("One.", 1.0, 2.0),
        ("Two.", 3.0, 4.0),
        ("Three.", 30.0, 31.0),
    ]


def test_an_interrupted_turn_says_what_was_really_heard():
    found = record(
        ev.BargedIn(CALL, 6.0, "a1", 2000, 6000),
        ev.AgentSaid(CALL, 6.0, "a1", "We are open from nine to five on Monday.", 2000, 8000),
        ev.AgentSaid(CALL, 9.0, "a2", "Of course.", 980, 1000),
    )
    first, second = found["transcript"]

    assert (first["heard"], first["heard_ms"], first["total_ms"], first["interrupted"]) == (
        "We are",
        2000,
        8000,
        True,
    )
    assert (second["heard"], second["interrupted"]) == ("Of course.", False)
    assert found["barge_ins"] == [{"at": 6.0, "item_id": "a1", "heard_ms": 2000, "dropped_ms": 6000}]


def test_tool_calls_have_their_results():
    found = record(
        ev.ToolCalled(CALL, 1.0, "t1", "lookup_caller", "{}"),
        ev.ToolCalled(CALL, 1.0, "t2", "query_knowledge", '{"query":"hours"}'),
        ev.ToolAnswered(
            CALL, 1.5, "t2", "query_knowledge", "ok", "", {"passages": ("a", {"b": float("nan")})}
        ),
        ev.ToolAnswered(CALL, 1.7, "t3", "end_call", "denied", "not_now"),
    )

    assert found["tool_calls"] == [
        {
            "id": "t1", "tool": "lookup_caller", "began": 1.0, "ended": None, "arguments": "{}",
            "status": None, "reason_code": "", "data": {},
        },
        {
            "id": "t2", "tool": "query_knowledge", "began": 1.0, "ended": 1.5,
            "arguments": '{"query":"hours"}', "status": "ok", "reason_code": "",
            "data": {"passages": ["a", {"b": None}]},
        },
        {
            "id": "t3", "tool": "end_call", "began": 1.7, "ended": 1.7, "arguments": "", "status": "denied",
            "reason_code": "not_now", "data": {},
        },
    ]  # fmt: skip


def test_arguments_beyond_what_the_dispatcher_takes_are_not_kept():
    found = record(ev.ToolCalled(CALL, 1.0, "t1", "end_call", "x" * 2_000_000))

    assert len(found["tool_calls"][0]["arguments"]) == 65_536


def test_keys_transfer_and_latency_are_kept():
    found = record(
        ev.DtmfHeard(CALL, 1.0, "5"),
        ev.FirstAudio(CALL, 2.0, 300),
        ev.FirstAudio(CALL, 4.0, 100),
        ev.FirstAudio(CALL, 6.0, 200),
        ev.TransferChanged(CALL, 7.0, "requested", "+12125550123"),
        ev.TransferChanged(CALL, 9.0, "failed", "+12125550123", 486, "busy"),
    )

    assert found["dtmf"] == [{"at": 1.0, "digit": "5"}]
    assert found["latency"]["first_audio_ms"] == [300, 100, 200]
    assert (found["latency"]["first_audio_median_ms"], found["latency"]["first_audio_worst_ms"]) == (200, 300)
    assert [(step["state"], step["status"], step["reason"]) for step in found["transfer"]] == [
        ("requested", 0, ""),
        ("failed", 486, "busy"),
    ]


def test_a_call_without_end_does_not_fill_the_memory():
    found = record(
        *(ev.DtmfHeard(CALL, 1.0, "1") for _ in range(12_000)), ev.CallEnded(CALL, 9.0, "bye", "caller")
    )

    assert len(found["dtmf"]) == 10_000
    assert found["left_out"] == 2_000
    assert found["reason"] == "bye"


@pytest.mark.parametrize(
    ("text", "heard_ms", "total_ms", "heard"),
    [
        ("one two three", 0, 1000, ""),
        ("one two three", 500, 0, ""),
        ("one two three", 300, 1000, "one"),
        ("one two three", 320, 1000, "one"),
        ("one two three", 600, 1000, "one two"),
        ("one two three", 1000, 1000, "one two three"),
        ("one two three", 5000, 1000, "one two three"),
        ("", 500, 1000, ""),
    ],
)
def test_what_was_heard_is_whole_words(text, heard_ms, total_ms, heard):
    assert heard_part(text, heard_ms, total_ms) == heard


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just("\ud800"),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
        max_leaves=20,
    )
)
def test_whatever_a_tool_returns_becomes_json(value):
    json.dumps(plain(value), allow_nan=False).encode()
    json.dumps(plain(value), ensure_ascii=False).encode("utf-8")


def test_a_value_that_holds_itself_comes_to_an_end():
    loop: list[object] = []
    loop.append(loop)

    assert json.dumps(plain(loop))


def test_every_key_of_the_record_is_in_the_documentation():
    page = (Path(__file__).parents[3] / "docs" / "observability.md").read_text(encoding="utf-8")

    assert [key for key in record() if key != "version" and f"`{key}`" not in page] == []


def test_it_says_what_the_call_cost_and_how_that_comes_about():
    lines = (
        Line("openai", "rt", Usage(audio_in=10, text_out=3), Decimal("0.01234567"), Decimal("0.01234567")),
        Line("openai", "scribe", Usage(seconds=61.23456), Decimal("0.0173"), Decimal("0.0173")),
    )
    found = record(
        ev.CostChanged(CALL, 1.0, Bill(lines[:1]), lines[:1]),
        ev.CostChanged(CALL, 2.0, Bill(lines), lines[1:]),
    )["cost"]

    assert (found["usd"], found["known_usd"]) == (0.029646, 0.029646)
    assert [(model["provider"], model["model"], model["usd"]) for model in found["models"]] == [
        ("openai", "rt", 0.012346),
        ("openai", "scribe", 0.0173),
    ]
    tokens = found["models"][0]["tokens"]
    assert {kind: count for kind, count in tokens.items() if count} == {"audio_in": 10, "text_out": 3}
    assert found["models"][1]["seconds"] == 61.235


def test_an_unknown_cost_is_null_and_never_zero():
    assert record()["cost"] == {"usd": None, "known_usd": 0.0, "models": []}
    lines = (
        Line("openai", "rt", Usage(audio_in=10), Decimal("0.5"), Decimal("0.5")),
        Line("openai", "new", Usage(audio_in=10), Decimal(0), None),
    )
    found = record(ev.CostChanged(CALL, 1.0, Bill(lines), lines))["cost"]
    assert (found["usd"], found["known_usd"], found["models"][1]["usd"]) == (None, 0.5, None)


def test_it_says_when_a_limit_was_near_and_reached():
    found = record(
        ev.LimitTold(CALL, 8.0, "cost_limit", reached=False, used=0.8, allowed=1.0),
        ev.LimitTold(CALL, 9.5, "cost_limit", reached=True, used=1.01, allowed=1.0),
    )["limits"]
    assert found == [
        {"at": 8.0, "limit": "cost_limit", "reached": False, "used": 0.8, "allowed": 1.0},
        {"at": 9.5, "limit": "cost_limit", "reached": True, "used": 1.01, "allowed": 1.0},
    ]


def test_the_bill_is_kept_also_of_a_call_that_has_more_to_tell_than_fits():
    lines = (Line("openai", "rt", Usage(audio_in=10), Decimal("0.5"), Decimal("0.5")),)
    noise = [ev.DtmfHeard(CALL, 1.0, "1")] * 10_001
    found = record(*noise, ev.CostChanged(CALL, 2.0, Bill(lines), lines))
    assert (found["cost"]["usd"], found["left_out"]) == (0.5, 1)


@pytest.mark.report("BR-199")
def test_a_turn_without_a_word_was_noise_and_gives_no_row():
    found = record(
        ev.CallerSpeech(CALL, 1.0, started=True),
        ev.CallerSpeech(CALL, 3.0, started=False),
        ev.CallerTurn(CALL, 3.0, "noise"),
        ev.CallerSpeech(CALL, 5.0, started=True),
        ev.CallerSpeech(CALL, 5.3, started=False),
        ev.CallerTurn(CALL, 5.3, "si"),
        ev.CallerSaid(CALL, 5.4, "noise", ""),
        ev.CallerSaid(CALL, 5.5, "si", "s\u00ec"),
        ev.CallerSaid(CALL, 6.0, "failed", "", partial=True),
    )["transcript"]
    assert [(row["text"], row["began"], row["ended"]) for row in found] == [
        ("s\u00ec", 5.0, 5.3),
        ("", 6.0, 6.0),
    ]


def test_words_that_come_after_all_are_written_down():
    found = record(ev.CallerSaid(CALL, 5.0, "turn", ""), ev.CallerSaid(CALL, 6.0, "turn", "Hello"))
    assert [row["text"] for row in found["transcript"]] == ["Hello"]
