"""
``trunkline fake-gemini``: the Gemini Live server as a process.

The gateway's command line mounts :data:`app`; ``python -m providers.fakes.gemini_cli`` runs it alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from providers.fakes.cli import REMEMBERED, load, open_journal, print_faults, stopped

if TYPE_CHECKING:
    from providers.fakes.certificate import Certificate
    from providers.fakes.gemini_server import GeminiFakeServer

app = typer.Typer(
    help="Serve the Gemini Live API from a script, for demos and tests.",
    invoke_without_command=True,
    add_completion=False,
)


@app.callback()
def fake_gemini(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 9200,
    script: Annotated[
        Path | None, typer.Option(help="What the model says (docs/fake-provider.md); a receptionist without.")
    ] = None,
    fault: Annotated[
        list[str] | None, typer.Option(help="name[:value][@seconds][#response]; may be repeated.")
    ] = None,
    afflicted: Annotated[
        int | None, typer.Option(help="How many connections have the faults; all by default.", min=0)
    ] = None,
    api_key: Annotated[str | None, typer.Option(help="The only key to accept; by default any.")] = None,
    validate: Annotated[bool, typer.Option(help="Check each sent message with the SDK's types.")] = False,
    certificate: Annotated[Path | None, typer.Option(help="PEM; needs --private-key.")] = None,
    private_key: Annotated[Path | None, typer.Option(help="PEM, of the certificate.")] = None,
    tls_folder: Annotated[
        Path, typer.Option(help="Where a certificate of its own is kept, without --certificate.")
    ] = Path(),
    connection_seconds: Annotated[
        float, typer.Option(help="How long a connection may last.", min=0.1)
    ] = 600.0,
    warning_seconds: Annotated[float, typer.Option(help="goAway comes so long before.", min=0.0)] = 60.0,
    audio_seconds: Annotated[
        float, typer.Option(help="How long a conversation may last without compression.", min=0.1)
    ] = 900.0,
    log: Annotated[
        Path | None, typer.Option(help="Write what is said on both sides to this file, a JSON line each.")
    ] = None,
    list_faults: Annotated[bool, typer.Option("--list-faults", help="List the faults and exit.")] = False,
) -> None:
    """Serve until interrupted; prints the address to configure, then the certificate to trust."""
    from providers.fakes.faults import Service
    from providers.fakes.gemini_server import GeminiFakeServer

    if list_faults:
        print_faults(Service.GEMINI)
        return
    loaded, faults = load(script, fault or [], Service.GEMINI)
    pair = _certificate(certificate, private_key, tls_folder, host)
    with contextlib.ExitStack() as opened:
        server = GeminiFakeServer(
            loaded,
            faults,
            afflicted=afflicted,
            host=host,
            port=port,
            certificate=pair,
            api_key=api_key,
            journal=None if log is None else open_journal(log, opened),
            validate=validate,
            connection_seconds=connection_seconds,
            warning_seconds=warning_seconds,
            audio_seconds=audio_seconds,
            remember=REMEMBERED,
        )
        asyncio.run(_serve(server, pair.certificate))


def _certificate(certificate: Path | None, private_key: Path | None, folder: Path, host: str) -> Certificate:
    from providers.fakes.certificate import Certificate, own_certificate

    if certificate is None and private_key is None:
        return own_certificate(folder.resolve(), host=host)
    if certificate is None or private_key is None:
        typer.echo("--certificate and --private-key belong together; write both or none", err=True)
        raise typer.Exit(1)
    for path in (certificate, private_key):
        if not path.is_file():
            typer.echo(f"{path} is no file; write the path of a PEM file", err=True)
            raise typer.Exit(1)
    return Certificate(certificate.resolve(), private_key.resolve())


async def _serve(server: GeminiFakeServer, certificate: Path) -> None:
    async with server:
        typer.echo(server.url)
        typer.echo(str(certificate))
        await stopped()


if __name__ == "__main__":
    app()
