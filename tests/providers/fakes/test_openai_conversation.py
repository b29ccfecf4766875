"""Items of a conversation."""

from providers.fakes.openai_conversation import Conversation
from providers.fakes.openai_wire import assistant_item, user_audio_item


def test_an_item_knows_the_one_before_it():
    conversation = Conversation("conv_1")
    assert conversation.add(user_audio_item("a")) is None
    assert conversation.add(user_audio_item("b")) == "a"
    assert conversation.add(user_audio_item("c"), after="a") == "a"
    assert [item["id"] for item in conversation.items] == ["a", "c", "b"]


def test_an_id_may_be_used_once_and_a_place_has_to_exist():
    conversation = Conversation("conv_1")
    conversation.add(user_audio_item("a"))
    message = {"type": "message", "role": "user", "content": []}
    assert conversation.check_new({**message, "id": "a"}, None).param == "item.id"
    assert conversation.check_new(message, "z").code == "item_create_invalid_previous_item_id"
    assert conversation.check_new(message, "root") is None


def test_a_client_cannot_put_words_into_the_models_voice():
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_audio", "transcript": "x"}]}
    assert Conversation("conv_1").check_new(item, None).param == "item.content"


def test_truncation_lasts():
    conversation = Conversation("conv_1")
    conversation.add(assistant_item("a", "completed", [{"type": "output_audio", "transcript": "hello"}]))
    conversation.spoke("a", 900)
    assert conversation.truncate("a", 0, 500) is None
    assert conversation.audio_ms("a") == 500
    assert conversation.truncate("a", 0, 501).param == "audio_end_ms"
    assert conversation.truncate("a", 0, -1).param == "audio_end_ms"
    assert conversation.truncate("a", 1, 100).param == "content_index"


def test_a_call_without_an_answer_is_found():
    conversation = Conversation("conv_1")
    conversation.called("call_1", "lookup_caller")
    conversation.called("call_2", "query_knowledge")
    assert conversation.answered("call_2") == "query_knowledge"
    assert conversation.unanswered == ("call_1",)
