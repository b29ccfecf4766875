"""
The dialog of an incoming call (RFC 3261, section 12): what both sides remember of each other.
"""

from __future__ import annotations

import ipaddress
from typing import TypeAlias

from gateway.sip.flow import Flow, Transport
from gateway.sip.message import Headers, Request
from gateway.sip.uri import NameAddr, SipUri, Uri, join_host_port

DialogKey: TypeAlias = tuple[str, str, str]
"""Call-ID, our tag, the peer's tag."""

_PRIVATE = [
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16")
] + [ipaddress.ip_network(text) for text in ("fc00::/7", "fe80::/10")]
"""Addresses that mean nothing outside their own network; the documentation ranges are not among them."""


def dialog_key(request: Request) -> DialogKey:
    """Return the key of the dialog that a request of the peer belongs to."""
    return request.call_id, request.to.tag, request.from_.tag


class Dialog:
    """
    A dialog in which the peer sent the first request.

    Args:
        invite: The request that opens it.
        local_tag: Our tag.
        contact: Our Contact URI.
    """

    def __init__(self, invite: Request, *, local_tag: str, contact: str) -> None:
        self.call_id = invite.call_id
        self.local_tag = local_tag
        self.remote_tag = invite.from_.tag
        self.contact = contact
        self._local = f"{invite.headers.get('To')};tag={local_tag}"
        self._remote = invite.headers.get("From") or ""
        self.remote_cseq = invite.cseq.number
        self.local_cseq = 0
        # In order for a UAS; the INVITE's own Route headers were used up on the way (12.1.1).
        self.route_set: tuple[str, ...] = tuple(invite.headers.elements("Record-Route"))
        contact_of_peer = invite.contact
        # An RFC 2543 client may come without Contact: then its From has to do.
        self.remote_target = (contact_of_peer or invite.from_).uri

    @property
    def key(self) -> DialogKey:
        return self.call_id, self.local_tag, self.remote_tag

    @property
    def local_uri(self) -> str:
        """The address that the peer called, without our tag."""
        return NameAddr.parse(self._local).uri

    @property
    def record_route(self) -> tuple[tuple[str, str], ...]:
        """Headers that 18x and 2xx responses have to copy (RFC 3261, section 12.1.1)."""
        return tuple(("Record-Route", route) for route in self.route_set)

    def accept_cseq(self, request: Request) -> bool:
        """Check and store the sequence number of a new request; ``False`` asks for a 500 (12.2.2)."""
        number = request.cseq.number
        if number <= self.remote_cseq:
            return False
        self.remote_cseq = number
        return True

    def refresh_target(self, request: Request) -> None:
        """Follow the Contact of a re-INVITE or UPDATE (12.2.2)."""
        try:
            contact = request.contact
        except ValueError:
            return
        if contact is not None:
            self.remote_target = contact.uri

    def request(self, method: str, *, branch: str, transport: str) -> Request:
        """
        Build our next request in the dialog (12.2.1.1).

        Args:
            method: Any but ACK and CANCEL.
            branch: What follows the magic cookie; unique.
            transport: For the Via.
        """
        self.local_cseq += 1
        uri, routes = self._target_and_routes()
        ours = SipUri.parse(self.contact)
        place = join_host_port(ours.host, ours.port)
        headers = Headers()
        headers.add("Via", f"SIP/2.0/{transport.upper()} {place};branch=z9hG4bK{branch};rport")
        for route in routes:
            headers.add("Route", route)
        headers.add("Max-Forwards", "70")
        headers.add("From", self._local)
        headers.add("To", self._remote)
        headers.add("Call-ID", self.call_id)
        headers.add("CSeq", f"{self.local_cseq} {method}")
        headers.add("Contact", f"<{self.contact}>")
        return Request(headers, b"", method, Uri(uri))

    def _target_and_routes(self) -> tuple[str, tuple[str, ...]]:
        if not self.route_set or _is_loose(self.route_set[0]):
            return self.remote_target, self.route_set
        # A strict router wants to find itself in the Request-URI and the target as the last route.
        first = NameAddr.parse(self.route_set[0]).uri.partition("?")[0]
        return first, (*self.route_set[1:], f"<{self.remote_target}>")

    def next_hop(self) -> SipUri | None:
        """Return where our requests go: the first route, else the target; ``None`` if that is no SIP URI."""
        try:
            if self.route_set:
                return SipUri.parse(NameAddr.parse(self.route_set[0]).uri)
            return SipUri.parse(self.remote_target)
        except ValueError:
            return None

    def path(self, flow: Flow, *, return_to_source: bool) -> tuple[Flow, Flow | None]:
        """
        Return the way for our next request, and another if that fails.

        Args:
            flow: On which the peer's last request came.
            return_to_source: Whether a private address is passed over in favour of ``flow``.
        """
        hop = self.next_hop()
        if hop is None:
            return flow, None
        if flow.transport in {"ws", "wss"}:
            return flow, None  # nobody can open a connection to a browser (RFC 7118, section 5)
        transport = _transport(hop, flow)
        port = hop.port or (5061 if transport == "tls" else 5060)
        direct = Flow(transport, (hop.param("maddr") or hop.host, port), flow.local)
        if flow.reliable and transport == flow.transport:
            # The connection that the peer opened is the surest way to it (RFC 5923); its Contact is
            # the way when the connection is gone.
            same_host = hop.host == flow.remote[0] or _is_unreachable(hop.host, flow.remote[0])
            if same_host or not _is_address(hop.host):
                return flow, direct
            return direct, flow
        if return_to_source and _is_unreachable(direct.remote[0], flow.remote[0]):
            return flow, direct
        return direct, flow if direct.remote != flow.remote else None


def _transport(hop: SipUri, flow: Flow) -> Transport:
    """Return how to reach ``hop``; a transport that we cannot open leaves that of the flow."""
    if hop.scheme == "sips" or flow.secure:
        return "tls"  # never from TLS back to what anybody can read, whatever the Contact says
    match hop.transport:
        case "udp" | "tcp" | "tls" as named:
            return named
        case _:
            return flow.transport


def _is_loose(route: str) -> bool:
    try:
        return SipUri.parse(NameAddr.parse(route).uri).loose
    except ValueError:
        return True


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_unreachable(host: str, seen: str) -> bool:
    """Whether ``host`` is a private address of a network that the peer's packets do not come from."""
    return _is_private(host) and not _is_private(seen)


def _is_private(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return any(address.version == network.version and address in network for network in _PRIVATE)
