"""The cold transfer of one call: our REFER, its answer, and the NOTIFYs until the outcome (RFC 3515)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from gateway.sip.errors import LocalProtocolError
from gateway.sip.events import ReferAnswered, ReferProgressed
from gateway.sip.exchange import Exchange
from gateway.sip.kit import ExtraHeaders, Kit
from gateway.sip.message import Response
from gateway.sip.refer import ReferState, ReferSubscription, event_of
from gateway.sip.text import require_safe
from gateway.sip.transaction import ResponseReceived, Terminated, TransactionEvent
from gateway.sip.transactions import Served
from gateway.sip.uri import scheme_of

_NUMBER: Final = re.compile(r"\+?[0-9*#]{1,64}")


class Transferring(Protocol):
    """What a transfer needs of its call."""

    @property
    def handle(self) -> str: ...

    @property
    def local_uri(self) -> str: ...

    @property
    def remote_place(self) -> str:
        """Host and port of the peer's Contact, as a URI writes them."""
        ...

    def send(
        self,
        method: str,
        extra: ExtraHeaders,
        handler: Callable[[TransactionEvent, float], None],
        *,
        now: float,
    ) -> Exchange: ...

    def hang_up_lost(self, *, now: float) -> None:
        """End the call: the peer knows nothing of it any more, or is gone."""
        ...

    def changed(self) -> None: ...


class Transfer:
    """At most one REFER at a time; a later one may follow a failed one."""

    def __init__(self, call: Transferring, kit: Kit) -> None:
        self._call = call
        self._kit = kit
        self._subscription: ReferSubscription | None = None
        self._request: Exchange | None = None
        self._accepted = False

    @property
    def live(self) -> bool:
        """Whether the outcome of a REFER is still open."""
        return self._subscription is not None and self._subscription.live

    def start(self, target: str, *, now: float) -> None:
        """
        Send a REFER to a URI, or to a bare number, which is then one of the peer's own.

        Raises:
            LocalProtocolError: it is neither, or another transfer is open.
        """
        if self.live:
            raise LocalProtocolError("a transfer is already under way")
        if _NUMBER.fullmatch(target):
            target = f"sip:{target.replace('#', '%23')}@{self._call.remote_place}"
        try:
            scheme_of(require_safe(target))
        except ValueError as error:
            raise LocalProtocolError(f"cannot transfer to {target[:80]!r}") from error
        extra = (("Refer-To", f"<{target}>"), ("Referred-By", f"<{self._call.local_uri}>"))
        self._accepted = False
        self._request = self._call.send("REFER", extra, self._on_event, now=now)
        expires_at = now + self._kit.settings.refer_timeout
        self._subscription = ReferSubscription(self._request.cseq, expires_at=expires_at)

    def receive_notify(self, served: Served, *, now: float) -> None:
        """Answer a NOTIFY: 200 while it belongs to an open REFER, else 489 or 481 (RFC 6665, 4.1.3)."""
        notify = served.request
        package, _ = event_of(notify)
        subscription = self._subscription
        if package != "refer":
            self._kit.refuse(
                served, 489, f"event {package[:40]!r}", extra=(("Allow-Events", "refer"),), now=now
            )
            return
        if subscription is not None and self._request is not None:
            subscription.cseq = self._request.cseq  # it may have been challenged and sent again
        if subscription is None or not subscription.matches(notify):
            self._kit.refuse(served, 481, "no such subscription", now=now)
            return
        self._kit.respond(served, 200, now=now)
        self._accept(202)  # a NOTIFY that overtook the 202 says the same
        status, reason, final = subscription.notified(notify)
        if status or final:
            self._kit.events.append(ReferProgressed(self._call.handle, status, reason, final))

    def next_timeout(self) -> float | None:
        subscription = self._subscription
        return subscription.expires_at if subscription is not None and subscription.live else None

    def handle_timeout(self, *, now: float) -> None:
        subscription = self._subscription
        if subscription is not None and subscription.live and now >= subscription.expires_at:
            subscription.end()
            self._fail(408, "timeout")

    def _on_event(self, event: TransactionEvent, now: float) -> None:
        match event:
            case ResponseReceived(response) if not response.is_provisional:
                self._answered(response, now)
            case Terminated(timed_out=True) if self._pending:
                self._end()
                self._fail(408, "timeout")
                self._call.hang_up_lost(now=now)
            case _:
                return  # 100, or the quiet end of the transaction
        self._call.changed()

    @property
    def _pending(self) -> bool:
        return self._subscription is not None and self._subscription.state is ReferState.PENDING

    def _answered(self, response: Response, now: float) -> None:
        subscription = self._subscription
        if subscription is None or not subscription.live:
            return  # the NOTIFYs have already told everything, or we gave up waiting
        follows = subscription.answered(response)
        if response.is_success:
            self._accept(response.status)
            if not follows:
                self._kit.events.append(ReferProgressed(self._call.handle, 0, "unknown", final=True))
            return
        self._fail(response.status, response.reason)
        if response.status == 481:
            self._call.hang_up_lost(now=now)

    def _accept(self, status: int) -> None:
        if not self._accepted:
            self._accepted = True
            self._kit.events.append(ReferAnswered(self._call.handle, status))

    def _fail(self, status: int, reason: str) -> None:
        """Report a refusal, or a bad end of what was accepted before."""
        if not self._accepted:
            self._kit.events.append(ReferAnswered(self._call.handle, status))
        else:
            known = 0 if reason == "timeout" else status
            self._kit.events.append(ReferProgressed(self._call.handle, known, reason, final=True))

    def _end(self) -> None:
        if self._subscription is not None:
            self._subscription.end()
