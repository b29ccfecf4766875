"""Telephones that do not behave: silent ones, ones that deny the call, ones that answer when asked to."""

from __future__ import annotations

from tests.kit import sip_text
from tests.kit.phone import Phone
from tests.kit.sip_text import Message
from tests.kit.udp import Address


class Stubborn(Phone):
    """
    A telephone that deals with the gateway's BYE in its own way.

    ``answer_byes`` is the status that each gets, 0 for silence, or a list that is used up, its last for ever.
    """

    answer_byes: int | list[int] = 200

    def _react(self, message: Message, source: Address) -> None:
        if message.method != "BYE":
            super()._react(message, source)
            return
        status = self.answer_byes
        if isinstance(status, list):
            status = status.pop(0) if len(status) > 1 else status[0]
        if status:
            self.sip.sendto(sip_text.respond(message, status, "Answered so"), source)

    @property
    def byes(self) -> list[Message]:
        return [each.message for each in self.received if each.message.method == "BYE"]

    def request(
        self, method: str, *, extra: tuple[tuple[str, str], ...] = (), timeout: float = 5.0
    ) -> Message:
        """Send a request in the dialog and return its final answer."""
        self.dialog.cseq += 1
        cseq = self.dialog.cseq
        self._send_request(method, extra=extra)
        return self.answer_to(method, cseq, timeout=timeout)

    def notify(self, fragment: str, *, end: bool = True, timeout: float = 5.0) -> Message:
        """Send a NOTIFY of a transfer and return its answer."""
        self._notify(fragment, end=end)
        return self.answer_to("NOTIFY", self.dialog.cseq, timeout=timeout)

    def answer_to(self, method: str, cseq: int, *, timeout: float) -> Message:
        return self.wait_for(
            lambda message: message.answers == method and message.cseq == cseq and message.status >= 200,
            timeout,
            f"the answer to {method} {cseq}",
        )
