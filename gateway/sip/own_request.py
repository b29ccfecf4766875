"""A request of ours out of dialog: OPTIONS to ask whether a peer is there, REGISTER to say where we are."""

from __future__ import annotations

from collections.abc import Callable

from gateway.sip.authorizer import Authorizer
from gateway.sip.dialog import Dialog
from gateway.sip.events import RequestAnswered
from gateway.sip.exchange import Exchange, Way
from gateway.sip.flow import Flow
from gateway.sip.kit import ExtraHeaders, Kit
from gateway.sip.message import Headers, Request
from gateway.sip.respond import contact_uri
from gateway.sip.target import Target
from gateway.sip.transaction import ResponseReceived, Terminated, TransactionEvent


class Series:
    """
    What requests to one peer have in common: Call-ID, From tag, a rising CSeq, and the last nonces.

    Kept by the application as long as it wants to go on with it; for one request at a time.
    """

    def __init__(self, token: Callable[[], str]) -> None:
        self.call_id = token()
        self.local_tag = token()
        self.cseq = 0
        self.authorizer = Authorizer(None, token)

    def next_cseq(self) -> int:
        self.cseq += 1
        return self.cseq


class OwnRequest:
    """
    One such request, from its first try to the report.

    Args:
        handle: How the application names it.
        kit: Shared parts of the user agent.
        series: What it goes on with.
        done: Called with the handle when it is over.
    """

    def __init__(self, handle: str, kit: Kit, series: Series, *, done: Callable[[str], object]) -> None:
        self._handle = handle
        self._kit = kit
        self._series = series
        self._done = done

    def start(self, method: str, target: Target, headers: ExtraHeaders, body: bytes, *, now: float) -> None:
        """Send it; ``ValueError`` says that something of it cannot be written."""
        series = self._series
        if target.credentials is not None:
            series.authorizer.use(target.credentials)
        own_contact = any(name.lower() in {"contact", "m"} for name, _ in headers)

        def compose(flow: Flow, cseq: int, branch: str) -> Request:
            contact = contact_uri(self._kit.settings, flow, target.user)
            dialog = Dialog.placing(
                target, call_id=series.call_id, local_tag=series.local_tag, contact=contact
            )
            request = dialog.request(method, cseq=cseq, branch=branch, transport=flow.transport)
            if own_contact:
                request.headers = Headers(each for each in request.headers if each[0] != "Contact")
            return self._kit.finish(request, (*target.headers, *headers), body)

        Exchange(
            self._kit,
            ways=tuple(Way(flow) for flow in target.flows),
            compose=compose,
            number=series.next_cseq,
            authorizer=series.authorizer,
            handler=self._on_event,
        ).start(now=now)

    def _on_event(self, event: TransactionEvent, now: float) -> None:
        del now
        match event:
            case ResponseReceived(response) if not response.is_provisional:
                self._report(response.status, response.reason, response.headers)
            case Terminated(timed_out=True, undelivered=undelivered):
                self._report(408, "transport" if undelivered else "timeout", Headers())
            case _:
                return  # a provisional response, or the quiet end of the transaction

    def _report(self, status: int, reason: str, headers: Headers) -> None:
        self._done(self._handle)
        self._kit.events.append(RequestAnswered(self._handle, status, reason, headers))
