"""
A place where a call of ours rings: an early dialog (RFC 3261, section 12.1; RFC 3262 for its PRACKs).
"""

from __future__ import annotations

from gateway.sip.body import UnsupportedBody, find_sdp
from gateway.sip.dialog import Dialog
from gateway.sip.message import Request, Response

_MAX_RSEQ = 2**32 - 1


class EarlyDialog:
    """One To tag of the responses to an INVITE, from the first 18x on."""

    def __init__(self, dialog: Dialog) -> None:
        self.dialog = dialog
        self.sdp: bytes | None = None
        """The last description of the peer."""
        self.exchanged = False
        """Whether an answer came reliably: then it is final, and there may be further offers."""
        self.updates = False
        """Whether the peer takes UPDATE."""
        self._rseq: int | None = None

    def take_rseq(self, rseq: int) -> bool:
        """
        Whether a reliable 1xx is the next one, so that it gets a PRACK.

        A repeated one, and one after a gap, gets none (RFC 3262, section 4); the status may well go down,
        from 183 to 180.
        """
        if self._rseq is not None and rseq != self._rseq + 1:
            return False
        self._rseq = rseq
        return True


def reliable_rseq(response: Response) -> int | None:
    """Return the RSeq of a 1xx that asks for a PRACK, else ``None``."""
    text = (response.headers.get("RSeq") or "").strip()
    if response.status == 100 or "100rel" not in response.headers.tokens("Require"):
        return None
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) <= _MAX_RSEQ:
        return None
    return int(text)


def sdp_of(message: Request | Response) -> bytes | None:
    """Return the session description of a message; ``None`` also when the body is something else."""
    try:
        return find_sdp(message.headers, message.body)
    except UnsupportedBody:
        return None
