"""The server's WebSocket against the client of the library, joined by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Opcode
from websockets.uri import parse_uri

from gateway.net.sip_websocket import WebSocketFramer

MESSAGE = b"OPTIONS sip:a@h SIP/2.0\r\nContent-Length: 0\r\n\r\n"


class Pair:
    """A client and the framer, and what the client heard."""

    def __init__(self, *, origins=(), subprotocols=("sip",), origin=None, max_size=65_536):
        self.framer = WebSocketFramer(origins, max_size=max_size)
        self.client = ClientProtocol(
            parse_uri("ws://gw.example/"), subprotocols=subprotocols or None, origin=origin
        )
        self.client.send_request(self.client.connect())
        self.heard = []
        self.settle()

    def settle(self):
        while True:
            there, back = b"".join(self.client.data_to_send()), self.framer.to_send()
            if not there and not back:
                return
            self.framer.receive(there) if there else None
            self.client.receive_data(back) if back else None
            self.heard += self.client.events_received()


def test_messages_go_both_ways_as_text_or_binary():
    pair = Pair()
    assert pair.framer.open
    assert pair.heard[0].headers["Sec-WebSocket-Protocol"] == "sip"
    pair.client.send_text(MESSAGE)
    pair.client.send_binary(MESSAGE + b"\xff")
    pair.settle()
    assert pair.framer.messages() == [MESSAGE, MESSAGE + b"\xff"]
    assert pair.framer.send(b"SIP/2.0 200 OK\r\n\r\n")
    assert pair.framer.send(b"SIP/2.0 200 \xff\r\n\r\n")
    pair.settle()
    assert [frame.opcode for frame in pair.heard[1:]] == [Opcode.TEXT, Opcode.BINARY]
    assert pair.heard[1].data == b"SIP/2.0 200 OK\r\n\r\n"


def test_a_message_may_come_in_fragments_with_a_ping_between():
    pair = Pair()
    pair.client.send_text(MESSAGE[:9], fin=False)
    pair.settle()
    assert pair.framer.partial
    pair.client.send_ping(b"alive?")
    pair.client.send_continuation(MESSAGE[9:], fin=True)
    pair.settle()
    assert pair.framer.messages() == [MESSAGE]
    assert not pair.framer.partial
    assert pair.heard[-1].opcode is Opcode.PONG


def test_a_double_line_break_is_answered_with_one():
    pair = Pair()
    pair.client.send_text(b"\r\n\r\n")
    pair.client.send_text(b"\r\n")
    pair.settle()
    assert pair.framer.messages() == []
    assert [frame.data for frame in pair.heard[1:]] == [b"\r\n"]


def test_we_ask_for_a_sign_of_life_and_say_good_bye():
    pair = Pair()
    pair.framer.ping()
    pair.settle()
    pair.framer.close()
    pair.settle()
    assert [frame.opcode for frame in pair.heard[1:]] == [Opcode.PING, Opcode.CLOSE]
    assert pair.framer.finished
    assert not pair.framer.send(MESSAGE)


@pytest.mark.parametrize("subprotocols", [(), ("chat",)])
def test_the_subprotocol_is_required(subprotocols):
    pair = Pair(subprotocols=subprotocols)
    assert isinstance(pair.client.handshake_exc, InvalidStatus)
    assert pair.client.handshake_exc.response.status_code == 400
    assert "subprotocol" in pair.framer.failure
    assert pair.framer.finished
    assert not pair.framer.send(MESSAGE)


@pytest.mark.parametrize(
    ("origins", "origin", "let_in"),
    [
        ((), None, True),
        ((), "https://evil.example", False),
        (("https://phone.example",), "https://phone.example", True),
        (("https://phone.example",), "https://evil.example", False),
        (("https://phone.example",), None, True),
        (("*",), "https://evil.example", True),
    ],
)
def test_only_pages_that_are_listed_may_connect(origins, origin, let_in):
    pair = Pair(origins=origins, origin=origin)
    assert pair.framer.open is let_in
    if not let_in:
        assert pair.client.handshake_exc.response.status_code == 403
        assert "403" in pair.framer.failure


def test_a_message_that_is_too_long_ends_it():
    pair = Pair(max_size=1000)
    pair.client.send_text(b"x" * 1001)
    pair.settle()
    assert pair.framer.messages() == []
    assert "1009" in pair.framer.failure or "exceeds" in pair.framer.failure
    assert pair.framer.finished


@pytest.mark.parametrize(
    "rubbish", [MESSAGE, b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 99 + b"\r\n\r\n"]
)
def test_what_is_no_websocket_is_refused(rubbish):
    framer = WebSocketFramer((), max_size=1000)
    framer.receive(rubbish + b"\r\n\r\n")
    assert framer.failure
    assert framer.finished


@given(st.binary(max_size=60), st.integers(0, 20))
def test_no_bytes_raise(rubbish, at):
    pair = Pair()
    pair.framer.receive(rubbish[:at])
    pair.framer.receive(rubbish[at:])
    pair.framer.messages()
    pair.framer.to_send()
    WebSocketFramer((), max_size=1000).receive(rubbish)


def test_frames_may_come_with_the_handshake():
    client = ClientProtocol(parse_uri("ws://gw.example/"), subprotocols=["sip"])
    client.send_request(client.connect())
    handshake = b"".join(client.data_to_send())
    frame = b"\x81" + bytes([0x80 | len(MESSAGE)]) + b"\0\0\0\0" + MESSAGE
    framer = WebSocketFramer((), max_size=1000)
    framer.receive(handshake + frame)
    assert framer.messages() == [MESSAGE]
