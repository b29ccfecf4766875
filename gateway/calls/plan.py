"""What a call is served with: a snapshot of the settings, taken when it arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from config.agent_tools import AgentToolConfig
from config.models import AgentSettings, Settings
from gateway.calls.routing import Router
from providers.base import Provider
from tools import ToolBuilders


@dataclass(frozen=True, slots=True)
class Plan:
    """One number's agent, with everything it needs; never changed while a call uses it."""

    number: str
    agent_id: str
    organization_id: str
    agent: AgentSettings
    tools: AgentToolConfig
    providers: Sequence[Provider]
    builders: ToolBuilders


def make_plans(settings: Settings, providers: Mapping[str, Provider], builders: ToolBuilders) -> Router[Plan]:
    """Lay out a plan for each configured number."""
    return Router(
        {
            number: Plan(
                number=number,
                agent_id=entry.agent,
                organization_id=entry.organization or "",
                agent=(agent := settings.agents[entry.agent]),
                tools=AgentToolConfig.model_validate(dict(agent.tools)),
                providers=tuple(providers[name] for name in agent.providers),
                builders=builders,
            )
            for number, entry in settings.numbers.items()
        }
    )
