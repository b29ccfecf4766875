"""
The table of transactions: who gets a message, what goes out in which order, whose timer is next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gateway.sip.agenda import Agenda
from gateway.sip.client import ClientTransaction
from gateway.sip.flow import Flow, Outgoing
from gateway.sip.invite_client import InviteClientTransaction
from gateway.sip.invite_server import InviteServerTransaction
from gateway.sip.message import Request, Response
from gateway.sip.server import ServerTransaction
from gateway.sip.timers import Timers
from gateway.sip.transaction import (
    CancelReceived,
    ServerKey,
    State,
    TransactionEvent,
    cancelled_key,
    client_key,
    server_key,
)

Handler: TypeAlias = Callable[[TransactionEvent, float], None]
"""Gets an event of a transaction and ``now``."""

_MergeKey: TypeAlias = tuple[str, str, int]


def _ignore(event: TransactionEvent, now: float) -> None:
    del event, now


@dataclass(slots=True, eq=False)
class Served:
    """A server transaction and the way back to the peer."""

    key: ServerKey
    tx: InviteServerTransaction | ServerTransaction
    flow: Flow
    fallback: Flow | None
    handler: Handler = _ignore

    @property
    def request(self) -> Request:
        return self.tx.request


@dataclass(slots=True, eq=False)
class Sent:
    """A client transaction and the way to the peer."""

    tx: InviteClientTransaction | ClientTransaction
    flow: Flow
    fallback: Flow | None
    handler: Handler


class Transactions:
    """
    All transactions of a user agent.

    Args:
        timers: For every transaction.
        out: Where messages are appended in the order in which they must leave.
    """

    def __init__(self, timers: Timers, out: list[Outgoing]) -> None:
        self._timers = timers
        self._out = out
        self._served: dict[ServerKey, Served] = {}
        self._sent: dict[tuple[str, str], Sent] = {}
        self._merge: dict[_MergeKey, ServerKey] = {}
        self._agenda: Agenda[Served | Sent] = Agenda()

    @property
    def served_count(self) -> int:
        return len(self._served)

    @property
    def sent_count(self) -> int:
        return len(self._sent)

    # Requests of the peer.

    def receive_request(self, request: Request, *, now: float) -> Served | None:
        """Give a retransmission or an ACK to its transaction; ``None`` when there is none."""
        served = self._served.get(server_key(request))
        if served is None:
            return None
        served.tx.receive(request, now=now)
        self._settle(served, now)
        return served

    def find_cancelled(self, cancel: Request) -> Served | None:
        """Return the INVITE's transaction that a CANCEL names."""
        return self._served.get(cancelled_key(cancel))

    def cancel(self, invite: Served, *, reason: str = "", now: float) -> None:
        """Tell the owner of an INVITE of its CANCEL; no effect after a final response (9.2)."""
        if not invite.tx.answered:
            invite.handler(CancelReceived(reason), now)

    def is_merged(self, request: Request) -> bool:
        """
        Whether this INVITE came before on another path (RFC 3261, section 8.2.2.2).

        Asked for one without To tag that matches no transaction.
        """
        return _merge_key(request) in self._merge

    def serve(self, request: Request, flow: Flow, fallback: Flow | None, *, now: float) -> Served:
        """Open the server transaction of a new request."""
        reliable = flow.reliable
        tx: InviteServerTransaction | ServerTransaction
        if request.method == "INVITE":
            tx = InviteServerTransaction(request, reliable=reliable, timers=self._timers)
        else:
            tx = ServerTransaction(request, reliable=reliable, timers=self._timers)
        key = server_key(request)
        served = self._served[key] = Served(key, tx, flow, fallback)
        if request.method == "INVITE" and not request.to.tag:
            self._merge.setdefault(_merge_key(request), key)
        self._settle(served, now)
        return served

    def respond(self, served: Served, response: Response, *, now: float) -> None:
        """Send a response through its transaction."""
        served.tx.respond(response, now=now)
        self._settle(served, now)

    # Requests of ours.

    def send(
        self,
        request: Request,
        flow: Flow,
        fallback: Flow | None,
        handler: Handler,
        *,
        patience: float | None = None,
        now: float,
    ) -> Sent:
        """
        Send a request in a client transaction of its own; ``handler`` hears of the answers.

        ``patience`` is how many seconds it may stay unanswered, where that is not 64*T1.
        """
        reliable, timers = flow.reliable, self._timers
        tx: InviteClientTransaction | ClientTransaction
        if request.method == "INVITE":
            tx = InviteClientTransaction(
                request, reliable=reliable, timers=timers, patience=patience, now=now
            )
        else:
            tx = ClientTransaction(request, reliable=reliable, timers=timers, patience=patience, now=now)
        sent = Sent(tx, flow, fallback, handler)
        self._sent[client_key(request)] = sent
        self._settle(sent, now)
        return sent

    def send_ack(self, ack: Request, flow: Flow, fallback: Flow | None) -> None:
        """Send the ACK of a 2xx, which has no transaction (17.1.1.3)."""
        self._out.append(Outgoing(flow, ack.to_bytes(), fallback))

    def abandon(self, sent: Sent) -> None:
        """Forget a request that nobody will answer any more (9.1); its handler hears nothing."""
        self._agenda.set(sent, None)
        self._forget(sent)

    def receive_response(self, response: Response, *, now: float) -> bool:
        """Give a response to its transaction; ``False`` when there is none."""
        sent = self._sent.get(client_key(response))
        if sent is None:
            return False
        sent.tx.receive(response, now=now)
        self._settle(sent, now)
        return True

    # Time and failure.

    def next_timeout(self) -> float | None:
        return self._agenda.next()

    def handle_timeout(self, *, now: float) -> None:
        while (entry := self._agenda.take_due(now)) is not None:
            entry.tx.handle_timeout(now=now)
            self._settle(entry, now)

    def transport_failed(self, flow: Flow, *, now: float) -> None:
        """End every transaction that depends on ``flow``."""
        lost: list[Served | Sent] = [entry for entry in self._served.values() if entry.flow == flow]
        lost += [entry for entry in self._sent.values() if entry.flow == flow]
        for entry in lost:
            entry.tx.fail()
            self._settle(entry, now)

    def _settle(self, entry: Served | Sent, now: float) -> None:
        """Send, re-arm, forget what is over, report: in this order, for a report may send more."""
        for message in entry.tx.to_send():
            self._out.append(Outgoing(entry.flow, message.to_bytes(), entry.fallback))
        self._agenda.set(entry, entry.tx.next_timeout())
        if entry.tx.state is State.TERMINATED:
            self._forget(entry)
        for event in entry.tx.events():
            entry.handler(event, now)

    def _forget(self, entry: Served | Sent) -> None:
        if isinstance(entry, Sent):
            key = client_key(entry.tx.request)
            if self._sent.get(key) is entry:
                del self._sent[key]
            return
        self._served.pop(entry.key, None)
        merge_key = _merge_key(entry.request)
        if self._merge.get(merge_key) == entry.key:
            del self._merge[merge_key]


def _merge_key(request: Request) -> _MergeKey:
    return request.from_.tag, request.call_id, request.cseq.number
