"""Every behaviour of this folder is asked of every provider that has what it needs."""

from __future__ import annotations

import pytest

from tests.providers.contract.call import Dial
from tests.providers.contract.kinds import KINDS
from tests.providers.contract.needs import lacking


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Ask a behaviour of each kind that does not lack it; ``test_suite`` counts what is left out."""
    if "dial" not in metafunc.fixturenames:
        return
    needs = tuple(need for mark in metafunc.definition.iter_markers("needs") for need in mark.args)
    kinds = [kind for kind in KINDS if not lacking(kind, needs)]
    metafunc.parametrize("dial", kinds, ids=[kind.name for kind in kinds], indirect=True)


@pytest.fixture
def dial(request: pytest.FixtureRequest) -> Dial:
    """Opens calls of one kind."""
    return Dial(request.param)
