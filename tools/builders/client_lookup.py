"""``lookup_caller``: who is calling, from the organization's own client database (L-10 to L-14)."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from tools.context import ToolContext
from tools.errors import AppError, ToolRefused
from tools.http_get import get_text
from tools.ports import PortError
from tools.registry import BindContext, BuildContext, BuiltTool
from tools.runtime import (
    RuntimeTool,
    ToolAuditPolicy,
    ToolEffect,
    ToolExecutionPolicy,
    ToolRetryPolicy,
)
from tools.sources import OrganizationSettings, ToolSources
from tools.types import AgentToolDefinition, JsonObject, JsonValue, ToolStatus

NAME: Final = "lookup_caller"

_SECTION: Final = """\
### Caller Lookup (PROACTIVE)
- Call `lookup_caller` proactively at the start of the conversation.
- Personalise the greeting with the data that it returns.
- If it finds nothing, greet the caller without a name and do NOT mention the lookup."""

_OUTPUT: Final[JsonObject] = {
    "type": "object",
    "properties": {"found": {"type": "boolean"}, "record": {"type": "string"}},
    "required": ["found", "record"],
    "additionalProperties": False,
}

_NOT_FOUND: Final[JsonObject] = {"found": False, "record": ""}
# What trunks put where a number was withheld (RFC 3325 section 7, and carriers' own words).
_WITHHELD: Final = frozenset(
    {"", "anonymous", "restricted", "unavailable", "unknown", "private", "withheld", "asserted.invalid"}
)


async def build_client_lookup_tool_definition(
    organization_id: str, *, sources: ToolSources
) -> BuiltTool | None:
    """
    Build ``lookup_caller``; ``None`` when the organization has no ``client_lookup_url``.

    There is no parameter: the number is the call's own, so that no caller can have the record of
    another one read out. Raises :exc:`AppError` when the organization cannot be read.
    """
    if _lookup_url(await _organization(organization_id, sources)) is None:
        return None
    definition = AgentToolDefinition(
        name=NAME,
        description="Retrieves the caller's client record from the database.",
        parameters={"type": "object", "properties": {}, "additionalProperties": False},
    )
    return BuiltTool(definition, _SECTION)


async def build_client_lookup(context: BuildContext) -> BuiltTool | None:
    """Build the tool for the organization of the dialled number."""
    return await build_client_lookup_tool_definition(context.organization_id, sources=context.sources)


async def bind_client_lookup(context: BindContext) -> RuntimeTool:
    """Make the tool that asks the client database about the number that calls."""
    sources = context.build.sources
    organization = await _organization(context.build.organization_id, sources)
    url = _lookup_url(organization)
    if organization is None or url is None:
        raise AppError("the client look-up was removed while its tools were collected")
    headers: dict[str, str] = {}
    if organization.client_lookup_auth:
        headers[organization.client_lookup_auth_header] = organization.client_lookup_auth
    caller = "" if is_withheld(context.call.caller) else context.call.caller.strip()
    # A database may have the number in the form in which it came before numbers had one form.
    phones = (caller, *context.call.caller_spellings) if caller else ()

    async def lookup_caller(_tool: ToolContext, _arguments: dict[str, JsonValue]) -> JsonObject:
        for phone in phones:
            answer = await get_text(sources.http, with_phone(url, phone), headers)
            if answer.status != 404:
                break
        else:
            return _NOT_FOUND
        if answer.status >= 500:
            raise PortError(f"the client database answered {answer.status}")
        if not 200 <= answer.status < 300:
            # It will answer the same next time.
            raise ToolRefused(ToolStatus.FAILED, "lookup_refused", data={"status_code": answer.status})
        found = bool(answer.body.strip())
        return {"found": found, "record": answer.body if found else ""}

    definition = context.definition
    return RuntimeTool(
        definition.name,
        "1",
        definition.parameters,
        _OUTPUT,
        lookup_caller,
        ToolExecutionPolicy(ToolEffect.READ_ONLY, ToolRetryPolicy(2), timeout_ms=5_000),
        ToolAuditPolicy(("output.found",)),
        description=definition.description,
    )


def is_withheld(caller: str) -> bool:
    """Say whether a caller's address is no number of a person."""
    address = caller.strip().lower().removeprefix("sip:").removeprefix("sips:")
    user, _, host = address.partition("@")
    return user in _WITHHELD or host == "anonymous.invalid"


def with_phone(url: str, phone: str) -> str:
    """Add ``phone`` to the query of ``url``, which is kept as it is."""
    parts = urlsplit(url)
    query = "&".join(part for part in (parts.query, f"phone={quote(phone, safe='')}") if part)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


def _lookup_url(organization: OrganizationSettings | None) -> str | None:
    url = organization.client_lookup_url if organization else None
    return (url or "").strip() or None


async def _organization(organization_id: str, sources: ToolSources) -> OrganizationSettings | None:
    try:
        return await sources.organization(organization_id)
    except PortError as error:
        raise AppError(f"organization {organization_id} cannot be read: {error}") from error
