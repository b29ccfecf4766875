"""What a fake server writes down."""

import io
import json

from providers.fakes.journal import Journal
from providers.fakes.openai_session import Options, RealtimeSession
from providers.fakes.script import DEFAULT_SCRIPT, load_script


def lines(file):
    return [json.loads(line) for line in file.getvalue().splitlines()]


def test_each_event_is_a_line_with_its_session_and_time():
    file = io.BytesIO()
    journal = Journal(file, clock=lambda: 1_796_000_000.1234)
    journal.of(1)("server", {"type": "session.created"})
    journal.of(2)("client", {"type": "response.create"})
    assert lines(file) == [
        {"session": 1, "at": 1_796_000_000.123, "side": "server", "event": {"type": "session.created"}},
        {"session": 2, "at": 1_796_000_000.123, "side": "client", "event": {"type": "response.create"}},
    ]


def test_a_session_notes_both_sides_and_no_audio():
    file = io.BytesIO()
    note = Journal(file).of(1)
    session = RealtimeSession(
        Options(script=load_script(DEFAULT_SCRIPT), note=note), now=0.0, wall_time=1_796_000_000.0
    )
    session.receive(json.dumps({"type": "input_audio_buffer.append", "audio": "////"}), 0.0)
    session.receive(json.dumps({"type": "response.create"}), 0.0)
    session.handle_timeout(20.0)

    noted = [(line["side"], line["event"]["type"]) for line in lines(file)]
    assert noted[:3] == [
        ("server", "session.created"),
        ("client", "response.create"),
        ("server", "response.created"),
    ]
    assert ("server", "response.output_audio.delta") in noted
    assert "input_audio_buffer.append" not in {kind for _, kind in noted}
    assert all("delta" not in line["event"] or "transcript" in line["event"]["type"] for line in lines(file))
