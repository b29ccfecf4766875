"""A dialog (RFC 3261, section 12): what both sides of a call remember of each other."""

from __future__ import annotations

import ipaddress
from typing import TypeAlias

from gateway.sip.flow import Address, Flow, Transport
from gateway.sip.message import Headers, Request, Response
from gateway.sip.target import Target
from gateway.sip.uri import NameAddr, SipUri, Uri, join_host_port

DialogKey: TypeAlias = tuple[str, str]
"""
Call-ID and our tag. They name a call: its dialogs differ in the peer's tag only, and more than one
there is only while a call of ours rings at several places.
"""

_PRIVATE = [
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16")
] + [ipaddress.ip_network(text) for text in ("fc00::/7", "fe80::/10")]
"""Addresses that mean nothing outside their own network; the documentation ranges are not among them."""


def dialog_key(request: Request) -> DialogKey:
    """Return the key of the call that a request of the peer belongs to."""
    return request.call_id, request.to.tag


class Dialog:
    """
    One side's view of a dialog; :meth:`of_caller` and :meth:`placing` open one.

    Args:
        call_id: Of every message in it.
        local: Our From, with our tag.
        remote: Our To; without a tag as long as the peer has not given one.
        contact: Our Contact URI.
        target: The peer's URI.
        route_set: Route headers, in the order in which we write them.
    """

    def __init__(
        self, *, call_id: str, local: str, remote: str, contact: str, target: str, route_set: tuple[str, ...]
    ) -> None:
        self.call_id = call_id
        self.contact = contact
        self.remote_target = target
        self.route_set = route_set
        self.local_cseq = 0
        self.remote_cseq: int | None = None
        """Empty until the first request of the peer (12.1.2)."""
        self._local = local
        self._remote = remote
        self.local_tag = NameAddr.parse(local).tag
        self.remote_tag = NameAddr.parse(remote).tag

    @classmethod
    def of_caller(cls, invite: Request, *, local_tag: str, contact: str) -> Dialog:
        """
        Open the dialog of a call of the peer's (12.1.1).

        An RFC 2543 client may come without Contact: then its From has to do. Raises ``ValueError`` for a
        Contact or Record-Route that cannot be read.
        """
        dialog = cls(
            call_id=invite.call_id,
            local=f"{invite.headers.get('To')};tag={local_tag}",
            remote=invite.headers.get("From") or "",
            contact=contact,
            target=(invite.contact or invite.from_).uri,
            # In order for a UAS; the INVITE's own Route headers were used up on the way.
            route_set=tuple(invite.headers.elements("Record-Route")),
        )
        dialog.remote_cseq = invite.cseq.number
        return dialog

    @classmethod
    def placing(cls, target: Target, *, call_id: str, local_tag: str, contact: str) -> Dialog:
        """
        Return what a call of ours begins with: enough to build its INVITE, no dialog yet.

        Raises ``ValueError`` for a From or To that cannot be read.
        """
        return cls(
            call_id=call_id,
            local=f"{target.from_};tag={local_tag}",
            remote=target.to or f"<{target.uri}>",
            contact=contact,
            target=target.uri,
            route_set=target.routes,
        )

    def answered_by(self, response: Response) -> Dialog:
        """
        Return the dialog that a 101 to 2xx opens, of an INVITE that was built by this one (12.1.2).

        Contact and Record-Route of the response rule, the latter in reverse; what cannot be read leaves
        the peer reachable where the INVITE went.
        """
        dialog = Dialog(
            call_id=self.call_id,
            local=self._local,
            remote=response.headers.get("To") or self._remote,
            contact=self.contact,
            target=self.remote_target,
            route_set=(),
        )
        dialog.local_cseq = response.cseq.number
        dialog.confirm(response)
        return dialog

    def confirm(self, response: Response) -> None:
        """Take route set and target anew from the 2xx, whatever a 1xx said before (13.2.2.4)."""
        try:
            self.route_set = tuple(reversed(response.headers.elements("Record-Route")))
        except ValueError:
            self.route_set = ()
        self.refresh_target(response)

    @property
    def key(self) -> DialogKey:
        return self.call_id, self.local_tag

    @property
    def local_uri(self) -> str:
        """Our own address in the dialog, without the tag: what a caller called, or what we call from."""
        return NameAddr.parse(self._local).uri

    @property
    def record_route(self) -> tuple[tuple[str, str], ...]:
        """Headers that 18x and 2xx responses have to copy (RFC 3261, section 12.1.1)."""
        return tuple(("Record-Route", route) for route in self.route_set)

    def accept_cseq(self, request: Request) -> bool:
        """Check and store the sequence number of a new request; ``False`` asks for a 500 (12.2.2)."""
        number = request.cseq.number
        if self.remote_cseq is not None and number <= self.remote_cseq:
            return False
        self.remote_cseq = number
        return True

    def refresh_target(self, message: Request | Response) -> None:
        """Follow the Contact of a re-INVITE or UPDATE, or of the 2xx to ours (12.2.1.2, 12.2.2)."""
        try:
            contact = message.contact
        except ValueError:
            return
        if contact is not None:
            self.remote_target = contact.uri

    def next_cseq(self) -> int:
        """Return the number for our next request."""
        self.local_cseq += 1
        return self.local_cseq

    def request(self, method: str, *, cseq: int, branch: str, transport: str) -> Request:
        """
        Build a request of ours in the dialog (12.2.1.1).

        Args:
            method: Any but CANCEL, which its INVITE rules.
            cseq: From :meth:`next_cseq`; an ACK has that of its INVITE.
            branch: What follows the magic cookie; unique.
            transport: For the Via.
        """
        uri, routes = self._target_and_routes()
        ours = SipUri.parse(self.contact)
        place = join_host_port(ours.host, ours.port)
        headers = Headers()
        # RFC 5923, section 5: the peer may ask us by the connection that this comes on.
        alias = ";alias" if transport in {"tcp", "tls"} else ""
        headers.add("Via", f"SIP/2.0/{transport.upper()} {place};branch=z9hG4bK{branch};rport{alias}")
        for route in routes:
            headers.add("Route", route)
        headers.add("Max-Forwards", "70")
        headers.add("From", self._local)
        headers.add("To", self._remote)
        headers.add("Call-ID", self.call_id)
        headers.add("CSeq", f"{cseq} {method}")
        if method != "ACK":
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
        direct = Flow(
            transport,
            _place(hop, transport),
            flow.local,
            flow.id if transport == flow.transport == "udp" else 0,
            domain=hop.host if transport == "tls" else "",
        )
        if flow.reliable and transport == flow.transport:
            # The connection that the peer opened is the surest way to it (RFC 5923); its Contact is
            # the way when the connection is gone.
            same_host = hop.host == flow.remote[0] or _is_unreachable(hop.host, flow.remote[0])
            if same_host or not _is_address(hop.host):
                return flow, direct
            return direct, flow
        if return_to_source and _is_unreachable(direct.remote[0], flow.remote[0]):
            return flow, direct
        # A UDP peer whose Contact says TCP may have nobody listening there.
        is_elsewhere = (direct.transport, direct.remote) != (flow.transport, flow.remote)
        return direct, flow if is_elsewhere else None


def _place(hop: SipUri, transport: Transport) -> Address:
    """Return where ``hop`` is; a name without port is looked up with its port (RFC 3263, section 4.2)."""
    host = hop.param("maddr") or hop.host
    if hop.port is None and not _is_address(host):
        return host, 0
    return host, hop.port or (5061 if transport == "tls" else 5060)


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
