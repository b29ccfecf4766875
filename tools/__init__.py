"""
What a model may do on a call.

Other packages import from here, from :mod:`tools.types` or from :mod:`tools.ports`.
"""

from config.agent_tools import (
    AgentToolConfig,
    QueryKnowledgeSettings,
    TransferCallSettings,
    TransferNumber,
)
from tools.builders.client_lookup import build_client_lookup_tool_definition
from tools.builders.end_call import build_end_call_tool_definition
from tools.builders.knowledge import build_knowledge_tool_definition
from tools.builders.transfer_call import build_transfer_call_tool_definition
from tools.collect import (
    CallTools,
    CollectedTools,
    ToolBuilders,
    collect_agent_tools,
    register_tool_builder,
    tool_registry,
)
from tools.context import CallInvocationContext, RequestAnswer, ToolContext
from tools.dispatcher import Batch, ToolDispatcher, ToolFailed
from tools.errors import AppError, ToolDefinitionError, ToolRefused
from tools.registry import (
    BindContext,
    BuildContext,
    BuiltTool,
    ToolConfigProblem,
    ToolRegistry,
    ToolToggle,
)
from tools.runtime import (
    RuntimeTool,
    ToolAuditPolicy,
    ToolEffect,
    ToolExecutionPolicy,
    ToolRetryPolicy,
)
from tools.sources import OrganizationSettings, ToolSources
from tools.types import AgentToolDefinition, CallUpdate, ToolCall, ToolResult, ToolStatus

__all__ = [
    "AgentToolConfig",
    "AgentToolDefinition",
    "AppError",
    "Batch",
    "BindContext",
    "BuildContext",
    "BuiltTool",
    "CallInvocationContext",
    "CallTools",
    "CallUpdate",
    "CollectedTools",
    "OrganizationSettings",
    "QueryKnowledgeSettings",
    "RequestAnswer",
    "RuntimeTool",
    "ToolAuditPolicy",
    "ToolBuilders",
    "ToolCall",
    "ToolConfigProblem",
    "ToolContext",
    "ToolDefinitionError",
    "ToolDispatcher",
    "ToolEffect",
    "ToolExecutionPolicy",
    "ToolFailed",
    "ToolRefused",
    "ToolRegistry",
    "ToolResult",
    "ToolRetryPolicy",
    "ToolSources",
    "ToolStatus",
    "ToolToggle",
    "TransferCallSettings",
    "TransferNumber",
    "build_client_lookup_tool_definition",
    "build_end_call_tool_definition",
    "build_knowledge_tool_definition",
    "build_transfer_call_tool_definition",
    "collect_agent_tools",
    "register_tool_builder",
    "tool_registry",
]
