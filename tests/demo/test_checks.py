"""The comparison notices everything that can be wrong; a perfect call is put together and then broken."""

import dataclasses

import numpy as np
import pytest

from deploy.demo.checks import (
    CALLER,
    SECRET,
    SPEECH,
    Evidence,
    check_first,
    check_refused,
    check_transfer,
    silence_after_ms,
)
from deploy.demo.evidence import CallerSide, Lookup, Utterance, read_recording
from deploy.demo.figures import measure
from deploy.demo.record import CallerTurn, Interruption, Record, ToolUse, TransferStep
from deploy.demo.telling import scene_of, transcript
from tests.kit import sound

ZERO = 1000.0
ARRIVED = ZERO - 0.1


def speech(name, ms=None):
    pcm = read_recording(SPEECH / f"{name}.flac")
    return sound.decode(sound.encode(pcm if ms is None else pcm[: ms * 8]))


def capture(*parts):
    """Lay speech and pauses (seconds) in a row."""
    return np.concatenate([sound.silence(part) if isinstance(part, float) else part for part in parts])


def audible(heard):
    frames = heard[: len(heard) // 160 * 160].reshape(-1, 160).astype(float)
    loud = np.nonzero(np.sqrt((frames**2).mean(axis=1)) > 250)[0]
    return tuple(ZERO + 0.02 * frame for frame in loud)


def caller_side(heard, said, **changes):
    side = CallerSide(
        invited_at=ARRIVED,
        answered_at=ZERO - 0.05,
        media_at=ZERO,
        ended_at=ZERO + len(heard) / 8000 + 0.05,
        ended_by="gateway",
        said=said,
        refer_to="",
        refer_at=0.0,
        notified=(),
        packets=len(heard) // 160,
        lost=0,
        jitter_ms=0.3,
        spacing_p99_ms=1.0,
        longest_gap_ms=21.0,
        failure="",
        heard=heard,
        audible_at=audible(heard),
    )
    return dataclasses.replace(side, **changes)


def record(said, **changes):
    base = Record(
        call_id="x",
        wall_time=ARRIVED,
        caller=CALLER,
        called="+12125550100",
        agent="reception",
        answered=0.05,
        ended=30.0,
        reason="end_call",
        by="agent",
        agent_turns=(),
        caller_turns=tuple(CallerTurn(s.began_at - ARRIVED, s.ended_at - ARRIVED, s.text) for s in said),
        interruptions=(),
        tools=(),
        transfer=(),
        latencies_ms=(),
    )
    return dataclasses.replace(base, **changes)


@pytest.fixture(scope="module")
def first():
    greeting = capture(0.2, speech("greeting"), 4.0)
    began = ZERO + len(greeting) / 8000
    heard = capture(greeting, speech("hours", 1240), 6.0, speech("answer"), 3.0, speech("farewell"), 0.1)
    said = (
        Utterance("hours", "When?", ZERO + 4.0, ZERO + 7.0, interrupting=False),
        Utterance("interrupt", "Excuse me.", began + 1.1, began + 6.0, interrupting=True),
        Utterance("thanks", "Thank you, that was all.", ZERO + 19.0, ZERO + 20.5, interrupting=False),
    )
    words = read_recording(SPEECH.parents[2] / "deploy" / "demo" / "audio" / "thanks.wav")
    size = max(len(heard), 12000 + len(words))
    recording = np.zeros((size, 2), np.int16)
    recording[12000 : 12000 + len(words), 0] = words
    recording[: len(heard), 1] = heard
    return Evidence(
        caller=caller_side(heard, said),
        record=record(
            said,
            interruptions=(Interruption(9.0, 1240, 12000),),
            tools=(
                ToolUse(15.0, 15.1, "lookup_caller", "{}", "ok", "", '{"record": "Alice Martin"}'),
                ToolUse(15.0, 15.1, "query_knowledge", '{"query": "today"}', "ok", "",
                        "Today the front desk is open until 18:00."),
                ToolUse(25.0, 25.0, "end_call", "{}", "ok", "", ""),
            ),
        ),
        recording=recording,
        lookups=(Lookup(ZERO + 15, {"phone": CALLER}, {"loquent_x_check": SECRET}, 200),),
    )  # fmt: skip


def change(evidence, *, caller=None, record=None, **changes):
    return dataclasses.replace(
        evidence,
        caller=dataclasses.replace(evidence.caller, **(caller or {})),
        record=dataclasses.replace(evidence.record, **(record or {})),
        **changes,
    )


def faults(findings):
    return [(finding.part, finding.fault) for finding in findings if not finding.ok]


def test_a_perfect_first_call_has_no_fault(first):
    assert faults(check_first(first)) == []


def test_the_farewell_without_its_last_20_ms_is_a_fault(first):
    end = first.hear("farewell").ends_ms
    heard = first.caller.heard.copy()
    heard[int(end * 8) - 160 :] = 0

    ((part, fault),) = faults(check_first(change(first, caller={"heard": heard})))
    assert part == "farewell"
    assert fault.startswith("only ")


def test_a_call_without_farewell_is_a_fault(first):
    heard = first.caller.heard[: -8000 * 4]

    ((part, fault),) = faults(check_first(change(first, caller={"heard": heard})))
    assert (part, fault) == ("farewell", "the farewell is not in what the caller heard")


def test_a_bye_before_the_end_of_the_farewell_is_a_fault(first):
    ended_at = first.heard_at(first.hear("farewell")) - 0.02

    ((part, fault),) = faults(check_first(change(first, caller={"ended_at": ended_at})))
    assert part == "end_call"
    assert "before the end of the farewell" in fault


@pytest.mark.parametrize(
    ("changes", "part", "sentence"),
    [
        ({"caller": {"ended_by": "caller"}}, "end_call", "the BYE came from caller"),
        ({"record": {"reason": "bye", "by": "caller"}}, "end_call", "call.json says bye by caller"),
        ({"record": {"interruptions": ()}}, "barge_in", "call.json has 0 interruptions"),
        ({"record": {"interruptions": (Interruption(9.0, 1300, 90),)}}, "barge_in", "ledger says 1300 ms"),
        ({"lookups": ()}, "lookup_caller", "was asked about nobody"),
        ({"lookups": (Lookup(1.0, {"phone": "+1"}, {}, 404),)}, "lookup_caller", "['+1']"),
        ({"lookups": (Lookup(1.0, {"phone": CALLER}, {}, 200),)}, "lookup_caller", "without the secret"),
        ({"caller": {"lost": 3}}, "call", "3 RTP packets were lost"),
        ({"caller": {"failure": "the caller waited 12 s in vain"}}, "call", "in vain"),
        ({"record": {"caller_turns": ()}}, "call", "call.json has []"),
        ({"recording": np.zeros(8000, np.int16)}, "recording", "shape (8000,)"),
        ({"recording": np.zeros((80000, 2), np.int16)}, "recording", "the agent's farewell and the caller's"),
    ],
)  # fmt: skip
def test_each_thing_that_is_wrong_is_named(first, changes, part, sentence):
    found = faults(check_first(change(first, **changes)))

    assert [name for name, _ in found] == [part]
    assert sentence in found[0][1]


@pytest.mark.parametrize("tool", ["lookup_caller", "query_knowledge"])
@pytest.mark.parametrize("status", ["denied", None])
def test_a_tool_that_was_refused_or_never_called_is_a_fault(first, tool, status):
    tools = tuple(
        dataclasses.replace(use, status=status) if use.tool == tool else use
        for use in first.record.tools
        if status or use.tool != tool
    )

    ((part, fault),) = faults(check_first(change(first, record={"tools": tools})))
    assert part == tool
    assert fault == ("call.json has ['denied']" if status else "call.json has no call of it")


def test_an_agent_that_talks_on_after_the_interruption_is_a_fault(first):
    words_at = first.caller.said[1].began_at
    more = {words_at + 0.02 * packet for packet in range(40)}
    side = change(first, caller={"audible_at": tuple(sorted(more | set(first.caller.audible_at)))})

    assert silence_after_ms(side) == pytest.approx(780, abs=1)
    assert [part for part, _ in faults(check_first(side))] == ["barge_in"]


@pytest.fixture(scope="module")
def transfer():
    said = (Utterance("sales", "Sales, please.", ZERO + 5, ZERO + 7, interrupting=False),)
    heard = capture(0.2, speech("greeting"), 3.0, speech("to_sales"), 0.1)
    steps = ("requested", "announced", "redirecting", "confirmed")
    return Evidence(
        caller=caller_side(
            heard,
            said,
            refer_to="sip:+12125551234@127.0.0.1",
            refer_at=ZERO + 13,
            notified=("100 Trying", "200 OK"),
        ),
        record=record(
            said,
            reason="transferred",
            transfer=tuple(TransferStep(9.0, step, "+12125551234") for step in steps),
        ),
        recording=np.zeros((8000, 2), np.int16),
        lookups=(),
    )


def test_a_perfect_transfer_has_no_fault(transfer):
    assert faults(check_transfer(transfer)) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"caller": {"refer_to": ""}}, "never sent a REFER"),
        ({"caller": {"refer_to": "sip:+19999@h"}}, "it named sip:+19999@h"),
        ({"caller": {"refer_at": ZERO + 8}}, "before the end of the announcement"),
        ({"caller": {"notified": ("100 Trying",)}}, "the caller notified ['100 Trying']"),
        ({"caller": {"ended_by": "caller"}}, "BYE from caller"),
        ({"record": {"transfer": ()}}, "call.json has []"),
        ({"caller": {"heard": sound.silence(14.0)}}, "the to sales is not in what the caller heard"),
    ],
)
def test_each_thing_that_is_wrong_with_a_transfer_is_named(transfer, changes, sentence):
    found = faults(check_transfer(change(transfer, **changes)))

    assert {name for name, _ in found} == {"transfer_call"}
    assert sentence in found[0][1]


@pytest.fixture(scope="module")
def refused():
    said = (Utterance("neighbour", "My neighbour.", ZERO + 5, ZERO + 7, interrupting=False),)
    heard = capture(0.2, speech("greeting"), 3.0, speech("not_allowed"), 3.0, speech("farewell"), 0.1)
    use = ToolUse(9.0, 9.0, "transfer_call", "{}", "invalid_arguments", "phone_number_not_configured", "")
    return Evidence(caller_side(heard, said), record(said, tools=(use,)), np.zeros((8000, 2), np.int16), ())


def test_a_perfect_refusal_has_no_fault(refused):
    assert faults(check_refused(refused)) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"record": {"tools": ()}}, "no call of transfer_call"),
        (
            {"record": {"tools": (ToolUse(9.0, 9.0, "transfer_call", "{}", "ok", "", ""),)}},
            "answer was ['ok']",
        ),
        ({"caller": {"refer_to": "sip:+12125550199@h"}}, "REFER to sip:+12125550199@h"),
    ],
)
def test_a_refusal_that_was_none_is_a_fault(refused, changes, sentence):
    found = faults(check_refused(change(refused, **changes)))

    assert found[0][0] == "transfer_call"
    assert sentence in found[0][1]


def test_figures_are_those_of_the_caller(first):
    figures = measure(first)

    assert figures.setup_ms == pytest.approx(50)
    assert figures.first_audio_ms == pytest.approx(250, abs=21)
    assert figures.silence_ms == pytest.approx(130, abs=25)
    assert (figures.ledger_ms, figures.captured_ms) == (1240, pytest.approx(1240, abs=40))


def test_the_transcript_tells_what_happened_in_order(first):
    text = "\n".join(transcript(first.record))

    assert text.index("When?") < text.index("barge-in: 1240 ms heard") < text.index("lookup_caller() -> ok")
    assert text.index('query_knowledge({"query": "today"}) -> ok') < text.index("end_call, by agent")


def test_the_scene_has_both_tracks_and_every_mark(first):
    scene = scene_of(first, measure(first))

    assert scene.agent is not None
    assert len(scene.caller) == len(scene.agent)
    assert [mark.tool for mark in scene.tools] == ["lookup_caller", "query_knowledge", "end_call"]
    assert scene.barge_ins[0].dropped == 12.0
    assert len(scene.figures) == 6
