"""The server session without a socket: events of the client, conversation items, faults at a time."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.fakes.pump import Close
from providers.fakes.script_parser import parse_script
from providers.fakes.speech import silence
from providers.types import PCMU


def text_item(text, role="user", **fields):
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}], **fields}


def test_it_begins_with_a_full_default_session(dial):
    line = dial(raw=True, model="gpt-realtime-2.1", session_seconds=3600)
    (created,) = line.events
    session = created["session"]
    assert session["model"] == "gpt-realtime-2.1"
    assert session["expires_at"] == 1_796_003_600
    assert session["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 200
    assert session["audio"]["output"] == {
        "format": {"type": "audio/pcm", "rate": 24000}, "voice": "marin", "speed": 1.0,
    }  # fmt: skip


def test_an_update_answers_with_the_merged_session(dial):
    line = dial()
    session = line.last("session.updated")["session"]
    assert session["instructions"] == "You answer the phone."
    assert session["audio"]["input"]["format"] == {"type": "audio/pcmu"}
    assert session["audio"]["input"]["turn_detection"]["threshold"] == 0.5
    assert session["audio"]["output"]["voice"] == "marin"


def test_a_refused_update_changes_nothing(dial):
    line = dial()
    line.send(
        "session.update", event_id="up", session={"type": "realtime", "instructions": "x", "colour": "red"}
    )
    assert line.error() == {
        "type": "invalid_request_error",
        "code": "unknown_parameter",
        "message": "Unknown parameter: 'session.colour'.",
        "param": "session.colour",
        "event_id": "up",
    }
    assert line.session.config.instructions == "You answer the phone."


def test_the_voice_is_fixed_once_it_was_heard(dial):
    line = dial()
    cedar = {"type": "realtime", "audio": {"output": {"voice": "cedar"}}}
    line.send("session.update", session=cedar)
    assert line.last("session.updated")["session"]["audio"]["output"]["voice"] == "cedar"
    line.send("response.create")
    line.run(2)
    line.send("session.update", session=cedar)
    assert line.types()[-1] == "session.updated"
    line.send("session.update", session={"type": "realtime", "audio": {"output": {"voice": "marin"}}})
    assert line.error()["code"] == "cannot_update_voice"


@pytest.mark.parametrize("frame", ["", "{", "[1]", "7", b"\xff\xfe"])
def test_what_is_not_an_event_gets_an_error_and_the_session_goes_on(dial, frame):
    line = dial()
    line.session.receive(frame, line.now)
    line.collect()
    assert line.error()["type"] == "invalid_request_error"
    line.send("response.create")
    assert line.all("response.created")


def test_an_unknown_event_type_lists_the_known_ones(dial):
    line = dial()
    line.send("session.explode")
    assert line.error()["param"] == "type"
    assert "'response.create'" in line.error()["message"]


def test_items_are_added_where_the_client_wants_them(dial):
    line = dial()
    line.send("conversation.item.create", item=text_item("b", id="item_b"))
    line.send("conversation.item.create", item=text_item("a", id="item_a"), previous_item_id="root")
    line.send("conversation.item.create", item=text_item("c", id="item_c"), previous_item_id="item_a")
    assert [item["id"] for item in line.session.conversation.items] == ["item_a", "item_c", "item_b"]
    added = {event["item"]["id"]: event["previous_item_id"] for event in line.all("conversation.item.added")}
    assert added == {"item_b": None, "item_a": None, "item_c": "item_a"}
    assert len(line.all("conversation.item.done")) == 3


def test_an_item_can_be_retrieved_and_deleted(dial):
    line = dial()
    line.send("conversation.item.create", item=text_item("hello", id="item_1"))
    line.send("conversation.item.retrieve", item_id="item_1")
    assert line.last("conversation.item.retrieved")["item"]["content"][0]["text"] == "hello"
    line.send("conversation.item.delete", item_id="item_1")
    assert line.last("conversation.item.deleted")["item_id"] == "item_1"
    line.send("conversation.item.retrieve", item_id="item_1")
    assert line.error()["code"] == "item_retrieve_invalid_item_id"
    line.send("conversation.item.delete", item_id="item_1")
    assert line.error()["code"] == "item_delete_invalid_item_id"


def test_an_interrupted_answer_is_truncated_to_what_was_heard(dial):
    line = dial()
    line.send("response.create")
    line.run(2)
    item = line.last("response.done")["response"]["output"][0]
    line.send("conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=640)
    truncated = line.last("conversation.item.truncated")
    assert (truncated["item_id"], truncated["audio_end_ms"]) == (item["id"], 640)
    assert line.session.conversation.audio_ms(item["id"]) == 640
    assert "transcript" not in line.session.conversation.find(item["id"])["content"][0]


def test_more_cannot_be_heard_than_was_said(dial):
    line = dial()
    line.send("response.create")
    line.run(2)
    item = line.last("response.done")["response"]["output"][0]
    line.send("conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=1001)
    assert line.error()["message"] == "Audio content of 1000ms is already shorter than 1001ms"
    line.send("conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=1000)
    assert line.last("conversation.item.truncated")["audio_end_ms"] == 1000


def test_a_barge_in_is_known_to_the_script_from_the_truncation(dial):
    line = dial(
        "steps: [{on: greeting, say: hours.flac}, {on: barge_in, say: {tone: 700, ms: 100, text: Sorry}}]"
    )
    line.send("response.create")
    line.run(4)
    line.turn()
    line.run(1)
    assert line.last("response.done")["response"]["output"][0]["content"][0]["transcript"] == "Sorry"


def test_only_audio_of_the_model_can_be_truncated(dial):
    line = dial()
    line.turn()
    user = line.last("input_audio_buffer.committed")["item_id"]
    line.send("conversation.item.truncate", item_id=user, content_index=0, audio_end_ms=0)
    assert line.error()["message"] == "Only model output audio messages can be truncated"
    line.send("conversation.item.truncate", item_id="item_no", content_index=0, audio_end_ms=0)
    assert line.error()["code"] == "item_truncate_invalid_item_id"


def test_answers_of_tools_are_counted(dial):
    line = dial("steps: [{on: greeting, call: {tool: lookup_caller}}]")
    line.send("response.create")
    line.run(1)
    call_id = line.last("response.done")["response"]["output"][0]["call_id"]
    answer = {"type": "function_call_output", "call_id": call_id, "output": "{}"}
    assert line.session.conversation.unanswered == (call_id,)
    line.send("conversation.item.create", item=answer)
    assert not line.session.conversation.unanswered
    assert not line.session.conversation.answered_twice
    line.send("conversation.item.create", item=answer)
    assert line.session.conversation.answered_twice == (call_id,)


def test_an_answer_to_a_call_that_never_was_is_refused(dial):
    line = dial()
    line.send(
        "conversation.item.create", item={"type": "function_call_output", "call_id": "call_x", "output": ""}
    )
    assert line.error()["code"] == "invalid_tool_call_id"


def test_dtmf_is_text_that_the_script_understands(dial):
    line = dial('steps: [{on: {dtmf: "5"}, say: key_pressed.flac}, {on: greeting, say: greeting.flac}]')
    line.send("conversation.item.create", item=text_item("DTMF 5 pressed"))
    line.send("response.create")
    line.run(3)
    assert "key" in line.last("response.done")["response"]["output"][0]["content"][0]["transcript"]


def test_new_instructions_may_change_the_scene(dial):
    line = dial("""
        scenes:
          - {when: {instructions: sales}, steps: [{on: greeting, say: {tone: 440, ms: 100, text: Sales}}]}
          - steps: [{on: greeting, say: {tone: 440, ms: 100, text: Reception}}]
    """)
    line.send("response.create")
    line.run(1)
    line.send("session.update", session={"type": "realtime", "instructions": "You are sales."})
    line.send("response.create")
    line.run(1)
    said = [event["response"]["output"][0]["content"][0]["transcript"] for event in line.all("response.done")]
    assert said == ["Reception", "Sales"]


def test_received_events_are_recorded_without_audio(dial):
    line = dial()
    line.speak(100)
    line.send("response.create")
    assert [(event.at, event.type) for event in line.session.received] == [
        (100.0, "session.update"), (line.now, "response.create"),
    ]  # fmt: skip
    assert [size for _, size in line.session.appends] == [160] * 5
    assert len(line.session.input_audio) == 800


def test_output_audio_buffer_clear_belongs_to_other_transports(dial):
    line = dial()
    line.send("output_audio_buffer.clear")
    assert line.error()["code"] == "invalid_value"


def test_the_same_seed_gives_the_same_ids(dial):
    assert dial(seed=7).frames == dial(seed=7).frames
    assert dial(seed=7).frames != dial(seed=8).frames


@pytest.mark.parametrize("code", [1001, 1006, 1008, 1011, 4000])
def test_the_connection_closes_when_told_to(dial, code):
    line = dial(faults=f"close:{code}@2.5")
    line.run(2.4)
    assert line.session.closing is None
    line.run(0.2)
    assert line.session.closing == Close(code, "closed on purpose")


def test_a_stalled_session_says_nothing_more(dial):
    line = dial(faults="stall@1")
    line.run(1)
    count = len(line.events)
    line.send("response.create")
    line.run(10)
    assert len(line.events) == count
    assert line.session.closing is None


def test_a_session_that_stalls_at_once_never_says_hello(dial):
    assert dial(faults="stall", raw=True).events == []


@pytest.mark.parametrize(("faults", "options"), [("expire@30", {}), ("", {"session_seconds": 30.0})])
def test_a_session_expires_with_an_error_and_1001(dial, faults, options):
    line = dial(faults=faults, **options)
    line.run(31)
    assert line.error()["code"] == "session_expired"
    assert line.session.closing.code == 1001
    assert "60 minutes" in line.session.closing.reason


def test_an_error_event_comes_when_told_to(dial):
    line = dial(faults="error:rate_limit_exceeded@1,error@2")
    line.run(3)
    assert [event["error"]["code"] for event in line.all("error")] == ["rate_limit_exceeded", "server_error"]
    assert line.error()["type"] == "server_error"


def test_unknown_events_and_garbage_can_be_sent(dial):
    line = dial(faults="unknown_event@1,garbage@2")
    line.run(3)
    assert line.types()[-2:] == ["session.mood.updated", "(garbage)"]
    with pytest.raises(json.JSONDecodeError):
        json.loads(line.frames[-1])


def test_the_first_update_can_be_refused(dial):
    line = dial(faults="refuse_update:invalid_value")
    assert line.error()["code"] == "invalid_value"
    assert not line.all("session.updated")
    line.phone()
    assert line.all("session.updated")


def test_the_script_can_lose_the_session(dial):
    line = dial("{lose_after: 2.0, steps: [{on: greeting, say: greeting.flac}]}")
    line.run(3)
    assert line.session.closing.code == 1011


def test_the_beta_header_gets_its_error_and_4000(script_of):
    from providers.fakes.openai_session import Options, RealtimeSession

    session = RealtimeSession(Options(script=script_of("steps: []")), now=0.0, wall_time=0.0, beta=True)
    (frame,) = session.to_send()
    assert json.loads(frame)["error"]["code"] == "beta_api_shape_disabled"
    assert session.closing.code == 4000


FUZZ = """
hearing: {transcript_after_ms: 30}
steps:
  - {on: greeting, repeat: true, say: {tone: 440, ms: 500, text: hello there}, call: {tool: a}}
  - {on: caller_turn, repeat: true, call: [{tool: b}, {tool: c}], say: {tone: 440, ms: 700, text: well then}}
"""
DEEDS = st.lists(
    st.sampled_from([
        "create", "aside", "cancel", "speak", "pause", "wait", "truncate", "answer", "text", "commit",
        "clear", "manual", "vad", "polite", "delete", "garbage",
    ]),
    max_size=25,
)  # fmt: skip


def detection(line, value):
    line.send("session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": value}}})


def do(line, deed):
    items = line.session.conversation.items
    last = items[-1]["id"] if items else "item_none"
    match deed:
        case "create":
            line.send("response.create")
        case "aside":
            line.send("response.create", response={"conversation": "none"})
        case "cancel":
            line.send("response.cancel")
        case "speak":
            line.speak(120)
        case "pause":
            line.audio(silence(220, PCMU))
        case "wait":
            line.run(0.07)
        case "truncate":
            line.send("conversation.item.truncate", item_id=last, content_index=0, audio_end_ms=100)
        case "answer":
            for call_id in line.session.conversation.unanswered:
                answer = {"type": "function_call_output", "call_id": call_id, "output": "{}"}
                line.send("conversation.item.create", item=answer)
        case "text":
            line.send("conversation.item.create", item=text_item("hi"))
        case "commit":
            line.send("input_audio_buffer.commit")
        case "clear":
            line.send("input_audio_buffer.clear")
        case "manual":
            detection(line, None)
        case "vad":
            detection(line, {"type": "server_vad", "silence_duration_ms": 200, "interrupt_response": True})
        case "polite":
            detection(line, {"type": "server_vad", "silence_duration_ms": 200, "interrupt_response": False})
        case "delete":
            line.send("conversation.item.delete", item_id=last)
        case _:
            line.send("conversation.item.create", item={"type": "message"})


@settings(deadline=None)
@given(
    DEEDS,
    st.sampled_from(["", "late_deltas:2,stray_deltas:2", "failed#2,transcript:unordered,rate_limits:before"]),
)
def test_whatever_a_client_does_the_session_stays_in_order(new_line, deeds, faults):
    line = new_line(parse_script(FUZZ, Path("fuzz.yaml")), faults)
    line.phone()
    for deed in deeds:
        do(line, deed)
    line.run(10)
    main = [
        (event["type"], event["response"]["id"])
        for event in line.events
        if event["type"] in ("response.created", "response.done") and event["response"]["conversation_id"]
    ]
    created, done = main[::2], main[1::2]
    assert [kind for kind, _ in created] == ["response.created"] * len(created)
    assert [("response.done", response_id) for _, response_id in created] == done
    if not {"clear", "commit", "manual"} & set(deeds):
        speech = [kind for kind in line.types() if kind.startswith("input_audio_buffer.speech_")]
        assert set(speech[::2]) <= {"input_audio_buffer.speech_started"}
        assert set(speech[1::2]) <= {"input_audio_buffer.speech_stopped"}
    ids = [event["event_id"] for event in line.events]
    assert len(ids) == len(set(ids))
