"""A call that is not taken."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNQUOTABLE = re.compile(r'[^\x20-\x7e]|["\\]')


@dataclass(frozen=True, slots=True)
class Refusal:
    """A SIP status, why in a word for the log, and after how many seconds to try again."""

    status: int
    reason: str
    why: str
    retry_after_s: int = 0

    def headers(self) -> list[tuple[str, str]]:
        """Say in headers when to try again, and what is wrong with a session description."""
        headers = [("Retry-After", str(self.retry_after_s))] if self.retry_after_s else []
        if self.status in (400, 488):  # RFC 3261 sections 20.43 and 21.4.26
            headers.append(("Warning", f'399 trunkline "{_UNQUOTABLE.sub("?", self.why)[:200]}"'))
        return headers
