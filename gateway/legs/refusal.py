"""A call that is not taken."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A SIP status, why in a word for the log, and after how many seconds to try again."""

    status: int
    reason: str
    why: str
    retry_after_s: int = 0
