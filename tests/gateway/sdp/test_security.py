"""How offer and answer agree on SRTP."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace

import pytest

from gateway.sdp import (
    Dtls,
    Fingerprint,
    Local,
    LocalSecurity,
    NotAcceptable,
    Protection,
    Sdes,
    SrtpPolicy,
    Suite,
    accept,
    answer,
    draw_crypto,
    make_offer,
    parse,
)

KEYS = draw_crypto(lambda length: bytes(range(100, 100 + length)))
OURS = Fingerprint("sha-256", hashlib.sha256(b"ours").digest())
THEIRS = Fingerprint("sha-256", hashlib.sha256(b"theirs").digest())
SECURITY = LocalSecurity(crypto=KEYS, fingerprint=OURS, tls_id="trunkline-0123456789")
LOCAL = Local(
    host="192.0.2.10", port=20000, codecs=("PCMU", "PCMA"), session_id=77, version=1, security=SECURITY
)
HEAD = "v=0\r\no=sbc 7001 7002 IN IP4 203.0.113.20\r\ns=-\r\nc=IN IP4 203.0.113.20\r\nt=0 0\r\n"
LINE = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIz"
LINE_KEY = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123"


def b64(length: int) -> str:
    return base64.b64encode(bytes(range(length))).decode()


def key(suite: Suite) -> str:
    return next(base64.b64encode(line.key).decode() for line in KEYS if line.suite is suite)


def described(*lines: str, head: str = HEAD):
    return parse((head + "".join(f"{line}\r\n" for line in lines)).encode())


def answered(*lines: str, policy: SrtpPolicy = SrtpPolicy.OPTIONAL, head: str = HEAD, **security: object):
    local = replace(LOCAL, security=replace(SECURITY, policy=policy, **security))
    body, agreed = answer(described(*lines, head=head), local)
    return body.decode().split("\r\n"), agreed


def lines_of(lines: list[str], *names: str) -> list[str]:
    return [line for line in lines if line.startswith(names)]


@pytest.mark.report("BR-073")
def test_the_answer_has_the_number_of_the_chosen_line_and_a_key_of_our_own() -> None:
    lines, agreed = answered(
        "m=audio 40000 RTP/SAVP 0",
        f"a=crypto:1 AES_256_CM_HMAC_SHA1_80 inline:{b64(46)}",
        f"a=crypto:2 F8_128_HMAC_SHA1_80 inline:{b64(30)}",
        f"a=crypto:3 AES_CM_128_HMAC_SHA1_80 inline:{b64(30)}|2^20|1:4",
    )
    assert lines_of(lines, "m=") == ["m=audio 20000 RTP/SAVP 0"]
    assert lines_of(lines, "a=crypto") == [
        f"a=crypto:3 AES_CM_128_HMAC_SHA1_80 inline:{key(Suite.AES_CM_128_HMAC_SHA1_80)}"
    ]
    assert isinstance(agreed.security, Sdes)
    assert agreed.security.theirs.key == bytes(range(30))
    assert (agreed.security.theirs.lifetime, agreed.security.theirs.mki) == (2**20, b"\0\0\0\1")


@pytest.mark.report("BR-073")
@pytest.mark.parametrize("policy", [SrtpPolicy.OPTIONAL, SrtpPolicy.REQUIRED])
def test_a_secure_line_without_a_usable_suite_is_refused_and_never_answered_plainly(policy) -> None:
    with pytest.raises(NotAcceptable, match=r"no usable a=crypto line; we have AEAD_AES_256_GCM, "):
        answered(
            "m=audio 40000 RTP/SAVP 0",
            f"a=crypto:1 AES_256_CM_HMAC_SHA1_80 inline:{b64(46)}",
            f"a=crypto:2 F8_128_HMAC_SHA1_80 inline:{b64(30)}",
            policy=policy,
        )
    with pytest.raises(NotAcceptable, match="SRTP is not available"):
        answered("m=audio 40000 RTP/SAVP 0", LINE, crypto=(), fingerprint=None)


@pytest.mark.parametrize("profile", ["RTP/SAVP", "RTP/SAVPF", "RTP/AVP"])
def test_of_several_suites_ours_is_the_choice(profile) -> None:
    lines, agreed = answered(
        f"m=audio 40000 {profile} 0",
        f"a=crypto:5 AES_CM_128_HMAC_SHA1_32 inline:{b64(30)}",
        f"a=crypto:6 AES_CM_128_HMAC_SHA1_80 inline:{b64(30)}",
        f"a=crypto:7 AEAD_AES_128_GCM inline:{b64(28)}",
        f"a=crypto:8 AEAD_AES_256_GCM inline:{b64(44)}",
    )
    assert lines_of(lines, "m=") == [f"m=audio 20000 {profile} 0"]
    assert lines_of(lines, "a=crypto") == [
        f"a=crypto:8 AEAD_AES_256_GCM inline:{key(Suite.AEAD_AES_256_GCM)}"
    ]
    assert agreed.security


@pytest.mark.report("BR-075")
def test_an_opportunistic_offer_gets_srtp_and_stays_plain_by_name() -> None:
    lines, agreed = answered(
        "m=audio 64718 RTP/AVP 9 0 8 101",
        "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNk|2^31",
        "a=crypto:2 AES_256_CM_HMAC_SHA1_80 inline:AAAA",
    )
    assert lines_of(lines, "m=") == ["m=audio 20000 RTP/AVP 0"]
    assert lines_of(lines, "a=crypto") == [
        f"a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:{key(Suite.AES_CM_128_HMAC_SHA1_80)}"
    ]
    assert isinstance(agreed.security, Sdes)
    assert agreed.security.theirs.key == b"0123456789abcdef0123456789abcd"


@pytest.mark.report("BR-075")
def test_an_opportunistic_offer_without_a_usable_key_or_on_a_plain_trunk_gets_plain_rtp() -> None:
    broken = "a=crypto:2 AES_256_CM_HMAC_SHA1_80 inline:AAAA"
    for lines, agreed in (
        answered("m=audio 64718 RTP/AVP 0", broken),
        answered("m=audio 64718 RTP/AVP 0", LINE, policy=SrtpPolicy.OFF),
    ):
        assert agreed.security is None
        assert not lines_of(lines, "a=crypto", "a=fingerprint")


@pytest.mark.report("BR-071")
@pytest.mark.parametrize(
    ("policy", "active"), [(SrtpPolicy.OPTIONAL, 0), (SrtpPolicy.REQUIRED, 0), (SrtpPolicy.OFF, 1)]
)
def test_of_an_encrypted_and_a_plain_line_the_policy_chooses_one(policy, active) -> None:
    offered = [
        "m=audio 40000 RTP/SAVP 8 101",
        LINE,
        "m=audio 40002 RTP/AVP 8 101",
        "a=rtpmap:101 telephone-event/8000",
    ]
    lines, agreed = answered(*offered, policy=policy)
    expected = ["m=audio 0 RTP/SAVP 8 101", "m=audio 0 RTP/AVP 8 101"]
    expected[active] = ("m=audio 20000 RTP/SAVP 8", "m=audio 20000 RTP/AVP 8 101")[active]
    assert lines_of(lines, "m=") == expected
    assert lines_of(lines, "c=") == ["c=IN IP4 192.0.2.10"]
    assert agreed.remote[1] == (40000, 40002)[active]
    assert bool(agreed.security) is (active == 0)
    swapped = answered(*offered[2:], *offered[:2], policy=policy)[1]
    assert swapped.remote == agreed.remote


def test_required_srtp_refuses_a_plain_offer_with_the_reason() -> None:
    with pytest.raises(NotAcceptable, match="SRTP is required for this trunk"):
        answered("m=audio 40000 RTP/AVP 0", policy=SrtpPolicy.REQUIRED)


@pytest.mark.parametrize("profile", ["RTP/SAVP", "RTP/SAVPF", "UDP/TLS/RTP/SAVP", "UDP/TLS/RTP/SAVPF"])
def test_a_trunk_without_srtp_refuses_a_secure_line(profile) -> None:
    with pytest.raises(NotAcceptable, match="SRTP is off for this trunk"):
        answered(f"m=audio 40000 {profile} 0", LINE, str(THEIRS), policy=SrtpPolicy.OFF)


@pytest.mark.parametrize(
    ("offered", "host", "ours"),
    [
        ("actpass", "9.8.7.6", "active"),
        ("actpass", "10.0.0.9", "passive"),
        ("active", "203.0.113.20", "passive"),
        ("passive", "10.0.0.9", "active"),
    ],
)
@pytest.mark.parametrize("profile", ["UDP/TLS/RTP/SAVP", "UDP/TLS/RTP/SAVPF", "RTP/SAVPF", "RTP/AVP"])
def test_a_fingerprint_is_answered_with_ours_and_a_role(offered, host, ours, profile) -> None:
    lines, agreed = answered(
        f"m=audio 40000 {profile} 0", f"c=IN IP4 {host}", str(THEIRS), f"a=setup:{offered}"
    )
    assert lines_of(lines, "m=") == [f"m=audio 20000 {profile} 0"]
    assert lines_of(lines, "a=fingerprint", "a=setup", "a=tls-id") == [str(OURS), f"a=setup:{ours}"]
    assert agreed.security == Dtls((THEIRS,), ours == "active")


def test_fingerprint_and_role_of_the_session_count_for_its_lines() -> None:
    head = f"{HEAD}{THEIRS}\r\na=setup:active\r\na=tls-id:abc\r\n"
    lines, agreed = answered("m=audio 40000 UDP/TLS/RTP/SAVP 0", head=head)
    assert agreed.security == Dtls((THEIRS,), active=False, tls_id="abc")
    assert "a=tls-id:trunkline-0123456789" in lines


def test_a_role_that_is_taken_is_kept() -> None:
    for active in (True, False):
        _, agreed = answered(
            "m=audio 40000 UDP/TLS/RTP/SAVP 0", str(THEIRS), "a=setup:actpass", active=active
        )
        assert agreed.security == Dtls((THEIRS,), active)


def test_dtls_without_a_fingerprint_or_with_nobody_to_begin_is_refused() -> None:
    with pytest.raises(NotAcceptable, match="a=fingerprint"):
        answered("m=audio 40000 UDP/TLS/RTP/SAVP 0", LINE)
    with pytest.raises(NotAcceptable, match="holdconn"):
        answered("m=audio 40000 UDP/TLS/RTP/SAVP 0", str(THEIRS), "a=setup:holdconn")


# Offers of ours.


def offering(policy: SrtpPolicy, offers: Protection, profile: str = "") -> Local:
    return replace(LOCAL, security=replace(SECURITY, policy=policy, offers=offers), profile=profile)


def test_our_offer_is_plain_unless_more_is_asked() -> None:
    text = make_offer(offering(SrtpPolicy.OPTIONAL, Protection.NONE)).decode()
    assert "m=audio 20000 RTP/AVP 0 8 101" in text
    assert "crypto" not in text
    assert "fingerprint" not in text


def test_our_secure_offer_has_all_suites_and_the_answer_chooses_one() -> None:
    local = offering(SrtpPolicy.REQUIRED, Protection.SDES)
    (media,) = parse(make_offer(local)).media
    assert media.protocol == "RTP/SAVP"
    assert media.crypto == KEYS
    theirs = f"a=crypto:3 AES_CM_128_HMAC_SHA1_80 inline:{b64(30)}"
    agreed = accept(described("m=audio 24500 RTP/SAVP 0", theirs), local)
    assert isinstance(agreed.security, Sdes)
    assert agreed.security.ours.key == KEYS[2].key
    assert agreed.security.theirs.key == bytes(range(30))


@pytest.mark.parametrize(
    "answer_lines",
    [
        ["m=audio 24500 RTP/SAVP 0"],
        ["m=audio 24500 RTP/SAVP 0", f"a=crypto:9 AES_CM_128_HMAC_SHA1_80 inline:{b64(30)}"],
        ["m=audio 24500 RTP/SAVP 0", f"a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:{b64(30)}"],
        ["m=audio 24500 RTP/AVP 0"],
        ["m=audio 24500 RTP/AVP 0", f"a=crypto:3 AES_CM_128_HMAC_SHA1_80 inline:{b64(30)}"],
    ],
)
def test_an_answer_with_another_number_or_suite_or_profile_is_refused(answer_lines) -> None:
    for policy in (SrtpPolicy.REQUIRED, SrtpPolicy.OPTIONAL):
        with pytest.raises(NotAcceptable):
            accept(described(*answer_lines), offering(policy, Protection.SDES))


def test_an_opportunistic_offer_of_ours_may_be_answered_plainly() -> None:
    local = offering(SrtpPolicy.OPTIONAL, Protection.SDES, "RTP/AVP")
    assert b"m=audio 20000 RTP/AVP " in make_offer(local)
    assert accept(described("m=audio 24500 RTP/AVP 0"), local).security is None
    theirs = f"a=crypto:3 AES_CM_128_HMAC_SHA1_80 inline:{b64(30)}"
    assert accept(described("m=audio 24500 RTP/AVP 0", theirs), local).security


def test_an_answer_to_our_plain_offer_cannot_make_it_secure() -> None:
    local = offering(SrtpPolicy.OPTIONAL, Protection.NONE)
    assert accept(described("m=audio 24500 RTP/AVP 0", LINE), local).security is None
    with pytest.raises(NotAcceptable, match="was not offered"):
        accept(described("m=audio 24500 RTP/SAVP 0", LINE), local)


def test_our_dtls_offer_leaves_the_role_to_the_answer() -> None:
    local = offering(SrtpPolicy.OPTIONAL, Protection.DTLS)
    text = make_offer(local).decode()
    assert "m=audio 20000 UDP/TLS/RTP/SAVP 0 8 101" in text
    assert f"{OURS}\r\na=setup:actpass\r\na=tls-id:trunkline-0123456789\r\n" in text
    for setup, active in (("passive", True), ("active", False)):
        agreed = accept(described("m=audio 24500 UDP/TLS/RTP/SAVP 0", str(THEIRS), f"a=setup:{setup}"), local)
        assert agreed.security == Dtls((THEIRS,), active)
    with pytest.raises(NotAcceptable, match="a=fingerprint"):
        accept(described("m=audio 24500 UDP/TLS/RTP/SAVP 0"), local)


# Whether keys go on.


def test_keys_go_on_while_the_peers_key_is_the_same_wherever_it_moves() -> None:
    _, first = answered("m=audio 40000 RTP/SAVP 0", LINE)
    _, moved = answered("m=audio 41000 RTP/SAVP 0", LINE.replace("crypto:1", "crypto:2"))
    _, renewed = answered("m=audio 41000 RTP/SAVP 0", LINE.replace("QUJD", "AAAA"))
    assert first.continues(None)
    assert moved.continues(first)
    assert not renewed.continues(first)
    _, plain = answered("m=audio 41000 RTP/AVP 0")
    assert plain.continues(first)
    assert not first.continues(plain)


def test_a_dtls_association_goes_on_at_its_address_or_by_its_name() -> None:
    def offered(port: int, *more: str, fingerprint: Fingerprint = THEIRS):
        lines = (f"m=audio {port} UDP/TLS/RTP/SAVP 0", str(fingerprint), "a=setup:actpass", *more)
        return answered(*lines)[1]

    assert offered(40000).continues(offered(40000))
    assert not offered(40002).continues(offered(40000))
    assert offered(40002, "a=tls-id:x").continues(offered(40000, "a=tls-id:x"))
    assert not offered(40000, "a=tls-id:y").continues(offered(40000, "a=tls-id:x"))
    assert not offered(40000, fingerprint=OURS).continues(offered(40000))
