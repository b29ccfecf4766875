"""Fakes that satisfy the ports of the tools, and the tools that the tests run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx2

from config.agent_tools import AgentToolConfig
from tools import (
    CallInvocationContext,
    OrganizationSettings,
    RuntimeTool,
    ToolAuditPolicy,
    ToolCall,
    ToolDispatcher,
    ToolEffect,
    ToolExecutionPolicy,
    ToolFailed,
    ToolRetryPolicy,
)
from tools.ports import PortError
from tools.types import (
    AuditRecord,
    CallUpdate,
    EndRequest,
    KnowledgeBaseInfo,
    KnowledgePassage,
    TerminalRequest,
    ToolResult,
    TransferRequest,
)

LOOKUP_URL = "https://crm.example.com/lookup"
SECRET = "s3cr3t-canary-value"
SALES = "+12125551234"
SUPPORT = "+12125555678"


@dataclass
class FakeKnowledge:
    """Knowledge bases in a dictionary: base -> title -> text."""

    bases: dict[str, dict[str, str]] = field(default_factory=dict)
    broken: bool = False
    searches: list[tuple[tuple[str, ...], str]] = field(default_factory=list)

    async def describe(self, knowledge_base_ids: Sequence[str]) -> Sequence[KnowledgeBaseInfo]:
        self._check()
        return [KnowledgeBaseInfo(base, tuple(self.bases[base])) for base in knowledge_base_ids]

    async def search(
        self, knowledge_base_ids: Sequence[str], query: str, *, limit: int
    ) -> Sequence[KnowledgePassage]:
        self._check()
        self.searches.append((tuple(knowledge_base_ids), query))
        hits = [
            KnowledgePassage(title, text, 0.9)
            for base in knowledge_base_ids
            for title, text in self.bases[base].items()
            if query.lower() in text.lower()
        ]
        return hits[:limit]

    def _check(self) -> None:
        if self.broken:
            raise PortError("the disk is gone")


@dataclass
class FakeSources:
    """Settings in memory; ``broken`` is a store that fails."""

    organizations: dict[str, OrganizationSettings] = field(default_factory=dict)
    links: dict[str, tuple[str, ...]] = field(default_factory=dict)
    knowledge: FakeKnowledge = field(default_factory=FakeKnowledge)
    http: httpx2.AsyncClient = field(default_factory=lambda: httpx2.AsyncClient(transport=refuse_all()))
    broken: bool = False

    async def organization(self, organization_id: str) -> OrganizationSettings | None:
        self._check()
        return self.organizations.get(organization_id)

    async def knowledge_base_ids(self, agent_id: str) -> Sequence[str]:
        self._check()
        return self.links.get(agent_id, ())

    def _check(self) -> None:
        if self.broken:
            raise PortError("the store is gone")


def refuse_all() -> httpx2.MockTransport:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("nothing listens", request=request)

    return httpx2.MockTransport(refuse)


def streamed(status: int, body: bytes | str = b"", headers: dict[str, str] | None = None) -> httpx2.Response:
    """An answer whose body arrives in pieces, as from a network."""
    data = body.encode() if isinstance(body, str) else body

    async def pieces():
        for start in range(0, len(data), 16_384):
            yield data[start : start + 16_384]

    return httpx2.Response(status, content=pieces(), headers=headers)


def full_sources() -> FakeSources:
    """An organization with a look-up and an agent with a knowledge base."""
    return FakeSources(
        organizations={"acme": OrganizationSettings(LOOKUP_URL, SECRET)},
        links={"reception": ("handbook",)},
        knowledge=FakeKnowledge({"handbook": {"Opening hours": "We open at nine."}}),
    )


def full_config() -> AgentToolConfig:
    """All four tools on."""
    return AgentToolConfig.model_validate(
        {
            "query_knowledge": {"enabled": True, "knowledge_bases": ["handbook"]},
            "lookup_caller": {"enabled": True},
            "transfer_call": {
                "enabled": True,
                "numbers": [
                    {"number": SALES, "label": "Sales"},
                    {"number": SUPPORT, "label": "Support"},
                ],
            },
        }
    )


@dataclass
class FakePolicy:
    """Denies the named tools."""

    denied: dict[str, tuple[str, str]] = field(default_factory=dict)

    def denial(self, tool: str) -> tuple[str, str] | None:
        return self.denied.get(tool)


@dataclass
class FakeLedger:
    """Remembers everything; ``broken`` ledgers fail."""

    results: dict[tuple[str, str], ToolResult] = field(default_factory=dict)
    broken: bool = False

    def seen(self, call_id: str, tool_call_id: str) -> ToolResult | None:
        self._check()
        return self.results.get((call_id, tool_call_id))

    def remember(self, call_id: str, result: ToolResult) -> None:
        self._check()
        self.results[call_id, result.call_id] = result

    def _check(self) -> None:
        if self.broken:
            raise PortError("the ledger is gone")


@dataclass
class FakeAudit:
    records: list[AuditRecord] = field(default_factory=list)

    def record(self, record: AuditRecord) -> None:
        self.records.append(record)


@dataclass
class FakeControl:
    """A call: holds one terminal request, as a real one does until it is over."""

    terminal: TerminalRequest | None = None
    updates: list[CallUpdate] = field(default_factory=list)
    update_answer: str = "unsupported"

    def request_end(self, request: EndRequest) -> bool:
        return self._take(request)

    def request_transfer(self, request: TransferRequest) -> bool:
        return self._take(request)

    def request_update(self, update: CallUpdate) -> str:
        self.updates.append(update)
        return self.update_answer

    def _take(self, request: TerminalRequest) -> bool:
        if self.terminal is not None:
            return False
        self.terminal = request
        return True


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Desk:
    """A dispatcher and everything around it."""

    dispatcher: ToolDispatcher
    policy: FakePolicy
    ledger: FakeLedger
    audit: FakeAudit
    control: FakeControl
    clock: FakeClock
    failures: list[ToolFailed]


def make_desk(
    *tools: RuntimeTool,
    call: CallInvocationContext | None = None,
    transfer_numbers: Sequence[str] = (SALES, SUPPORT),
    ledger: FakeLedger | None = None,
) -> Desk:
    policy, audit, control, clock = FakePolicy(), FakeAudit(), FakeControl(), FakeClock()
    ledger = ledger or FakeLedger()
    failures: list[ToolFailed] = []
    dispatcher = ToolDispatcher(
        tools,
        call=call or CallInvocationContext("call-1"),
        policy=policy,
        audit=audit,
        ledger=ledger,
        control=control,
        clock=clock,
        transfer_numbers=transfer_numbers,
        on_failure=failures.append,
    )
    return Desk(dispatcher, policy, ledger, audit, control, clock, failures)


def closed(**properties: object) -> dict[str, object]:
    """A closed object schema whose properties are all required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


NOTHING = closed()
ECHO = closed(text={"type": "string"})


def make_tool(
    name: str,
    handler,
    *,
    takes=NOTHING,
    gives=ECHO,
    effect: ToolEffect = ToolEffect.READ_ONLY,
    attempts: int = 1,
    timeout_ms: int = 5_000,
    evidence: tuple[str, ...] = (),
    **more,
) -> RuntimeTool:
    return RuntimeTool(
        name,
        "1",
        takes,
        gives,
        handler,
        ToolExecutionPolicy(effect, ToolRetryPolicy(attempts, backoff_ms=0), timeout_ms=timeout_ms),
        ToolAuditPolicy(evidence),
        **more,
    )


def called(name: str, arguments: str = "{}", call_id: str = "") -> ToolCall:
    return ToolCall(call_id or f"id-{name}", name, arguments)


def saying(text):
    async def say(context, arguments):
        return {"text": text}

    return say


async def ends(context, arguments):
    context.request_end()
    return {"text": "ends"}


async def transfers(context, arguments):
    context.request_transfer(SALES, "Sales")
    return {"text": "transfers"}


async def breaks(context, arguments):
    raise RuntimeError(SECRET)


def statuses(batch):
    return [result.status for result in batch.results]


def reasons(batch):
    return [result.reason_code for result in batch.results]
