"""
Bodies: find the session description (RFC 3261, 8.2.3; RFC 5621), read a message/sipfrag (RFC 3420).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gateway.sip.errors import SipError
from gateway.sip.message import Headers
from gateway.sip.parser import Limits, read_headers
from gateway.sip.text import Params, param, parse_params, unquote

SDP_TYPE = "application/sdp"
MAX_PARTS = 32
"""Parts of a multipart body that are looked at."""

_PART_LIMITS = Limits(max_headers=32)
_FRAG_STATUS = re.compile(r"SIP/2\.0 ([1-6][0-9]{2})(?: ([^\r\n]*))?", re.IGNORECASE)


class UnsupportedBody(SipError):
    """A body that must be understood and is not: 415 (RFC 3261, section 8.2.3)."""


@dataclass(frozen=True, slots=True)
class _Part:
    media_type: str
    params: Params
    optional: bool
    """``Content-Disposition: …;handling=optional``."""
    encoded: bool
    body: bytes


def find_sdp(headers: Headers, body: bytes) -> bytes | None:
    """
    Return the session description of a message, ``None`` when it has none.

    Looks into multipart bodies (the first SDP part wins; its place does not matter) and skips
    parts that the sender marked optional. Bytes are never decoded here.

    Raises:
        UnsupportedBody: something else than SDP that is not optional.
    """
    if not body.strip(b"\r\n"):
        return None
    found: list[bytes] = []
    _collect(_part(headers, body), found, depth=0)
    return found[0] if found else None


def _collect(part: _Part, found: list[bytes], depth: int) -> None:
    if part.encoded and not part.optional:
        raise UnsupportedBody("the body is encoded")
    if part.media_type == SDP_TYPE:
        found.append(part.body)
    elif part.media_type.startswith("multipart/") and depth < 3:
        parts = _split_multipart(part)
        if part.media_type == "multipart/alternative":
            # The same thing in several forms, best last (RFC 2046, 5.1.4): one that we know is enough.
            parts = [each for each in parts if each.media_type == SDP_TYPE] or parts
        # In multipart/related and the like only the root must be understood; the other parts belong to
        # headers that refer to them and may be of any kind (RFC 5621, section 9.2).
        for each in parts:
            if each.media_type == SDP_TYPE or part.media_type != "multipart/related":
                _collect(each, found, depth + 1)
    elif not part.optional:
        raise UnsupportedBody(f"cannot read {part.media_type or 'a body without a type'}")


def _part(headers: Headers, body: bytes) -> _Part:
    media, _, params = (headers.get("Content-Type") or "").partition(";")
    _, _, disposition = (headers.get("Content-Disposition") or "").partition(";")
    encoding = (headers.get("Content-Encoding") or "identity").lower()
    media = re.sub(r"\s", "", media).lower()
    if not media and body.lstrip(b"\r\n").startswith(b"v=0"):
        media = SDP_TYPE  # old devices forget the type; nothing else begins like this
    return _Part(
        media_type=media,
        params=_params(params),
        optional=(param(_params(disposition), "handling") or "").lower() == "optional",
        encoded=encoding != "identity",
        body=body,
    )


def _params(text: str) -> Params:
    try:
        return parse_params(text)
    except ValueError:
        return ()


def _split_multipart(part: _Part) -> list[_Part]:
    boundary = unquote(param(part.params, "boundary") or "").encode("utf-8", "surrogateescape")
    if not boundary or len(boundary) > 70:
        raise UnsupportedBody("a multipart body without a boundary")
    # A delimiter stands at the start of a line; what is before the first is the preamble (RFC 2046, 5.1.1).
    pieces = (b"\r\n" + part.body).split(b"\r\n--" + boundary)
    parts: list[_Part] = []
    for piece in pieces[1 : MAX_PARTS + 1]:
        if piece.startswith(b"--"):
            break
        head, _, content = piece.partition(b"\r\n\r\n")
        lines = head.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", " ").split("\n")
        try:
            headers = read_headers(lines[1:], _PART_LIMITS)
        except ValueError as error:
            raise UnsupportedBody("a part with malformed headers") from error
        parts.append(_part(headers, content))
    return parts


def sipfrag_status(body: bytes) -> tuple[int, str] | None:
    """Return status and reason of a message/sipfrag that begins with a status line, else ``None``."""
    text = body.lstrip(b"\r\n").decode("utf-8", "surrogateescape")
    match = _FRAG_STATUS.match(text)
    return None if match is None else (int(match[1]), (match[2] or "").strip())
