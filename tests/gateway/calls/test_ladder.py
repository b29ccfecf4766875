"""A call's SIP as text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calls.ladder import Entry, ladder, printable
from gateway.sdp import redact_sdp

SDP = (
    "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n"
    "m=audio 4000 RTP/AVP 0 101\r\na=rtpmap:101 telephone-event/8000\r\n"
)


def request(method: str, *, to_tag: str = "", extra: str = "", body: str = "", call: str = "c1") -> str:
    kind = "Content-Type: application/sdp\r\n" if body.startswith("v=") else ""
    return (
        f"{method} sip:+12125550100@192.0.2.9 SIP/2.0\r\n"
        "Via: SIP/2.0/UDP 192.0.2.1:5062;branch=z9hG4bK1\r\n"
        "From: <sip:+12025550123@192.0.2.1>;tag=a1\r\n"
        f"To: <sip:+12125550100@192.0.2.9>{to_tag}\r\n"
        f"Call-ID: {call}\r\nCSeq: 1 {method}\r\nContact: <sip:a@192.0.2.1>\r\n{extra}{kind}"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    )


def response(status: str, method: str = "INVITE", *, extra: str = "", body: str = "") -> str:
    kind = "Content-Type: application/sdp\r\n" if body else ""
    return (
        f"SIP/2.0 {status}\r\nVia: SIP/2.0/UDP 192.0.2.1:5062;branch=z9hG4bK1\r\n"
        "From: <sip:+12025550123@192.0.2.1>;tag=a1\r\nTo: <sip:+12125550100@192.0.2.9>;tag=b1\r\n"
        f"Call-ID: c1\r\nCSeq: 1 {method}\r\n{extra}{kind}Content-Length: {len(body)}\r\n\r\n{body}"
    )


def entry(at: float, text: str, *, sent: bool = False, remote: str = "192.0.2.1:5062") -> Entry:
    return Entry(at, sent, "udp", "192.0.2.9:5060", remote, text)


def lines(*entries: Entry, full: bool = False) -> list[str]:
    return [line for line in ladder(entries, full=full) if line]


def test_a_call_reads_from_top_to_bottom_with_the_caller_on_the_left() -> None:
    head, call, invite, ok, bye = lines(
        entry(0.0, request("INVITE", body=SDP)),
        entry(0.012, response("200 OK", body=SDP), sent=True),
        entry(3.5, request("BYE", to_tag=";tag=b1", extra="Reason: Q.850;cause=16\r\n"), sent=True),
    )
    assert head.split() == ["192.0.2.1:5062", "udp", "trunkline", "192.0.2.9:5060"]
    assert call.strip() == "Call-ID c1"
    assert invite.split()[0] == "0.000"
    assert "- INVITE -" in invite
    assert invite.index("->|") > invite.index("INVITE") > invite.index("|--")
    assert "<sip:+12025550123@192.0.2.1> to sip:+12125550100@192.0.2.9" in invite
    assert "audio PCMU/TELEPHONE-EVENT 192.0.2.1:4000 sendrecv" in invite
    assert ok.split()[0] == "0.012"
    assert ok.index("|<-") < ok.index("200 OK") < ok.index("-|")
    assert "|<-" in bye
    assert "Reason: Q.850;cause=16" in bye


def test_what_is_said_again_is_marked_and_a_reinvite_is_called_one() -> None:
    text = request("INVITE", to_tag=";tag=b1", body=SDP)
    *_, first, second = lines(entry(0.0, text), entry(0.5, text))
    assert "re-INVITE" in first
    assert "again" not in first
    assert "again" in second


def test_a_second_peer_stands_on_the_other_side() -> None:
    *_, head, call, arrow = lines(
        entry(0.0, request("INVITE")),
        entry(5.0, request("INVITE", call="c2"), sent=True, remote="198.51.100.7:5060"),
    )
    columns = [head.index(name) for name in ("192.0.2.1", "trunkline", "198.51.100.7")]
    assert columns == sorted(columns)
    assert call.strip() == "Call-ID c2"
    assert arrow.index("|") == columns[0]
    assert arrow.index("|--") == columns[1]
    assert ">|" in arrow[columns[2] - 2 :]


def test_the_outcome_of_a_transfer_is_read_at_a_glance() -> None:
    notify = request(
        "NOTIFY",
        to_tag=";tag=b1",
        extra="Event: refer\r\nSubscription-State: terminated;reason=noresource\r\n"
        "Content-Type: message/sipfrag\r\n",
        body="SIP/2.0 486 Busy Here\r\n",
    )
    refer = request("REFER", to_tag=";tag=a1", extra="Refer-To: <sip:+12125551234@192.0.2.1>\r\n")
    *_, asked, told = lines(entry(1.0, refer, sent=True), entry(2.0, notify))
    assert "Refer-To: <sip:+12125551234@192.0.2.1>" in asked
    assert "Subscription-State: terminated;reason=noresource · SIP/2.0 486 Busy Here" in told


def test_full_prints_each_message_below_its_arrow() -> None:
    text = "\n".join(lines(entry(0.0, request("INVITE", body=SDP)), full=True))
    assert "Contact: <sip:a@192.0.2.1>" in text
    assert "m=audio 4000 RTP/AVP 0 101" in text


def test_a_message_whose_keys_were_taken_out_is_read_although_it_is_shorter_than_it_says() -> None:
    secret = SDP.replace("RTP/AVP", "RTP/SAVP") + f"a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:{'A' * 40}\r\n"
    for name in ("Content-Length", "l", "CONTENT-LENGTH "):
        text = request("INVITE", body=secret).replace("Content-Length", name)
        kept = redact_sdp(text.encode()).decode()
        assert len(kept) < len(text)
        *_, line = lines(entry(0.0, kept))
        assert "- INVITE -" in line
        assert "audio RTP/SAVP PCMU/TELEPHONE-EVENT 192.0.2.1:4000 sendrecv" in line


def test_what_is_no_sip_is_shown_by_its_first_line() -> None:
    *_, line = lines(entry(0.0, "HELO there\r\nCall-ID: c1\r\n\r\n"))
    assert "HELO there" in line
    assert "not readable" in line


def test_no_escape_sequence_of_a_peer_reaches_the_terminal() -> None:
    evil = request("INVITE", extra="Reason: \x1b]0;owned\x07\x9b31m\u202eabc\r\n")
    for full in (False, True):
        text = "\n".join(ladder([entry(0.0, evil)], full=full))
        assert not set(text) & set("\x1b\x07\x9b\u202e")
    assert printable("Zoë Анна") == "Zoë Анна"


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300), st.text(max_size=60), st.booleans())
def test_whatever_stands_in_a_file_is_printed(text, remote, sent) -> None:
    for line in ladder([entry(0.0, text, sent=sent, remote=remote)] * 2, full=True):
        assert "\x1b" not in line
        assert "\n" not in line
