"""Building responses (RFC 3261, section 8.2.6)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from gateway.sip.fields import Via
from gateway.sip.flow import Flow
from gateway.sip.message import REASONS, Headers, Request, Response
from gateway.sip.parser import ParseError, salvage_via
from gateway.sip.settings import UaSettings
from gateway.sip.text import split_outside
from gateway.sip.uri import join_host_port

ALLOW = "INVITE, ACK, BYE, CANCEL, OPTIONS, NOTIFY, REFER, INFO, UPDATE, PRACK"
"""What :mod:`gateway.sip.ua` serves, and nothing else."""
ACCEPT = "application/sdp, multipart/mixed, multipart/related, multipart/alternative, message/sipfrag"
EXTENSIONS: Final = ("timer", "100rel")
"""Option tags that we serve: RFC 4028 and 3262."""
ALLOWED_METHODS = frozenset(ALLOW.split(", "))


def contact_uri(settings: UaSettings, flow: Flow, user: str = "", *, scheme: str = "sip") -> str:
    """
    Return the URI by which the peer of ``flow`` reaches us.

    ``scheme`` is ``sips`` where the peer called a ``sips:`` URI (RFC 3261, section 12.1.1).
    """
    host = settings.public_host or flow.local[0]
    # RFC 7118, section 5: a WebSocket is "ws" in a URI, with TLS or without.
    transport = {"udp": "", "wss": ";transport=ws"}.get(flow.transport, f";transport={flow.transport}")
    if scheme == "sips" and flow.transport == "tls":
        transport = ""  # the scheme says it (RFC 5630, section 3.1.3)
    return f"{scheme}:{user}{'@' if user else ''}{join_host_port(host, flow.local[1])}{transport}"


class Responder:
    """Builds the responses of one user agent."""

    def __init__(self, settings: UaSettings) -> None:
        self._settings = settings

    def build(
        self,
        request: Request,
        status: int,
        *,
        tag: str = "",
        reason: str = "",
        contact: str = "",
        extra: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
    ) -> Response:
        """
        Build a response to ``request``.

        Args:
            request: Its Via, From, Call-ID and CSeq are copied as they are, its To with ``tag`` added.
            status: 100 to 699.
            tag: Our tag, for anything but 100; not added where the To has one already.
            reason: Instead of the standard phrase.
            contact: URI of a Contact header.
            extra: Further headers.
            body: A session description.
        """
        headers = _echo(request.headers, "" if request.to.tag else tag)
        if status == 100 and (timestamp := request.headers.get("Timestamp")) is not None:
            headers.add("Timestamp", timestamp)
        if contact:
            headers.add("Contact", f"<{contact}>")
        for name, value in extra:
            headers.add(name, value)
        if self._settings.user_agent:
            headers.add("Server", self._settings.user_agent)
        if body:
            headers.add("Content-Type", "application/sdp")
        return Response(headers, body, status, reason or REASONS.get(status, "Unknown"))

    def to_unreadable(self, error: ParseError, flow: Flow) -> Response | None:
        """
        Build the stateless answer to a message that could not be read, if one can be sent.

        The To tag is derived from the message, so that every retransmission gets the same one
        (RFC 3261, section 8.2.7).
        """
        via = salvage_via(error.headers)
        if not error.answerable or via is None:
            return None
        echoed = error.headers.copy()
        echoed.replace_first("Via", with_source(echoed, flow))
        seed = "\n".join(f"{name}:{value}" for name, value in error.headers)
        tag = hashlib.sha256(seed.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        to = echoed.get("To") or ""
        headers = _echo(echoed, "" if ";tag=" in to.replace(" ", "").lower() else tag)
        if self._settings.user_agent:
            headers.add("Server", self._settings.user_agent)
        return Response(headers, b"", error.status, REASONS.get(error.status, "Bad Request"))


def _echo(source: Headers, tag: str) -> Headers:
    headers = Headers()
    for value in source.get_all("Via"):
        headers.add("Via", value)
    for name in ("From", "To", "Call-ID", "CSeq"):
        value = source.get(name) or ""
        if value:
            headers.add(name, f"{value};tag={tag}" if tag and name == "To" else value)
    return headers


def with_source(headers: Headers, flow: Flow) -> str:
    """Return the first Via line with ``received`` and ``rport`` filled in from ``flow``."""
    line = headers.get("Via") or ""
    try:
        first, *rest = split_outside(line, ",")
        return ", ".join([str(Via.parse(first).seen_from(*flow.remote)), *rest])
    except ValueError:
        return line  # malformed: echoed as it came


def way_back(headers: Headers, flow: Flow) -> tuple[Flow, Flow | None]:
    """
    Return where responses go, and where if that fails (RFC 3261, 18.2.2; RFC 3581, section 4).

    UDP: back to the source address, to its port if ``rport`` was asked for, else to the port of the
    Via. TCP and TLS: on the connection; if it is gone, on a new one to the port of the Via. WebSocket: on
    the connection and nowhere else. ``maddr`` is not followed: an answer only ever goes to the address
    that the request came from, so nobody can aim it at a third party.
    """
    via = salvage_via(headers)
    if via is None or flow.transport in {"ws", "wss"} or (via.wants_rport and not flow.reliable):
        return flow, None
    host, port = via.sent_by
    if not flow.reliable:
        return Flow("udp", (flow.remote[0], port), flow.local, flow.id), None
    if flow.transport == "tls":
        return flow, Flow("tls", (flow.remote[0], via.port or 5061), flow.local, domain=host)
    return flow, Flow("tcp", (flow.remote[0], port), flow.local)


def reason_of(request: Request) -> str:
    """Return the Reason of a BYE or CANCEL (RFC 3326), cut to what a log can bear."""
    return (request.headers.get("Reason") or "")[:200]


def record_route(request: Request) -> tuple[tuple[str, str], ...]:
    """Return the headers that a 2xx to INVITE copies (12.1.1)."""
    return tuple(("Record-Route", line) for line in request.headers.get_all("Record-Route"))
