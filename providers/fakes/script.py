"""
The script of a fake model: what it says and calls, and when. One format for both fakes.

A script is YAML. At the top stand settings, all optional, and either ``steps`` or ``scenes``::

    connect: accept            # or refuse | reject_key | hang
    connect_after: 0.0         # seconds until the session is configured
    lose_after: 30.0           # seconds until an open session breaks; none by default
    formats: [pcmu, pcma]      # what FakeVoiceProvider speaks: pcmu, pcma, pcm16_16k, pcm16_24k
    speech: {speed: 4.0, delta_ms: [200, 400, 100, 300], latency_ms: 0}
    hearing: {threshold: 0.5, prefix_padding_ms: 300, silence_ms: 500, transcript_after_ms: 150}
    otherwise: okay.flac       # said when no step fits; or the word silence
    scenes:
      - when: {instructions: "regex on the session's prompt"}
        steps: [...]
      - steps: [...]           # no `when`: for every other session

A step is one reaction of the model, used once unless it says ``repeat``::

    - on: greeting
      say: greeting.flac
    - on: caller_turn
      heard: "Who am I, and are you open?"           # the transcript of that turn
      call:                                          # several are parallel, in one response
        - {tool: lookup_caller, arguments: {}}
        - {tool: query_knowledge, arguments: {query: "opening hours"}}
    - on: {tool_result: [lookup_caller, query_knowledge]}
      say: {audio: answer.flac, text: "..."}         # the words of packaged recordings are known
    - on: caller_turn
      say: farewell.flac                             # `say` before `call`: speech comes first;
      call: {tool: end_call, arguments: {reason: done}}   # write `call` first for the other order

``on`` is one of

==================================  ===============================================================
``greeting``                        an answer was asked for, and nobody has spoken yet: neither the
                                    caller nor, before this session, the agent
``caller_turn``                     the caller finished a turn
``barge_in``                        the same, and the turn had cut off what the model was saying
``{dtmf: "1"}``, ``{dtmf: any}``    a text such as "DTMF 1 pressed" was put in, and an answer asked for
``{text: "regex"}``                 a text was put in, or the request has instructions, that match
``{tool_result: name}``             the result of that tool is there; of all of them for a list;
                                    ``{tool_result: {tool: name, output: "regex"}}`` looks inside
``{knows: ["regex", ...]}``         an answer was asked for, and each of these was put in before, at any
                                    time: as a text, or as the result of a tool; so it is in a session
                                    that goes on with the call of another
``idle``, ``{idle: 8}``             nobody spoke for so many seconds (the OpenAI server: when the
                                    session's ``idle_timeout_ms`` has passed)
==================================  ===============================================================

Whenever the model is to answer, the first step *from the top* that fits what happened since its last
answer is taken. ``then: [steps]`` of a step become available when it is taken, before all others.
``repeat: true`` or ``repeat: 3`` lets a step be used again; ``after: 0.5`` makes the model think for
that many seconds; ``outcome: failed`` or ``incomplete`` (or ``{status: failed, code:
rate_limit_exceeded}``) ends the response so. ``say`` may also be a tone, ``{tone: 440, ms: 1000,
text: "beep"}``, or a list; ``arguments_text`` instead of ``arguments`` sends text that need not be JSON.
A step needs ``say``, ``call`` or ``outcome``. ``hearing.timeline: [{start_ms: 1000, stop_ms: 2500}]``
replaces the energy detector by a plan.

The audio of a script is looked for beside the script, then in ``providers/fakes/audio``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from providers.fakes.speech import Sound
from providers.fakes.vad import VadSettings
from providers.types import PCMA, PCMU, AudioFormat

SCRIPTS_FOLDER = Path(__file__).parent / "scripts"
DEFAULT_SCRIPT = SCRIPTS_FOLDER / "default.yaml"
"""A receptionist who greets, says "Okay" to every turn, and asks after silence."""


class ScriptError(Exception):
    """A script cannot be used; one ``file:line: key: what is wrong; what to write`` a line."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Connect(StrEnum):
    """What happens to somebody who connects."""

    ACCEPT = "accept"
    REFUSE = "refuse"
    REJECT_KEY = "reject_key"
    HANG = "hang"


@dataclass(frozen=True, slots=True)
class OnGreeting:
    pass


@dataclass(frozen=True, slots=True)
class OnCallerTurn:
    barge_in: bool


@dataclass(frozen=True, slots=True)
class OnDtmf:
    keys: str | None
    """``None`` is any key."""


@dataclass(frozen=True, slots=True)
class OnText:
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class OnToolResult:
    tools: tuple[str, ...]
    output: re.Pattern[str] | None


@dataclass(frozen=True, slots=True)
class OnKnows:
    patterns: tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True)
class OnIdle:
    after: float


Trigger: TypeAlias = OnGreeting | OnCallerTurn | OnDtmf | OnText | OnToolResult | OnKnows | OnIdle


@dataclass(frozen=True, slots=True)
class Say:
    """Speak: a sound and its words."""

    sound: Sound
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """Call a tool with arguments as JSON text (or with text that is none, on purpose)."""

    tool: str
    arguments: str


Act: TypeAlias = Say | Call


class Status(StrEnum):
    """How a response ends, apart from being cancelled."""

    COMPLETED = "completed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a response; ``code`` is the error's code or the reason for being incomplete."""

    status: Status = Status.COMPLETED
    code: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One reaction."""

    on: Trigger
    acts: tuple[Act, ...]
    heard: str | None = None
    after: float = 0.0
    outcome: Outcome = Outcome()
    uses: int | None = 1
    """How often the step may be used; ``None`` is always."""
    then: tuple[Step, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Scene:
    """The steps for the sessions whose instructions match ``instructions`` (``None``: every session)."""

    instructions: re.Pattern[str] | None
    steps: tuple[Step, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast audio is generated: ``speed`` times real time, in pieces of ``delta_ms`` in turn."""

    speed: float = 4.0
    delta_ms: tuple[int, ...] = (200, 400, 100, 300)
    latency_ms: int = 0


@dataclass(frozen=True, slots=True)
class Hearing:
    """How turns are found. ``timeline`` replaces the energy detector."""

    vad: VadSettings = field(default_factory=VadSettings)
    timeline: tuple[tuple[int, int], ...] | None = None
    transcript_after_ms: int = 150


@dataclass(frozen=True, slots=True)
class Script:
    """A whole script; see the module's text for the format."""

    scenes: tuple[Scene, ...]
    otherwise: tuple[Act, ...] = ()
    connect: Connect = Connect.ACCEPT
    connect_after: float = 0.0
    lose_after: float | None = None
    pace: Pace = Pace()
    hearing: Hearing = Hearing()
    formats: tuple[AudioFormat, ...] = (PCMU, PCMA)

    def scene_for(self, instructions: str) -> Scene:
        """Return the first scene for a session with these instructions; an empty one if none fits."""
        for scene in self.scenes:
            if scene.instructions is None or scene.instructions.search(instructions):
                return scene
        return Scene(instructions=None, steps=())


def json_arguments(arguments: object) -> str:
    """Return tool arguments as the compact JSON that a model would send."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def load_script(path: Path) -> Script:
    """Read and check a script; raise :exc:`ScriptError` with every problem of the file."""
    from providers.fakes.script_parser import parse_script

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError((f"{path}: the script cannot be read ({error})",)) from error
    return parse_script(text, path)
