import subprocess
import sys

import tools

PUBLIC = {
    "AgentToolConfig", "AgentToolDefinition", "AppError", "Batch", "BindContext", "BuildContext", "BuiltTool",
    "CallInvocationContext", "CallTools", "CallUpdate", "CollectedTools", "OrganizationSettings",
    "QueryKnowledgeSettings", "RequestAnswer", "RuntimeTool", "ToolAuditPolicy", "ToolBuilders", "ToolCall",
    "ToolConfigProblem", "ToolContext", "ToolDefinitionError", "ToolDispatcher", "ToolEffect",
    "ToolExecutionPolicy",
    "ToolFailed", "ToolRefused", "ToolRegistry", "ToolResult", "ToolRetryPolicy",
    "ToolSources", "ToolStatus", "ToolToggle", "TransferCallSettings", "TransferNumber",
    "build_client_lookup_tool_definition", "build_end_call_tool_definition",
    "build_knowledge_tool_definition",
    "build_transfer_call_tool_definition", "collect_agent_tools", "register_tool_builder", "tool_registry",
}  # fmt: skip


def test_the_package_exports_its_public_names_and_no_others():
    assert set(tools.__all__) == PUBLIC
    assert len(tools.__all__) == len(PUBLIC)
    assert all(hasattr(tools, name) for name in PUBLIC)


def test_importing_the_tools_imports_no_sdk_and_nothing_above_them():
    script = "import sys, tools; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert {"openai", "google", "mcp", "gateway", "providers", "structlog"}.isdisjoint(answer.stdout.split())
