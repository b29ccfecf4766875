"""
What stands between a call's sockets and its RTP session when the media is protected.

By SDES the keys are there from the beginning. By DTLS they come out of a handshake on the media ports
themselves, and until then nothing goes in or out; where the peer speaks ICE, its checks say where it is.
The owner looks in every 20 ms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeAlias

from gateway.net.dtls import DtlsHandshake, State, own_certificate
from gateway.net.ice import IceLite
from gateway.rtp.packet import is_rtcp
from gateway.rtp.source import is_unspecified
from gateway.rtp.srtp import Srtp
from gateway.sdp import Dtls, NegotiatedMedia, Sdes

Address = tuple[str, int]


class Channel(IntEnum):
    """Which of the two sockets."""

    RTP = 0
    RTCP = 1


@dataclass(frozen=True, slots=True)
class MediaFailed:
    """Peer and we did not come to keys: there will be no media, and the reason is a sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class PeerMoved:
    """The peer has found its way by ICE, or another one; :meth:`MediaGuard.located` knows where it is."""


GuardEvent: TypeAlias = MediaFailed | PeerMoved


class MediaGuard:
    """Encrypts, decrypts and shakes hands for one call."""

    def __init__(self) -> None:
        self.protection = ""
        """``sdes`` or ``dtls``, and the suite once it is known."""
        self._media: NegotiatedMedia | None = None
        self._srtp: Srtp | None = None
        self._srtcp: Srtp | None = None
        self._doors: list[_Door] = []
        self._ice: IceLite | None = None
        self._places: dict[Channel, Address] = {}
        self._answers: list[tuple[Channel, bytes, Address]] = []
        self._events: list[GuardEvent] = []
        self._failures = 0
        self._replays = 0

    @property
    def ready(self) -> bool:
        """Whether media may flow."""
        return self._srtp is not None

    @property
    def failures(self) -> int:
        """Packets that no key of the call opened."""
        return self._failures + sum(each.failures for each in self._contexts())

    @property
    def replays(self) -> int:
        """Packets that came twice, or far too late."""
        return self._replays + sum(each.replays for each in self._contexts())

    def configure(self, media: NegotiatedMedia, now: float) -> None:
        """Take what was agreed, first or anew; keys that were not changed go on with their counters."""
        before, self._media = self._media, media
        if media.ice is None:
            self._ice, self._places = None, {}
        elif self._ice is None or before is None or before.ice != media.ice:
            self._ice = IceLite(media.ice)
        match media.security:
            case Sdes(ours, theirs):
                self._doors = []
                if before is not None and isinstance(before.security, Sdes) and self._srtp is not None:
                    self._srtp.rekey(ours, theirs)
                else:
                    context = Srtp(ours, theirs)
                    self._use(context, context)
                self.protection = f"sdes {ours.suite}"
            case Dtls() if before is None or not media.continues(before) or not self._doors:
                self._shake(media, now)
            case _:
                pass  # the association goes on

    # Packets.

    def protect(self, packet: bytes) -> bytes:
        """Encrypt an RTP packet; returns nothing if it cannot be sent."""
        return b"" if self._srtp is None else self._srtp.protect(packet)

    def protect_rtcp(self, packet: bytes) -> bytes:
        """Encrypt an RTCP packet; returns nothing if it cannot be sent."""
        return b"" if self._srtcp is None else self._srtcp.protect_rtcp(packet)

    def open(self, data: bytes, source: Address, now: float, channel: Channel = Channel.RTP) -> bytes:
        """
        Take a datagram; returns the RTP or RTCP packet in it, or nothing.

        The kinds are told apart by the first byte (RFC 7983), RTCP from RTP by the second (RFC 5761).
        """
        first = data[0] if data else 0
        if first & 0xC0 == 0x80:
            context = self._srtp if channel is Channel.RTP else self._srtcp
            if context is None:
                return b""
            return context.unprotect_rtcp(data) if is_rtcp(data) else context.unprotect(data)
        if 20 <= first <= 63 and channel < len(self._doors):
            if self._ice is None or self._ice.knows(source):
                self._doors[channel].receive(data, source, now)
                self._look()
        elif first <= 3 and self._ice is not None:
            answer, nominates = self._ice.receive(data, source)
            if answer:
                self._answers.append((channel, answer, source))
            if nominates and self._places.get(channel) != source:
                self._move(channel, source)
        return b""

    # Where the peer is, and the handshake with it.

    def located(self, media: NegotiatedMedia) -> NegotiatedMedia:
        """Fill in the addresses that ICE has found; without ICE those of the description are good."""
        remote = self._places.get(Channel.RTP)
        if media.ice is None or remote is None:
            return media
        remote_rtcp = remote if media.rtcp_mux else self._places.get(Channel.RTCP, media.remote_rtcp)
        return replace(media, remote=remote, remote_rtcp=remote_rtcp)

    @property
    def peer(self) -> Address | None:
        """Where the peer's handshake came from; ``None`` where there was none."""
        return self._doors[0].peer if self._doors else None

    def tick(self, now: float) -> None:
        """Look at the clock; call it often."""
        for door in self._doors:
            if door.handshake.next_timeout() is not None:
                door.handshake.handle_timeout(now)
                self._look()

    @property
    def has_news(self) -> bool:
        """Whether :meth:`to_send` or :meth:`events` has something."""
        return bool(self._events or self._answers or any(door.handshake.has_output for door in self._doors))

    def to_send(self) -> list[tuple[Channel, bytes, Address]]:
        """Take the datagrams of handshake and ICE that are ready for the wire."""
        answers, self._answers = self._answers, []
        # What goes to nowhere, because ICE has not found the peer yet, is sent again by its timer.
        return answers + [
            (Channel(number), datagram, door.peer)
            for number, door in enumerate(self._doors)
            for datagram in door.handshake.to_send()
            if not is_unspecified(door.peer)
        ]

    def events(self) -> list[GuardEvent]:
        """Take what has happened."""
        ready, self._events = self._events, []
        return ready

    def _move(self, channel: Channel, place: Address) -> None:
        self._places[channel] = place
        if channel < len(self._doors):
            self._doors[channel].peer = place
        self._events.append(PeerMoved())

    def _shake(self, media: NegotiatedMedia, now: float) -> None:
        """Begin a handshake for each port (RFC 5764 section 4.2 has RTCP on its own port do its own)."""
        media = self.located(media)
        ports = [media.remote] if media.rtcp_mux else [media.remote, media.remote_rtcp]
        self._doors = [_Door(media, port, now) for port in ports]
        self.protection = "dtls"

    def _look(self) -> None:
        """Take what came of a handshake that is over."""
        for number, door in enumerate(self._doors):
            handshake = door.handshake
            if door.done or handshake.state is State.SHAKING:
                continue
            door.done = True
            if handshake.keys is not None:
                context, alone = Srtp(*handshake.keys), len(self._doors) == 1
                self._use(
                    context if number == Channel.RTP else self._srtp,
                    context if alone or number == Channel.RTCP else self._srtcp,
                )
                self.protection = f"dtls {handshake.keys[0].suite}"
            elif number == Channel.RTP and not self.ready:
                # Without RTCP a call is still a call; so is one whose peer keeps to its old association.
                self._events.append(MediaFailed(handshake.reason))

    def _use(self, srtp: Srtp | None, srtcp: Srtp | None) -> None:
        failures, replays = self.failures, self.replays
        self._srtp, self._srtcp = srtp, srtcp
        # What the contexts that are given up have counted stays counted.
        self._failures += failures - self.failures
        self._replays += replays - self.replays

    def _contexts(self) -> set[Srtp]:
        return {each for each in (self._srtp, self._srtcp) if each is not None}


class _Door:
    """One port's handshake, and where the peer really is."""

    def __init__(self, media: NegotiatedMedia, peer: Address, now: float) -> None:
        security = media.security
        assert isinstance(security, Dtls)
        self.peer = peer
        self.done = False
        self._signalled = peer
        self._locked = False
        self.handshake = DtlsHandshake(
            own_certificate(), active=security.active, fingerprints=security.fingerprints, now=now
        )

    def receive(self, data: bytes, source: Address, now: float) -> None:
        """
        Take a record from the address that was signalled, or else from the first that sends one.

        Who is behind it, the fingerprint tells; what comes from a third address cannot disturb.
        """
        if source != self.peer:
            if self._locked and source != self._signalled:
                return
            self.peer = source
        self._locked = True
        self.handshake.receive(data, now)
