"""``trunkline sip``: what was said in SIP in a call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import orjson
import typer

from gateway.calls.ladder import Entry, LadderWriter, printable
from gateway.calls.sip_log import FILE

app = typer.Typer(help="Look at the SIP of calls.", no_args_is_help=True, add_completion=False)

_POLL_S = 0.25
_LAST_WORDS_S = 2.0


@app.callback()
def sip() -> None:
    """Look at the SIP of calls."""


@app.command()
def trace(
    which: Annotated[
        str, typer.Argument(help="A call's folder, its id or the beginning of it, or its SIP Call-ID.")
    ],
    recordings: Annotated[
        Path, typer.Option(help="The folder with all calls, where there is no --config.")
    ] = Path("recordings"),
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="The configuration file, which knows where calls lie."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print whole messages.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the call is over.")] = False,
) -> None:
    """Print the SIP messages of a call as a ladder; also while it goes on."""
    file = _find(which, recordings if config is None else _recordings_of(config))
    for line in _summary(file.parent):
        typer.echo(line)
    writer = LadderWriter(full=full)
    for entry in _entries(file, follow=follow):
        for line in writer.lines(entry):
            typer.echo(line)


def _recordings_of(config: Path) -> Path:
    """Return where the gateway with this configuration keeps its calls; exits where it keeps none."""
    from config.errors import ConfigError
    from config.load import load

    try:
        recordings = load(config).settings.storage.recordings
    except ConfigError as error:
        for problem in error.problems:
            typer.echo(str(problem), err=True)
        raise typer.Exit(1) from None
    if recordings is None:
        typer.echo(f"{config}: keeps no calls; add storage: {{recordings: FOLDER}}", err=True)
        raise typer.Exit(1)
    return recordings


def _find(which: str, recordings: Path) -> Path:
    """Return the file of the call that is meant; exits with a sentence when there is not exactly one."""
    folder = Path(which)
    if (folder / FILE).is_file():
        return folder / FILE
    found = sorted(recordings.glob(f"*/{FILE}"))
    meant = [file for file in found if file.parent.name == which]
    meant = meant or [file for file in found if file.parent.name.startswith(which)]
    meant = meant or [file for file in found if _names_call(file, which)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        typer.echo(f"{which}: {len(meant)} calls begin like this; write more of the id", err=True)
    elif folder.is_dir():
        typer.echo(
            f"{which}: no {FILE} there; storage.sip_trace was off, or it is no call's folder", err=True
        )
    else:
        typer.echo(
            f"{which}: no such call in {recordings}; name its folder, or write --config FILE", err=True
        )
    raise typer.Exit(1)


def _names_call(file: Path, sip_call_id: str) -> bool:
    """Whether the first message of a file carries that Call-ID."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        return sip_call_id in next(lines, "")


def _summary(folder: Path) -> Iterator[str]:
    """Yield who called whom and how it ended, once the call is over."""
    try:
        record = orjson.loads((folder / "call.json").read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return
    who = f"{record.get('caller') or 'anonymous'} to {record.get('called')}, trunk {record.get('trunk')}"
    end = f"{record.get('reason')} by {record.get('by') or 'nobody'}"
    yield printable(f"{record.get('started_at')}  {who}, agent {record.get('agent')}, ended: {end}")


def _entries(file: Path, *, follow: bool) -> Iterator[Entry]:
    """Yield the messages of a file; with ``follow`` also those that are still to come."""
    deadline: float | None = None
    with file.open("rb") as lines:
        rest = b""
        while True:
            rest += lines.read()
            *whole, rest = rest.split(b"\n")
            for line in whole:
                if (entry := _entry(line)) is not None:
                    yield entry
            if not follow or (deadline is not None and time.monotonic() > deadline):
                return
            if deadline is None and (file.parent / "call.json").exists():
                deadline = time.monotonic() + _LAST_WORDS_S
            time.sleep(_POLL_S)


def _entry(line: bytes) -> Entry | None:
    """Read one line; ``None`` for one that a crash has cut."""
    try:
        found = orjson.loads(line)
        return Entry(
            at=float(found["at"]),
            sent=bool(found["sent"]),
            transport=str(found["transport"]),
            local=str(found["local"]),
            remote=str(found["remote"]),
            text=str(found["message"]),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None
