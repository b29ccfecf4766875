"""What can go wrong before a call is answered, told as one of two errors and without the key."""

from __future__ import annotations

import asyncio
import traceback

import pytest

from providers.errors import ProviderError, ProviderRejected, ProviderUnavailable
from tests.providers.contract.call import GREETING, TALK, settled, setup
from tests.providers.contract.far import KEY, Trouble
from tests.providers.contract.needs import needs


async def failure(dial, *troubles: Trouble, text: str = TALK) -> ProviderError:
    """Open a session that cannot be had; returns why, which says nothing of the key."""
    async with dial.far(text, *troubles) as far:
        with pytest.raises(ProviderError) as caught:
            async with far.provider.connect(setup()):
                pytest.fail("there is no session")
        await settled(lambda: far.connections() == 0)
    shown = "".join(traceback.format_exception(caught.value))
    assert KEY not in shown
    assert KEY[-6:] not in shown
    assert str(caught.value)
    return caught.value


@needs(Trouble.BAD_KEY)
async def test_a_key_that_is_refused_is_a_rejection(dial) -> None:
    assert isinstance(await failure(dial, Trouble.BAD_KEY), ProviderRejected)


async def test_a_script_that_refuses_the_key_is_a_rejection(dial) -> None:
    assert isinstance(await failure(dial, text="    connect: reject_key" + TALK), ProviderRejected)


async def test_a_script_that_refuses_to_connect_is_unavailable(dial) -> None:
    assert isinstance(await failure(dial, text="    connect: refuse" + TALK), ProviderUnavailable)


@needs(Trouble.NO_MODEL)
async def test_a_model_that_does_not_exist_is_a_rejection(dial) -> None:
    error = await failure(dial, Trouble.NO_MODEL)
    assert isinstance(error, ProviderRejected)
    assert error.code == "404"


@needs(Trouble.TOO_MANY)
async def test_too_many_requests_are_unavailable(dial) -> None:
    error = await failure(dial, Trouble.TOO_MANY)
    assert isinstance(error, ProviderUnavailable)
    assert error.code == "429"


@needs(Trouble.OVERLOADED)
async def test_an_overloaded_service_is_unavailable(dial) -> None:
    error = await failure(dial, Trouble.OVERLOADED)
    assert isinstance(error, ProviderUnavailable)
    assert error.code == "503"


@needs(Trouble.HANG)
async def test_a_service_that_says_nothing_is_unavailable_after_the_limit(dial) -> None:
    error = await failure(dial, Trouble.HANG)
    assert isinstance(error, ProviderUnavailable)
    assert error.code == "timeout"


@needs(Trouble.BAD_CONFIG)
async def test_a_configuration_that_is_refused_is_a_rejection(dial) -> None:
    error = await failure(dial, Trouble.BAD_CONFIG)
    assert isinstance(error, ProviderRejected)
    assert error.code


@needs(Trouble.CLOSED_EARLY)
async def test_a_service_that_closes_too_early_is_unavailable(dial) -> None:
    error = await failure(dial, Trouble.CLOSED_EARLY)
    assert isinstance(error, ProviderUnavailable)
    assert error.code == "1011"


@needs(Trouble.NOBODY)
async def test_an_address_where_nobody_listens_is_unavailable(dial) -> None:
    assert isinstance(await failure(dial, Trouble.NOBODY), ProviderUnavailable)


async def test_after_a_failure_the_next_session_is_a_good_one(dial) -> None:
    async with dial.far(TALK, Trouble.OVERLOADED) as far:
        with pytest.raises(ProviderUnavailable):
            async with far.provider.connect(setup()):
                pytest.fail("there is no session")
        far.recover()
        async with dial.on(far) as call:
            await call.session.respond()
            await call.hear_speech(GREETING)


async def test_a_set_up_that_is_cancelled_leaves_no_connection(dial) -> None:
    async with dial.far("    connect_after: 30" + TALK) as far:
        before = asyncio.all_tasks()

        async def open_session() -> None:
            async with far.provider.connect(setup()):
                pytest.fail("it was cancelled")

        async with asyncio.TaskGroup() as group:
            opening = group.create_task(open_session())
            for _ in range(20):
                await asyncio.sleep(0)
            opening.cancel()
        assert opening.cancelled()
        await settled(lambda: far.connections() == 0)
        await settled(lambda: not [task for task in asyncio.all_tasks() - before if _ours(task)])


def _ours(task: asyncio.Task) -> bool:
    """Whether it is no task of the far side, whose servers have some for each client."""
    return "provider" in str(task.get_coro()) and "fakes" not in str(task.get_coro())
