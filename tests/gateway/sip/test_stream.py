import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sip.parser import Limits
from gateway.sip.stream import FramingError, StreamFramer

ONE = b"OPTIONS sip:a@h SIP/2.0\r\nl: 3\r\nSubject: x\r\n\r\nabc"
TWO = b"BYE sip:a@h SIP/2.0\r\nContent-Length : 0\r\n\r\n"
PING = b"\r\n\r\n"


def fed(*pieces: bytes, limits: Limits | None = None) -> StreamFramer:
    framer = StreamFramer(limits or Limits())
    for piece in pieces:
        framer.receive(piece)
    return framer


def test_messages_are_cut_by_content_length():
    framer = fed(ONE + TWO)

    assert framer.messages() == [ONE, TWO]
    assert framer.messages() == []
    assert framer.to_send() == b""


@pytest.mark.report("BR-029")
@pytest.mark.report("BR-046")
def test_the_result_is_the_same_at_any_split():
    stream = PING + ONE + PING + TWO + b"\r\n" + ONE + PING + PING
    for at in range(len(stream) + 1):
        framer = fed(stream[:at], stream[at:])

        assert framer.messages() == [ONE, TWO, ONE]
        assert framer.to_send() == b"\r\n" * 4
        assert not framer.partial


@pytest.mark.report("BR-029")
def test_line_breaks_inside_a_message_are_no_ping():
    before, _, after = ONE.partition(b"\r\n")
    framer = fed(before, b"\r\n", after)

    assert framer.messages() == [ONE]
    assert framer.to_send() == b""


@given(
    st.lists(st.sampled_from([ONE, TWO, PING, b"\r\n"]), max_size=8),
    st.lists(st.integers(0, 300), max_size=8),
)
def test_any_stream_is_the_same_in_any_pieces(parts, cuts):
    stream = b"".join(parts)
    cuts = sorted(min(cut, len(stream)) for cut in cuts)
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    whole, cut = fed(stream), fed(*pieces)

    assert cut.messages() == whole.messages() == [part for part in parts if part in {ONE, TWO}]
    assert cut.to_send() == whole.to_send()


def test_a_message_in_progress_is_known():
    framer = fed(ONE[:-1])

    assert framer.partial
    assert framer.messages() == []
    framer.receive(ONE[-1:])
    assert not framer.partial


@pytest.mark.report("BR-046")
@pytest.mark.parametrize(
    "head",
    [
        b"BYE sip:a@h SIP/2.0\r\nTo: x\r\n\r\n",
        b"BYE sip:a@h SIP/2.0\r\nContent-Length: -5\r\n\r\n",
        b"BYE sip:a@h SIP/2.0\r\nContent-Length: \r\n\r\n",
        b"BYE sip:a@h SIP/2.0\r\nContent-Length: 3\r\nl: 4\r\n\r\n",
        b"BYE sip:a@h SIP/2.0\r\nContent-Length: 99999999999\r\n\r\n",
        b"BYE sip:a@h SIP/2.0\r\nContent-Length: 2000000\r\n\r\n",
    ],
)
def test_a_message_without_a_known_end_breaks_the_stream(head):
    framer = StreamFramer()
    with pytest.raises(FramingError) as caught:
        framer.receive(ONE + head + b"body")

    assert caught.value.head == head
    assert framer.messages() == [ONE]
    framer.receive(TWO)  # ignored: the connection is closed next
    assert framer.messages() == []


@pytest.mark.parametrize("pieces", [[b"x" * 101], [b"x" * 50, b"y" * 51], [b"x" * 101 + b"\r\n\r\n"]])
def test_headers_may_not_be_endless(pieces):
    with pytest.raises(FramingError, match="too long"):
        fed(*pieces, limits=Limits(max_head=100))


def test_a_name_that_only_ends_like_content_length_does_not_count():
    message = b"BYE sip:a@h SIP/2.0\r\nX-Content-Length: 9\r\nSubject: l: 7\r\nl:\r\n 0\r\n\r\n"

    assert fed(message).messages() == [message]
