"""``trunkline trunk``: try a trunk from outside, list what a running gateway knows of its own."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from config.models import Settings

app = typer.Typer(help="Try a trunk, list trunks.", no_args_is_help=True, add_completion=False)

_Config = Annotated[Path, typer.Option("--config", "-c", help="The configuration file (YAML).")]


@app.command(name="test")
def try_(
    name: Annotated[str, typer.Argument(help="A trunk of the configuration.")],
    config: _Config,
    call: Annotated[
        str, typer.Option("--call", help="Also call this number over the trunk, such as one of yours.")
    ] = "",
) -> None:
    """
    Look the peer up, check its certificate, send OPTIONS, register and unregister, and perhaps call.

    Each step is one line; exit status 1 if one of them failed. Beside a running gateway it uses ports of its
    own, else the gateway's. A registrar that keeps one contact for each user forgets the gateway's until that
    registers again.
    """
    settings = _load(config)
    if name not in settings.trunks:
        from config.fields import did_you_mean

        near = did_you_mean(name, settings.trunks) or f"choose from {', '.join(settings.trunks) or 'none'}"
        typer.echo(f"{config}: there is no trunk {name!r}; {near}", err=True)
        raise typer.Exit(2)
    raise typer.Exit(asyncio.run(_test(settings, name, call)))


@app.command(name="list")
def list_(config: _Config) -> None:
    """Show the trunks of the gateway that runs with this configuration."""
    import httpx2

    listen = _load(config).server.http.listen
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen.host, listen.host)  # noqa: S104 - compared with
    place = f"[{host}]:{listen.port}" if ":" in host else f"{host}:{listen.port}"
    try:
        answer = httpx2.get(f"http://{place}/trunks", trust_env=False, timeout=5.0)
        answer.raise_for_status()
        trunks = json.loads(answer.text)["trunks"]
    except (httpx2.HTTPError, ValueError, KeyError) as error:
        typer.echo(
            f"no gateway answers at {place}: {error}; start it, or correct server.http.listen", err=True
        )
        raise typer.Exit(1) from None
    for line in table(trunks):
        typer.echo(line)


def table(trunks: list[Mapping[str, object]]) -> list[str]:
    """Lay out what ``/trunks`` says, one line for each trunk below the head."""
    rows = [("TRUNK", "CALLS", "PEER", "REACH", "REGISTRATION", "LAST ERROR")]
    rows += [_row(trunk) for trunk in trunks]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _row(trunk: Mapping[str, object]) -> tuple[str, str, str, str, str, str]:
    reach, registration, error = (_part(trunk, key) for key in ("reach", "registration", "last_error"))
    latency = reach.get("latency_ms")
    return (
        str(trunk.get("name")),
        str(trunk.get("calls")),
        str(trunk.get("peer") or "-"),
        f"{reach.get('state')}{f' {latency} ms' if latency is not None else ''}{_since(reach.get('since'))}",
        f"{registration.get('state')}{_since(registration.get('since'))}",
        f"{error.get('what')}{_since(error.get('at'))}" if error.get("what") else "-",
    )


def _part(trunk: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = trunk.get(key)
    return found if isinstance(found, dict) else {}


def _since(at: object) -> str:
    return f" {datetime.fromtimestamp(at, UTC):%m-%d %H:%M:%SZ}" if isinstance(at, int | float) else ""


def _load(file: Path) -> Settings:
    from config.errors import ConfigError
    from config.load import load
    from gateway.app.settings_check import check_settings
    from gateway.app.tool_check import check_tools

    try:
        return load(file, check_tools=check_tools, check_settings=check_settings).settings
    except ConfigError as error:
        for problem in error.problems:
            typer.echo(str(problem), err=True)
        raise typer.Exit(1) from None


async def _test(settings: Settings, name: str, number: str) -> int:
    from gateway.app.trunk_check import Verdict, check_trunk
    from gateway.telemetry.logs import configure

    configure(level="error")  # the lines below say it all
    failed = 0
    async for check in check_trunk(settings, name, number):
        todo = f"; {check.todo}" if check.todo else ""
        typer.echo(f"{check.verdict.upper():4}  {check.step:12}  {check.what}{todo}")
        failed += check.verdict is Verdict.FAIL
    return 1 if failed else 0
