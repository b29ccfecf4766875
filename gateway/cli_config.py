"""``trunkline config``: check a configuration file, print its JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import orjson
import typer

app = typer.Typer(help="Check the configuration file.", no_args_is_help=True, add_completion=False)


@app.command()
def check(file: Annotated[Path, typer.Argument(help="The configuration file (YAML).")]) -> None:
    """Print every problem, one line each; exit status 1 if there is one."""
    from config.errors import ConfigError
    from config.load import load
    from gateway.app.settings_check import check_settings
    from gateway.app.tool_check import check_tools

    try:
        loaded = load(file, check_tools=check_tools, check_settings=check_settings)
    except ConfigError as error:
        for problem in error.problems:
            typer.echo(str(problem))
        count = len(error.problems)
        typer.echo(f"{file}: {count} problem{'s' if count > 1 else ''}", err=True)
        raise typer.Exit(1) from None
    for warning in loaded.warnings:
        typer.echo(f"{warning} (warning)")
    settings = loaded.settings
    typer.echo(
        f"{file}: good: agents {_names(settings.agents)}, numbers {_names(settings.numbers)},"
        f" trunks {_names(settings.trunks)}",
        err=True,
    )


@app.command()
def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors."""
    from config.schema import schema as make_schema
    from gateway.app.tool_check import known_tools

    typer.echo(orjson.dumps(make_schema(known_tools()), option=orjson.OPT_INDENT_2).decode())


def _names(entries: Iterable[str]) -> str:
    return ", ".join(entries) or "none"
