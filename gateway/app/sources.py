"""What the tool builders look things up in: one snapshot of the settings."""

from __future__ import annotations

from collections.abc import Sequence

import httpx2

from config.agent_tools import AgentToolConfig, QueryKnowledgeSettings
from config.models import Settings
from gateway.store.knowledge import FolderKnowledge
from tools.sources import OrganizationSettings


class ConfigSources:
    """
    Satisfies :class:`tools.sources.ToolSources`.

    Args:
        settings: The snapshot; a reload makes new sources.
        http: Shared by all calls of the process.
    """

    def __init__(self, settings: Settings, http: httpx2.AsyncClient) -> None:
        self._settings = settings
        self._knowledge = FolderKnowledge(
            {name: base.path for name, base in settings.knowledge_bases.items()}
        )
        self._http = http

    @property
    def knowledge(self) -> FolderKnowledge:
        return self._knowledge

    @property
    def http(self) -> httpx2.AsyncClient:
        return self._http

    async def organization(self, organization_id: str) -> OrganizationSettings | None:
        entry = self._settings.organizations.get(organization_id)
        if entry is None:
            return None
        auth = entry.client_lookup_auth
        return OrganizationSettings(
            client_lookup_url=str(entry.client_lookup_url) if entry.client_lookup_url else None,
            client_lookup_auth=auth.get_secret_value() if auth else "",
            client_lookup_auth_header=entry.client_lookup_auth_header,
        )

    async def knowledge_base_ids(self, agent_id: str) -> Sequence[str]:
        tools = AgentToolConfig.model_validate(dict(self._settings.agents[agent_id].tools))
        settings = tools.get_tool_settings(QueryKnowledgeSettings, "query_knowledge")
        return settings.knowledge_bases if settings else ()
