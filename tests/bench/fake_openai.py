"""A fast fake of the OpenAI Realtime WebSocket API, for load on loopback.

A server VAD that goes by level (loud is what is not silence) reports speech; after each turn a response
is streamed in ``--delta-ms`` pieces at ``--speed`` times real time, as the real API does. Speech during a
response cancels it. Only audio/pcmu; audio messages never pass through a JSON parser here, so that the fake
is not what limits a run. The shipped fake with scripts, tools and faults is ``trunkline fake-openai``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
from binascii import a2b_base64, b2a_base64

import orjson
import uvloop
from picows import WSListener, WSMsgType, ws_create_server

from tests.bench.signals import caller_signal

TEXT = WSMsgType.TEXT
LEVEL = bytes((~code & 0x7F) for code in range(256))
"""Loudness of a mu-law byte, 0..127."""
LOUD = 24
BYTES_PER_MS = 8
PCMU = {"type": "audio/pcmu"}


class Session(WSListener):
    """One client."""

    count = 0

    def __init__(self, given: argparse.Namespace) -> None:
        Session.count += 1
        self._given = given
        self._events = self._responses = 0
        self._session = {
            "type": "realtime", "object": "realtime.session", "id": f"sess_{Session.count:06d}",
            "model": "gpt-realtime", "output_modalities": ["audio"], "instructions": "", "tools": [],
            "tool_choice": "auto",
            "audio": {
                "input": {"format": PCMU, "turn_detection": {"type": "server_vad"}},
                "output": {"format": PCMU, "voice": "alloy"},
            },
        }  # fmt: skip
        self._response: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard_ms = self._silent_ms = 0.0
        self._speaking = False

    def on_ws_connected(self, transport) -> None:
        self._ws = transport
        self._emit("session.created", session=self._session)

    def on_ws_disconnected(self, _transport) -> None:
        self._stop_timer()

    def on_ws_frame(self, transport, frame) -> None:
        if frame.msg_type == TEXT:
            message = frame.get_payload_as_bytes()
            if b'"input_audio_buffer.append"' in message:
                start = message.index(b'"', message.index(b'"audio"') + 7) + 1
                self._hear(a2b_base64(message[start : message.index(b'"', start)]))
            else:
                self._take(orjson.loads(message))
        elif frame.msg_type == WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code())
            transport.disconnect()
        elif frame.msg_type == WSMsgType.PING:
            transport.send_pong(frame.get_payload_as_bytes())

    def _emit(self, kind: str, **fields: object) -> None:
        self._events += 1
        self._ws.send(TEXT, orjson.dumps({"type": kind, "event_id": f"event_{self._events}", **fields}))

    def _take(self, event: dict) -> None:
        match event["type"]:
            case "session.update":
                self._update(event["session"])
            case "response.create" if not self._response:
                self._respond()
            case "response.cancel":
                self._cancel("client_cancelled")
            case "conversation.item.create":
                item = {"id": f"item_u{self._events}", "object": "realtime.item", "status": "completed"}
                self._add(item | event["item"])
            case "conversation.item.truncate":
                names = ("item_id", "content_index", "audio_end_ms")
                self._emit("conversation.item.truncated", **{name: event[name] for name in names})
            case "input_audio_buffer.clear":
                self._emit("input_audio_buffer.cleared")

    def _update(self, session: dict) -> None:
        for side, part in (session.get("audio") or {}).items():
            self._session["audio"][side].update(part)
        self._session.update({name: v for name, v in session.items() if name not in ("audio", "id")})
        formats = [self._session["audio"][side]["format"]["type"] for side in ("input", "output")]
        if formats != ["audio/pcmu", "audio/pcmu"]:
            message = f"this fake speaks audio/pcmu only, not {formats}"
            self._emit(
                "error", error={"type": "invalid_request_error", "code": "invalid_value", "message": message}
            )
            return
        self._emit("session.updated", session=self._session)

    def _add(self, item: dict) -> None:
        self._emit("conversation.item.added", item=item, previous_item_id=None)
        self._emit("conversation.item.done", item=item, previous_item_id=None)

    # The caller's turns.

    def _hear(self, chunk: bytes) -> None:
        ms = len(chunk) / BYTES_PER_MS
        self._heard_ms += ms
        if max(chunk[::8].translate(LEVEL), default=0) >= LOUD:
            self._silent_ms = 0.0
            if not self._speaking:
                self._speaking = True
                self._emit(
                    "input_audio_buffer.speech_started",
                    audio_start_ms=int(self._heard_ms), item_id=f"item_u{self._responses}",
                )  # fmt: skip
                self._cancel("turn_detected")
        elif self._speaking:
            self._silent_ms += ms
            if self._silent_ms >= self._given.vad_silence_ms:
                self._end_of_turn()

    def _end_of_turn(self) -> None:
        self._speaking = False
        item = f"item_u{self._responses}"
        self._emit("input_audio_buffer.speech_stopped", audio_end_ms=int(self._heard_ms), item_id=item)
        self._emit("input_audio_buffer.committed", item_id=item, previous_item_id=None)
        self._add(
            {"id": item, "type": "message", "object": "realtime.item", "status": "completed", "role": "user",
             "content": [{"type": "input_audio", "transcript": None}]}
        )  # fmt: skip
        self._respond()

    # The model's.

    def _respond(self) -> None:
        self._responses += 1
        self._response, self._item = f"resp_{self._responses}", f"item_a{self._responses}"
        self._where = {
            "response_id": self._response, "item_id": self._item, "output_index": 0, "content_index": 0,
        }  # fmt: skip
        item = self._message("in_progress")
        self._emit("response.created", response=self._resource("in_progress", []))
        self._emit("response.output_item.added", response_id=self._response, output_index=0, item=item)
        self._emit("conversation.item.added", item=item, previous_item_id=None)
        self._emit("response.content_part.added", **self._where, part={"type": "audio", "transcript": ""})
        head = {"type": "response.output_audio.delta", "event_id": f"event_{self._response}_d", **self._where}
        self._head = orjson.dumps(head)[:-1] + b',"delta":"'
        self._position = 0
        self._next_at = asyncio.get_running_loop().time()
        self._send_delta()

    def _send_delta(self) -> None:
        given = self._given
        size = BYTES_PER_MS * given.delta_ms
        piece = caller_signal()[self._position : min(self._position + size, BYTES_PER_MS * given.talk_ms)]
        self._position += size
        if not piece:
            self._finish()
            return
        self._ws.send(TEXT, self._head + b2a_base64(piece, newline=False) + b'"}')
        self._emit("response.output_audio_transcript.delta", **self._where, delta="word ")
        self._next_at += given.delta_ms / 1000 / given.speed
        self._timer = asyncio.get_running_loop().call_at(self._next_at, self._send_delta)

    def _finish(self) -> None:
        self._stop_timer()
        item = self._message("completed")
        self._emit("response.output_audio.done", **self._where)
        self._emit("response.output_audio_transcript.done", **self._where, transcript="words")
        self._emit("response.content_part.done", **self._where, part={"type": "audio", "transcript": "words"})
        self._emit("response.output_item.done", response_id=self._response, output_index=0, item=item)
        self._emit("conversation.item.done", item=item, previous_item_id=None)
        self._emit("response.done", response=self._resource("completed", [item]))
        self._response = None

    def _cancel(self, reason: str) -> None:
        if self._response is None:
            return
        self._stop_timer()
        details = {"type": "cancelled", "reason": reason}
        self._emit("response.output_audio.done", **self._where)
        self._emit(
            "response.done", response=self._resource("cancelled", [self._message("incomplete")], details)
        )
        self._response = None

    def _resource(self, status: str, output: list, details: dict | None = None) -> dict[str, object]:
        return {
            "object": "realtime.response", "id": self._response, "status": status, "status_details": details,
            "output": output, "conversation_id": "conv_1", "output_modalities": ["audio"],
            "max_output_tokens": "inf", "usage": None, "metadata": None,
        }  # fmt: skip

    def _message(self, status: str) -> dict[str, object]:
        return {
            "id": self._item, "object": "realtime.item", "type": "message", "status": status,
            "role": "assistant", "content": [],
        }  # fmt: skip

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def serve(given: argparse.Namespace) -> None:
    server = await ws_create_server(lambda _request: Session(given), "127.0.0.1", given.port, backlog=1024)
    gc.collect()
    gc.freeze()
    gc.disable()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(given.max_s):
            await server.serve_forever()


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--talk-ms", type=int, default=6000, help="length of each spoken answer")
    parser.add_argument("--delta-ms", type=int, default=100, help="audio in each delta")
    parser.add_argument("--speed", type=float, default=4.0, help="times real time")
    parser.add_argument("--vad-silence-ms", type=float, default=200)
    parser.add_argument("--max-s", type=float, default=600, help="stops by itself after this")
    return parser


if __name__ == "__main__":
    uvloop.run(serve(options().parse_args()))
