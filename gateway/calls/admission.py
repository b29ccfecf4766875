"""How many calls at once, in all and for each trunk (no I/O)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


class Admission:
    """
    Counts calls from :meth:`enter` to :meth:`leave`.

    Args:
        limit: Calls at once over all trunks.
        trunk_limits: Calls at once for a trunk; a trunk without an entry has only ``limit``.
    """

    def __init__(self, limit: int, trunk_limits: Mapping[str, int | None]) -> None:
        self._limit = limit
        self._trunk_limits = trunk_limits
        self._trunks: Counter[str] = Counter()
        self.draining = False

    @property
    def active(self) -> int:
        return self._trunks.total()

    def calls_on(self, trunk: str) -> int:
        """Calls now on one trunk."""
        return self._trunks[trunk]

    def adopt(self, former: Admission) -> None:
        """Go on counting the calls that ``former`` let in."""
        self._trunks = former._trunks
        self.draining = former.draining

    def refusal(self, trunk: str) -> str:
        """Why a call may not come in now: ``draining``, ``max_calls``, ``trunk_max_calls``, or empty."""
        if self.draining:
            return "draining"
        if self.active >= self._limit:
            return "max_calls"
        trunk_limit = self._trunk_limits.get(trunk)
        if trunk_limit is not None and self._trunks[trunk] >= trunk_limit:
            return "trunk_max_calls"
        return ""

    def enter(self, trunk: str) -> None:
        self._trunks[trunk] += 1

    def leave(self, trunk: str) -> None:
        self._trunks[trunk] -= 1
