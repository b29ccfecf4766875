"""In one stable word: why a transfer did not come about."""

from __future__ import annotations

from gateway.legs.base import UNSUPPORTED

_NO_REFER = frozenset({400, 403, 405, 406, 415, 420, 421, 488, 489, 501, 603, 606})
"""With these a peer refuses the REFER itself, not the destination."""


def refer_failure(status: int) -> str:
    """Say in one stable word why a REFER was not accepted."""
    if status == 408:
        return "timeout"
    return UNSUPPORTED if status in _NO_REFER else transfer_failure(status)


def transfer_failure(status: int) -> str:
    """Say in one stable word why a transfer failed, from the last sipfrag's status."""
    match status:
        case 486 | 600:
            return "busy"
        case 603:
            return "declined"
        case 408 | 480 | 487:
            return "no_answer"
        case _:
            return "refused"
