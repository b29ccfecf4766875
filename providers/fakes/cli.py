"""
``trunkline fake-openai``: the OpenAI Realtime server as a process.

The gateway's command line mounts :data:`app`; ``python -m providers.fakes.cli`` runs it alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from providers.fakes.faults import Faults
    from providers.fakes.openai_server import OpenAIFakeServer
    from providers.fakes.script import Script

REMEMBERED = 16
"""Sessions that a process keeps; nobody can look at them, but it may run for long."""

app = typer.Typer(
    help="Serve the OpenAI Realtime API from a script, for demos and tests.",
    invoke_without_command=True,
    add_completion=False,
)


@app.callback()
def fake_openai(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 9100,
    script: Annotated[
        Path | None, typer.Option(help="What the model says (docs/fake-provider.md); a receptionist without.")
    ] = None,
    fault: Annotated[
        list[str] | None, typer.Option(help="name[:value][@seconds][#response]; may be repeated.")
    ] = None,
    api_key: Annotated[str | None, typer.Option(help="The only key to accept; by default any.")] = None,
    validate: Annotated[bool, typer.Option(help="Check each sent event with the SDK's types.")] = False,
    session_seconds: Annotated[float, typer.Option(help="How long a session may last.", min=0.1)] = 3600.0,
    list_faults: Annotated[bool, typer.Option("--list-faults", help="List the faults and exit.")] = False,
) -> None:
    """Serve until interrupted; the first line of output is the address to configure."""
    from providers.fakes.faults import FAULTS
    from providers.fakes.openai_server import OpenAIFakeServer

    if list_faults:
        for name, meaning in FAULTS.items():
            typer.echo(f"{name:16} {meaning}")
        return
    loaded, faults = _load(script, fault or [])
    server = OpenAIFakeServer(
        loaded,
        faults,
        host=host,
        port=port,
        api_key=api_key,
        validate=validate,
        session_seconds=session_seconds,
        remember=REMEMBERED,
    )
    asyncio.run(_serve(server))


def _load(script: Path | None, faults: list[str]) -> tuple[Script, Faults]:
    from providers.fakes.faults import FaultError, parse_faults
    from providers.fakes.script import DEFAULT_SCRIPT, ScriptError, load_script

    try:
        return load_script(script or DEFAULT_SCRIPT), parse_faults(",".join(faults))
    except (ScriptError, FaultError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


async def _serve(server: OpenAIFakeServer) -> None:
    """Serve until SIGINT or SIGTERM."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stopped.set)
    async with server:
        typer.echo(server.url)
        await stopped.wait()


if __name__ == "__main__":
    app()
