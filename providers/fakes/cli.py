"""
``trunkline fake-openai``: the OpenAI Realtime server as a process.

The gateway's command line mounts :data:`app`; ``python -m providers.fakes.cli`` runs it alone. What the
commands of all servers share stands here, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from providers.fakes.faults import Faults, Service
    from providers.fakes.journal import Journal
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
    log: Annotated[
        Path | None, typer.Option(help="Write what is said on both sides to this file, a JSON line each.")
    ] = None,
    list_faults: Annotated[bool, typer.Option("--list-faults", help="List the faults and exit.")] = False,
) -> None:
    """Serve until interrupted; the first line of output is the address to configure."""
    from providers.fakes.faults import Service
    from providers.fakes.openai_server import OpenAIFakeServer

    if list_faults:
        print_faults(Service.OPENAI)
        return
    loaded, faults = load(script, fault or [], Service.OPENAI)
    with contextlib.ExitStack() as opened:
        server = OpenAIFakeServer(
            loaded,
            faults,
            host=host,
            port=port,
            api_key=api_key,
            validate=validate,
            session_seconds=session_seconds,
            remember=REMEMBERED,
            journal=None if log is None else open_journal(log, opened),
        )
        asyncio.run(_serve(server))


def open_journal(log: Path, opened: contextlib.ExitStack) -> Journal:
    """Open the log of a server for as long as ``opened``; explain why it cannot be written and exit."""
    from providers.fakes.journal import Journal

    try:
        return Journal(opened.enter_context(log.open("ab")))
    except OSError as error:
        typer.echo(f"{log}: the log cannot be written ({error.strerror})", err=True)
        raise typer.Exit(1) from error


async def _serve(server: OpenAIFakeServer) -> None:
    async with server:
        typer.echo(server.url)
        await stopped()


def print_faults(service: Service) -> None:
    """List what a server can do wrong, a line each."""
    from providers.fakes.faults import FAULTS, SERVED

    for name, meaning in FAULTS.items():
        if name in SERVED[service]:
            typer.echo(f"{name:20} {meaning}")


def load(script: Path | None, faults: list[str], service: Service) -> tuple[Script, Faults]:
    """Return what the options name; explain what is wrong with them and exit."""
    from providers.fakes.faults import FaultError, parse_faults
    from providers.fakes.script import DEFAULT_SCRIPT, ScriptError, load_script

    try:
        return load_script(script or DEFAULT_SCRIPT), parse_faults(",".join(faults), service)
    except (ScriptError, FaultError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


async def stopped() -> None:
    """Return at SIGINT or SIGTERM."""
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, signalled.set)
    await signalled.wait()


if __name__ == "__main__":
    app()
