"""
The configuration of a running gateway: a changed file reaches the next call, a bad one nobody.

Settings are frozen, and a call keeps the ones that it started with; :class:`Current` only decides
which settings the *next* call gets.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel
from watchfiles import awatch

from config.errors import ConfigError, Problem
from config.fields import Section
from config.load import Loaded, SettingsCheck, ToolCheck, load
from config.models import Settings


@dataclass(frozen=True, slots=True)
class Reload:
    """
    What came of reading the file again.

    Attributes:
        accepted: Whether the next call gets the new settings; otherwise the old ones stay.
        problems: Why they were refused, or the warnings about what was accepted.
        restart: Keys that changed and are read at start only, one problem each; their old values
            stay in force, for the whole ``server`` section together.
    """

    accepted: bool
    problems: tuple[Problem, ...] = ()
    restart: tuple[Problem, ...] = ()


class Current:
    """
    The settings that the next call gets.

    Args:
        path: The configuration file. Raises :exc:`ConfigError` when it cannot be used at start.
        check_tools: As for :func:`config.load.load`.
        check_settings: As for :func:`config.load.load`.
        environ: As for :func:`config.load.load`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        check_tools: ToolCheck | None = None,
        check_settings: SettingsCheck | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.path = Path(path)
        self._check_tools = check_tools
        self._check_settings = check_settings
        self._environ = environ
        self._seen = _fingerprint({self.path})
        self._loaded = self._load()
        self._watch(self._loaded.files)

    @property
    def settings(self) -> Settings:
        return self._loaded.settings

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is probably not meant in the settings that are in force."""
        return self._loaded.warnings

    @property
    def files(self) -> frozenset[Path]:
        """Every file that the last attempt read, whether it was accepted or not."""
        return self._files

    def is_stale(self) -> bool:
        """Whether a file has other content than when it was read last."""
        return _fingerprint(self._files) != self._seen

    def reload(self) -> Reload:
        """
        Read the file again and swap the settings in one step, if it is good.

        It reads files and may take tens of milliseconds: a gateway with calls runs it in a thread.
        """
        self._seen = _fingerprint(self._files)
        try:
            new = self._load()
        except ConfigError as error:
            self._watch(error.files)
            return Reload(accepted=False, problems=error.problems)
        self._watch(new.files)
        old = self._loaded.settings.server
        restart = tuple(
            new.marks.problem(path, "changed, and is read at start only", "restart the gateway to use it")
            for path in changed_keys(old, new.settings.server, ("server",))
        )
        settings = new.settings.model_copy(update={"server": old}) if restart else new.settings
        self._loaded = Loaded(settings, new.marks, new.warnings, new.files)
        return Reload(accepted=True, problems=new.warnings, restart=restart)

    def _watch(self, files: Iterable[Path]) -> None:
        self._files = frozenset({self.path, *files})
        # What was read is the older content: if it changed meanwhile, the file is stale and read again.
        seen = dict(self._seen)
        self._seen = frozenset((path, seen.get(path) or _digest(path)) for path in self._files)

    def _load(self) -> Loaded:
        return load(
            self.path,
            check_tools=self._check_tools,
            check_settings=self._check_settings,
            environ=self._environ,
        )


def changed_keys(old: BaseModel, new: BaseModel, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the key paths whose values differ, as deep as sections go."""
    changed = []
    for key in type(old).model_fields:
        before, after = getattr(old, key), getattr(new, key)
        if isinstance(before, Section) and isinstance(after, Section):
            changed += changed_keys(before, after, (*path, key))
        elif before != after:
            changed.append((*path, key))
    return changed


async def follow(
    current: Current, report: Callable[[Reload], None], *, settle_ms: int = 200, poll_ms: int = 5000
) -> None:
    """
    Reload whenever the file, or one that it names, has other content; runs until it is cancelled.

    Args:
        current: What to reload; its ``settings`` change between two calls of ``report``.
        report: Told of each attempt, in the event loop.
        settle_ms: Pause after a change, because an editor writes in several steps.
        poll_ms: How often contents are compared even when the system reports no change.
    """
    while True:
        watched = current.files
        folders = {path.absolute().parent for path in watched}
        # Folders are watched and contents compared, not names: editors replace files and Kubernetes
        # swaps symbolic links. The time-out finds what no event tells of, as on network disks.
        async for _ in awatch(
            *(folder for folder in folders if folder.is_dir()),
            recursive=False,
            debounce=settle_ms,
            step=min(50, settle_ms),
            rust_timeout=poll_ms,
            yield_on_timeout=True,
        ):
            if await asyncio.to_thread(current.is_stale):
                report(await asyncio.to_thread(current.reload))
            if current.files != watched:
                break  # other folders are to be watched


def _fingerprint(files: Iterable[Path]) -> frozenset[tuple[Path, bytes]]:
    return frozenset((path, _digest(path)) for path in files)


def _digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b""
