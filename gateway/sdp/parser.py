"""
Reading session descriptions (RFC 8866), also from peers that bend the grammar.

Broken or unknown lines are skipped and counted as long as v=, o= and the m= lines are usable; what no
telephone ever writes and no grammar allows (NUL in a line, a payload number beyond 127) is refused. Sizes
have hard caps, because the body comes from the network.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from gateway.sdp.crypto import read_crypto
from gateway.sdp.description import Codec, Direction, Media, SdpError, SessionDescription
from gateway.sdp.fingerprint import read_fingerprints, read_setup
from gateway.sdp.ice import IceCredentials, read_ice

MAX_BYTES = 65_536
MAX_LINES = 1_024
MAX_MEDIA = 32
MAX_FORMATS = 64

STATIC_TYPES = {
    0: Codec(0, "PCMU", 8000),
    3: Codec(3, "GSM", 8000),
    4: Codec(4, "G723", 8000),
    5: Codec(5, "DVI4", 8000),
    8: Codec(8, "PCMA", 8000),
    9: Codec(9, "G722", 8000),
    10: Codec(10, "L16", 44100, 2),
    11: Codec(11, "L16", 44100),
    13: Codec(13, "CN", 8000),
    15: Codec(15, "G728", 8000),
    18: Codec(18, "G729", 8000),
}
"""RFC 3551 section 6; an explicit a=rtpmap wins over it."""

_TOKEN = re.compile(r"[!#$%&'*+\-./0-9A-Z^_`a-z{|}~]{1,255}")
_DIRECTIONS = {direction.value: direction for direction in Direction}


@dataclass(slots=True)
class _Section:
    """What is collected of the session, or of one m-line."""

    media_line: str = ""
    connection: str | None = None
    attributes: list[tuple[str, str]] = field(default_factory=list)

    def direction(self) -> Direction | None:
        found = (_DIRECTIONS[name.lower()] for name, _ in self.attributes if name.lower() in _DIRECTIONS)
        return next(found, None)

    def value(self, name: str) -> str | None:
        return next((value for key, value in self.attributes if key.lower() == name), None)

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.attributes if key.lower() == name]


def parse(data: bytes) -> SessionDescription:
    """
    Parse a session description.

    Args:
        data: The message body; lines may end in CRLF, LF or CR.

    Raises:
        SdpError: It is too large, or v=, o= or an m= line is missing or unusable.
    """
    if len(data) > MAX_BYTES:
        raise SdpError(f"session description is larger than {MAX_BYTES} bytes")
    # bytes.splitlines knows CR and LF only, as the grammar does; str.splitlines knows eight more.
    lines = [_text(line) for line in data.rstrip(b"\0").splitlines()]
    if len(lines) > MAX_LINES:
        raise SdpError(f"session description has more than {MAX_LINES} lines")
    session, media, heads, skipped = _collect(lines)
    if heads.get("v") != "0":
        raise SdpError("session description does not start with v=0")
    origin = heads.get("o", "").split()
    if len(origin) < 3:
        raise SdpError("session description has no usable o= line")
    if not media:
        raise SdpError("session description has no m= line")
    return SessionDescription(
        session_id=origin[1],
        session_version=origin[2],
        name=heads.get("s", ""),
        media=tuple(_media(section, session) for section in media),
        attributes=tuple(session.attributes),
        skipped=skipped,
    )


def _collect(lines: list[str]) -> tuple[_Section, list[_Section], dict[str, str], int]:
    """Sort the lines into sections; the dictionary holds the first v=, o= and s=."""
    session = current = _Section()
    media: list[_Section] = []
    heads: dict[str, str] = {}
    skipped = 0
    for line in lines:
        kind, equals, value = line.partition("=")
        kind, value = kind.strip(), value.strip()
        match kind:
            case _ if not equals:
                skipped += bool(line.strip())
            case "m":
                if len(media) >= MAX_MEDIA:
                    raise SdpError(f"session description has more than {MAX_MEDIA} m= lines")
                current = _Section(media_line=value)
                media.append(current)
            case "c":
                current.connection = current.connection or _host(value)
            case "a":
                name, _, argument = value.partition(":")
                current.attributes.append((name.strip(), argument.strip()))
            case "v" | "o" | "s":
                heads.setdefault(kind, value)
            case "t" if _number(value.partition(" ")[0], 2**63) is None:
                raise SdpError(f"t= holds no time: {value[:20]!r}")
            case "t" | "b" | "i" | "u" | "e" | "p" | "r" | "z" | "k":
                pass  # nothing that a telephone call needs
            case _:
                skipped += 1
    return session, media, heads, skipped


def _text(line: bytes) -> str:
    """Decode a line; a careless peer may end with NULs, but inside of a line nothing good comes of one."""
    if b"\0" in line and line.strip(b"\0 \t"):
        raise SdpError("a line holds NUL")
    return line.replace(b"\0", b"").decode("utf-8", "surrogateescape")


def _host(value: str) -> str | None:
    """Take the address of a c= value, without a multicast TTL; ``None`` if the value is broken."""
    parts = value.split()
    if len(parts) != 3 or parts[0].upper() != "IN" or parts[1].upper() not in {"IP4", "IP6"}:
        return None
    return parts[2].partition("/")[0]


def _media(section: _Section, session: _Section) -> Media:
    parts = section.media_line.split()
    if len(parts) < 3:
        raise SdpError(f"m= line is incomplete: {section.media_line[:80]!r}")
    kind, port, protocol, *formats = parts
    if len(formats) > MAX_FORMATS:
        raise SdpError(f"m= line has more than {MAX_FORMATS} formats")
    own = section.values("fingerprint")
    return Media(
        kind=kind.lower(),
        port=_port(port),
        ports=_number(port.partition("/")[2], 65_535) or 1,
        protocol=protocol,
        formats=tuple(formats),
        host=section.connection or session.connection,
        direction=section.direction() or session.direction() or Direction.SENDRECV,
        codecs=_codecs(section, formats) if "RTP/" in protocol.upper() else (),
        ptime_ms=_milliseconds(section.value("ptime")),
        maxptime_ms=_milliseconds(section.value("maxptime")),
        rtcp=_rtcp(section.value("rtcp")),
        rtcp_mux=section.value("rtcp-mux") is not None,
        mid=_token(section.value("mid")),
        crypto=read_crypto(section.values("crypto")),
        # RFC 8122 section 5 and RFC 4145 section 4.1: the line's own, else the session's.
        fingerprints=read_fingerprints(own or session.values("fingerprint")),
        setup=read_setup(section.value("setup") or session.value("setup")),
        tls_id=_token(section.value("tls-id") or session.value("tls-id")),
        ice=_ice(section, session),
        attributes=tuple(section.attributes),
    )


def _number(text: str, limit: int) -> int | None:
    """Read a decimal number of ASCII digits up to ``limit``."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 20):
        return None
    number = int(text)
    return number if number <= limit else None


def _port(text: str) -> int:
    port = _number(text.partition("/")[0], 65_535)
    if port is None:
        raise SdpError(f"m= line has no usable port: {text[:20]!r}")
    return port


def _codecs(section: _Section, formats: list[str]) -> tuple[Codec, ...]:
    maps: dict[int, Codec] = {}
    for value in section.values("rtpmap"):
        codec = _rtpmap(value)
        if codec is not None:
            maps.setdefault(codec.payload_type, codec)
    parameters: dict[str, str] = {}
    for value in section.values("fmtp"):
        text, _, argument = value.partition(" ")
        parameters.setdefault(text, argument.strip())
    found: dict[int, Codec] = {}
    for text in formats:
        number = _number(text, 127)
        codec = None if number is None else maps.get(number) or STATIC_TYPES.get(number)
        if codec is not None:
            found.setdefault(codec.payload_type, replace(codec, fmtp=parameters.get(text, "")))
    return tuple(found.values())


def _rtpmap(value: str) -> Codec | None:
    """Read ``101 telephone-event/8000``; ``None`` if its codec is broken."""
    text, _, encoding = value.partition(" ")
    parts = encoding.strip().split("/")
    payload_type = _number(text, 127)
    if payload_type is None:
        raise SdpError(f"a=rtpmap names no payload type: {value[:40]!r}")
    if len(parts) < 2 or not parts[0]:
        return None
    rate = _number(parts[1], 1_000_000)
    channels = _number(parts[2], 255) if len(parts) > 2 else 1
    if not rate or not channels:
        return None
    return Codec(payload_type, parts[0].upper(), rate, channels)


def _ice(section: _Section, session: _Section) -> IceCredentials | None:
    if session.value("ice-lite") is not None:
        return None
    whose = section if section.value("ice-ufrag") is not None else session
    return read_ice(whose.value("ice-ufrag"), whose.value("ice-pwd"))


def _token(value: str | None) -> str:
    """Take a name that is fit to be repeated in an answer; empty otherwise."""
    return value if value and _TOKEN.fullmatch(value) else ""


def _milliseconds(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value <= 1_000 else None


def _rtcp(value: str | None) -> tuple[int, str | None] | None:
    if not value:
        return None
    text, _, connection = value.partition(" ")
    port = _number(text, 65_535)
    return (port, _host(connection) if connection else None) if port else None
