"""
A request of ours until its final response: challenges are answered, other addresses are tried.

RFC 3261, section 22 (401 and 407); RFC 3263, section 4.3 (the next address of the peer).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from gateway.sip.authorizer import Authorizer, Tries, is_challenge
from gateway.sip.flow import Flow
from gateway.sip.kit import Kit
from gateway.sip.message import Request, Response
from gateway.sip.transaction import ResponseReceived, Terminated, TransactionEvent
from gateway.sip.transactions import Handler, Sent

MAX_AMENDMENTS: Final = 3
"""How often one request is composed anew for a refusal that says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Way:
    """One address of the peer; ``fallback`` is for the transport alone."""

    flow: Flow
    fallback: Flow | None = None


class Composer(Protocol):
    """Builds the request for a flow, without credentials."""

    def __call__(self, flow: Flow, cseq: int, branch: str) -> Request: ...


class Exchange:
    """
    Sends a request, again where that helps, and reports what is left to say.

    Its handler gets the provisional responses, then one final response or a
    ``Terminated(timed_out=True)`` in place of it; of an INVITE also each further 2xx, whichever try it
    answers, and the end of the transaction.

    Args:
        kit: Shared parts of the user agent.
        ways: The peer's addresses, the first one first.
        compose: Builds each try.
        number: Gives the CSeq of the first try and of each that answers a challenge (8.1.3.5).
        authorizer: Answers challenges.
        amend: Says of another refusal whether the request, composed anew, is worth sending again.
        handler: Hears of it.
    """

    def __init__(
        self,
        kit: Kit,
        *,
        ways: tuple[Way, ...],
        compose: Composer,
        number: Callable[[], int],
        authorizer: Authorizer,
        amend: Callable[[Response], bool] | None = None,
        handler: Handler,
    ) -> None:
        self._kit = kit
        self._ways = list(ways)
        self._compose = compose
        self._number = number
        self._authorizer = authorizer
        self._amend = amend
        self._handler = handler
        self._tries = Tries()
        self._amendments = 0
        self._flows: dict[str, Flow] = {}
        """By branch; as many as there are addresses and tries."""
        self._attempt = 0
        self._stopped = False
        self._sent: Sent | None = None
        self.proceeding = False
        """Whether the present try has a provisional response: only then it can be cancelled (9.1)."""
        self.answered = False
        """Whether the final response was reported, or that there is none."""

    @property
    def open(self) -> bool:
        """Whether the transaction of the present try is not over."""
        return self._sent is not None

    @property
    def request(self) -> Request:
        """The present try, as it was sent."""
        return self._last

    @property
    def way(self) -> Way:
        return self._ways[0]

    @property
    def cseq(self) -> int:
        """Of the present try."""
        return self._cseq

    def flow_of(self, response: Response) -> Flow:
        """Return where the try went that a response answers."""
        return self._flows.get(response.via.branch, self.way.flow)

    def start(self, *, now: float) -> None:
        """Send the first try; :exc:`gateway.sip.errors.UnsafeText` says that it cannot be written."""
        self._cseq = self._number()
        self._send(now)

    def stop(self) -> None:
        """Try no more: the next final response is reported, whatever it is."""
        self._stopped = True

    def abandon(self) -> None:
        """Forget the present try: nobody will answer it."""
        if self._sent is not None:
            self._kit.transactions.abandon(self._sent)
            self._sent = None
        self.answered = True

    def _send(self, now: float) -> None:
        way = self.way
        request = self._compose(way.flow, self._cseq, self._kit.token())
        for name, value in self._authorizer.headers(request):
            request.headers.add(name, value)
        self._last = request
        self._attempt += 1
        self._flows[request.via.branch] = way.flow
        self.proceeding = False
        self._sent = self._kit.transactions.send(
            request,
            way.flow,
            way.fallback,
            partial(self._on_event, self._attempt),
            patience=self._kit.settings.failover_after if len(self._ways) > 1 else None,
            now=now,
        )

    def _on_event(self, attempt: int, event: TransactionEvent, now: float) -> None:
        match event:
            case ResponseReceived(response) if attempt != self._attempt:
                if response.is_success and self._last.method == "INVITE":
                    self._handler(event, now)
            case _ if attempt != self._attempt:
                return  # the end of an earlier try
            case ResponseReceived(response) if response.is_provisional:
                self.proceeding = True
                self._handler(event, now)
            case ResponseReceived(response) if not self.answered:
                if not self._try_again(response, now):
                    self.answered = True
                    self._handler(event, now)
            case Terminated(timed_out=True) if not self.answered:
                self._sent = None
                if not self._try_next(now):
                    self.answered = True
                    self._handler(event, now)
            case Terminated():
                self._sent = None
                self._handler(Terminated(timed_out=False), now)
            case _:
                self._handler(event, now)

    def _try_again(self, response: Response, now: float) -> bool:
        if self._stopped or response.status < 300:
            return False
        challenged = is_challenge(response) and self._authorizer.take(response, self._tries)
        if challenged or self._amended(response):
            self._cseq = self._number()
            self._send(now)
            return True
        return response.status == 503 and self._try_next(now)

    def _amended(self, response: Response) -> bool:
        """Whether it helps to compose it anew; not for ever: the peer may ask for more each time."""
        if self._amend is None or self._amendments >= MAX_AMENDMENTS or not self._amend(response):
            return False
        self._amendments += 1
        return True

    def _try_next(self, now: float) -> bool:
        """Send the same request to the peer's next address: only the branch is new."""
        if self._stopped or len(self._ways) == 1:
            return False
        del self._ways[0]
        self._send(now)
        return True
