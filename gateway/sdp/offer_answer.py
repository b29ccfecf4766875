"""
The offer/answer model for one telephone call (RFC 3264): one G.711 stream with telephone-events.

Refused lines stay in the answer with port 0, so that the number of m-lines never changes. What was agreed
comes out as :class:`NegotiatedMedia`, always seen from our side.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from gateway.sdp import security
from gateway.sdp.description import Codec, Direction, Media, SessionDescription
from gateway.sdp.ice import Ice, ice_lines
from gateway.sdp.local import CodecName, Dtls, Local, NegotiatedMedia, NotAcceptable, Sdes

PTIME_MS = 20
"""What we send (RFC 3551 table 1 default for G.711)."""

_STATIC_NUMBERS: dict[CodecName, int] = {"PCMU": 0, "PCMA": 8}
_OFFERED_EVENTS = 101
_COMFORT_NOISE = 13


@dataclass(frozen=True, slots=True)
class _Served:
    """A line of the peer's that we can serve."""

    index: int
    agreed: NegotiatedMedia
    events: Codec | None
    comfort_noise: bool


def answer(offer: SessionDescription, local: Local) -> tuple[bytes, NegotiatedMedia]:
    """
    Answer an offer: one audio line that we can serve, every other line refused.

    Of several, the first that is protected by SRTP is taken, else the first.

    Raises:
        NotAcceptable: No audio line can be served; the message names the reason.
    """
    served = _choose(offer, local)
    agreed = served.agreed
    lines = _head(local, ice=agreed.ice is not None)
    for index, media in enumerate(offer.media):
        if index == served.index:
            lines += _audio_lines(
                local,
                media.protocol,
                _maps([(agreed.payload_type, agreed.codec)], served.events, noise=served.comfort_noise),
                Direction.of(sends=agreed.sends, receives=agreed.receives),
                agreed.ptime_ms,
            )
            lines += security.answer_lines(agreed.security, media, local.security)
            lines += ["a=rtcp-mux"] * agreed.rtcp_mux + [f"a=mid:{media.mid}"] * bool(media.mid)
            lines += _ice_lines(local, mux=agreed.rtcp_mux) if agreed.ice else []
        else:
            lines.append(f"m={media.kind} 0 {media.protocol} {' '.join(media.formats) or '0'}")
    return _write(lines), agreed


def make_offer(local: Local) -> bytes:
    """Offer our codecs and telephone-events, protected as ``local.security`` says."""
    formats = [(_STATIC_NUMBERS[name], name) for name in _ours(local)]
    events = Codec(_OFFERED_EVENTS, "TELEPHONE-EVENT", 8000, fmtp="0-15")
    lines = _head(local, ice=local.ice)
    lines += _audio_lines(
        local, security.profile_of(local), _maps(formats, events), Direction.SENDRECV, PTIME_MS
    )
    lines += security.offer_lines(local.security) + ["a=rtcp-mux"] * local.rtcp_mux
    lines += _ice_lines(local, mux=local.rtcp_mux) if local.ice else []
    return _write(lines)


def accept(answer: SessionDescription, local: Local) -> NegotiatedMedia:
    """
    Read the answer to :func:`make_offer`, made of the same ``local``.

    Raises:
        NotAcceptable: The peer took none of our codecs or keys, or gave no usable address.
    """
    return _choose(answer, local, answers=True).agreed


# Choosing.


def _choose(description: SessionDescription, local: Local, *, answers: bool = False) -> _Served:
    served: list[_Served] = []
    reasons: list[str] = []
    for index, media in enumerate(description.media):
        if media.kind != "audio":
            continue
        try:
            served.append(_serve(index, media, local, answers=answers))
        except NotAcceptable as reason:
            reasons.append(str(reason))
    if not served:
        raise NotAcceptable("; ".join(dict.fromkeys(reasons)) or "no audio line")
    return next((each for each in served if each.agreed.security), served[0])


def _serve(index: int, media: Media, local: Local, *, answers: bool) -> _Served:
    if not media.port:
        raise NotAcceptable("audio line has port 0")
    if media.ports > 1:
        raise NotAcceptable(f"audio line wants {media.ports} streams")
    protection = security.accept(media, local) if answers else security.agree(media, local.security)
    name, codec = _codec(media, _ours(local), theirs_first=answers)
    events = _events(media, codec)
    mux = media.rtcp_mux and (local.rtcp_mux or not answers)
    ice = _ice(media, local, protection) if local.ice or not answers else None
    # With ICE a description is written before its address is known (RFC 8840 section 4.1.1).
    address = _nowhere(local) if ice else _address(media.host, local)
    # c=0.0.0.0 is the hold of RFC 2543: nothing may be sent there (RFC 3264 section 8.4).
    unreachable = address.is_unspecified and not ice
    agreed = NegotiatedMedia(
        codec=name,
        payload_type=codec.payload_type,
        dtmf_payload_type=events.payload_type if events else None,
        own_dtmf_payload_type=_OFFERED_EVENTS if events and answers else None,
        remote=(str(address), media.port),
        remote_rtcp=(str(address), media.port) if mux or ice else _rtcp(media, address, local),
        sends=media.direction.receives and not unreachable,
        receives=media.direction.sends,
        ptime_ms=_ptime(media),
        security=protection,
        rtcp_mux=mux,
        profile=media.protocol,
        ice=ice,
    )
    noise = any(each.payload_type == _COMFORT_NOISE and each.name == "CN" for each in media.codecs)
    return _Served(index, agreed, events, noise)


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
    """Choose the length of our packets: shorter ones where the peer asks for them or can take no others."""
    wanted = min(media.ptime_ms or PTIME_MS, media.maxptime_ms or PTIME_MS)
    return PTIME_MS if wanted >= PTIME_MS else PTIME_MS // 2


def _rtcp(media: Media, address: IPv4Address | IPv6Address, local: Local) -> tuple[str, int]:
    port, host = media.rtcp or (min(media.port + 1, 65_535), None)
    return str(_address(host, local) if host else address), port


def _ice(media: Media, local: Local, protection: Sdes | Dtls | None) -> Ice | None:
    """Agree on ICE where there is DTLS: its peers expect it, and others do without."""
    if media.ice is None or local.security.ice is None or not isinstance(protection, Dtls):
        return None
    return Ice(local.security.ice, media.ice)


def _ice_lines(local: Local, *, mux: bool) -> list[str]:
    assert local.security.ice is not None
    return ice_lines(local.security.ice, local.host, [local.port] if mux else [local.port, local.port + 1])


def _nowhere(local: Local) -> IPv4Address | IPv6Address:
    return IPv4Address(0) if ip_address(local.host).version == 4 else IPv6Address(0)


def _address(host: str | None, local: Local) -> IPv4Address | IPv6Address:
    if host is None:
        raise NotAcceptable("audio line has no usable c= line")
    version = ip_address(local.host).version
    if host.lower().endswith(".invalid"):  # the hold of those that have no 0.0.0.0 (RFC 6157 section 3.1)
        return _nowhere(local)
    try:
        address = ip_address(host)
    except ValueError:
        raise NotAcceptable(f"c= line must hold an IP address, not {host[:60]!r}") from None
    if address.version != version:
        raise NotAcceptable(f"IPv{address.version} media is not enabled here")
    # IPv4's last sixteenth is reserved, but for the broadcast address at its end.
    if address.is_multicast or (address.version == 4 and address.is_reserved):
        raise NotAcceptable("media for many (multicast, broadcast) is not supported")
    return address


# Writing.


def _head(local: Local, *, ice: bool) -> list[str]:
    family = f"IP{ip_address(local.host).version}"
    return [
        "v=0",
        f"o=trunkline {local.session_id} {local.version} IN {family} {local.host}",
        "s=-",
        f"c=IN {family} {local.host}",
        "t=0 0",
        *["a=ice-lite"] * ice,
    ]


def _maps(
    formats: list[tuple[int, CodecName]], events: Codec | None, *, noise: bool = False
) -> list[tuple[int, list[str]]]:
    """List the payload numbers and the attributes of each."""
    maps = [(number, [f"a=rtpmap:{number} {name}/8000"]) for number, name in formats]
    if noise:
        maps.append((_COMFORT_NOISE, [f"a=rtpmap:{_COMFORT_NOISE} CN/8000"]))
    if events is not None:
        number = events.payload_type
        maps.append(
            (number, [f"a=rtpmap:{number} telephone-event/{events.clock_rate}", f"a=fmtp:{number} 0-15"])
        )
    return maps


def _audio_lines(
    local: Local, protocol: str, maps: list[tuple[int, list[str]]], direction: Direction, ptime_ms: int
) -> list[str]:
    return [
        f"m=audio {local.port} {protocol} {' '.join(str(number) for number, _ in maps)}",
        *(line for _, lines in maps for line in lines),
        f"a=ptime:{ptime_ms}",
        f"a={direction.value}",
    ]


def _write(lines: list[str]) -> bytes:
    return "".join(f"{line}\r\n" for line in lines).encode("utf-8", "surrogateescape")
