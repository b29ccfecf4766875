"""The command line: ``trunkline``."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli_config import app as config_app
from gateway.cli_sip import app as sip_app
from gateway.cli_trunk import app as trunk_app
from providers.fakes.cli import app as fake_openai_app
from providers.fakes.gemini_cli import app as fake_gemini_app
from providers.fakes.live_cli import app as fake_live_app

app = typer.Typer(
    help="A telephony voice gateway: phone calls answered by a realtime speech model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(config_app, name="config")
app.add_typer(trunk_app, name="trunk")
app.add_typer(sip_app, name="sip")
app.add_typer(fake_openai_app, name="fake-openai")
app.add_typer(fake_gemini_app, name="fake-gemini")
app.add_typer(fake_live_app, name="fake-live")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trunkline {version('trunkline')}")
        raise typer.Exit


@app.callback()
def trunkline(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """A telephony voice gateway: phone calls answered by a realtime speech model."""


@app.command()
def serve(
    config: Annotated[Path, typer.Argument(help="The configuration file (docs/configuration.md).")],
) -> None:
    """Answer calls until SIGTERM; running calls are allowed to finish."""
    from gateway.app.serve import serve as run

    raise typer.Exit(run(config))


def main() -> None:
    """Entry point of the ``trunkline`` command."""
    app()
