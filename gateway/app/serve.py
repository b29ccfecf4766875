"""``trunkline serve``: load, start, obey signals."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import structlog

from config.errors import ConfigError
from config.watch import Current
from gateway.app.gateway import CannotListen, Gateway
from gateway.app.settings_check import check_settings
from gateway.app.tool_check import check_tools
from gateway.telemetry.logs import configure

log = structlog.get_logger(__name__)


def serve(path: Path) -> int:
    """
    Run the gateway until SIGTERM or SIGINT; a second signal ends the calls that are left.

    Returns the exit code: 0 after a clean drain, 1 for a configuration or an address that cannot be used.
    """
    try:
        current = Current(path, check_tools=check_tools, check_settings=check_settings)
    except ConfigError as error:
        sys.stderr.write("".join(f"{problem}\n" for problem in error.problems))
        return 1
    configure()
    for warning in current.warnings:
        log.warning("config.warning", problem=str(warning))
    try:
        if current.settings.server.loop == "uvloop":
            import uvloop

            uvloop.run(_run(current))
        else:
            asyncio.run(_run(current))
    except CannotListen as error:
        sys.stderr.write(f"{path}: {error}\n")
        return 1
    return 0


async def _run(current: Current) -> None:
    stop, force = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (force if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await Gateway(current).run(stop, force)
