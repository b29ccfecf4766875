"""
Log set-up: structlog for us and, through the same processors, for every library that logs.

Each line is one event with its fields. Inside :func:`call_context` all lines carry the call's id and
trunk, whoever writes them.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import MutableMapping
from contextlib import AbstractContextManager
from typing import Literal, TextIO

import orjson
import structlog

from gateway.telemetry.redaction import Redactor

Format = Literal["json", "console"]
Level = Literal["debug", "info", "warning", "error"]

_NOISY = (
    "httpx",
    "httpx2",
    "httpcore",
    "openai",
    "google_genai",
    "websockets",
    "watchfiles",
    "uvicorn",
    "asyncio",
)
"""Libraries that tell of every request or frame at their own info level."""


def configure(
    format: Format | None = None,  # noqa: A002  it is what an operator calls it
    *,
    level: Level = "info",
    show_callers: bool = False,
    stream: TextIO | None = None,
) -> None:
    """
    Set logging up for the process; once, before anything is logged.

    Args:
        format: ``json`` for machines, ``console`` for people; by default console on a terminal.
        level: Lines below it are not made at all.
        show_callers: Log callers' numbers in full instead of their last four digits.
        stream: Where to; standard error by default.
    """
    stream = stream or sys.stderr
    chosen: Format = format or ("console" if stream.isatty() else "json")
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        Redactor(show_callers=show_callers),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderer(chosen, colors=stream.isatty()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def call_context(call_id: str, trunk: str) -> AbstractContextManager[None]:
    """Put a call's id and trunk on every line that is logged inside, also by tasks started there."""
    return structlog.contextvars.bound_contextvars(call_id=call_id, trunk=trunk)


def _renderer(chosen: Format, *, colors: bool) -> list[structlog.types.Processor]:
    if chosen == "json":
        return [structlog.processors.JSONRenderer(serializer=_json)]
    plain = structlog.dev.plain_traceback
    return [_one_line, structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]


def _json(event: object, default: object = None, **_options: object) -> str:
    try:
        return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except (
        TypeError
    ):  # octets of a peer that are no UTF-8, or a number without end: the line must not be lost
        text = json.dumps(event, default=str, ensure_ascii=False, skipkeys=True)
        return text.encode("utf-8", "replace").decode()


def _one_line(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    """Escape control characters, so that a caller cannot forge a line; JSON does so by itself."""
    return {
        key: _escaped(value, lines=key == "exception") if isinstance(value, str) else value
        for key, value in event.items()
    }


def _escaped(text: str, *, lines: bool) -> str:
    if lines:
        return text.encode("utf-8", "backslashreplace").decode()
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
