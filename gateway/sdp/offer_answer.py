"""
The offer/answer model for one telephone call (RFC 3264): one G.711 stream with telephone-events.

Refused lines stay in the answer with port 0, so that the number of m-lines never changes. What was agreed
comes out as :class:`NegotiatedMedia`, always seen from our side.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal, TypeAlias

from gateway.sdp.description import Codec, Direction, Media, SessionDescription

CodecName: TypeAlias = Literal["PCMU", "PCMA"]

PTIME_MS = 20
"""What we send (RFC 3551 table 1 default for G.711)."""

_STATIC_NUMBERS: dict[CodecName, int] = {"PCMU": 0, "PCMA": 8}
_OFFERED_EVENTS = 101
_PLAIN_PROFILES = {"RTP/AVP", "RTP/AVPF"}


class NotAcceptable(Exception):
    """No call is possible with this description: 488, with the message in the Warning header."""


@dataclass(frozen=True, slots=True)
class Local:
    """Our side of one description."""

    host: str
    """The address that we advertise; its family is the call's."""
    port: int
    """RTP; RTCP is one above."""
    codecs: tuple[str, ...]
    """``PCMU`` and ``PCMA`` in the trunk's order of preference."""
    session_id: int
    version: int
    """One higher for each changed description of the same session."""


@dataclass(frozen=True, slots=True)
class NegotiatedMedia:
    """What both sides agreed on."""

    codec: CodecName
    payload_type: int
    dtmf_payload_type: int | None
    """The peer's number for telephone-events of 8000 Hz, ``None`` when it has none."""
    remote: tuple[str, int]
    remote_rtcp: tuple[str, int]
    sends: bool
    """Whether we may send; false while the peer holds the call."""
    receives: bool
    ptime_ms: int
    """Length of the packets that we send."""


def answer(offer: SessionDescription, local: Local) -> tuple[bytes, NegotiatedMedia]:
    """
    Answer an offer: the first audio line that we can serve, every other line refused.

    Raises:
        NotAcceptable: No audio line can be served; the message names the reason.
    """
    index, agreed, events = _choose(offer, local)
    theirs = offer.media[index]
    direction = Direction.of(sends=agreed.sends, receives=agreed.receives)
    lines = _head(local)
    for number, media in enumerate(offer.media):
        if number == index:
            formats = [(agreed.payload_type, agreed.codec)]
            lines += _audio_lines(local, theirs.protocol, formats, events, direction, agreed.ptime_ms)
        else:
            formats_text = " ".join(media.formats) or "0"
            lines.append(f"m={media.kind} 0 {media.protocol} {formats_text}")
    return _write(lines), agreed


def make_offer(local: Local) -> bytes:
    """Offer our codecs and telephone-events, for an INVITE that came without a description."""
    formats = [(_STATIC_NUMBERS[name], name) for name in _ours(local)]
    events = Codec(_OFFERED_EVENTS, "TELEPHONE-EVENT", 8000, fmtp="0-15")
    lines = _head(local) + _audio_lines(local, "RTP/AVP", formats, events, Direction.SENDRECV, PTIME_MS)
    return _write(lines)


def accept(answer: SessionDescription, local: Local) -> NegotiatedMedia:
    """
    Read the answer to :func:`make_offer`.

    Raises:
        NotAcceptable: The peer took none of our codecs or gave no usable address.
    """
    _, agreed, _ = _choose(answer, local, theirs_first=True)
    return agreed


# Choosing.


def _choose(
    description: SessionDescription, local: Local, *, theirs_first: bool = False
) -> tuple[int, NegotiatedMedia, Codec | None]:
    reasons: list[str] = []
    for index, media in enumerate(description.media):
        if media.kind != "audio":
            continue
        try:
            agreed, events = _agree(media, local, theirs_first=theirs_first)
        except NotAcceptable as reason:
            reasons.append(str(reason))
        else:
            return index, agreed, events
    raise NotAcceptable("; ".join(dict.fromkeys(reasons)) or "no audio line")


def _agree(media: Media, local: Local, *, theirs_first: bool) -> tuple[NegotiatedMedia, Codec | None]:
    if not media.port:
        raise NotAcceptable("audio line has port 0")
    if media.protocol.upper() not in _PLAIN_PROFILES:
        srtp = "SAVP" in media.protocol.upper()
        raise NotAcceptable(
            f"{media.protocol} is not supported" + (": SRTP is not available" if srtp else "")
        )
    name, codec = _codec(media, _ours(local), theirs_first=theirs_first)
    address = _address(media.host, local)
    rtcp_port, rtcp_host = media.rtcp or (min(media.port + 1, 65_535), None)
    rtcp_address = _address(rtcp_host, local) if rtcp_host else address
    # c=0.0.0.0 is the hold of RFC 2543: nothing may be sent there (RFC 3264 section 8.4).
    unreachable = address.is_unspecified
    events = _events(media, codec)
    agreed = NegotiatedMedia(
        codec=name,
        payload_type=codec.payload_type,
        dtmf_payload_type=events.payload_type if events else None,
        remote=(str(address), media.port),
        remote_rtcp=(str(rtcp_address), rtcp_port),
        sends=media.direction.receives and not unreachable,
        receives=media.direction.sends,
        ptime_ms=_ptime(media),
    )
    return agreed, events


def _ours(local: Local) -> list[CodecName]:
    return [name for wanted in local.codecs for name in _STATIC_NUMBERS if name == wanted.upper()]


def _codec(media: Media, ours: list[CodecName], *, theirs_first: bool) -> tuple[CodecName, Codec]:
    offered = [
        (name, codec)
        for codec in media.codecs
        for name in ours
        if codec.name == name and codec.clock_rate == 8000 and codec.channels == 1
    ]
    if not offered:
        raise NotAcceptable(f"no common audio codec; we have {', '.join(ours)}")
    return offered[0] if theirs_first else min(offered, key=lambda pair: ours.index(pair[0]))


def _events(media: Media, codec: Codec) -> Codec | None:
    """Find the telephone-events whose clock is the codec's (RFC 4733 section 2.1)."""
    return next(
        (
            candidate
            for candidate in media.codecs
            if candidate.name == "TELEPHONE-EVENT" and candidate.clock_rate == codec.clock_rate
        ),
        None,
    )


def _ptime(media: Media) -> int:
    return PTIME_MS if media.maxptime_ms is None or media.maxptime_ms >= PTIME_MS else PTIME_MS // 2


def _address(host: str | None, local: Local) -> IPv4Address | IPv6Address:
    if host is None:
        raise NotAcceptable("audio line has no usable c= line")
    try:
        address = ip_address(host)
    except ValueError:
        raise NotAcceptable(f"c= line must hold an IP address, not {host[:60]!r}") from None
    if address.version != ip_address(local.host).version:
        raise NotAcceptable(f"IPv{address.version} media is not enabled here")
    if address.is_multicast:
        raise NotAcceptable("multicast media is not supported")
    return address


# Writing.


def _head(local: Local) -> list[str]:
    family = f"IP{ip_address(local.host).version}"
    return [
        "v=0",
        f"o=trunkline {local.session_id} {local.version} IN {family} {local.host}",
        "s=-",
        f"c=IN {family} {local.host}",
        "t=0 0",
    ]


def _audio_lines(
    local: Local,
    protocol: str,
    formats: list[tuple[int, CodecName]],
    events: Codec | None,
    direction: Direction,
    ptime_ms: int,
) -> list[str]:
    numbers = [str(number) for number, _ in formats]
    maps = [f"a=rtpmap:{number} {name}/8000" for number, name in formats]
    if events is not None:
        number = events.payload_type
        numbers.append(str(number))
        maps += [f"a=rtpmap:{number} telephone-event/{events.clock_rate}", f"a=fmtp:{number} 0-15"]
    return [
        f"m=audio {local.port} {protocol} {' '.join(numbers)}",
        *maps,
        f"a=ptime:{ptime_ms}",
        f"a={direction.value}",
    ]


def _write(lines: list[str]) -> bytes:
    return "".join(f"{line}\r\n" for line in lines).encode("utf-8", "surrogateescape")
