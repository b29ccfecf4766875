"""An offer of the peer in a call that goes on: a re-INVITE or UPDATE that waits for our answer."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.sip.dialog import Dialog
from gateway.sip.events import CallReoffered
from gateway.sip.kit import Kit
from gateway.sip.transactions import Handler, Served


@dataclass(frozen=True, slots=True)
class Held:
    """What waits."""

    served: Served
    dialog: Dialog
    """In which it came."""
    offer: bytes | None
    """``None`` asks for ours."""
    answer_by: float


class PeerOffer:
    """
    At most one such offer of a call, from its coming to our answer.

    Args:
        handle: Of the call.
        kit: Shared parts of the user agent.
    """

    def __init__(self, handle: str, kit: Kit) -> None:
        self._handle = handle
        self._kit = kit
        self.held: Held | None = None

    def hold(
        self, served: Served, dialog: Dialog, offer: bytes | None, handler: Handler, *, now: float
    ) -> None:
        """Let an offer wait for the application, for as long as its transaction lives."""
        self.held = Held(served, dialog, offer, now + self._kit.settings.timers.limit)
        served.handler = handler
        if served.request.method == "INVITE":
            self._kit.respond(served, 100, now=now)
        self._kit.events.append(CallReoffered(self._handle, offer))

    def take(self) -> Held | None:
        """Return what waits, to be answered now."""
        held, self.held = self.held, None
        return held

    def is_of(self, served: Served) -> bool:
        return self.held is not None and self.held.served is served

    def refuse(self, *, now: float) -> None:
        """Answer what waits with 487: the call, or the dialog, has ended (RFC 3261, section 15.1.2)."""
        held = self.take()
        if held is not None:
            self._kit.respond(held.served, 487, now=now)

    def next_timeout(self) -> float | None:
        return None if self.held is None else self.held.answer_by

    def handle_timeout(self, *, now: float) -> None:
        if self.held is not None and now >= self.held.answer_by:
            served, self.held = self.held.served, None
            self._kit.refuse(served, 500, "the offer was not answered in time", now=now)
