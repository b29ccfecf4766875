"""
Each parser of what comes from the network: mutations of real messages, seeded, for a while.

``make soak`` gives each of them ten minutes, ``make test`` seconds. The seed is printed, and
``TRUNKLINE_FUZZ_SEED`` repeats a run.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from gateway import sdp
from gateway.legs.description import CallDescription
from gateway.net.media_guard import MediaGuard
from gateway.rtp import packet, rtcp
from gateway.rtp.packet import RtpError
from gateway.sip import body
from gateway.sip.identity import identity_of
from gateway.sip.info import read_key
from gateway.sip.message import Headers, Request
from gateway.sip.parser import ParseError, parse_message
from gateway.sip.stream import FramingError, StreamFramer
from gateway.sip.text import UnsafeText
from tests.gateway.sip.rig import OFFER, invite, request
from tests.kit import fuzz
from tests.kit.counts import counts

pytestmark = pytest.mark.soak

SECONDS = counts(test=2, full=600)
SEED = int(os.environ.get("TRUNKLINE_FUZZ_SEED") or secrets.randbelow(2**32))
TORTURE = [path.read_bytes() for path in sorted((Path(__file__).parents[1] / "data/torture").glob("*.msg"))]
PARTIES = (
    ("P-Asserted-Identity", '"Ann" <sip:+493023125017@h;user=phone>, <tel:+49-30;phone-context=+1;ext=7>'),
    ("Remote-Party-ID", '"A" <sip:1@x>;party=calling;screen=yes;privacy=off'),
    ("Diversion", '<tel:+12025550111>;reason=unconditional, <sip:%2B1@pbx>;reason="no-answer"'),
    (
        "History-Info",
        "<sip:+1@x?Reason=SIP%3Bcause%3D302&Privacy=history>;index=1, <sip:+2@h;cause=486>;index=1.1",
    ),
    ("Privacy", "id;critical"),
)
MULTIPART = (
    f"--b\r\nContent-Type: application/sdp\r\n\r\n{OFFER}\r\n--b\r\nContent-Type: multipart/mixed;"
    "boundary=c\r\n\r\n--c\r\nContent-Disposition: x;handling=optional\r\n\r\ny\r\n--c--\r\n--b--\r\n"
)


def sip(data: bytes) -> None:
    """Read a message, look into it as the user agent does, and write it again."""
    try:
        message = parse_message(data)
    except ParseError:
        return
    for read in (lambda: body.find_sdp(message.headers, message.body), message.to_bytes):
        try:
            read()
        except (body.UnsupportedBody, UnsafeText):
            pass
    if isinstance(message, Request):
        identity = identity_of(message)
        identity.caller()
        for each in identity.forwarded:
            each.party.number.encode()


def stream(data: bytes) -> None:
    framer = StreamFramer()
    try:
        for at in range(0, len(data), 97):
            framer.receive(data[at : at + 97])
    except FramingError:
        pass
    assert sum(map(len, framer.messages())) <= len(data)


def description(data: bytes) -> None:
    """Answer an offer, and take it as the answer to ours."""
    for srtp in sdp.SrtpPolicy:
        try:
            call = CallDescription.for_offer(
                data, host="192.0.2.1", port=20000, codecs=("PCMU",), srtp=srtp, fingerprint=FINGERPRINT
            )
            answered = sdp.parse(call.local()).media
            assert [each.protocol for each in answered] == [each.protocol for each in sdp.parse(data).media]
            call.reanswer(data)
            call.reanswer(None)
            call.accept(data)
        except (sdp.SdpError, sdp.NotAcceptable):
            pass
    ours = CallDescription.for_offer(None, host="2001:db8::1", port=20000, codecs=("PCMA",))
    try:
        ours.accept(data)
    except (sdp.SdpError, sdp.NotAcceptable):
        pass


def guarded(data: bytes) -> None:
    """Take a datagram on a port where ICE, a handshake and SRTP are awaited."""
    guard = MediaGuard()
    guard.configure(GUARDED, 0.0)
    assert guard.open(data, ("192.0.2.9", 4000), 0.0) == b""
    assert len(guard.to_send()) <= 1
    assert guard.events() == []


def rtp_packet(data: bytes) -> None:
    try:
        packet.parse(data)
    except RtpError:
        pass


def rtcp_packet(data: bytes) -> None:
    try:
        rtcp.parse(data)
    except RtpError:
        pass


def sipfrag(data: bytes) -> None:
    told = body.sipfrag_status(data)
    assert told is None or 100 <= told[0] <= 699


def info(data: bytes) -> None:
    for kind in ("application/dtmf-relay", "application/dtmf", "audio/telephone-event", "text/plain"):
        try:
            key = read_key(Request(Headers([("Content-Type", kind)]), data, "INFO"))
        except ValueError:
            continue
        assert key is None or key.digit in "0123456789*#ABCD"


SIP = [
    *TORTURE,
    invite(extra=PARTIES),
    invite(body=MULTIPART, kind="multipart/mixed;boundary=b"),
    request("NOTIFY", body="SIP/2.0 200 OK\r\n", kind="message/sipfrag"),
    request("INFO", body="Signal=5\r\nDuration=160\r\n", kind="application/dtmf-relay"),
]
ODD_OFFER = (
    b"v=0\r\no=- 1 1 IN IP6 2001:db8::7\r\ns=-\r\nc=IN IP6 2001:db8::7\r\nt=0 0\r\na=sendonly\r\n"
    b"m=image 49170 udptl t38\r\nm=audio 4000/2 RTP/AVP 0 8 96 13\r\na=rtpmap:96 telephone-event/8000\r\n"
    b"a=fmtp:96 0-15\r\na=ptime:20\r\na=maxptime:150\r\na=rtcp:4001 IN IP4 192.0.2.9\r\n"
)
SECURE_OFFER = (
    b"v=0\no=x 1 1 IN IP4 1.2.3.4\nc=IN IP4 0.0.0.0\nt=0 0\nm=audio 9 RTP/SAVP 8\n"
    b"a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz|2^20|1:32\n"
)
FINGERPRINT = sdp.Fingerprint("sha-256", bytes(32))
ICE = sdp.Ice(
    sdp.IceCredentials("0123", "0123456789abcdef012345"), sdp.IceCredentials("4567", "0123456789abcdef012345")
)
BROWSER_OFFER = (
    f"v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\nt=0 0\r\na=group:BUNDLE 0\r\n{FINGERPRINT}\r\na=tls-id:0123456789\r\n"
    "m=audio 9 UDP/TLS/RTP/SAVPF 111 0 13\r\nc=IN IP4 0.0.0.0\r\na=rtcp-mux\r\na=mid:0\r\na=setup:actpass\r\n"
    "a=ice-ufrag:4567\r\na=ice-pwd:0123456789abcdef012345\r\na=candidate:1 1 udp 1 x.local 9 typ host\r\n"
).encode()
SDP = [OFFER.encode(), ODD_OFFER, SECURE_OFFER, BROWSER_OFFER]
MEDIA = sdp.NegotiatedMedia(
    "PCMU", 0, 101, ("0.0.0.0", 9), ("0.0.0.0", 9), sends=True, receives=True, ptime_ms=20, rtcp_mux=True
)
GUARDED = replace(MEDIA, security=sdp.Dtls((FINGERPRINT,), active=False), ice=ICE)
CHECK = (
    bytes.fromhex("0001002c2112a442")
    + b"transaction!\0\6\0\x090123:4567\0\0\0\0\x25\0\0\0\x08\0\x14"
    + bytes(20)
)
HELLO = bytes.fromhex("16fefd0000000000000000001b 0100000f 0000 000000 00000f fefd") + bytes(13)
VOICE = b"\x80\x00\x00\x01\x00\x00\x00\xa0\x12\x34\x56\x78" + b"\xff" * 160
EXTENDED = (
    bytes.fromhex("b280 ffff ffffffff 00000001 00000002 00000003 bede0001 10ff0000")
    + b"\xd5" * 80
    + b"\0\0\3"
)
EVENT = bytes.fromhex("80e5 0002 000000a0 12345678 058a03c0")
RTP = [VOICE, EXTENDED, EVENT]
BLOCK = bytes.fromhex("87654321 10000005") + b"\0" * 16
SENDER = bytes.fromhex("81c8000c 12345678") + b"\0" * 20 + BLOCK
RECEIVER = bytes.fromhex("81c90007 12345678") + BLOCK
NAMES = (
    bytes.fromhex("81ca0004 12345678") + b"\1\6abc@de\0\0\0" + bytes.fromhex("81cb0002 12345678") + b"\3bye"
)
RTCP = [SENDER, RECEIVER + NAMES]
FRAG = [
    b"SIP/2.0 200 OK\r\n",
    b"SIP/2.0 503 Service Unavailable\r\nContact: <sip:a@h>\r\n",
    b"INVITE sip:a@h SIP/2.0",
]
INFO = [b"Signal= 5\r\nDuration= 160\r\n", b"5", b"d=7", b"\x0b\x8a\x05\x00", b"p=x\ny=Digits\nd=Digits=1\n"]


@pytest.mark.report("BR-163")
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.parametrize(
    ("target", "corpus"),
    [
        (sip, SIP),
        (stream, SIP),
        (description, SDP),
        (guarded, [CHECK, HELLO, VOICE, RECEIVER]),
        (rtp_packet, RTP),
        (rtcp_packet, RTCP),
        (sipfrag, FRAG),
        (info, INFO),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_no_input_breaks_a_parser_or_keeps_it_busy(target, corpus):
    print(f"\n{target.__name__:12} {fuzz.run(target, corpus, seed=SEED, seconds=SECONDS)}")
