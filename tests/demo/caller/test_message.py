import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.demo.caller.message import Dialog, Message, parse, read_sdp, respond, tag_in, uri_in, write_sdp

INVITE = (
    b"INVITE sip:100@127.0.0.1 SIP/2.0\r\n"
    b"v: SIP/2.0/UDP 127.0.0.1:5080;branch=z9hG4bK1\r\n"
    b"Via: SIP/2.0/UDP 127.0.0.2:5080;branch=z9hG4bK2\r\n"
    b"f: <sip:a@127.0.0.1>;tag=1\r\nt: <sip:b@127.0.0.1>\r\ni: x@y\r\nCSeq: 7 INVITE\r\n"
    b"Subject: one\r\n two\r\n\r\nbody"
)


def test_compact_and_folded_headers_are_read_and_vias_keep_their_order():
    message = parse(INVITE)

    assert message is not None
    assert message.method == "INVITE"
    assert message.cseq == 7
    assert [via.split(";")[0] for via in message.all("via")] == [
        "SIP/2.0/UDP 127.0.0.1:5080",
        "SIP/2.0/UDP 127.0.0.2:5080",
    ]
    assert message.get("subject") == "one two"
    assert message.body == "body"


def test_a_response_names_the_method_that_it_answers():
    message = parse(b"SIP/2.0 486 Busy Here\r\nCall-ID: x\r\nCSeq: 2 REFER\r\n\r\n")

    assert message is not None
    assert (message.status, message.method) == (486, "REFER")


@pytest.mark.parametrize("data", [b"\r\n\r\n", b"", b"\x80\x00\x01", b"GET / HTTP/1.1\r\n\r\n"])
def test_what_is_no_sip_message_is_nothing(data):
    assert parse(data) is None


@given(st.binary(max_size=300))
def test_no_datagram_breaks_the_parser(data):
    parse(data)


def test_a_response_copies_the_headers_of_its_request_and_tags_the_to():
    request = parse(INVITE)
    assert request is not None
    response = parse(respond(request, "200 OK", tag="abc").to_bytes())

    assert response is not None
    assert response.status == 200
    assert len(response.all("via")) == 2
    assert tag_in(response.get("to")) == "abc"
    assert response.get("content-length") == "0"


def test_a_dialogs_request_carries_its_route_and_goes_to_the_target():
    dialog = Dialog(
        "x@y", "<sip:a@h>;tag=1", "<sip:b@h>;tag=2", "sip:b@h:5070", "sip:a@h", routes=["<sip:p;lr>"]
    )
    request = dialog.request("BYE", via="SIP/2.0/UDP h;branch=z9hG4bK3", cseq=3)

    assert request.start_line == "BYE sip:b@h:5070 SIP/2.0"
    assert request.get("route") == "<sip:p;lr>"
    assert request.get("cseq") == "3 BYE"


def test_our_own_sdp_can_be_read():
    answer = read_sdp(write_sdp("127.0.0.1", 40000))

    assert (answer.host, answer.port) == ("127.0.0.1", 40000)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("c=IN IP4 127.0.0.1\r\nm=audio 4000 RTP/AVP 8\r\n", "does not take PCMU"),
        ("c=IN IP4 127.0.0.1\r\nm=audio 0 RTP/AVP 0\r\n", "no audio stream"),
        ("", "no audio stream"),
    ],
)
def test_an_answer_without_pcmu_is_refused_with_a_sentence(body, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_sdp(body)


@pytest.mark.parametrize(
    ("value", "uri"),
    [("<sip:+1212@h;user=phone>;tag=1", "sip:+1212@h;user=phone"), ("sip:+1212@h;x=1", "sip:+1212@h")],
)
def test_the_uri_of_a_header_value(value, uri):
    assert uri_in(value) == uri


def test_a_body_has_its_length_in_bytes():
    assert b"Content-Length: 2\r\n\r\n" in Message("BYE sip:x SIP/2.0", (), "é").to_bytes()
