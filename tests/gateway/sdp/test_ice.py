"""ICE in offer and answer: we are the side that waits."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from gateway.sdp import (
    Fingerprint,
    Ice,
    IceCredentials,
    Local,
    LocalSecurity,
    Protection,
    accept,
    answer,
    draw_ice,
    make_offer,
    parse,
)

OURS = IceCredentials("0a1b2c3d", "00112233445566778899aabbccddeeff")
THEIRS = IceCredentials("Zx+9", "theirs/theirs+theirs01")
PRINT = Fingerprint("sha-256", hashlib.sha256(b"theirs").digest())
LOCAL = Local(
    host="192.0.2.10",
    port=20000,
    codecs=("PCMU",),
    session_id=77,
    version=1,
    security=LocalSecurity(fingerprint=PRINT, ice=OURS),
)
HEAD = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n"
CREDENTIALS = (f"a=ice-ufrag:{THEIRS.ufrag}", f"a=ice-pwd:{THEIRS.password}")
BROWSER = (
    "m=audio 9 UDP/TLS/RTP/SAVPF 111 0 13",
    "c=IN IP4 0.0.0.0",
    "a=rtcp:9 IN IP4 0.0.0.0",
    *CREDENTIALS,
    "a=ice-options:trickle",
    str(PRINT),
    "a=setup:actpass",
    "a=mid:0",
    "a=rtcp-mux",
    "a=rtpmap:111 opus/48000/2",
    "a=candidate:1 1 udp 2122260223 3f1f0f5e-0000.local 50000 typ host",
)


def described(*lines: str, head: str = HEAD):
    return parse((head + "".join(f"{line}\r\n" for line in lines)).encode())


def answered(*lines: str, local: Local = LOCAL, head: str = HEAD):
    body, agreed = answer(described(*lines, head=head), local)
    return body.decode().split("\r\n"), agreed


def test_a_browsers_offer_is_answered_as_the_side_that_waits() -> None:
    lines, agreed = answered(*BROWSER)
    assert lines[5] == "a=ice-lite"
    assert "m=audio 20000 UDP/TLS/RTP/SAVPF 0 13" in lines
    assert lines[lines.index("a=mid:0") + 1 :] == [
        "a=ice-ufrag:0a1b2c3d",
        "a=ice-pwd:00112233445566778899aabbccddeeff",
        "a=candidate:1 1 UDP 2130706431 192.0.2.10 20000 typ host",
        "a=end-of-candidates",
        "",
    ]
    assert "a=setup:passive" in lines
    assert not any("group" in line for line in lines)
    assert agreed.ice == Ice(OURS, THEIRS)
    # An address that is not known yet is no hold.
    assert agreed.remote == agreed.remote_rtcp == ("0.0.0.0", 9)
    assert agreed.sends
    assert agreed.receives


@pytest.mark.parametrize("host", ["IP4 somewhere.local", "IP6 2001:db8::7", "IP4 224.1.1.1"])
def test_the_address_of_the_description_does_not_matter_then(host) -> None:
    _, agreed = answered(*BROWSER, f"c=IN {host}")
    assert agreed.remote == ("0.0.0.0", 9)
    _, agreed = answered(*BROWSER, f"c=IN {host}", local=replace(LOCAL, host="2001:db8::10"))
    assert agreed.remote == ("::", 9)


def test_a_hold_is_still_a_hold() -> None:
    _, agreed = answered(*BROWSER, "a=inactive")
    assert (agreed.sends, agreed.receives) == (False, False)


def test_two_ports_get_two_candidates() -> None:
    lines, _ = answered(*(line for line in BROWSER if line != "a=rtcp-mux"))
    assert "a=candidate:1 2 UDP 2130706430 192.0.2.10 20001 typ host" in lines


def test_credentials_of_the_session_count_for_its_lines() -> None:
    lines = [line for line in BROWSER if not line.startswith("a=ice-")]
    _, agreed = answered(*lines, head=HEAD + "".join(f"{line}\r\n" for line in CREDENTIALS))
    assert agreed.ice == Ice(OURS, THEIRS)


@pytest.mark.parametrize(
    "offered",
    [
        ("m=audio 4000 RTP/AVP 0", "c=IN IP4 203.0.113.20", *CREDENTIALS),
        ("m=audio 4000 UDP/TLS/RTP/SAVP 0", "c=IN IP4 203.0.113.20", str(PRINT), "a=setup:active"),
        (*BROWSER[:1], "c=IN IP4 203.0.113.20", str(PRINT), CREDENTIALS[0], "a=ice-pwd:short"),
        (*BROWSER[:1], "c=IN IP4 203.0.113.20", str(PRINT), "a=ice-ufrag:x y", CREDENTIALS[1]),
    ],
)
def test_without_dtls_or_good_credentials_ice_is_passed_over(offered) -> None:
    lines, agreed = answered(*offered)
    assert agreed.ice is None
    assert agreed.remote[0] == "203.0.113.20"
    assert not any("ice" in line or "candidate" in line for line in lines)


def test_a_peer_that_only_waits_as_we_do_is_met_at_its_address() -> None:
    lines = [line.replace("0.0.0.0", "203.0.113.20") for line in BROWSER]
    _, agreed = answered(*lines, head=HEAD + "a=ice-lite\r\n")
    assert agreed.ice is None
    assert agreed.remote == ("203.0.113.20", 9)


def test_the_association_outlives_a_new_start_of_ice() -> None:
    _, before = answered(*BROWSER)
    _, after = answered(*(line.replace("theirs01", "theirs02") for line in BROWSER))
    assert after.ice != before.ice
    assert after.continues(before)


def test_our_offer_speaks_of_ice_where_the_call_does() -> None:
    offers = replace(LOCAL.security, offers=Protection.DTLS)
    local = replace(LOCAL, security=offers, profile="UDP/TLS/RTP/SAVPF", rtcp_mux=True, ice=True)
    (media,) = parse(make_offer(replace(local, ice=False))).media
    assert media.ice is None
    text = make_offer(local).decode()
    assert text.index("a=ice-lite") < text.index("m=audio") < text.index("a=ice-ufrag:0a1b2c3d")
    theirs = [line.replace("actpass", "active") for line in BROWSER]
    assert accept(described(*theirs), local).ice == Ice(OURS, THEIRS)


def test_what_we_draw_is_long_enough_and_does_not_show() -> None:
    drawn = draw_ice(lambda octets: "ab" * octets)
    assert (len(drawn.ufrag), len(drawn.password)) == (8, 32)
    assert drawn.password not in repr(drawn)
