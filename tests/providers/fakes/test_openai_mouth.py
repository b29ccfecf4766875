"""Responses of the server: pace, gate, barge-in, tools and faults."""

import base64

import pytest

from providers.fakes.g711 import decode
from providers.fakes.speech import Tone, render, silence
from providers.types import PCM16_24K, PCMA, PCMU

PARALLEL = """
steps:
  - on: greeting
    call:
      - {tool: lookup_caller, arguments: {}}
      - {tool: query_knowledge, arguments: {query: "opening hours"}}
  - on: {tool_result: [lookup_caller, query_knowledge]}
    say: {tone: 440, ms: 500, text: "Here you are"}
"""


def outputs(line):
    return line.last("response.done")["response"]["output"]


def test_speech_comes_in_bursts_four_times_faster_than_real_time(dial):
    line = dial()
    start = line.now
    line.send("response.create")
    line.run(5)
    deltas = line.all("response.output_audio.delta")
    lengths = [len(base64.b64decode(event["delta"])) // 8 for event in deltas]
    assert lengths == [200, 400, 100, 300]
    assert [round(event["at"] - start, 3) for event in deltas] == [0.0, 0.05, 0.15, 0.175]


@pytest.mark.parametrize(
    ("kind", "fmt"),
    [({"type": "audio/pcmu"}, PCMU), ({"type": "audio/pcma"}, PCMA), ({"type": "audio/pcm"}, PCM16_24K)],
)
def test_audio_is_sent_in_the_configured_format(dial, kind, fmt):
    line = dial()
    line.send("session.update", session={"type": "realtime", "audio": {"output": {"format": kind}}})
    line.send("response.create")
    line.run(2)
    item_id = outputs(line)[0]["id"]
    assert line.spoken(item_id) == render(Tone(440, 1000), fmt)


def test_a_second_create_is_refused_and_names_the_response(dial):
    line = dial()
    line.send("response.create")
    line.send("response.create", event_id="second")
    running = line.last("response.created")["response"]["id"]
    assert line.error()["code"] == "conversation_already_has_active_response"
    assert running in line.error()["message"]
    assert line.error()["event_id"] == "second"


def test_cancelling_closes_what_is_open(dial):
    line = dial()
    line.send("response.create")
    line.run(0.06)
    start = len(line.events)
    line.send("response.cancel", response_id=line.last("response.created")["response"]["id"])
    assert line.types(start)[:5] == [
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
    ]
    done = line.last("response.done")["response"]
    assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "client_cancelled")
    assert done["output"][0]["status"] == "incomplete"
    assert not line.all("conversation.item.done")


def test_cancelling_nothing_is_a_harmless_error(dial):
    line = dial()
    line.send("response.cancel", response_id="resp_of_yesterday")
    assert line.error()["code"] == "response_cancel_not_active"


def test_speech_of_the_caller_cancels_the_response(dial):
    line = dial()
    line.turn()
    line.run(0.1)
    line.speak(200)
    kinds = line.types()
    started = len(kinds) - 1 - kinds[::-1].index("input_audio_buffer.speech_started")
    assert kinds[started + 1 : started + 6] == [
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
    ]
    assert line.last("response.done")["response"]["status_details"]["reason"] == "turn_detected"


def test_without_interrupt_response_the_model_finishes_and_answers_afterwards(dial):
    line = dial()
    detection = {"type": "server_vad", "interrupt_response": False}
    line.send(
        "session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": detection}}}
    )
    line.turn()
    line.turn(100)
    statuses = [event["response"]["status"] for event in line.all("response.done")]
    line.run(5)
    statuses = [event["response"]["status"] for event in line.all("response.done")]
    assert statuses == ["completed", "completed"]
    assert not line.all("error")


def test_late_deltas_come_before_the_end_and_stray_ones_after_it(dial):
    line = dial(faults="late_deltas:2,stray_deltas:1")
    line.send("response.create")
    start = len(line.events)
    line.send("response.cancel")
    kinds = [kind for kind in line.types(start) if "transcript" not in kind]
    assert kinds[:2] == ["response.output_audio.delta"] * 2
    assert kinds[-1] == "response.output_audio.delta" or kinds[-2] == "response.output_audio.delta"
    assert kinds.index("response.done") < len(kinds) - 1 - kinds[::-1].index("response.output_audio.delta")


def test_parallel_calls_are_two_items_of_one_response(dial):
    line = dial(PARALLEL)
    line.send("response.create")
    line.run(1)
    assert [item["name"] for item in outputs(line)] == ["lookup_caller", "query_knowledge"]
    assert outputs(line)[1]["arguments"] == '{"query":"opening hours"}'
    deltas = line.all("response.function_call_arguments.delta")
    assert "".join(e["delta"] for e in deltas if e["output_index"] == 1) == outputs(line)[1]["arguments"]
    assert line.session.conversation.unanswered == tuple(item["call_id"] for item in outputs(line))


def test_the_answer_is_spoken_once_all_results_are_there(dial):
    line = dial(PARALLEL)
    line.send("response.create")
    line.run(1)
    for item in outputs(line):
        answer = {"type": "function_call_output", "call_id": item["call_id"], "output": "{}"}
        line.send("conversation.item.create", item=answer)
    line.send("response.create")
    line.run(1)
    assert outputs(line)[0]["content"][0]["transcript"] == "Here you are"
    assert not line.session.conversation.unanswered


@pytest.mark.parametrize(
    ("step", "kinds"),
    [
        ("say: farewell.flac, call: {tool: end_call}", ["message", "function_call"]),
        ("call: {tool: end_call}, say: farewell.flac", ["function_call", "message"]),
    ],
)
def test_speech_and_call_come_in_the_order_of_the_script(dial, step, kinds):
    line = dial(f"steps: [{{on: greeting, {step}}}]")
    line.send("response.create")
    line.run(3)
    assert [item["type"] for item in outputs(line)] == kinds


def test_tool_choice_none_of_a_response_leaves_out_its_calls(dial):
    line = dial("steps: [{on: greeting, say: farewell.flac, call: {tool: end_call}}]")
    line.send("response.create", response={"tool_choice": "none"})
    line.run(3)
    assert [item["type"] for item in outputs(line)] == ["message"]


def test_instructions_of_a_response_are_heard_by_the_script(dial):
    line = dial("steps: [{on: {text: goodbye}, say: farewell.flac}, {on: greeting, say: greeting.flac}]")
    line.send("response.create", response={"instructions": "Say goodbye in one sentence."})
    line.run(3)
    assert "Goodbye" in outputs(line)[0]["content"][0]["transcript"]


def test_an_out_of_band_response_runs_beside_the_active_one(dial):
    line = dial(
        "steps: [{on: greeting, say: greeting.flac}, {on: {text: sum up}, say: {tone: 440, ms: 100}}]"
    )
    line.send("response.create")
    line.send(
        "response.create", response={"conversation": "none", "instructions": "Sum up", "metadata": {"a": "b"}}
    )
    line.run(5)
    first, second = (event["response"] for event in line.all("response.done"))
    assert (first["conversation_id"], first["metadata"]) == (None, {"a": "b"})
    assert second["conversation_id"] == line.session.conversation.id
    assert len(line.session.conversation.items) == 1


def test_text_only_responses_have_text_events_and_no_audio(dial):
    line = dial()
    line.send("response.create", response={"output_modalities": ["text"]})
    line.run(3)
    text = "".join(event["delta"] for event in line.all("response.output_text.delta"))
    assert text == line.last("response.output_text.done")["text"] == "Hello, who is there"
    assert not line.all("response.output_audio.delta")


def test_a_failed_response_says_why_and_the_next_one_says_what_it_would_have_said(dial):
    line = dial(faults="failed#1:rate_limit_exceeded")
    line.send("response.create")
    line.run(1)
    done = line.last("response.done")["response"]
    assert (done["status"], done["usage"]) == ("failed", None)
    assert done["status_details"]["error"]["code"] == "rate_limit_exceeded"
    line.send("response.create")
    line.run(2)
    assert outputs(line)[0]["content"][0]["transcript"] == "Hello, who is there"


def test_a_response_without_audio_completes_empty(dial):
    line = dial(faults="no_audio#1")
    line.send("response.create")
    line.run(1)
    assert line.last("response.done")["response"]["status"] == "completed"
    assert outputs(line) == []


def test_an_incomplete_response_stops_half_way(dial):
    line = dial(faults="incomplete#1:content_filter")
    line.send("response.create")
    line.run(2)
    done = line.last("response.done")["response"]
    assert done["status_details"] == {"type": "incomplete", "reason": "content_filter"}
    assert 0 < len(line.spoken(outputs(line)[0]["id"])) < 8000
    assert outputs(line)[0]["status"] == "incomplete"


def test_arguments_can_be_cut_in_the_middle(dial):
    line = dial(
        PARALLEL.replace("arguments: {}", 'arguments: {a: "0123456789012345"}'), faults="cut_arguments#1"
    )
    line.send("response.create")
    line.run(1)
    assert [item["status"] for item in outputs(line)] == ["incomplete"]
    assert outputs(line)[0]["arguments"] == '{"a":"0123456789'
    assert line.session.conversation.unanswered == ()


def test_a_barge_in_during_slow_arguments_leaves_them_unfinished(dial):
    line = dial(
        PARALLEL.replace("arguments: {}", 'arguments: {a: "0123456789012345"}'), faults="slow_arguments:3"
    )
    line.send("response.create")
    line.run(2)
    line.speak(200)
    assert line.last("response.done")["response"]["status"] == "cancelled"
    assert line.last("response.function_call_arguments.done")["arguments"] == '{"a":"0123456789'


def test_a_huge_delta_is_at_least_a_mebibyte(dial):
    line = dial(faults="huge_delta#1")
    line.send("response.create")
    line.run(3)
    (delta,) = line.all("response.output_audio.delta")
    assert len(delta["delta"]) >= 1024 * 1024
    assert base64.b64decode(delta["delta"]).startswith(render(Tone(440, 1000), PCMU) + silence(100, PCMU))


@pytest.mark.parametrize(("when", "place"), [("before", 0), ("after", -1), ("none", None)])
def test_rate_limits_come_where_the_switch_says(dial, when, place):
    line = dial(faults=f"rate_limits:{when}")
    start = len(line.events)
    line.send("response.create")
    line.run(3)
    kinds = line.types(start)
    assert ("rate_limits.updated" in kinds) == (place is not None)
    if place is not None:
        assert kinds[place] == "rate_limits.updated"


def test_the_script_can_fail_a_response_after_speech(dial):
    line = dial("steps: [{on: greeting, say: okay.flac, outcome: {status: failed, code: server_error}}]")
    line.send("response.create")
    line.run(3)
    done = line.last("response.done")["response"]
    assert done["status_details"]["error"]["type"] == "server_error"
    assert done["output"][0]["status"] == "completed"


def test_an_unsupported_conversation_is_refused(dial):
    line = dial()
    line.send("response.create", response={"conversation": "other"})
    assert line.error()["param"] == "response.conversation"


def test_a_voice_that_does_not_exist_is_refused_for_a_response_too(dial):
    line = dial()
    line.send("response.create", response={"audio": {"output": {"voice": "robot"}}})
    assert line.error()["param"] == "response.audio.output.voice"


def test_silent_audio_has_the_length_of_the_speech_and_nothing_to_hear(dial):
    line = dial(faults="silent_audio:2#1")
    line.send("response.create")
    line.run(3)
    audio = b"".join(base64.b64decode(delta["delta"]) for delta in line.all("response.output_audio.delta"))
    assert len(audio) == len(render(Tone(440, 1000), PCMU))
    assert abs(decode(audio, "pcmu").astype(int)).max() <= 8
    assert line.last("response.done")["response"]["status"] == "completed"


def test_a_response_that_hangs_speaks_half_and_never_ends_until_it_is_cancelled(dial):
    line = dial(faults="hang#1")
    line.send("response.create")
    line.run(60)
    assert len(line.all("response.output_audio.delta")) > 0
    assert line.all("response.done") == []
    line.send("response.cancel")
    assert line.last("response.done")["response"]["status"] == "cancelled"


def test_an_ignored_request_is_answered_by_nothing_and_the_next_one_as_usual(dial):
    line = dial(faults="ignored#1")
    line.send("response.create")
    line.run(30)
    assert line.all("response.created") == []
    line.send("response.create")
    line.run(3)
    assert line.last("response.done")["response"]["output"][0]["status"] == "completed"


def test_a_model_that_freezes_answers_nothing_after_an_interruption(dial):
    line = dial(faults="freeze")
    line.send("response.create")
    line.run(0.2)
    line.turn(400)
    line.run(3)
    assert len(line.all("input_audio_buffer.speech_stopped")) == 1
    line.send("response.create")
    line.turn(400)
    line.run(30)
    assert len(line.all("response.created")) == 1


def test_a_phantom_interruption_stops_the_model_though_nobody_spoke(dial):
    line = dial(faults="phantom_interrupted@0.1")
    line.send("response.create")
    line.run(5)
    assert len(line.all("input_audio_buffer.speech_started")) == 1
    assert line.all("input_audio_buffer.speech_stopped") == []
    assert line.last("response.done")["response"]["status"] == "cancelled"
