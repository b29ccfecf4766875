"""How often a soak test does its work: a little in ``make test``, in full in ``make soak``."""

from __future__ import annotations

import os


def counts(*, test: int, full: int) -> int:
    """Return ``full`` where ``TRUNKLINE_COUNTS=full`` is set, else ``test``."""
    return full if os.environ.get("TRUNKLINE_COUNTS") == "full" else test
