"""
Open the session of a call while the line rings: tools first, then the first provider that answers.

A call never begins with silently missing tools or without a configured session (C-28, DESIGN section 5).
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import structlog

from gateway.calls.facts import with_facts
from gateway.calls.plan import Plan
from providers.base import Provider, ProviderSession
from providers.errors import ProviderError
from providers.types import AudioFormat, SessionSetup
from tools import AppError, CallInvocationContext, CallTools

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """A configured session, and the tools it was told of."""

    provider: str
    session: ProviderSession
    tools: CallTools


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The call cannot be served; ``reason`` is a short stable word."""

    reason: str
    detail: str


async def open_session(
    plan: Plan, line: AudioFormat, caller: CallInvocationContext, stack: AsyncExitStack
) -> Opened | Unavailable:
    """
    Collect the tools and open a session; ``stack`` closes it.

    Providers are tried in the agent's order, each for as long as its own ``connect_timeout_s`` says.
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
    )
    failures: list[str] = []
    for provider in plan.providers:
        own = replace(setup, voice=plan.voices.get(provider.name))
        session = await _connect(provider, own, stack, failures)
        if session is not None:
            return Opened(provider.name, session, tools)
    return Unavailable("provider", "; ".join(failures))


async def _connect(
    provider: Provider, setup: SessionSetup, stack: AsyncExitStack, failures: list[str]
) -> ProviderSession | None:
    try:
        return await stack.enter_async_context(provider.connect(setup))
    except ProviderError as error:
        log.warning("provider.unavailable", provider=provider.name, code=error.code, error=str(error))
        failures.append(f"{provider.name}: {error}")
        return None
