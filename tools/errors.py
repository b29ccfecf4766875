"""What can go wrong with tools, apart from what a result already says."""

from __future__ import annotations

from tools.types import JsonObject, ToolStatus


class AppError(Exception):
    """
    The tools of a call cannot be collected: a store failed, or a tool is not what it says.

    A call whose tools are missing must not be answered (C-28).
    """


class ToolDefinitionError(ValueError):
    """A tool was declared wrongly: an open schema, a wrong handler, a name that is taken."""


class ToolRefused(Exception):
    """
    Raised by a handler whose answer is a refusal; it becomes the tool's result as it stands.

    A refusal is an outcome, not a fault: it is neither retried nor reported as a failure.

    Args:
        status: How the call ended; anything but ``ok``.
        reason_code: A stable word for programs.
        message_key: Names a sentence that may be said to the caller; the reason code by default.
        data: Closed JSON for the model; must hold no secrets.
    """

    def __init__(
        self,
        status: ToolStatus,
        reason_code: str,
        *,
        message_key: str | None = None,
        data: JsonObject | None = None,
    ) -> None:
        super().__init__(f"{status.value}: {reason_code}")
        self.status = status
        self.reason_code = reason_code
        self.message_key = reason_code if message_key is None else message_key
        self.data: JsonObject = data or {}
