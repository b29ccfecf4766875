"""The phone and the probe against each other: one calls, the other is a gateway spelled out by hand."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from tests.kit import pcap, sip_text, sound
from tests.kit.hear import hear
from tests.kit.phone import Audio, CallFailed, Phone, ReferPlan, timeline
from tests.kit.ports import Ports
from tests.kit.probe import Probe
from tests.kit.udp import drain

GREETING = sound.utterance(21, 0.4)


@pytest.fixture
def ports() -> Iterator[Ports]:
    with Ports() as ports:
        yield ports


@pytest.fixture
def far_end(ports: Ports) -> Iterator[Probe]:
    with Probe(("127.0.0.1", 1), ports) as probe:
        yield probe


@pytest.fixture
def phone(ports: Ports, far_end: Probe) -> Iterator[Phone]:
    with Phone(("127.0.0.1", far_end.port), ports, called="+12125550100") as phone:
        far_end.target = phone.sip.getsockname()
        yield phone


@pytest.fixture
def aside() -> Iterator[Callable[..., Future[object]]]:
    """Give a way to run the phone's side while the test plays the gateway."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit


def contact(far_end: Probe) -> tuple[str, str]:
    return ("Contact", f"<sip:gw@127.0.0.1:{far_end.port}>")


ROUTES = ("<sip:127.0.0.11;lr>", "<sip:127.0.0.12;lr>")


def answer(far_end: Probe, *, routes: tuple[str, ...] = ROUTES) -> sip_text.Message:
    """Answer the call that comes in and return its INVITE."""
    invite = far_end.wait_for(lambda message: message.method == "INVITE")
    far_end.send(sip_text.respond(invite, 180, "Ringing", tag="gw", extra=(contact(far_end),)))
    body = sip_text.offer("127.0.0.1", far_end.port + 2)
    headers = [
        ("Via", invite["via"]),
        *(("Record-Route", route) for route in routes),
    ]
    headers += [("From", invite["from"]), ("To", invite["to"] + ";tag=gw"), ("Call-ID", invite["call-id"])]
    far_end.send(
        sip_text.write("SIP/2.0 200 OK", [*headers, ("CSeq", invite["cseq"]), contact(far_end)], body)
    )
    return invite


def play(far_end: Probe, pcm: sound.Pcm, invite: sip_text.Message) -> None:
    target = sip_text.media_address(invite.body)
    data = sound.encode(pcm)
    for number in range(len(data) // 160):
        payload = data[number * 160 : number * 160 + 160]
        packet = pcap.rtp(payload, kind=0, sequence=number, timestamp=number * 160, ssrc=7)
        far_end.media.sendto(packet, target)


def in_dialog(
    far_end: Probe, invite: sip_text.Message, method: str, extra: tuple[tuple[str, str], ...] = ()
) -> bytes:
    headers = [
        ("Via", f"SIP/2.0/UDP 127.0.0.1:{far_end.port};branch={sip_text.branch()}"),
        ("From", invite["to"] + ";tag=gw"),
        ("To", invite["from"]),
        ("Call-ID", invite["call-id"]),
        ("CSeq", f"1 {method}"),
        contact(far_end),
        *extra,
    ]
    return sip_text.write(f"{method} sip:phone@127.0.0.1 SIP/2.0", headers)


def test_a_call_is_answered_acknowledged_along_its_route_and_heard(phone, far_end, aside):
    call = aside(phone.call)
    invite = answer(far_end)
    call.result()
    ack = far_end.wait_for(lambda message: message.method == "ACK")
    assert ack.all("route") == ["<sip:127.0.0.12;lr>", "<sip:127.0.0.11;lr>"]
    assert ack.start == f"ACK sip:gw@127.0.0.1:{far_end.port} SIP/2.0"
    assert (ack.tag("to"), ack.cseq) == ("gw", 1)
    assert phone.statuses() == [180, 200]
    play(far_end, GREETING, invite)
    far_end.send(in_dialog(far_end, invite, "BYE"))
    at = phone.wait_for_bye(2)
    assert hear(GREETING, phone.heard(before=at)).whole
    assert far_end.wait_for(lambda message: message.answers == "BYE").status == 200


def test_what_came_after_the_bye_is_not_what_was_heard_before_it(phone, far_end, aside):
    call = aside(phone.call)
    invite = answer(far_end)
    call.result()
    far_end.send(in_dialog(far_end, invite, "BYE"))
    at = phone.wait_for_bye(2)
    play(far_end, GREETING, invite)
    phone.listen(0.05)
    assert not hear(GREETING, phone.heard(before=at)).whole
    assert hear(GREETING, phone.heard()).whole


def test_words_are_sent_as_20_ms_packets_and_keys_as_events(phone, far_end, aside):
    call = aside(phone.call)
    answer(far_end)
    call.result()
    phone.speak(GREETING)
    phone.press("5")
    sent = [data for _, data, _ in drain(far_end.media)]
    speech = b"".join(packet[12:] for packet in sent if packet[1] & 127 == 0)
    assert hear(GREETING, sound.decode(speech)).whole
    events = [packet[12:] for packet in sent if packet[1] & 127 == 101]
    assert [event[0] for event in events] == [5] * 8
    assert [event[1] >> 7 for event in events] == [0] * 5 + [1] * 3


@pytest.mark.parametrize(
    ("status", "fragments"), [(202, ["SIP/2.0 100 Trying", "SIP/2.0 486 Busy Here"]), (403, [])]
)
def test_a_refer_is_answered_as_planned(phone, far_end, aside, status, fragments):
    phone.refer = ReferPlan(status, tuple((0.0, text) for text in fragments))
    call = aside(phone.call)
    invite = answer(far_end)
    call.result()
    far_end.send(in_dialog(far_end, invite, "REFER", (("Refer-To", "<sip:+1@x>"),)))
    phone.listen(0.1)
    far_end.collect(0.05)
    assert far_end.wait_for(lambda message: message.answers == "REFER").status == status
    notifies = [each.message for each in far_end.messages(lambda message: message.method == "NOTIFY")]
    assert [notify.body.strip() for notify in notifies] == fragments
    assert [notify["subscription-state"].partition(";")[0] for notify in notifies] == [
        "active",
        "terminated",
    ][: len(fragments)]
    assert [notify.cseq for notify in notifies] == [2, 3][: len(fragments)]


def test_a_refusal_is_acknowledged_in_the_same_transaction(phone, far_end, aside):
    call = aside(phone.dial_and_be_refused)
    invite = far_end.wait_for(lambda message: message.method == "INVITE")
    far_end.send(sip_text.respond(invite, 404, "Not Found", tag="gw"))
    assert call.result().status == 404
    ack = far_end.wait_for(lambda message: message.method == "ACK")
    assert ack["via"] == invite["via"]


def test_a_cancel_names_the_transaction_of_the_invite(phone, far_end):
    phone.dial()
    phone.cancel()
    cancel = far_end.wait_for(lambda message: message.method == "CANCEL")
    invite = far_end.wait_for(lambda message: message.method == "INVITE")
    assert (cancel["via"], cancel["cseq"], cancel.tag("to")) == (invite["via"], "1 CANCEL", "")


def test_hanging_up_needs_an_answer(phone, far_end, aside):
    call = aside(phone.call)
    answer(far_end)
    call.result()
    with pytest.raises(CallFailed, match="180 Ringing"):
        phone.hang_up(timeout=0.1)
    end = aside(phone.hang_up)
    byes = lambda: far_end.messages(lambda message: message.method == "BYE")  # noqa: E731
    far_end.until(lambda: len(byes()) == 2, 2)
    far_end.send(sip_text.respond(byes()[-1].message, 200, "OK"))
    end.result()


def test_a_call_that_nobody_answers_fails_with_what_came(phone):
    with pytest.raises(CallFailed, match="came: nothing"):
        phone.call(timeout=0.1)


def test_the_timeline_is_by_timestamps_with_silence_for_what_is_lost():
    frames = [sound.encode(sound.tone(300 + 100 * n, 0.02)) for n in range(4)]
    packets = [Audio(0.02 * n, 0, n, (2**32 - 160 + 160 * n) % 2**32, 1, frames[n]) for n in (1, 0, 3)]
    pcm = timeline(packets, "PCMU").reshape(4, 160)
    for number in (0, 1, 3):
        assert np.array_equal(pcm[number], sound.decode(frames[number]))
    assert not pcm[2].any()


def test_a_new_ssrc_is_placed_by_its_arrival():
    frame = sound.encode(sound.tone(300, 0.02))
    packets = [Audio(1.0, 0, 1, 5000, 1, frame), Audio(1.1, 0, 9, 77, 2, frame)]
    assert len(timeline(packets, "PCMU")) == 800 + 160


def test_a_probe_keeps_every_copy_of_a_datagram(far_end):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(3):
            sender.sendto(b"SIP/2.0 200 OK\r\nCSeq: 1 INVITE\r\n\r\n", ("127.0.0.1", far_end.port))
    assert [each.message.status for each in far_end.collect(0.05)] == [200, 200, 200]


def test_a_message_is_read_with_compact_names_and_written_with_its_length():
    message = sip_text.read(
        b"OPTIONS sip:a SIP/2.0\r\ni: 7@x\r\nCSeq: 4 OPTIONS\r\nVia: one\r\nv: two\r\n\r\nbody"
    )
    assert (message.method, message["Call-ID"], message.cseq, message.body) == ("OPTIONS", "7@x", 4, "body")
    assert message.all("via") == ["one", "two"]
    assert b"Content-Length: 6" in sip_text.write("x SIP/2.0", [], "säy\r\n")
