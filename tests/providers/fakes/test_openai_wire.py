"""What the server emits has the fields of the golden transcripts, event by event."""

import re

import pytest

from providers.fakes.openai_wire import Ids, http_error, usage

SCRIPT = """
steps:
  - {on: greeting, say: {tone: 440, ms: 1000, text: "Hello, who is there"}}
  - {on: caller_turn, call: {tool: get_weather, arguments: {city: "Paris, the capital of France"}}}
  - {on: {tool_result: get_weather}, say: {tone: 440, ms: 4000, text: "The weather in Paris is fine"}}
"""
DIFFERS = {"session"}
"""A session shows what was configured, and that differs."""


@pytest.fixture
def emitted(dial):
    """Everything of a call with a greeting, a turn, a tool, and a barge-in with its truncation."""
    line = dial(SCRIPT)
    line.send("response.create")
    line.run(1)
    line.turn()
    line.run(1)
    call_id = line.last("response.done")["response"]["output"][0]["call_id"]
    output = {"type": "function_call_output", "call_id": call_id, "output": "{}"}
    line.send("conversation.item.create", item=output)
    line.send("response.create")
    line.run(0.3)
    line.speak(200)
    item_id = line.last("response.done")["response"]["output"][0]["id"]
    line.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=100)
    line.send("conversation.item.delete", item_id=item_id)
    line.send("input_audio_buffer.clear")
    line.send("response.cancel")
    return [{key: value for key, value in event.items() if key != "at"} for event in line.events]


def paths(value, path=""):
    """Every key of an event, with those of objects inside it; the elements of a list count as one."""
    if isinstance(value, list):
        return {inner for element in value for inner in paths(element, f"{path}[]")}
    if not isinstance(value, dict):
        return set()
    found = {f"{path}.{key}" for key in value}
    return found.union(*(paths(inner, f"{path}.{key}") for key, inner in value.items() if key not in DIFFERS))


def kind(event):
    """Events of one kind should look alike: by type, item type, role and status."""
    item = event.get("item", {})
    status = event.get("response", {}).get("status", item.get("status"))
    outputs = tuple(output["type"] for output in event.get("response", {}).get("output", []))
    return event["type"], item.get("type"), item.get("role"), status, outputs


def test_every_event_has_the_fields_of_the_golden_one(golden, emitted):
    known = {kind(event): paths(event) for side, event in golden if side == "S"}
    compared = {kind(event) for event in emitted if kind(event) in known}
    assert len(compared) >= 35
    differ = {
        kind(e): paths(e) ^ known[kind(e)] for e in emitted if kind(e) in known and paths(e) != known[kind(e)]
    }
    assert differ == {}


def test_ids_look_like_those_of_the_service():
    ids = Ids(1)
    assert re.fullmatch(r"item_[A-Za-z0-9]{21}", ids.new("item"))
    assert ids.new("resp") != ids.new("resp")


def test_usage_adds_up():
    tokens = usage(text_in=3, audio_in=4, text_out=5, audio_out=6)
    assert (tokens["input_tokens"], tokens["output_tokens"], tokens["total_tokens"]) == (7, 11, 18)


@pytest.mark.parametrize(
    ("status", "code"), [(401, "invalid_api_key"), (429, "rate_limit_exceeded"), (503, "server_error")]
)
def test_a_refused_handshake_has_an_error_body(status, code):
    found, body = http_error(status)
    assert found == body["error"]["code"] == code
