"""The descriptions of one call, from the first to the last."""

from __future__ import annotations

import re

import pytest

from gateway.legs.description import CallDescription
from gateway.sdp import Dtls, Fingerprint, NotAcceptable, Sdes, SrtpPolicy, parse

OURS = Fingerprint("sha-256", bytes(range(32)))
THEIRS = Fingerprint("sha-256", bytes(range(32, 64)))
KEY = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIz"
OTHER = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNk"
SUITE = "AES_CM_128_HMAC_SHA1_80"


def offer(*lines: str, port: int = 40000, profile: str = "RTP/AVP", version: int = 1) -> bytes:
    head = f"v=0\r\no=- 1 {version} IN IP4 203.0.113.20\r\ns=-\r\nc=IN IP4 203.0.113.20\r\nt=0 0\r\n"
    return (head + "\r\n".join((f"m=audio {port} {profile} 0", *lines)) + "\r\n").encode()


def crypto(key: str = KEY, tag: int = 1) -> str:
    return f"a=crypto:{tag} {SUITE} inline:{key}"


def dtls(*lines: str, port: int = 40000, setup: str = "actpass", fingerprint: Fingerprint = THEIRS) -> bytes:
    return offer(str(fingerprint), f"a=setup:{setup}", *lines, port=port, profile="UDP/TLS/RTP/SAVP")


def describe(first: bytes | None, *, srtp: SrtpPolicy = SrtpPolicy.OPTIONAL) -> CallDescription:
    return CallDescription.for_offer(
        first, host="192.0.2.10", port=20000, codecs=("PCMU", "PCMA"), srtp=srtp, fingerprint=OURS
    )


def version(sdp: bytes) -> int:
    return int(sdp.split(b"o=trunkline ")[1].split()[1])


def keys(sdp: bytes) -> list[bytes]:
    return re.findall(rb"inline:(\S+)", sdp)


def test_the_version_goes_up_with_each_change_and_only_then() -> None:
    description = describe(offer())
    first = description.local()
    same, _ = description.reanswer(offer(version=2))
    assert same == first
    held, media = description.reanswer(offer("a=sendonly", version=3))
    assert version(held) == version(first) + 1
    assert media is not None
    assert not media.sends
    back, _ = description.reanswer(offer(version=4))
    assert version(back) == version(first) + 2
    assert back.replace(b" 3 IN", b" 1 IN") == first


@pytest.mark.report("BR-077")
def test_lines_that_make_no_sense_are_counted() -> None:
    mangled = offer(":=6000", "a=X-nat:0").replace(b"t=0 0", b":=17\r\nt=0 0")
    assert describe(mangled).skipped == 2
    assert describe(offer()).skipped == 0


def test_an_offer_that_is_refused_changes_nothing() -> None:
    description = describe(offer())
    before = description.local(), description.media
    fax = offer().replace(b"m=audio 40000 RTP/AVP 0", b"m=image 40000 udptl t38")
    with pytest.raises(NotAcceptable, match="no audio line"):
        description.reanswer(fax)
    assert (description.local(), description.media) == before


def test_a_fax_line_beside_the_audio_is_refused_and_the_call_goes_on() -> None:
    description = describe(offer())
    answer, media = description.reanswer(offer("m=image 40010 udptl t38"))
    assert [each.port for each in parse(answer).media] == [20000, 0]
    assert media is not None
    assert media.sends


@pytest.mark.report("BR-080")
def test_our_key_is_kept_while_the_peers_is_and_renewed_with_it() -> None:
    description = describe(offer(crypto(), profile="RTP/SAVP"))
    (first,) = keys(description.local())
    moved, media = description.reanswer(offer(crypto(tag=4), port=41000, profile="RTP/SAVP"))
    assert keys(moved) == [first]
    assert b"a=crypto:4 " in moved
    renewed, media = description.reanswer(offer(crypto(OTHER), profile="RTP/SAVP"))
    (second,) = keys(renewed)
    assert second != first
    assert media is not None
    assert isinstance(media.security, Sdes)
    assert str(media.security.ours).encode() in renewed
    again, _ = description.reanswer(offer(crypto(OTHER), "a=sendonly", profile="RTP/SAVP"))
    assert keys(again) == [second]


def test_two_calls_have_no_key_in_common() -> None:
    found = [key for _ in range(3) for key in keys(describe(offer(crypto())).local())]
    assert len(set(found)) == 3


def test_an_offer_of_ours_in_a_protected_call_asks_for_the_same_again() -> None:
    description = describe(offer(crypto(), profile="RTP/SAVPF"))
    (first,) = keys(description.local())
    ours, media = description.reanswer(None)
    assert media is None
    assert b" RTP/SAVPF 0 8 101" in ours
    assert keys(ours)[0] == first
    assert f"a=crypto:1 {SUITE} ".encode() in ours
    agreed = description.accept(offer(crypto(), profile="RTP/SAVPF"))
    assert isinstance(agreed.security, Sdes)
    description.reanswer(None)
    with pytest.raises(NotAcceptable):
        description.accept(offer(profile="RTP/AVP"))


def test_an_opportunistic_call_stays_opportunistic() -> None:
    description = describe(offer(crypto()))
    ours, _ = description.reanswer(None)
    assert b" RTP/AVP 0 8 101" in ours
    assert keys(ours)
    assert description.accept(offer()).security is None


def test_a_first_offer_of_ours_is_protected_only_where_that_is_required() -> None:
    assert not keys(describe(None).local())
    assert b"RTP/AVP" in describe(None).local()
    required = describe(None, srtp=SrtpPolicy.REQUIRED)
    assert b"RTP/SAVP" in required.local()
    assert len(set(keys(required.local()))) == 4
    assert isinstance(required.accept(offer(crypto(tag=3), profile="RTP/SAVP")).security, Sdes)


def test_a_dtls_call_keeps_its_association_and_its_role() -> None:
    description = describe(dtls(setup="active"))
    first = description.media
    assert first is not None
    assert first.security == Dtls((THEIRS,), active=False)
    _, held = description.reanswer(dtls("a=sendonly"))
    assert held is not None
    assert held.security == first.security
    assert held.continues(first)
    ours, _ = description.reanswer(None)
    assert b"UDP/TLS/RTP/SAVP" in ours
    assert b"a=setup:actpass" in ours
    agreed = description.accept(dtls(setup="active"))
    assert agreed.continues(held)


def test_a_new_dtls_association_has_a_new_name_and_a_new_role() -> None:
    description = describe(dtls("a=tls-id:first", setup="actpass"))
    (name,) = re.findall(rb"a=tls-id:(\S+)", description.local())
    same, _ = description.reanswer(dtls("a=tls-id:first", port=41000))
    assert re.findall(rb"a=tls-id:(\S+)", same) == [name]
    other, media = description.reanswer(dtls("a=tls-id:second", setup="active"))
    assert re.findall(rb"a=tls-id:(\S+)", other) != [name]
    assert media is not None
    assert media.security == Dtls((THEIRS,), active=False, tls_id="second")


def test_rtcp_stays_on_the_port_of_rtp_in_an_offer_of_ours() -> None:
    description = describe(offer("a=rtcp-mux"))
    ours, _ = description.reanswer(None)
    assert b"a=rtcp-mux" in ours
    assert description.accept(offer("a=rtcp-mux")).rtcp_mux
