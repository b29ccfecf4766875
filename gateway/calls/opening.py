"""
Open sessions for a call: tools first, then the first provider that answers.

A call never begins with silently missing tools or without a configured session (C-28, DESIGN section 5).
Each session lives in a task of its own, so that one can be closed while the call goes on with another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from gateway.calls.facts import with_facts
from gateway.calls.greeting import said_before
from gateway.calls.plan import Plan
from providers.base import Provider, ProviderSession
from providers.errors import ProviderError
from providers.failover import BreakerState, Failover
from providers.types import AudioFormat, SessionSetup
from tools import AppError, CallInvocationContext, CallTools

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class OpenSession:
    """A configured session that lives until :meth:`close`."""

    provider: str
    session: ProviderSession
    _closing: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    def close(self) -> None:
        """Let it go; it is closed in its own task."""
        self._closing.set()

    async def closing(self) -> None:
        """Return when somebody has let it go."""
        await self._closing.wait()


@dataclass(frozen=True, slots=True)
class Opened:
    """A configured session, what it was configured with, and the tools it was told of."""

    first: OpenSession
    setup: SessionSetup
    tools: CallTools


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The call cannot be served; ``reason`` is a short stable word."""

    reason: str
    detail: str


class Opener:
    """
    Opens the sessions of one call.

    Args:
        providers: The agent's, the preferred first.
        voices: The agent's voice for each of them.
        on_open: Told of each session that opens, by the provider's name; it is paid for, used or not.
        failover: Whom to try; shared by all calls.
        clock: Seconds, monotonic.
        group: Owns a task for each session; :meth:`close` ends them.
        name: Of the call, for the names of the tasks.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        *,
        voices: Mapping[str, str],
        on_open: Callable[[str, ProviderSession], None],
        failover: Failover,
        clock: Callable[[], float],
        group: asyncio.TaskGroup,
        name: str,
    ) -> None:
        self._providers = {provider.name: provider for provider in providers}
        self._voices = voices
        self._on_open = on_open
        self._failover = failover
        self._clock = clock
        self._group = group
        self._name = name
        self._open: set[OpenSession] = set()

    def close(self) -> None:
        """Close every session of the call."""
        for each in self._open:
            each.close()

    @property
    def names(self) -> tuple[str, ...]:
        """The agent's providers, the preferred first."""
        return tuple(self._providers)

    def order(self, names: Sequence[str], *, urgent: bool = False) -> list[str]:
        """Return which of them to try, in order; see :meth:`Failover.order`."""
        return self._failover.order(names, self._clock(), urgent=urgent)

    def lost(self, provider: str, code: str) -> None:
        """Count a session that was lost in mid-call against its provider."""
        self._failover.failed(provider, self._clock(), code=code)
        self._log_changes()

    async def first_of(
        self, names: Iterable[str], setup: SessionSetup, failures: list[str]
    ) -> OpenSession | None:
        """Open a session of the first provider that answers, each within its own limit."""
        for name in names:
            try:
                return await self.open(name, setup)
            except ProviderError as error:
                failures.append(f"{name}: {error}")
        return None

    async def open(self, name: str, setup: SessionSetup) -> OpenSession:
        """Open a session; raises :exc:`ProviderError`. Cancelling it leaves nothing behind."""
        failover = self._failover
        failover.begin(name, self._clock())
        opened: asyncio.Future[OpenSession] = asyncio.get_running_loop().create_future()
        host = self._group.create_task(self._host(name, setup, opened), name=f"{self._name} {name}")
        try:
            session = await opened
        except asyncio.CancelledError:
            host.cancel()
            failover.abandoned(name)
            raise
        except ProviderError as error:
            failover.failed(name, self._clock(), code=error.code)
            log.warning("provider.unavailable", provider=name, code=error.code, error=str(error))
            raise
        else:
            failover.succeeded(name)
            return session
        finally:
            self._log_changes()

    async def _host(self, name: str, setup: SessionSetup, opened: asyncio.Future[OpenSession]) -> None:
        """Have a session from its opening to its end."""
        session: OpenSession | None = None
        try:
            own = replace(setup, voice=self._voices.get(name))
            async with self._providers[name].connect(own) as provided:
                session = OpenSession(name, provided)
                self._open.add(session)
                self._on_open(name, provided)
                if not opened.done():
                    opened.set_result(session)
                    await session.closing()
        except ProviderError as error:
            if not opened.done():
                opened.set_exception(error)
            else:
                log.info("provider.close_failed", provider=name, code=error.code, error=str(error))
        finally:
            if session is not None:
                self._open.discard(session)

    def _log_changes(self) -> None:
        for change in self._failover.changes():
            if change.state is BreakerState.OPEN:
                log.error(
                    "provider.breaker_opened",
                    provider=change.provider,
                    code=change.code,
                    pause_s=change.pause_s,
                )
            else:
                log.info("provider.breaker_closed", provider=change.provider)


async def open_session(
    plan: Plan, line: AudioFormat, caller: CallInvocationContext, opener: Opener
) -> Opened | Unavailable:
    """
    Collect the tools and open a session.

    Providers are tried in the agent's order, each for as long as its own ``connect_timeout_s`` says, and all
    together within the agent's ``recovery.open_s``: the caller hears ringing meanwhile.
    """
    try:
        tools = await plan.builders.prepare_call(plan.agent_id, plan.organization_id, plan.tools, caller)
    except AppError as error:
        return Unavailable("tools", str(error))
    setup = SessionSetup(
        prompt=plan.agent.prompt,
        addendum=with_facts(tools.addendum, caller.parameters),
        tools=tools.definitions,
        line=line,
        language=plan.agent.language,
        turn_detection=plan.agent.turn_detection,
        history=said_before(plan.agent.greeting),
    )
    limit_s = plan.agent.recovery.open_s
    failures: list[str] = []
    try:
        async with asyncio.timeout(limit_s):
            first = await opener.first_of(opener.order(opener.names), setup, failures)
    except TimeoutError:
        first = None
        failures.append(f"no configured session within {limit_s:g} s")
    if first is not None:
        return Opened(first, setup, tools)
    return Unavailable("provider", "; ".join(failures))
