"""
YAML text to :class:`~providers.fakes.script.Script`, with every problem as a sentence.

Nothing is raised at the first mistake: a reader collects problems, each with file, line and key.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError

from providers.fakes import speech
from providers.fakes.script import (
    Act,
    Call,
    Connect,
    Hearing,
    OnCallerTurn,
    OnDtmf,
    OnGreeting,
    OnIdle,
    OnKnows,
    OnText,
    OnToolResult,
    Outcome,
    Pace,
    Say,
    Scene,
    Script,
    ScriptError,
    Status,
    Step,
    Trigger,
    json_arguments,
)
from providers.fakes.speech import Recording, SpeechError, Tone
from providers.fakes.vad import VadSettings
from providers.types import PCM16_16K, PCM16_24K, PCMA, PCMU, AudioFormat

_FORMATS: dict[str, AudioFormat] = {
    "pcmu": PCMU,
    "pcma": PCMA,
    "pcm16_16k": PCM16_16K,
    "pcm16_24k": PCM16_24K,
}
_TOP_KEYS = (
    "connect", "connect_after", "lose_after", "formats", "speech", "hearing", "otherwise", "scenes", "steps",
)  # fmt: skip
_STEP_KEYS = ("on", "heard", "say", "call", "after", "outcome", "repeat", "then")
_TRIGGERS = "greeting, caller_turn, barge_in, idle, or {dtmf|text|tool_result|knows|idle: ...}"
_KEYS = re.compile(r"[0-9*#A-D]+")
_DEFAULT_IDLE = 8.0
_Choice = TypeVar("_Choice", Connect, Status)


def parse_script(text: str, path: Path) -> Script:
    """Return the script in ``text``; ``path`` names it in messages and locates its audio."""
    try:
        root = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ScriptError((f"{path}:{line}: this is not YAML: {error.problem}",)) from error
    parser = _Parser(path)
    script = parser.script(root)
    if parser.problems:
        raise ScriptError(tuple(parser.problems))
    return script


class _Node:
    """A mapping with its place in the file; reading a key says what type it must have."""

    def __init__(self, parser: _Parser, value: CommentedMap, key: str) -> None:
        self._parser = parser
        self.value = value
        self.key = key

    @property
    def line(self) -> int:
        return int(self.value.lc.line) + 1

    def line_of(self, name: str) -> int:
        return int(self.value.lc.key(name)[0]) + 1 if name in self.value else self.line

    def path(self, name: str) -> str:
        return f"{self.key}.{name}" if self.key else name

    def wrong(self, name: str, what: str) -> None:
        self._parser.wrong(self.line_of(name), self.path(name), what)

    def allow(self, *names: str) -> None:
        for name in self.value:
            if name not in names:
                near = difflib.get_close_matches(str(name), names, n=1)
                hint = f"did you mean {near[0]}?" if near else f"write one of {', '.join(names)}"
                self.wrong(name, f"unknown key; {hint}")

    def number(self, name: str, default: float, *, low: float, high: float) -> float:
        value = self.value.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            self.wrong(
                name, f"{value!r} is not a number from {low:g} to {high:g}; write one, such as {default:g}"
            )
            return default
        return float(value)

    def text(self, name: str) -> str | None:
        value = self.value.get(name)
        if value is not None and not isinstance(value, str):
            self.wrong(name, f"{value!r} is not text; put it in quotes")
            return None
        return value

    def pattern(self, name: str) -> re.Pattern[str] | None:
        text = self.text(name)
        return None if text is None else self.compiled(name, text)

    def compiled(self, name: str, text: str) -> re.Pattern[str] | None:
        try:
            return re.compile(text, re.IGNORECASE)
        except re.error as error:
            self.wrong(
                name, f"is not a regular expression ({error}); escape special characters with a backslash"
            )
            return None

    def child(self, name: str) -> _Node:
        return self._parser.node(self.value.get(name), self.line_of(name), self.path(name))


class _Parser:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.problems: list[str] = []

    def wrong(self, line: int, key: str, what: str) -> None:
        self.problems.append(f"{self._path}:{line}: {key or 'the script'}: {what}")

    def node(self, value: object, line: int, key: str) -> _Node:
        if isinstance(value, CommentedMap):
            return _Node(self, value, key)
        if value is not None:
            self.wrong(line, key, "is not a mapping; write `key: value` lines")
        empty = CommentedMap()
        empty.lc.line, empty.lc.col = line - 1, 0
        return _Node(self, empty, key)

    def each(self, node: _Node, name: str) -> Iterator[tuple[object, int, str]]:
        """Yield the elements of a list with line and key; a single value is a list of one."""
        value = node.value.get(name)
        if isinstance(value, CommentedSeq):
            for index, element in enumerate(value):
                yield element, int(value.lc.item(index)[0]) + 1, f"{node.path(name)}[{index}]"
        elif value is not None:
            yield value, node.line_of(name), node.path(name)

    def script(self, root: object) -> Script:
        top = self.node(root, 1, "")
        top.allow(*_TOP_KEYS)
        if ("steps" in top.value) == ("scenes" in top.value):
            self.wrong(1, "", "has to have either `steps` or `scenes`; write one of them")
        scenes = tuple(self._scene(self.node(*where)) for where in self.each(top, "scenes"))
        if "steps" in top.value:
            scenes = (Scene(instructions=None, steps=self._steps(top, "steps")),)
        return Script(
            scenes=scenes,
            otherwise=self._otherwise(top),
            connect=self._choice(top, "connect", Connect.ACCEPT),
            connect_after=top.number("connect_after", 0.0, low=0.0, high=3600.0),
            lose_after=top.number("lose_after", 30.0, low=0.0, high=86400.0)
            if "lose_after" in top.value
            else None,
            pace=self._pace(top.child("speech")),
            hearing=self._hearing(top.child("hearing")),
            formats=self._formats(top),
        )

    def _choice(self, node: _Node, name: str, default: _Choice) -> _Choice:
        value = node.value.get(name)
        choices = {str(choice): choice for choice in type(default)}
        if value is None or str(value) in choices:
            return default if value is None else choices[str(value)]
        node.wrong(name, f"{value!r} is not known; write one of {', '.join(choices)}")
        return default

    def _formats(self, top: _Node) -> tuple[AudioFormat, ...]:
        formats: list[AudioFormat] = []
        for value, line, key in self.each(top, "formats"):
            if str(value) in _FORMATS:
                formats.append(_FORMATS[str(value)])
            else:
                self.wrong(line, key, f"{value!r} is no format; write one of {', '.join(_FORMATS)}")
        return tuple(formats) or (PCMU, PCMA)

    def _pace(self, node: _Node) -> Pace:
        node.allow("speed", "delta_ms", "latency_ms")
        lengths: list[int] = []
        for value, line, key in self.each(node, "delta_ms"):
            if isinstance(value, int) and not isinstance(value, bool) and 20 <= value <= 5000:
                lengths.append(value)
            else:
                self.wrong(
                    line, key, f"{value!r} is not a length from 20 to 5000; write milliseconds such as 200"
                )
        return Pace(
            speed=node.number("speed", 4.0, low=0.1, high=1000.0),
            delta_ms=tuple(lengths) or Pace().delta_ms,
            latency_ms=int(node.number("latency_ms", 0, low=0, high=60000)),
        )

    def _hearing(self, node: _Node) -> Hearing:
        node.allow("threshold", "prefix_padding_ms", "silence_ms", "transcript_after_ms", "timeline")
        return Hearing(
            vad=VadSettings(
                threshold=node.number("threshold", 0.5, low=0.0, high=1.0),
                prefix_padding_ms=int(node.number("prefix_padding_ms", 300, low=0, high=5000)),
                silence_ms=int(node.number("silence_ms", 500, low=20, high=10000)),
            ),
            timeline=self._timeline(node) if "timeline" in node.value else None,
            transcript_after_ms=int(node.number("transcript_after_ms", 150, low=0, high=60000)),
        )

    def _timeline(self, node: _Node) -> tuple[tuple[int, int], ...]:
        turns: list[tuple[int, int]] = []
        for where in self.each(node, "timeline"):
            turn = self.node(*where)
            turn.allow("start_ms", "stop_ms")
            start_ms = int(turn.number("start_ms", 0, low=0, high=1e9))
            stop_ms = int(turn.number("stop_ms", 0, low=0, high=1e9))
            if stop_ms <= start_ms or (turns and start_ms < turns[-1][1]):
                turn.wrong("start_ms", "the turns overlap; write them in order, each start before its stop")
            turns.append((start_ms, stop_ms))
        return tuple(turns)

    def _otherwise(self, top: _Node) -> tuple[Act, ...]:
        if top.value.get("otherwise") == "silence":
            return ()
        if "otherwise" not in top.value:
            path = speech.AUDIO_FOLDER / "okay.flac"
            return (Say(Recording(path), speech.words_of(path)),)
        return self._says(top, "otherwise")

    def _scene(self, node: _Node) -> Scene:
        node.allow("name", "when", "steps")
        when = node.child("when")
        when.allow("instructions")
        if "steps" not in node.value:
            node.wrong("steps", "is missing; write the steps of the scene")
        return Scene(
            instructions=when.pattern("instructions"),
            steps=self._steps(node, "steps"),
            name=node.text("name") or "",
        )

    def _steps(self, node: _Node, name: str) -> tuple[Step, ...]:
        return tuple(self._step(self.node(*where)) for where in self.each(node, name))

    def _step(self, node: _Node) -> Step:
        node.allow(*_STEP_KEYS)
        acts: tuple[Act, ...] = ()
        for name in node.value:
            if name == "say":
                acts += self._says(node, "say")
            elif name == "call":
                acts += self._calls(node)
        if not {"say", "call", "outcome"} & set(node.value):
            node.wrong("say", "is missing; a step needs `say`, `call` or `outcome`")
        return Step(
            on=self._trigger(node),
            acts=acts,
            heard=node.text("heard"),
            after=node.number("after", 0.0, low=0.0, high=3600.0),
            outcome=self._outcome(node),
            uses=self._uses(node),
            then=self._steps(node, "then"),
            line=node.line,
        )

    def _uses(self, node: _Node) -> int | None:
        value = node.value.get("repeat", 1)
        if value is True:
            return None
        if value is False:
            return 1
        return int(node.number("repeat", 1, low=1, high=1e6))

    def _outcome(self, node: _Node) -> Outcome:
        value = node.value.get("outcome")
        if isinstance(value, CommentedMap):
            child = node.child("outcome")
            child.allow("status", "code")
            return Outcome(self._choice(child, "status", Status.COMPLETED), child.text("code") or "")
        return Outcome(self._choice(node, "outcome", Status.COMPLETED))

    def _trigger(self, node: _Node) -> Trigger:
        value = node.value.get("on")
        match value:
            case "greeting":
                return OnGreeting()
            case "caller_turn":
                return OnCallerTurn(barge_in=False)
            case "barge_in":
                return OnCallerTurn(barge_in=True)
            case "idle":
                return OnIdle(_DEFAULT_IDLE)
            case CommentedMap() if len(value) == 1:
                return self._conditional(node.child("on"))
            case _:
                node.wrong("on", f"{value!r} is no event; write {_TRIGGERS}")
                return OnGreeting()

    def _conditional(self, node: _Node) -> Trigger:
        match next(iter(node.value)):
            case "dtmf":
                keys = str(node.value["dtmf"]).upper()
                if keys != "ANY" and not _KEYS.fullmatch(keys):
                    node.wrong(
                        "dtmf", f"{keys!r} has no telephone keys; write digits, * or # in quotes, or any"
                    )
                return OnDtmf(None if keys == "ANY" else keys)
            case "text":
                return OnText(node.pattern("text") or re.compile(""))
            case "tool_result":
                return self._tool_result(node)
            case "knows":
                return self._knows(node)
            case "idle":
                return OnIdle(node.number("idle", _DEFAULT_IDLE, low=0.1, high=86400.0))
            case other:
                node.wrong(other, f"unknown event; write {_TRIGGERS}")
                return OnGreeting()

    def _knows(self, node: _Node) -> OnKnows:
        texts = [str(value) for value, _, _ in self.each(node, "knows")]
        if not texts:
            node.wrong("knows", "names nothing; write a regular expression, or a list of some")
        patterns = (node.compiled("knows", text) for text in texts)
        return OnKnows(tuple(each for each in patterns if each is not None))

    def _tool_result(self, node: _Node) -> OnToolResult:
        output = None
        if isinstance(node.value["tool_result"], CommentedMap):
            node = node.child("tool_result")
            node.allow("tool", "output")
            output = node.pattern("output")
            name = "tool"
        else:
            name = "tool_result"
        tools = tuple(str(value) for value, _, _ in self.each(node, name))
        if not tools:
            node.wrong(name, "names no tool; write its name")
        return OnToolResult(tools, output)

    def _says(self, node: _Node, name: str) -> tuple[Act, ...]:
        return tuple(say for where in self.each(node, name) if (say := self._say(*where)) is not None)

    def _say(self, value: object, line: int, key: str) -> Say | None:
        if isinstance(value, str):
            return self._recording(value, None, line, key)
        node = self.node(value, line, key)
        node.allow("audio", "text", "tone", "ms")
        text = node.text("text")
        match node.value.get("audio"), node.value.get("tone"):
            case str(audio), None:
                return self._recording(audio, text, line, key)
            case None, int():
                hz = int(node.number("tone", 440, low=50, high=3500))
                return Say(Tone(hz, int(node.number("ms", 1000, low=20, high=600000))), text or "")
            case _:
                self.wrong(
                    line, key, "names no sound; write `audio: file.flac` or `tone: 440` with `ms: 1000`"
                )
                return None

    def _recording(self, name: str, text: str | None, line: int, key: str) -> Say | None:
        folders = (self._path.parent, speech.AUDIO_FOLDER)
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path is None:
            packaged = [file.name for file in speech.AUDIO_FOLDER.glob("*.flac")]
            near = difflib.get_close_matches(name, packaged, n=1)
            hint = f"did you mean {near[0]}?" if near else "put the file beside the script"
            self.wrong(line, key, f"there is no recording {name}; {hint}")
            return None
        try:
            speech.check(Recording(path))
        except SpeechError as error:
            self.wrong(line, key, str(error))
            return None
        return Say(Recording(path), speech.words_of(path) if text is None else text)

    def _calls(self, node: _Node) -> tuple[Act, ...]:
        return tuple(self._call(self.node(*where)) for where in self.each(node, "call"))

    def _call(self, node: _Node) -> Call:
        node.allow("tool", "arguments", "arguments_text")
        tool = node.text("tool")
        if tool is None:
            node.wrong("tool", "is missing; write the name of the tool")
        text = node.text("arguments_text")
        if text is not None and "arguments" in node.value:
            node.wrong("arguments_text", "stands beside `arguments`; write only one of them")
        return Call(tool or "", json_arguments(node.child("arguments").value) if text is None else text)
