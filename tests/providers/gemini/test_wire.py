"""Frames of Gemini Live, in both alphabets and with what nobody expects in them."""

from __future__ import annotations

import base64
import json

import msgspec
import pytest
from google.genai import _live_converters, types
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.gemini import wire
from providers.gemini.messages import (
    AddTurns,
    AnswerCall,
    Blob,
    EndAudio,
    SendText,
    ServerMessage,
    Turn,
    UpdateContext,
)
from tests.providers.gemini.talk import GOLDEN, MIME, golden, voice


def read(frame: dict) -> ServerMessage:
    return wire.decode(json.dumps(frame).encode())


def shape(value: object) -> object:
    """A struct without what is not set in it, in the wire's names."""
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        made = {wire_name: shape(getattr(value, name)) for name, wire_name in names}
        return {key: each for key, each in made.items() if each is not None}
    if isinstance(value, msgspec.Raw):
        return json.loads(bytes(value)) if bytes(value) else None
    return [shape(each) for each in value] if isinstance(value, list) else value


def known(frame: object, like: object) -> object:
    """A frame without what no struct of ours names."""
    if isinstance(frame, dict) and isinstance(like, dict):
        return {key: known(frame[key], like[key]) for key in like if key in frame}
    if isinstance(frame, list) and isinstance(like, list):
        return [known(one, two) for one, two in zip(frame, like, strict=True)]
    return frame


@pytest.mark.parametrize("name", GOLDEN)
def test_the_golden_frames_are_valid_and_read_without_loss(name: str) -> None:
    for frame in golden(name):
        types.LiveServerMessage.model_validate(_live_converters._LiveServerMessage_from_vertex(frame))
        made = shape(read(frame))
        assert set(made) == set(frame) - {"setupComplete"}  # the SDK's own step
        assert known(frame, made) == made


def at_once(frame: dict, **layout) -> bytes | None:
    return wire.audio_at_once(json.dumps(frame, **layout).encode())


@pytest.mark.parametrize("layout", [{}, {"indent": 2}, {"separators": (",", ":")}])
def test_audio_that_comes_alone_takes_the_short_way_however_it_is_laid_out(layout: dict) -> None:
    frame = voice(20)
    assert at_once(frame, **layout) == bytes(960)
    del frame["serverContent"]["modelTurn"]["role"]
    assert at_once(frame, **layout) == bytes(960)


@pytest.mark.parametrize(
    "more",
    [
        {"outputTranscription": {"text": "hi"}},
        {"inputTranscription": {"text": "hi"}},
        {"turnComplete": True},
        {"generationComplete": True},
        {"interrupted": True},
        {"waitingForInput": True},
        {"interactionStatus": "IDLE"},
    ],
)
def test_whatever_else_is_in_a_frame_with_audio_is_not_overlooked(more: dict) -> None:
    assert at_once(voice(20, **more)) is None
    assert at_once({**voice(20), "usageMetadata": {"promptTokenCount": 1}}) is None
    assert at_once({"usageMetadata": {"promptTokenCount": 1}, **voice(20)}) is None


def test_two_parts_thoughts_other_rates_and_what_is_no_base64_take_the_long_way() -> None:
    frame = voice(20)
    parts = frame["serverContent"]["modelTurn"]["parts"]
    parts.append(parts[0])
    assert at_once(frame) is None
    thought = voice(20)
    thought["serverContent"]["modelTurn"]["parts"][0]["thought"] = True
    assert at_once(thought) is None
    assert at_once(voice(20, mime="audio/pcm;rate=16000")) is None
    for raw in (b"", b'"data"', b'{"data":"', b'{"data":"AAAA"}'):
        assert wire.audio_at_once(raw) is None
    odd = json.dumps(voice(20)).replace("AAAA", "AA-_", 1).encode()
    assert wire.audio_at_once(odd) is None
    assert wire.decode(odd).server_content is not None


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_fault_39_audio_is_read_in_both_alphabets_of_base64_with_and_without_padding(audio: bytes) -> None:
    for text in (base64.b64encode(audio), base64.urlsafe_b64encode(audio)):
        assert wire.audio(Blob(MIME, text.decode())) == audio
        assert wire.audio(Blob(MIME, text.decode().rstrip("="))) == audio


def test_what_is_no_base64_is_an_error_and_not_noise() -> None:
    for text in ("!!!!", "AAA", "A A A A=", "é"):
        with pytest.raises(wire.WireError):
            wire.audio(Blob(MIME, text * 3 if text == "AAA" else text))


@pytest.mark.parametrize(
    ("mime", "fits"),
    [
        ("audio/pcm;rate=24000", True),
        ("audio/pcm; rate=24000", True),
        ("audio/pcm", True),
        ("audio/pcm;rate=16000", False),
        ("audio/opus", False),
        ("", True),
    ],
)
def test_the_rate_is_read_and_never_guessed(mime: str, fits: bool) -> None:
    assert wire.has_rate(Blob(mime, "")) is fits


def test_caller_audio_is_what_the_service_reads() -> None:
    audio = bytes(range(256)) * 2 + b"\xfb\xff" * 64
    frame = json.loads(wire.send_audio(audio))
    parsed = types.LiveClientMessage.model_validate(frame)
    assert parsed.realtime_input.audio.mime_type == "audio/pcm;rate=16000"
    assert base64.b64decode(frame["realtimeInput"]["audio"]["data"], validate=True) == audio


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"[]",
        b"null",
        b'"x"',
        b"{",
        b"\xff\xfe",
        b'{"serverContent":7}',
        b'{"toolCall":{"functionCalls":{}}}',
        b'{"toolCall":{"functionCalls":[{"id":"c","args":' + b"[" * 5000,
    ],
)
def test_a_broken_frame_is_one_error(frame: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(frame)


@pytest.mark.parametrize("frame", [{"brandNew": {"x": 1}}, {"serverContent": {"brandNew": True}}, {}])
def test_fault_38_what_is_unknown_is_skipped(frame: dict) -> None:
    assert shape(read(frame)) in ({}, {"serverContent": {}})


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_any_octets_are_a_message_or_an_error(raw: bytes) -> None:
    try:
        wire.decode(raw)
    except wire.WireError:
        pass


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("50s", 50.0), ("0.250s", 0.25), ("9.5s", 9.5), ("", None), (None, None), ("50", None), ("-1s", None)],
)
def test_durations(text: str | None, seconds: float | None) -> None:
    assert wire.duration(text) == seconds


@pytest.mark.parametrize(
    ("message", "frame"),
    [
        (
            AddTurns((Turn("Hi"), Turn("Hello.", model=True)), complete=True),
            {
                "clientContent": {
                    "turns": [
                        {"role": "user", "parts": [{"text": "Hi"}]},
                        {"role": "model", "parts": [{"text": "Hello."}]},
                    ],
                    "turnComplete": True,
                }
            },
        ),
        (SendText("Greet."), {"realtimeInput": {"text": "Greet."}}),
        (EndAudio(), {"realtimeInput": {"audioStreamEnd": True}}),
        (
            AnswerCall("f1", "lookup", '{"ok":true}', "WHEN_IDLE"),
            {
                "toolResponse": {
                    "functionResponses": [
                        {"id": "f1", "name": "lookup", "response": {"ok": True}, "scheduling": "WHEN_IDLE"}
                    ]
                }
            },
        ),
        (
            AnswerCall("", "lookup", "{}", ""),
            {"toolResponse": {"functionResponses": [{"name": "lookup", "response": {}}]}},
        ),
        (
            UpdateContext("Be brief.", [{"functionDeclarations": [{"name": "end_call"}]}]),
            {
                "contextUpdate": {
                    "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
                    "tools": {"tools": [{"functionDeclarations": [{"name": "end_call"}]}]},
                }
            },
        ),
        (UpdateContext(None, []), {"contextUpdate": {"tools": {"tools": []}}}),
    ],
)
def test_our_messages_are_valid_for_the_sdk(message, frame: dict) -> None:
    assert json.loads(wire.encode(message)) == frame
    types.LiveClientMessage.model_validate(frame)
