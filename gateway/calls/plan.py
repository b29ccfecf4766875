"""What a call is served with: a snapshot of the settings, taken when it arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from config.agent_tools import TRANSFER_CALL, AgentToolConfig, TransferCallSettings
from config.models import AgentSettings, NumberSettings, Settings
from config.prices import PriceList
from config.providers import model_of
from config.transfers import TransferMethod
from config.voices import VOICES
from gateway.calls.cost import ModelName
from gateway.calls.routing import Router
from providers.base import Provider
from tools import ToolBuilders
from tools.builders.transfer_call import transfer_numbers


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
    trunk_methods: Mapping[str, TransferMethod]
    """For each trunk how its calls are transferred."""
    transfer_numbers: frozenset[str]
    """Everybody whom the agent may transfer to."""
    models: Mapping[str, ModelName]
    """For each provider its speech model."""
    voices: Mapping[str, str]
    """For each provider the agent's voice, where it has one there."""
    prices: PriceList


def make_plans(settings: Settings, providers: Mapping[str, Provider], builders: ToolBuilders) -> Router[Plan]:
    """Lay out a plan for each configured number."""
    methods = {name: trunk.transfer.method for name, trunk in settings.trunks.items()}
    models = {name: ModelName(entry.kind, model_of(entry)) for name, entry in settings.providers.items()}
    prices = PriceList(settings.prices)

    def plan(number: str, entry: NumberSettings) -> Plan:
        agent = settings.agents[entry.agent]
        tools = AgentToolConfig.model_validate(dict(agent.tools))
        return Plan(
            number=number,
            agent_id=entry.agent,
            organization_id=entry.organization or "",
            agent=agent,
            tools=tools,
            providers=tuple(providers[name] for name in agent.providers),
            builders=builders,
            trunk_methods=methods,
            transfer_numbers=_transfer_numbers(tools),
            models=models,
            voices=_voices(agent, models),
            prices=prices,
        )

    return Router({number: plan(number, entry) for number, entry in settings.numbers.items()})


def _voices(agent: AgentSettings, models: Mapping[str, ModelName]) -> dict[str, str]:
    """Return the voice for each provider; one that does not have the agent's only voice uses its default."""
    voice = agent.voice
    if voice is None:
        return {}
    if not isinstance(voice, str):
        return dict(voice)
    lists = {name: VOICES.get(models[name].kind) for name in agent.providers}
    return {name: voice for name, known in lists.items() if known is None or voice in known}


def _transfer_numbers(tools: AgentToolConfig) -> frozenset[str]:
    if not tools.is_tool_enabled(TRANSFER_CALL):
        return frozenset()
    try:
        settings = tools.get_tool_settings(TransferCallSettings, TRANSFER_CALL)
    except ValidationError:
        return frozenset()  # the tool's builder says so to the caller's log
    return frozenset(transfer_numbers(settings))
