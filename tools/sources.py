"""Where the builders look up what an agent's tools depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from tools.ports import KnowledgeStore

if TYPE_CHECKING:
    import httpx2

DEFAULT_LOOKUP_HEADER: Final = "loquent_x_check"


@dataclass(frozen=True, slots=True)
class OrganizationSettings:
    """What an organization configured for the tools of its agents."""

    client_lookup_url: str | None = None
    client_lookup_auth: str = field(default="", repr=False)
    """A secret, sent in :attr:`client_lookup_auth_header`; no header when empty."""
    client_lookup_auth_header: str = DEFAULT_LOOKUP_HEADER


class ToolSources(Protocol):
    """
    One snapshot of the configuration and the services of a process.

    The methods raise :exc:`tools.ports.PortError` when what they read is out of reach.
    """

    async def organization(self, organization_id: str) -> OrganizationSettings | None: ...

    async def knowledge_base_ids(self, agent_id: str) -> Sequence[str]:
        """The knowledge bases that are linked to an agent, in the configuration's order."""
        ...

    @property
    def knowledge(self) -> KnowledgeStore: ...

    @property
    def http(self) -> httpx2.AsyncClient:
        """Shared by all calls; owns its connection pool and default time-outs."""
        ...
