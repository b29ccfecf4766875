"""
``trunkline fake-live``: the GPT-Live server as a process.

The gateway's command line mounts :data:`app`; ``python -m providers.fakes.live_cli`` runs it alone.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from providers.fakes.cli import REMEMBERED, load, print_faults, stopped

if TYPE_CHECKING:
    from providers.fakes.live_server import LiveFakeServer

app = typer.Typer(
    help="Serve the GPT-Live API from a script, for demos and tests.",
    invoke_without_command=True,
    add_completion=False,
)


@app.callback()
def fake_live(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 9101,
    script: Annotated[
        Path | None, typer.Option(help="What the model says (docs/fake-provider.md); a receptionist without.")
    ] = None,
    fault: Annotated[
        list[str] | None, typer.Option(help="name[:value][@seconds][#response]; may be repeated.")
    ] = None,
    api_key: Annotated[str | None, typer.Option(help="The only key to accept; by default any.")] = None,
    validate: Annotated[bool, typer.Option(help="Check each sent event with the SDK's types.")] = False,
    session_seconds: Annotated[float, typer.Option(help="How long a session may last.", min=0.1)] = 3600.0,
    frame_ms: Annotated[
        int, typer.Option(help="How much audio is in one piece of the voice.", min=20, max=1000)
    ] = 80,
    list_faults: Annotated[bool, typer.Option("--list-faults", help="List the faults and exit.")] = False,
) -> None:
    """Serve until interrupted; the first line of output is the address to configure."""
    from providers.fakes.faults import Service
    from providers.fakes.live_server import LiveFakeServer

    if list_faults:
        print_faults(Service.LIVE)
        return
    loaded, faults = load(script, fault or [], Service.LIVE)
    server = LiveFakeServer(
        loaded,
        faults,
        host=host,
        port=port,
        api_key=api_key,
        validate=validate,
        session_seconds=session_seconds,
        frame_ms=frame_ms,
        remember=REMEMBERED,
    )
    asyncio.run(_serve(server))


async def _serve(server: LiveFakeServer) -> None:
    async with server:
        typer.echo(server.url)
        await stopped()


if __name__ == "__main__":
    app()
