"""
What tools need from outside, as protocols owned by the tools (DESIGN, section 2).

Who implements them: ``gateway.store`` the ledger, the audit and the knowledge store,
``gateway.dialogue`` the policy, ``gateway.calls`` the call control, ``providers`` the models.
An implementation that fails raises :exc:`PortError`; a builder turns it into ``AppError``, a
running tool into a ``failed`` result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tools.types import (
    AuditRecord,
    CallUpdate,
    EndRequest,
    KnowledgeBaseInfo,
    KnowledgePassage,
    ToolResult,
    TransferRequest,
)


class PortError(Exception):
    """Something outside the tools failed: a store, a network, a model."""


class ToolPolicy(Protocol):
    """Which tools the call's present state allows."""

    def denial(self, tool: str) -> tuple[str, str] | None:
        """Return ``(message_key, reason_code)`` when ``tool`` is not allowed now, else ``None``."""
        ...


class CallLedger(Protocol):
    """Tool calls that already ran, so that a repeated delivery never runs twice (V-17)."""

    def seen(self, call_id: str, tool_call_id: str) -> ToolResult | None: ...

    def remember(self, call_id: str, result: ToolResult) -> None: ...


class AuditSink(Protocol):
    """Takes one record for each tool call; never blocks and never raises."""

    def record(self, record: AuditRecord) -> None: ...


class KnowledgeStore(Protocol):
    """Documents of knowledge bases."""

    async def describe(self, knowledge_base_ids: Sequence[str]) -> Sequence[KnowledgeBaseInfo]:
        """List the documents of each base as they are now; raise :exc:`PortError`."""
        ...

    async def search(
        self, knowledge_base_ids: Sequence[str], query: str, *, limit: int
    ) -> Sequence[KnowledgePassage]:
        """Return relevant passages, best first, or nothing; raise :exc:`PortError`."""
        ...


class TextModel(Protocol):
    """A text model for sub-agents and structured answers."""

    async def complete(self, *, instructions: str, prompt: str, temperature: float | None = None) -> str: ...


class Embedder(Protocol):
    """Turns texts into vectors of one fixed width."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]: ...


class CallControl(Protocol):
    """
    What a tool may ask of its call. Each method only queues a request: the call applies the
    one winning terminal request after the batch (C-10).
    """

    def request_end(self, request: EndRequest) -> bool:
        """Queue the end; ``False`` when a terminal request is already pending."""
        ...

    def request_transfer(self, request: TransferRequest) -> bool:
        """Queue a transfer; ``False`` when a terminal request is already pending."""
        ...

    def request_update(self, update: CallUpdate) -> str:
        """Queue an update; returns ``"unsupported"`` where the call cannot take one."""
        ...
