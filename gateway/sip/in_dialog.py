"""Our requests in a dialog: the way to the peer, the credentials, the ACK of a 2xx."""

from __future__ import annotations

from gateway.sip.authorizer import Authorizer
from gateway.sip.dialog import Dialog
from gateway.sip.exchange import Exchange, Way
from gateway.sip.flow import Flow
from gateway.sip.kit import ExtraHeaders, Kit
from gateway.sip.message import Request
from gateway.sip.transactions import Handler


def ask(
    kit: Kit,
    dialog: Dialog,
    flow: Flow,
    method: str,
    *,
    extra: ExtraHeaders,
    body: bytes,
    authorizer: Authorizer,
    handler: Handler,
    now: float,
) -> Exchange:
    """
    Send a request in a dialog, again if it is challenged.

    Args:
        kit: Shared parts of the user agent.
        dialog: Gives the addresses and the numbers.
        flow: On which the peer's last request came, or our INVITE went.
        method: Any but ACK and CANCEL.
        extra: Further headers.
        body: A session description, or nothing.
        authorizer: Of the call.
        handler: Hears of the answers.
        now: The present time in seconds.
    """

    def compose(flow: Flow, cseq: int, branch: str) -> Request:
        request = dialog.request(method, cseq=cseq, branch=branch, transport=flow.transport)
        return kit.finish(request, extra, body)

    exchange = Exchange(
        kit,
        ways=(_way(kit, dialog, flow),),
        compose=compose,
        number=dialog.next_cseq,
        authorizer=authorizer,
        handler=handler,
    )
    exchange.start(now=now)
    return exchange


def acknowledge(kit: Kit, dialog: Dialog, flow: Flow, invite: Request, cseq: int) -> None:
    """Send the ACK of a 2xx, with the INVITE's own credentials (RFC 3261, sections 13.2.2.4 and 22.1)."""
    way = _way(kit, dialog, flow)
    ack = dialog.request("ACK", cseq=cseq, branch=kit.token(), transport=way.flow.transport)
    for name in ("Authorization", "Proxy-Authorization"):
        for value in invite.headers.get_all(name):
            ack.headers.add(name, value)
    kit.transactions.send_ack(kit.finish(ack), way.flow, way.fallback)


def _way(kit: Kit, dialog: Dialog, flow: Flow) -> Way:
    return Way(*dialog.path(flow, return_to_source=kit.settings.return_to_source))
