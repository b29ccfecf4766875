"""
A scripted telephone on raw UDP sockets: places a call, talks, records what it hears, answers in the dialog.

It works only while one of its waiting methods runs, in the thread of the test; there is nothing to clean up
but its sockets. It sends a packet each 20 ms from the answer on, as a telephone does, and keeps every packet
with the time at which the kernel received it, so that a test can ask what had been heard before the BYE.
"""

from __future__ import annotations

import secrets
import selectors
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType

import numpy as np

from tests.kit import pcap, sip_text
from tests.kit.hear import hear
from tests.kit.ports import Ports
from tests.kit.sip_text import Message
from tests.kit.sound import FRAME, RATE, Pcm, decode, encode
from tests.kit.udp import Address, drain, udp

PAYLOAD = {"PCMU": 0, "PCMA": 8}
EVENT = 101
KEYS = "0123456789*#ABCD"


@dataclass(frozen=True, slots=True)
class Audio:
    """One RTP packet that arrived; ``at`` is the kernel's time of arrival, as of ``time.time()``."""

    at: float
    kind: int
    sequence: int
    timestamp: int
    ssrc: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Received:
    """One SIP message that arrived, with the kernel's time of arrival."""

    at: float
    message: Message


@dataclass(slots=True)
class ReferPlan:
    """How a REFER is answered: its status, then a NOTIFY with each sipfrag after its pause in seconds."""

    status: int = 202
    notifies: tuple[tuple[float, str], ...] = ((0.0, "SIP/2.0 100 Trying"), (0.1, "SIP/2.0 200 OK"))


@dataclass(slots=True)
class Dialog:
    """The caller's half of RFC 3261 section 12."""

    call_id: str = field(default_factory=lambda: secrets.token_hex(8) + "@phone.example")
    local_tag: str = field(default_factory=lambda: secrets.token_hex(4))
    remote_tag: str = ""
    target: str = ""
    routes: tuple[str, ...] = ()
    cseq: int = 1


class CallFailed(AssertionError):
    """What the test waited for did not come; says what came instead."""


class Phone:
    """One telephone and its one call."""

    def __init__(
        self,
        gateway: Address,
        ports: Ports,
        *,
        called: str,
        caller: str = "+12025550123",
        codec: str = "PCMU",
        refer: ReferPlan | None = None,
    ) -> None:
        self.gateway, self.called, self.caller, self.codec = gateway, called, caller, codec
        self.refer = refer or ReferPlan()
        self.dialog = Dialog()
        self.received: list[Received] = []
        self.audio: list[Audio] = []
        self.media: Address | None = None
        self.sip = udp(ports.take(2))
        self.rtp = udp(ports.take(2))
        self.contact: Address = self.sip.getsockname()
        """Where it says that it is; a relay in between has addresses of its own."""
        self.offered: Address = self.rtp.getsockname()
        self.queue: deque[bytes] = deque()
        self.agenda: list[tuple[float, Callable[[], None]]] = []
        self.sequence, self.timestamp, self.ssrc = 1, 0, secrets.randbits(32)
        self.next_frame = 0.0
        self.invite_branch = sip_text.branch()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.sip, selectors.EVENT_READ, self._on_sip)
        self.selector.register(self.rtp, selectors.EVENT_READ, self._on_rtp)

    def __enter__(self) -> Phone:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.selector.close()
        self.sip.close()
        self.rtp.close()

    # What a person does.

    def dial(self) -> None:
        """Send the INVITE and return at once."""
        host, port = self.offered
        self._send_request(
            "INVITE", body=sip_text.offer(host, port, codecs=(self.codec,)), branch=self.invite_branch
        )

    def call(self, *, timeout: float = 10.0) -> None:
        """Dial and wait until the call is answered; any final refusal fails."""
        self.dial()
        final = self.wait_for(lambda message: message.answers == "INVITE" and message.status >= 200, timeout)
        if final.status != 200:
            raise CallFailed(f"answered {final.start}")

    def dial_and_be_refused(self, *, timeout: float = 10.0) -> Message:
        """Dial and return the final response, which is acknowledged."""
        self.dial()
        return self.wait_for(lambda message: message.answers == "INVITE" and message.status >= 200, timeout)

    def cancel(self) -> None:
        """Give up while it rings (RFC 3261 section 9.1)."""
        self._send_request("CANCEL", branch=self.invite_branch)

    def say(self, pcm: Pcm) -> None:
        """Queue sound behind what is queued."""
        data = encode(pcm, self.codec)
        self.queue.extend(
            data[at : at + FRAME].ljust(FRAME, self._silence()[:1]) for at in range(0, len(data), FRAME)
        )

    def press(self, key: str) -> None:
        """Send a key as RFC 4733 events: 100 ms, the end three times."""
        event = KEYS.index(key)
        for number in range(1, 9):
            body = struct.pack("!BBH", event, (number > 5) << 7 | 10, min(number, 6) * FRAME)
            self._send_rtp(EVENT, body, marker=number == 1)

    def hang_up(self, *, timeout: float = 5.0) -> None:
        self.dialog.cseq += 1
        cseq = self.dialog.cseq
        self._send_request("BYE")
        self.wait_for(
            lambda message: message.answers == "BYE" and message.cseq == cseq and message.status == 200,
            timeout,
        )

    # Waiting: the phone works only here.

    def listen(self, seconds: float) -> None:
        """Keep the call going for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._step(end)

    def until(self, done: Callable[[], object], timeout: float, what: str = "what was waited for") -> None:
        end = time.monotonic() + timeout
        while not done():
            if time.monotonic() >= end:
                seen = ", ".join(f"{each.message.start}" for each in self.received) or "nothing"
                raise CallFailed(
                    f"{what} did not come in {timeout} s; came: {seen}; {len(self.audio)} RTP packets"
                )
            self._step(end)

    def wait_for(
        self, wanted: Callable[[Message], bool], timeout: float, what: str = "the message"
    ) -> Message:
        """Return the first message, of all that came, that is wanted."""
        self.until(lambda: any(wanted(each.message) for each in self.received), timeout, what)
        return next(each.message for each in self.received if wanted(each.message))

    def until_heard(self, recording: Pcm, timeout: float, what: str) -> None:
        """Wait until the whole of a recording was heard; looked for four times a second near the end."""
        end = time.monotonic() + timeout
        window = len(recording) + 4 * RATE
        while not hear(recording, self.heard()[-window:]).whole:
            if time.monotonic() >= end:
                raise CallFailed(f"{what} was not heard in {timeout} s: {hear(recording, self.heard())}")
            self.listen(0.25)

    def wait_for_bye(self, timeout: float) -> float:
        """Wait until the gateway hangs up; return when its BYE came."""
        self.wait_for(lambda message: message.method == "BYE", timeout, "BYE")
        return next(each.at for each in self.received if each.message.method == "BYE")

    def speak(self, pcm: Pcm) -> None:
        """Say something and return when it is said."""
        self.say(pcm)
        self.until(lambda: not self.queue, len(pcm) / 8000 + 5, "the end of our own words")

    # What was heard.

    def heard(self, *, before: float = float("inf")) -> Pcm:
        """Return the received sound, by RTP timestamps, of all packets that arrived before a time."""
        packets = [each for each in self.audio if each.at < before and each.kind == PAYLOAD[self.codec]]
        return timeline(packets, self.codec)

    def statuses(self, method: str = "INVITE") -> list[int]:
        return [
            each.message.status
            for each in self.received
            if each.message.status and each.message.answers == method
        ]

    # The wire.

    def _step(self, end: float) -> None:
        now = time.monotonic()
        due = [each for each in self.agenda if each[0] <= now]
        self.agenda = [each for each in self.agenda if each[0] > now]
        for _, act in due:
            act()
        if self.media and now >= self.next_frame:
            self._send_frame(now)
        wake = min([end, *([self.next_frame] if self.media else []), *(at for at, _ in self.agenda)])
        for key, _ in self.selector.select(max(0.0, wake - time.monotonic())):
            key.data()

    def _on_sip(self) -> None:
        for at, data, source in drain(self.sip):
            if data.strip():
                message = sip_text.read(data)
                self.received.append(Received(at, message))
                self._react(message, source)

    def _on_rtp(self) -> None:
        for at, data, _ in drain(self.rtp):
            if (packet := read_rtp(at, data)) is not None:
                self.audio.append(packet)

    def _react(self, message: Message, source: Address) -> None:
        match message.method:
            case "":
                if message.answers == "INVITE" and message.status >= 200:
                    self._acknowledge(message)
            case "REFER":
                self._answer_refer(message, source)
            case "ACK":
                pass
            case _:
                self.sip.sendto(sip_text.respond(message, 200, "OK"), source)

    def _acknowledge(self, response: Message) -> None:
        dialog = self.dialog
        dialog.remote_tag = response.tag("to")
        if response.status >= 300:  # RFC 3261 section 17.1.1.3: the branch of the INVITE
            self._send_request("ACK", branch=self.invite_branch)
            return
        dialog.target = response.uri("contact")
        dialog.routes = tuple(reversed(response.all("record-route")))
        if not self.media:
            self.media = sip_text.media_address(response.body)
            self.next_frame = time.monotonic()
        self._send_request("ACK", cseq=response.cseq)

    def _answer_refer(self, message: Message, source: Address) -> None:
        self.sip.sendto(sip_text.respond(message, self.refer.status, "Refer answered"), source)
        if self.refer.status == 202:
            at = time.monotonic()
            for number, (pause, fragment) in enumerate(self.refer.notifies):
                at += pause
                last = number == len(self.refer.notifies) - 1
                self.agenda.append((at, lambda text=fragment, end=last: self._notify(text, end=end)))

    def _notify(self, fragment: str, *, end: bool) -> None:
        self.dialog.cseq += 1
        state = "terminated;reason=noresource" if end else "active;expires=60"
        extra = [("Event", "refer"), ("Subscription-State", state)]
        self._send_request("NOTIFY", extra=extra, body=fragment + "\r\n", kind="message/sipfrag;version=2.0")

    def _send_request(
        self,
        method: str,
        *,
        branch: str = "",
        extra: Iterable[tuple[str, str]] = (),
        body: str = "",
        kind: str = "application/sdp",
        cseq: int = 0,
    ) -> None:
        host, port = self.contact
        dialog = self.dialog
        first = f"sip:{self.called}@{self.gateway[0]}:{self.gateway[1]}"
        target = first if branch else dialog.target or first
        to = f"<{first}>" + (f";tag={dialog.remote_tag}" if dialog.remote_tag and method != "CANCEL" else "")
        cseq = cseq or (1 if method in ("INVITE", "ACK", "CANCEL") else dialog.cseq)
        headers = [
            ("Via", f"SIP/2.0/UDP {host}:{port};rport;branch={branch or sip_text.branch()}"),
            ("Max-Forwards", "70"),
            *(("Route", route) for route in dialog.routes),
            ("From", f"<sip:{self.caller}@{host}>;tag={dialog.local_tag}"),
            ("To", to),
            ("Call-ID", dialog.call_id),
            ("CSeq", f"{cseq} {method}"),
            ("Contact", f"<sip:phone@{host}:{port}>"),
            ("Allow", "INVITE, ACK, BYE, CANCEL, OPTIONS, REFER, NOTIFY"),
            *extra,
        ]
        self._transmit(method, sip_text.write(f"{method} {target} SIP/2.0", headers, body, kind=kind))

    def _transmit(self, method: str, data: bytes) -> None:
        """Send a request; here once, for on loopback nothing is lost."""
        self.sip.sendto(data, self.gateway)

    def _silence(self) -> bytes:
        return (b"\xff" if self.codec == "PCMU" else b"\xd5") * FRAME

    def _send_frame(self, now: float) -> None:
        frame = self.queue.popleft() if self.queue else self._silence()
        self._send_rtp(PAYLOAD[self.codec], frame)
        self.timestamp += FRAME
        self.next_frame += 0.02
        if now - self.next_frame > 0.5:  # the machine slept: go on from now, without a burst
            self.next_frame = now

    def _send_rtp(self, kind: int, payload: bytes, *, marker: bool = False) -> None:
        packet = pcap.rtp(
            payload,
            kind=kind,
            sequence=self.sequence,
            timestamp=self.timestamp,
            ssrc=self.ssrc,
            marker=marker,
        )
        self.sequence += 1
        self._send_packet(packet)

    def _send_packet(self, packet: bytes) -> None:
        if self.media:
            self.rtp.sendto(packet, self.media)


def read_rtp(at: float, data: bytes) -> Audio | None:
    """Return an RTP packet, or nothing where it is RTCP on the same port (RFC 5761) or too short."""
    if len(data) < 12 or 72 <= data[1] & 127 <= 76:
        return None
    _, kind, sequence, timestamp, ssrc = struct.unpack("!BBHII", data[:12])
    return Audio(at, kind & 127, sequence, timestamp, ssrc, data[12:])


def timeline(packets: list[Audio], codec: str) -> Pcm:
    """
    Lay packets out by their RTP timestamps; what is missing is silence.

    A new SSRC starts a new clock (RFC 3550 section 5.1), which is placed by the time of arrival.
    """
    if not packets:
        return np.zeros(0, np.int16)
    placed: list[tuple[int, bytes]] = []
    base, origin = packets[0], 0
    for packet in packets:
        if packet.ssrc != base.ssrc:
            origin += int((packet.at - base.at) * 8000)
            base = packet
        ahead = (packet.timestamp - base.timestamp + (1 << 31)) % (1 << 32) - (1 << 31)
        placed.append((origin + ahead, packet.payload))
    first = min(place for place, _ in placed)
    result = np.zeros(max(place + len(data) for place, data in placed) - first, np.int16)
    for place, data in placed:
        result[place - first : place - first + len(data)] = decode(data, codec)
    return result
