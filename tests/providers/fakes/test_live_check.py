"""The SDK's types judge what the GPT-Live server sends."""

from providers.fakes import live_wire as wire
from providers.fakes.live_check import check_server_event, prepare


def nested(event: dict) -> dict:
    return {"type": "response.event", "event_id": "e", "delegation_id": None, "event": event}


def test_good_events_pass():
    prepare()
    snapshot = wire.response("resp_1", "gpt-6-luna", "in_progress")
    created = {"type": "response.created", "sequence_number": 1, "response": snapshot}
    assert check_server_event({"type": "session.output_audio.delta", "delta": ""}) is None
    assert check_server_event(nested(created)) is None


def test_a_missing_field_an_unknown_one_and_an_unknown_event_are_named():
    assert "start_ms" in check_server_event(
        {"type": "session.thinking.appended", "event_id": "e", "end_ms": 0}
    )
    extra = {"type": "session.output_audio.delta", "delta": "", "item_id": "item_1"}
    assert check_server_event(extra) == "fields that the SDK does not know: item_id"
    assert "session.mood" in check_server_event({"type": "session.mood"})


def test_a_nested_event_is_judged_by_the_types_of_its_own_protocol():
    assert "response" in check_server_event(nested({"type": "response.created", "sequence_number": 1}))
    done = {"type": "response.function_call_arguments.done", "sequence_number": 1, "item_id": "i"}
    whole = {**done, "output_index": 0, "arguments": "{}"}
    assert check_server_event(nested(whole)) is None
    assert (
        check_server_event(nested({**whole, "name": "look_up"})) == "fields that the SDK does not know: name"
    )
