"""Server messages against the SDK's types, and the golden transcripts against the server's."""

import json
from pathlib import Path

import pytest

from providers.fakes.gemini_check import check_server_message
from providers.fakes.gemini_outbox import InvalidServerMessage, Outbox
from providers.fakes.gemini_shapes import read_message

LINES = (Path(__file__).parent / "data" / "golden_gemini.jsonl").read_text(encoding="utf-8").splitlines()


def side(which):
    golden = [json.loads(line) for line in LINES]
    return [pytest.param(line, id=line["part"]) for line in golden if line["side"] == which]


@pytest.mark.parametrize("line", side("S"))
def test_every_golden_server_message_passes(line):
    assert check_server_message(line["message"]) is None


@pytest.mark.parametrize("line", side("C"))
def test_every_golden_client_message_is_read(line):
    assert len(read_message(line["message"])) == 1


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"moodUpdate": {}}, "no such message"),
        ({"serverContent": {"mood": "curious"}}, "Extra inputs"),
        ({"serverContent": {"turnComplete": "perhaps"}}, "valid boolean"),
        ({"goAway": {"timeLeft": 50}}, "valid string"),
    ],
)
def test_a_mistake_is_found(message, says):
    assert says in check_server_message(message)


def test_a_checked_message_is_left_as_it_is():
    message = {"voiceActivity": {"type": "ACTIVITY_START", "audioOffset": "1s"}}
    assert check_server_message(message) is None
    assert message == {"voiceActivity": {"type": "ACTIVITY_START", "audioOffset": "1s"}}


def test_a_wrong_message_never_leaves():
    outbox = Outbox(check_server_message)
    with pytest.raises(InvalidServerMessage, match="mood"):
        outbox.send({"serverContent": {"mood": "curious"}})
    assert outbox.take() == []


def test_the_record_has_no_audio():
    outbox = Outbox(check_server_message)
    audio = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "AAAA"}}
    outbox.send({"serverContent": {"modelTurn": {"parts": [audio, {"text": "x", "thought": True}]}}})
    parts = outbox.sent[0].message["serverContent"]["modelTurn"]["parts"]
    assert parts == [{"inlineData": {"mimeType": "audio/pcm;rate=24000"}}, {"text": "x", "thought": True}]
    assert b"AAAA" in outbox.take()[0]
    assert outbox.sent[0].kind == "serverContent"
