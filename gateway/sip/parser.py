"""
Bytes to messages (RFC 3261, sections 7 and 25; judged by RFC 4475).

Strict where a wrong reading would join or split transactions (start line, Via, From, To,
Call-ID, CSeq, Content-Length, a request's Contact), lenient with everything else: a broken
header that nobody needs never fails a call (RFC 3261, section 8.2.2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gateway.sip.errors import SipError
from gateway.sip.fields import CSeq, Via
from gateway.sip.message import Headers, Request, Response, canonical, is_header_name
from gateway.sip.text import is_token, split_outside
from gateway.sip.uri import NameAddr, SipUri, Uri, scheme_of

_HEAD_END = re.compile(rb"\r?\n\r?\n")
_REQUEST_LINE = re.compile(r"([A-Za-z0-9\-.!%*_+`'~]+) ([^\s<>]+) SIP/([0-9]+\.[0-9]+)", re.IGNORECASE)
_STATUS_LINE = re.compile(r"SIP/2\.0 ([1-6][0-9]{2})(?: (.*))?", re.IGNORECASE)
_SINGLE: Final = ("From", "To", "Call-ID", "CSeq", "Content-Length", "Content-Type", "Max-Forwards")
_MANDATORY: Final = frozenset(_SINGLE[:4])
_CONTACT_MATTERS: Final = frozenset({"INVITE", "UPDATE", "REGISTER"})
_ECHOED: Final = frozenset({"via", "from", "to", "call-id", "cseq"})


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps of one message; real INVITEs stay far below (RFC 4475's longest has 3.5 kB)."""

    max_headers: int = 256
    max_head: int = 65_536
    """Octets of start line and headers."""
    max_body: int = 1_048_576


DEFAULT_LIMITS: Final = Limits()


class ParseError(SipError):
    """
    A message that cannot be read.

    :attr:`status` is the answer that RFC 3261 asks for. :attr:`answerable` says whether one can be
    sent at all: the message was a request other than ACK with a Via that tells where to answer;
    :attr:`headers` then holds the Via, From, To, Call-ID and CSeq lines to echo, as far as present.
    """

    def __init__(
        self, why: str, *, status: int = 400, method: str = "", headers: Headers | None = None
    ) -> None:
        super().__init__(why)
        self.why = why
        self.status = status
        self.method = method
        self.headers = headers if headers is not None else Headers()

    @property
    def answerable(self) -> bool:
        return self.method not in {"", "ACK"} and salvage_via(self.headers) is not None


def salvage_via(headers: Headers) -> Via | None:
    """Read as much of the top Via as an answer needs, though its parameters may be broken."""
    line = headers.get("Via")
    if line is None:
        return None
    try:
        return Via.parse(split_outside(line, ",")[0])
    except ValueError:
        pass
    try:
        return Via.parse(line.partition(";")[0].partition(",")[0])
    except ValueError:
        return None


def parse_message(
    data: bytes, *, stream: bool = False, limits: Limits = DEFAULT_LIMITS
) -> Request | Response:
    """
    Read one message.

    Args:
        data: A datagram, or one message as framed by :class:`gateway.sip.stream.StreamFramer`.
        stream: Whether it came over TCP, where a request without Content-Length has no end.
        limits: What is refused with 513, or with 413 for the body.

    Raises:
        ParseError: for everything that is not a message; nothing else is ever raised.
    """
    data = data.lstrip(b"\r\n")
    found = _HEAD_END.search(data)
    head, body = (data[: found.start()], data[found.end() :]) if found else (data, b"")
    try:
        return _read(head, body, stream=stream, limits=limits)
    except ParseError as error:
        raise _fault(head, error.why, error.status, limits) from error
    except ValueError as error:
        raise _fault(head, str(error), 400, limits) from error


def _read(head: bytes, body: bytes, *, stream: bool, limits: Limits) -> Request | Response:
    if len(head) > limits.max_head:
        raise ParseError("the headers are too long", status=513)
    lines = _lines(head)
    start = lines[0]
    if start[:4].upper() == "SIP/":
        match = _STATUS_LINE.fullmatch(start)
        if match is None:
            raise ParseError("not a status line")
        headers = read_headers(lines[1:], limits)
        cut = _cut_body(headers, body, stream=stream, limits=limits)
        _check_headers(headers)
        return Response(headers, cut, int(match[1]), match[2] or "")
    match = _REQUEST_LINE.fullmatch(start)
    if match is None:
        raise ParseError("not a request line")
    method, uri, version = match.groups()
    if version != "2.0":
        raise ParseError(f"SIP version {version}", status=505)
    headers = read_headers(lines[1:], limits)
    if scheme_of(uri) in {"sip", "sips"}:
        SipUri.parse(uri)
    _check_headers(headers)
    if CSeq.parse(headers.get("CSeq") or "").method != method:
        raise ParseError("the method of CSeq is not that of the request")
    if method in _CONTACT_MATTERS and headers.get("Contact") != "*":
        for contact in headers.elements("Contact"):
            NameAddr.parse(contact)
    return Request(headers, _cut_body(headers, body, stream=stream, limits=limits), method, Uri(uri))


def _lines(head: bytes) -> list[str]:
    """Decode and split; a line may end in LF alone, but no other CR may be left inside."""
    lines = [line.removesuffix("\r") for line in head.decode("utf-8", "surrogateescape").split("\n")]
    if any("\r" in line for line in lines):
        raise ParseError("a CR inside a line")
    return lines


def read_headers(lines: list[str], limits: Limits) -> Headers:
    unfolded: list[str] = []
    for line in lines:
        if line[:1] in {" ", "\t"}:
            if not unfolded:
                raise ParseError("the start line is folded")
            unfolded[-1] = f"{unfolded[-1].rstrip()} {line.strip()}"
        elif line:
            unfolded.append(line)
    if len(unfolded) > limits.max_headers:
        raise ParseError("too many headers", status=513)
    headers = Headers()
    for line in unfolded:
        name, colon, value = line.partition(":")
        name = name.rstrip(" \t")
        # What is no header line is skipped: if it was one that matters, it will be missed below.
        if colon and is_header_name(name):
            headers.add(name, value.strip(" \t"))
    return headers


def _check_headers(headers: Headers) -> None:
    """Check what identifies the transaction and the dialog; raise ``ValueError``."""
    for name in _SINGLE:
        count = len(headers.get_all(name))
        if count > 1:
            raise ParseError(f"{name} stands more than once")
        if not count and name in _MANDATORY:
            raise ParseError(f"{name} is missing")
    vias = headers.get_all("Via")
    if not vias:
        raise ParseError("Via is missing")
    hops = split_outside(vias[0], ",")
    if "" in hops:
        raise ParseError("an empty element in Via")
    Via.parse(hops[0])
    NameAddr.parse(headers.get("From") or "")
    NameAddr.parse(headers.get("To") or "")
    CSeq.parse(headers.get("CSeq") or "")
    call_id = headers.get("Call-ID") or ""
    if not call_id or " " in call_id or "\t" in call_id:
        raise ParseError("not a Call-ID")


def _cut_body(headers: Headers, body: bytes, *, stream: bool, limits: Limits) -> bytes:
    """Apply Content-Length (RFC 3261, sections 18.3 and 20.14)."""
    text = headers.get("Content-Length")
    if text is None:
        if stream:
            raise ParseError("Content-Length is missing on a stream")
        length = len(body)
    else:
        if not (text.isascii() and text.isdigit()) or len(text) > 10:
            raise ParseError("not a Content-Length")
        length = int(text)
    if length > limits.max_body:
        raise ParseError("the body is too long", status=413)
    if length > len(body):
        raise ParseError("the body is shorter than Content-Length")
    return body[:length]


def _fault(head: bytes, why: str, status: int, limits: Limits) -> ParseError:
    """Salvage what an answer needs from a message that could not be read."""
    text = head[: limits.max_head].decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", " ")
    lines = text.split("\n")
    method = lines[0].split(" ", 1)[0]
    if not is_token(method) or lines[0][:4].upper() == "SIP/" or "SIP/" not in lines[0].upper():
        return ParseError(why, status=status)
    while lines[1:2] and lines[1][:1] in {" ", "\t"}:
        del lines[1]
    echoed = Headers()
    try:
        headers = read_headers(lines[1 : 4 * limits.max_headers], Limits(max_headers=4 * limits.max_headers))
    except ValueError:
        headers = Headers()
    for name, value in headers:
        if canonical(name).lower() in _ECHOED and len(echoed) < limits.max_headers:
            echoed.add(name, value)
    return ParseError(why, status=status, method=method, headers=echoed)
