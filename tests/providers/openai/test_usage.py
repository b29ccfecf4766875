"""Every token is counted once, under the kind that has its price."""

import pytest

from providers.openai import usage
from providers.openai.usage import UsageMeter
from providers.types import Usage

WHOLE = {
    "total_tokens": 253,
    "input_tokens": 132,
    "output_tokens": 121,
    "input_token_details": {
        "text_tokens": 119,
        "audio_tokens": 13,
        "image_tokens": 0,
        "cached_tokens": 70,
        "cached_tokens_details": {"text_tokens": 64, "audio_tokens": 6, "image_tokens": 0},
    },
    "output_token_details": {"text_tokens": 30, "audio_tokens": 91},
}


def test_cached_tokens_are_taken_out_of_the_input_tokens():
    assert usage.read(WHOLE) == Usage(
        text_in=55, audio_in=7, cached_text_in=64, cached_audio_in=6, text_out=30, audio_out=91
    )


def test_more_cached_tokens_than_there_are_never_give_a_negative_count():
    details = {
        "text_tokens": 10,
        "audio_tokens": 5,
        "cached_tokens_details": {"text_tokens": 40, "audio_tokens": 9},
    }
    assert usage.read({"input_token_details": details}) == Usage(cached_text_in=10, cached_audio_in=5)


def test_cached_tokens_without_a_kind_save_as_little_as_they_can():
    details = {"text_tokens": 10, "audio_tokens": 50, "cached_tokens": 25}
    assert usage.read({"input_token_details": details}) == Usage(
        audio_in=35, cached_text_in=10, cached_audio_in=15
    )


def test_tokens_without_a_kind_are_the_dearer_ones():
    assert usage.read({"input_tokens": 12, "output_tokens": 34}) == Usage(audio_in=12, audio_out=34)


def test_a_transcriber_writes_text():
    written = {
        "type": "tokens",
        "input_tokens": 13,
        "output_tokens": 9,
        "input_token_details": {"audio_tokens": 13},
    }
    assert usage.read(written, speaks=False) == Usage(audio_in=13, text_out=9, seconds=1.3)


def test_a_transcriber_that_is_paid_by_length_has_seconds():
    assert usage.read({"type": "duration", "seconds": 2.5}, speaks=False) == Usage(seconds=2.5)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"input_tokens": -4, "output_tokens": "many"},
        {"input_token_details": None, "output_token_details": [1, 2]},
        {"input_token_details": {"cached_tokens_details": 7}},
        {"seconds": -1.0},
    ],
)
def test_what_is_no_count_is_nothing(broken):
    assert usage.read(broken).nothing


def test_a_repeated_message_is_counted_once():
    meter = UsageMeter()
    for _ in range(3):
        meter.response("resp_1", Usage(audio_out=10))
        meter.transcript("item_1", Usage(audio_in=4))
    meter.response("resp_2", Usage(text_out=1))
    assert meter.total("scribe") == Usage(audio_out=10, text_out=1, others={"scribe": Usage(audio_in=4)})


def test_a_message_without_usage_does_not_stand_in_the_way_of_the_one_that_has_it():
    meter = UsageMeter()
    meter.response("resp_1", Usage())
    meter.response("resp_1", Usage(audio_out=10))
    assert meter.total(None) == Usage(audio_out=10)


def test_what_is_remembered_is_bounded_and_long_calls_are_counted_whole():
    meter = UsageMeter()
    for number in range(1000):
        meter.response(f"resp_{number}", Usage(audio_out=1))
    assert meter.spoken.audio_out == 1000
    assert len(meter._counted) == 64
