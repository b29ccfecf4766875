"""How many calls at once, in all and for each trunk (no I/O)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping


def _none(trunk: str) -> int:
    del trunk
    return 0


class Admission:
    """
    Counts calls from :meth:`enter` to :meth:`leave`.

    Args:
        limit: Calls at once from all trunks.
        trunk_limits: Calls at once for a trunk, in both directions; a trunk without an entry has only
            ``limit``.
        dialled: Returns how many calls of ours a trunk carries: a peer counts its channels, whoever
            called.
    """

    def __init__(
        self, limit: int, trunk_limits: Mapping[str, int | None], dialled: Callable[[str], int] = _none
    ) -> None:
        self._dialled = dialled
        self._limit = limit
        self._trunk_limits = trunk_limits
        self._trunks: Counter[str] = Counter()
        self.draining = False

    @property
    def active(self) -> int:
        return self._trunks.total()

    def calls_on(self, trunk: str) -> int:
        """Calls now on one trunk, in both directions."""
        return self._trunks[trunk] + self._dialled(trunk)

    def is_full(self, trunk: str) -> bool:
        """Whether a trunk carries as many calls as it may."""
        limit = self._trunk_limits.get(trunk)
        return limit is not None and self.calls_on(trunk) >= limit

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
        return "trunk_max_calls" if self.is_full(trunk) else ""

    def enter(self, trunk: str) -> None:
        self._trunks[trunk] += 1

    def leave(self, trunk: str) -> None:
        self._trunks[trunk] -= 1
