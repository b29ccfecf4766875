"""The fake bills like the service: everything again with every response, and the cache in blocks."""

from providers.fakes.openai_billing import Billing, Read, text_tokens, transcription
from providers.fakes.openai_config import SessionConfig
from providers.fakes.openai_conversation import Conversation
from providers.fakes.openai_wire import assistant_item, function_call_item, user_audio_item


def session(instructions="x" * 400):
    config = SessionConfig("sess_1", "gpt-realtime-2.1", 0)
    config.session["instructions"] = instructions
    return config.session


def spoken(conversation, item, ms):
    conversation.add(item)
    conversation.spoke(item["id"], ms)


def test_a_callers_second_is_ten_tokens_and_the_agents_is_twenty():
    conversation = Conversation("conv")
    spoken(conversation, user_audio_item("u", "hello"), 1000)
    spoken(
        conversation, assistant_item("a", "completed", [{"type": "output_audio", "transcript": "hi"}]), 1000
    )
    assert Billing().read(session(), conversation) == Read(text=100, audio=30)


def test_calls_their_outputs_and_tools_are_text():
    conversation = Conversation("conv")
    conversation.add(function_call_item("f", "call_1", "look", '{"a":1}', "completed"))
    conversation.add({"id": "o", "type": "function_call_output", "call_id": "call_1", "output": "12345678"})
    with_tool = session("") | {"tools": [{"name": "look"}]}
    assert Billing().read(with_tool, conversation) == Read(text=text_tokens('look{"a":1}') + 2 + 4)


def test_what_the_response_before_read_comes_from_the_cache_in_blocks():
    conversation, billing = Conversation("conv"), Billing()
    first = billing.read(session(), conversation)
    spoken(conversation, user_audio_item("u"), 13_000)
    second = billing.read(session(), conversation)
    third = billing.read(session(), conversation)
    assert (first.cached_text, second.cached_text) == (0, 64)
    assert (second.audio, second.cached_audio, third.cached_audio) == (130, 0, 128)


def test_a_truncated_item_costs_what_is_left_of_it():
    conversation, billing = Conversation("conv"), Billing()
    spoken(
        conversation, assistant_item("a", "completed", [{"type": "output_audio", "transcript": "hi"}]), 8000
    )
    assert billing.read(session(""), conversation).audio == 160
    conversation.truncate("a", 0, 3000)
    assert billing.read(session(""), conversation) == Read(audio=60, cached_audio=0)


def test_transcripts_are_billed_by_tokens_or_by_length():
    tokens = transcription("gpt-live-transcribe", 1250, "Hi there")
    assert (tokens["type"], tokens["input_tokens"], tokens["output_tokens"]) == ("tokens", 13, 2)
    assert transcription("gpt-realtime-whisper", 1250, "Hi there") == {"type": "duration", "seconds": 1.25}
