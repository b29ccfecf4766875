"""However early a response is stopped, what was opened is closed."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.fakes.director import Director
from providers.fakes.openai_billing import Read
from providers.fakes.openai_check import check_server_event
from providers.fakes.openai_conversation import Conversation
from providers.fakes.openai_outbox import Outbox
from providers.fakes.openai_response import COMPLETED, ResponseRun, cancelled
from providers.fakes.openai_wire import Ids
from providers.fakes.performance import perform
from providers.fakes.script import Pace
from providers.fakes.script_parser import parse_script
from providers.types import PCMU

SCRIPT = parse_script(
    """
steps:
  - on: greeting
    say: [{tone: 440, ms: 900, text: one two three}, {tone: 440, ms: 300, text: four}]
    call: [{tool: a, arguments: {text: "some words that are long"}}, {tool: b}]
""",
    Path("response.yaml"),
)
SETTINGS = {
    "output_modalities": ["audio"],
    "max_output_tokens": "inf",
    "audio_output": {"format": {"type": "audio/pcmu"}, "voice": "marin"},
    "metadata": None,
}
PAIRS = {
    "response.output_item.added": "response.output_item.done",
    "response.content_part.added": "response.content_part.done",
    "response.created": "response.done",
}


def play(seconds, *, late=0, stray=0, aside=False):
    outbox = Outbox(Ids(1), check_server_event)
    conversation = Conversation("conv_1")
    run = ResponseRun(
        emit=outbox.emit,
        ids=Ids(2),
        conversation=None if aside else conversation,
        settings=SETTINGS,
        format=PCMU,
        beats=perform(Director(SCRIPT, "").react(), PCMU, Pace(), arguments_for=0.2),
        ending=COMPLETED,
        read=Read(1, 1),
        audio_sent=lambda ms: None,
        late_deltas=late,
        stray_deltas=stray,
    )
    run.begin(0.0)
    run.advance(seconds)
    if not run.done:
        run.stop(cancelled("client_cancelled"))
    return run, [record.event for record in outbox.sent], conversation


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_everything_that_was_opened_is_closed(seconds, late, stray, aside):
    run, events, conversation = play(seconds, late=late, stray=stray, aside=aside)
    kinds = [event["type"] for event in events]
    for opened, closed in PAIRS.items():
        assert kinds.count(opened) == kinds.count(closed)
    done = next(event for event in events if event["type"] == "response.done")["response"]
    statuses = [item["status"] for item in done["output"]]
    assert "in_progress" not in statuses
    assert "incomplete" not in statuses[:-1]
    assert (done["status"] == "completed") == (statuses == ["completed"] * 4)
    finished = [
        item["call_id"] for item in done["output"] if "call_id" in item and item["status"] == "completed"
    ]
    assert list(conversation.unanswered) == ([] if aside else finished)
    assert run.done


def test_a_whole_response_has_its_items_in_order():
    _, events, conversation = play(10.0)
    added = [event["item"]["type"] for event in events if event["type"] == "response.output_item.added"]
    assert added == ["message", "message", "function_call", "function_call"]
    assert [event["output_index"] for event in events if event["type"] == "response.output_item.done"] == [
        0,
        1,
        2,
        3,
    ]
    assert len(conversation.items) == 4
