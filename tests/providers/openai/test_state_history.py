"""What was said before a session, as the items that it is told in."""

from __future__ import annotations

import json

from providers.openai import wire
from providers.openai.messages import AddText, AnswerCall, CreateResponse, RepeatCall
from providers.types import Said, ToolUsed
from tests.providers.openai.told import Told
from tools.types import ToolCall

PAST = (
    Said("agent", "Hello."),
    Said("caller", "It is me."),
    ToolUsed(ToolCall("function-call-" + "9" * 40, "lookup_caller", '{"id":7}'), '{"ok":true}'),
    Said("system", "The caller is Ada."),
    ToolUsed(ToolCall("call_2", "query_knowledge", ""), "none"),
)


def replayed() -> Told:
    told = Told()
    told.state.replay(PAST)
    return told.take()


def test_words_are_text_in_the_role_of_who_said_them() -> None:
    assert [(text.role, text.text) for text in replayed().of(AddText)] == [
        ("assistant", "Hello."),
        ("user", "It is me."),
        ("system", "The caller is Ada."),
    ]


def test_a_tool_is_a_call_with_its_output_directly_behind_it() -> None:
    sent = replayed().sent
    pairs = [(sent[at], sent[at + 1]) for at, each in enumerate(sent) if isinstance(each, RepeatCall)]
    assert [(call.name, call.arguments, answer.output) for call, answer in pairs] == [
        ("lookup_caller", '{"id":7}', '{"ok":true}'),
        ("query_knowledge", "{}", "none"),
    ]
    assert all(isinstance(answer, AnswerCall) and answer.call_id == call.call_id for call, answer in pairs)


def test_the_ids_are_short_and_each_its_own() -> None:
    """The id of another provider may be longer than the 32 characters that this one takes."""
    events = [json.loads(wire.encode(message)) for message in replayed().sent]
    ids = [event["item"].get("id") or event["item"]["type"] + event["item"]["call_id"] for event in events]
    assert len(set(ids)) == len(ids)
    assert max(len(event["item"].get("call_id", "")) for event in events) <= 32
    assert len({event["event_id"] for event in events}) == len(events)


def test_nothing_is_asked_for() -> None:
    told = replayed()
    told.wait_until(60)
    assert told.of(CreateResponse) == []
    assert told.events == []


def test_an_agents_text_is_output_and_everybody_elses_is_input() -> None:
    events = [json.loads(wire.encode(message)) for message in replayed().of(AddText)]
    kinds = {event["item"]["role"]: event["item"]["content"][0]["type"] for event in events}
    assert kinds == {"assistant": "output_text", "user": "input_text", "system": "input_text"}
