"""Every behaviour of this folder is asked of every provider."""

from __future__ import annotations

import pytest

from tests.providers.contract.call import Dial
from tests.providers.contract.kinds import KINDS
from tests.providers.contract.needs import lacking


@pytest.fixture(params=KINDS, ids=[kind.name for kind in KINDS])
def dial(request: pytest.FixtureRequest) -> Dial:
    """Opens calls of one kind; skips a behaviour that this kind lacks the capability for."""
    for mark in request.node.iter_markers("needs"):
        if missing := lacking(request.param, mark.args):
            pytest.skip(f"needs {missing}")
    return Dial(request.param)
