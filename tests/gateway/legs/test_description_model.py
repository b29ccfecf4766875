"""Offer and answer as a game of two: after every exchange both sides must mean the same."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.legs.description import CallDescription
from gateway.sdp import (
    Dtls,
    Fingerprint,
    Local,
    LocalSecurity,
    NegotiatedMedia,
    NotAcceptable,
    Protection,
    Sdes,
    SdpError,
    SrtpPolicy,
    draw_crypto,
    make_offer,
    parse,
)

OURS, THEIRS = Fingerprint("sha-256", bytes(32)), Fingerprint("sha-256", bytes([1]) * 32)


def version(text: bytes) -> int:
    return int(text.split(b"o=trunkline ")[1].split()[1])


def origin_cut(text: bytes) -> bytes:
    return re.sub(rb"o=[^\r\n]*", b"", text)


class Exchanges(RuleBasedStateMachine):
    """We are ``ours``; the peer is a description of the same kind that began the call."""

    @initialize(
        offers=st.sampled_from(Protection),
        policy=st.sampled_from([SrtpPolicy.OPTIONAL, SrtpPolicy.REQUIRED]),
        profile=st.sampled_from(["", "AVP", "SAVPF"]),
        mux=st.booleans(),
    )
    def call(self, offers: Protection, policy: SrtpPolicy, profile: str, mux: bool) -> None:
        if offers is Protection.NONE:
            policy, profile = SrtpPolicy.OPTIONAL, ""
        if offers is Protection.DTLS and profile:
            profile = "UDP/TLS/RTP/SAVPF"
        elif profile:
            profile = f"RTP/{profile}"
        local = Local("198.51.100.1", 30_000, ("PCMA", "PCMU"), 5, 1, self._security(offers), profile, mux)
        self.theirs = CallDescription(local, make_offer(local), None)
        self.ours = CallDescription.for_offer(
            self.theirs.local(),
            host="192.0.2.10",
            port=20_000,
            codecs=("PCMU", "PCMA"),
            srtp=policy,
            fingerprint=OURS,
        )
        self.theirs.accept(self.ours.local())
        self.said = {True: self.ours.local(), False: self.theirs.local()}

    def _security(self, offers: Protection) -> LocalSecurity:
        return LocalSecurity(
            crypto=draw_crypto(secrets.token_bytes),
            fingerprint=THEIRS,
            tls_id="" if secrets.randbelow(2) else secrets.token_hex(8),
            offers=offers,
        )

    def _exchange(
        self,
        offerer: CallDescription,
        answerer: CallDescription,
        change: Callable[[bytes], bytes] = lambda text: text,
    ) -> None:
        before = self.ours.media, self.theirs.media
        offer, media = offerer.reanswer(None)
        assert media is None
        answer, agreed = answerer.reanswer(change(offer))
        assert agreed is not None
        accepted = offerer.accept(answer)
        assert len(parse(answer).media) == len(parse(offer).media) == 1
        for description, text in ((offerer, offer), (answerer, answer)):
            old = self.said[description is self.ours]
            same = origin_cut(text) == origin_cut(old)
            assert version(text) == version(old) + (not same)
            self.said[description is self.ours] = text
        now = (accepted, agreed) if offerer is self.ours else (agreed, accepted)
        kept = [after.continues(earlier) for after, earlier in zip(now, before, strict=True)]
        assert kept[0] is kept[1], "one side keeps its keys and the other does not"

    @rule()
    def we_offer(self) -> None:
        self._exchange(self.ours, self.theirs)

    @rule()
    def they_offer(self) -> None:
        self._exchange(self.theirs, self.ours)

    @rule(direction=st.sampled_from([b"sendonly", b"inactive", b"recvonly"]))
    def they_hold(self, direction: bytes) -> None:
        self._exchange(self.theirs, self.ours, lambda text: text.replace(b"a=sendrecv", b"a=" + direction))
        media = self.ours.media
        assert media is not None
        assert media.sends is (direction == b"recvonly")
        assert media.receives is (direction == b"sendonly")
        self._exchange(self.theirs, self.ours)

    @precondition(lambda self: isinstance(self.theirs.media.security, Sdes))
    @rule()
    def they_draw_new_keys(self) -> None:
        first = self.ours.media
        local = self.theirs._local
        security = replace(local.security, crypto=draw_crypto(secrets.token_bytes))
        self.theirs._local = replace(local, security=security)
        self._exchange(self.theirs, self.ours)
        now = self.ours.media
        assert isinstance(first.security, Sdes)
        assert isinstance(now.security, Sdes)
        assert now.security.ours.key != first.security.ours.key
        assert now.security.theirs.key != first.security.theirs.key

    @rule(
        nonsense=st.sampled_from(
            [b"", b"v=0\r\n", b"v=0\r\no=- 1 1 IN IP4 1.2.3.4\r\nm=image 4000 udptl t38\r\n"]
        )
    )
    def they_talk_nonsense(self, nonsense: bytes) -> None:
        before = self.ours.local(), self.ours.media
        with pytest.raises((SdpError, NotAcceptable)):
            self.ours.reanswer(nonsense)
        assert (self.ours.local(), self.ours.media) == before

    @invariant()
    def both_mean_the_same(self) -> None:
        ours, theirs = self.ours.media, self.theirs.media
        assert isinstance(ours, NegotiatedMedia)
        assert isinstance(theirs, NegotiatedMedia)
        assert (ours.codec, ours.payload_type) == (theirs.codec, theirs.payload_type)
        assert (ours.rtcp_mux, ours.profile) == (theirs.rtcp_mux, theirs.profile)
        assert (ours.sends, ours.receives) == (theirs.receives, theirs.sends)
        match ours.security, theirs.security:
            case Sdes() as one, Sdes() as other:
                assert one.ours.key == other.theirs.key
                assert one.theirs.key == other.ours.key
                assert one.ours.suite is one.theirs.suite is other.ours.suite
            case Dtls() as one, Dtls() as other:
                assert one.active is not other.active
                assert (one.fingerprints, other.fingerprints) == ((THEIRS,), (OURS,))
            case one, other:
                assert one is other is None


Exchanges.TestCase.settings = settings(max_examples=60, stateful_step_count=12, deadline=None)
test_both_sides_agree_after_any_exchanges = Exchanges.TestCase
