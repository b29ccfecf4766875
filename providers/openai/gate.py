"""
The response gate: when the model may be asked to speak.

OpenAI runs one response at a time and refuses a second (``conversation_already_has_active_response``).
It also makes responses by itself when the caller stops speaking. So a request waits here until
nothing runs, nothing is being cancelled and no answer of the server's own is due; requests that
wait together become one, and one that a response satisfies which saw all that we added is dropped.

Computes only: time comes in as ``now``, messages go out through ``to_send``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

from providers.openai.messages import CancelResponse, CreateResponse

_RESPONSES_KEPT = 16
_ITEMS_KEPT = 64
SLOW_S = 2.0
"""Whoever asks for what was asked for so long ago does not want it twice."""


class GateState(Enum):
    FREE = "nothing runs"
    CREATE_PENDING = "we asked for a response that has not begun"
    ACTIVE = "a response runs"
    CANCEL_PENDING = "a cancelled response has not ended"


class Turn(Enum):
    QUIET = "the caller does not speak"
    SPEAKING = "the caller speaks"
    DUE = "the caller has spoken: the server answers by itself"


class Timer(Enum):
    GATE = "the server owes us the next step"
    TURN = "the server owes the caller an answer"
    QUEUE = "a waiting request may go now"


@dataclass(frozen=True, slots=True)
class Timing:
    """Limits in seconds."""

    turn_wait: float = 5.0
    """From the end of the caller's speech to the server's response; then we may ask for one."""
    ignored_wait: float = 3.0
    """From ``response.create`` to the response, while the server says other things; then it was ignored."""
    create_wait: float = 10.0
    """From ``response.create`` or ``response.cancel`` to any word of the server."""
    cancel_wait: float = 2.0
    """From the caller's interruption to the end of the response; then we cancel as well."""
    progress_wait: float = 15.0
    """The longest silence of the server inside a response."""
    unknown_wait: float = 5.0
    """How long a response that we were told of but never saw is waited for."""
    hold: float = 15.0
    """The longest that a request waits for the caller to stop speaking."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the model is asked for, once it may speak."""

    instructions: str | None = None
    tools: bool = True
    audio_only: bool = False
    refusals: int = 0
    not_before: float = 0.0
    hold_until: float = 0.0

    @property
    def plain(self) -> bool:
        """Whether any response of the model satisfies it."""
        return self.instructions is None and self.tools

    def merged(self, other: Request) -> Request:
        """Make one request of two: nothing that was to be said is lost."""
        return Request(
            instructions=_joined(self.instructions, other.instructions),
            tools=self.tools and other.tools,
            audio_only=self.audio_only or other.audio_only,
            refusals=max(self.refusals, other.refusals),
            not_before=max(self.not_before, other.not_before),
            hold_until=min(self.hold_until, other.hold_until),
        )


def _joined(first: str | None, second: str | None) -> str | None:
    if first is None or second is None:
        return second if first is None else first
    return first if second in first.split("\n") else f"{first}\n{second}"


class ResponseGate:
    """
    At most one ``response.create`` is on its way or running at any time.

    Args:
        timing: Limits; tests pass their own.

    The session must be configured with ``create_response`` and ``interrupt_response``.
    """

    def __init__(self, timing: Timing | None = None) -> None:
        self.state = GateState.FREE
        self.turn = Turn.QUIET
        self.stalled = False
        """Whether the server stopped answering; the session is of no more use."""
        self._timing = timing or Timing()
        self._running: list[str] = []
        self._over: dict[str, None] = {}
        self._queued: Request | None = None
        self._sent: Request | None = None
        self._sent_id = ""
        self._absorbed: Request | None = None
        self._cancel_on_creation = False
        self._barged_in = False
        self._unseen: dict[str, None] = {}
        self._saw_all = False
        """Whether the response that runs began after everything that we added."""
        self._sent_at = 0.0
        self._asked_at = 0.0
        """When the response that runs, or is about to, was asked for or begun by the server."""
        self._spoke = False
        """Whether it has a voice."""
        self._spoke_since = False
        """Whether the server said anything since our request was sent."""
        self._deadlines: dict[Timer, float] = {}
        self._progress_at = 0.0
        self._count = 0
        self._ignored = False
        self._out: list[CreateResponse | CancelResponse] = []

    # Inputs.

    def request(self, request: Request, *, now: float) -> None:
        """Ask for a response as soon as it may be; one that is only slow may be the one that is wanted."""
        held = replace(request, hold_until=now + self._timing.hold)
        self._queued = held if self._queued is None else self._queued.merged(held)
        if self.state in (GateState.ACTIVE, GateState.CREATE_PENDING) and self._is_slow(now):
            self._absorb()
        self._advance(now)

    def cancel(self, *, now: float) -> None:
        """
        End what runs or is about to run.

        A response that the server itself cancels, because the caller speaks, is not cancelled
        again (``response_cancel_not_active``) unless it goes on.
        """
        match self.state:
            case GateState.CREATE_PENDING:
                self._cancel_on_creation = True
            case GateState.ACTIVE if self._barged_in:
                self.state = GateState.CANCEL_PENDING
                self._deadlines[Timer.GATE] = now + self._timing.cancel_wait
            case GateState.ACTIVE:
                self._send_cancel(now)
            case GateState.CANCEL_PENDING | GateState.FREE:
                pass

    def receive_speech_started(self, *, now: float) -> None:
        """
        Note that the caller speaks.

        A response that we asked for and that has not begun began after the speech for the
        server, which therefore does not stop it: we do.
        """
        if self.state is GateState.CREATE_PENDING:
            self._cancel_on_creation = True
        self.turn = Turn.SPEAKING
        self._barged_in = True
        self._progress_at = now
        self._deadlines.pop(Timer.TURN, None)

    def receive_speech_stopped(self, *, now: float) -> None:
        self._progress_at = now
        self.turn = Turn.DUE
        self._deadlines[Timer.TURN] = now + self._timing.turn_wait

    def receive_created(self, response_id: str, *, now: float) -> bool:
        """Note that a response runs; returns whether it was interrupted before it began."""
        self._progress_at = now
        if response_id in self._over or response_id in self._running:
            return False
        self._running = [*self._running, response_id][-_RESPONSES_KEPT:]
        self._saw_all, self._spoke = not self._unseen, False
        if self.state is GateState.FREE:
            self._asked_at = now
            if self._saw_all:
                self._absorb()
        self._barged_in = False
        if self.turn is Turn.DUE:
            self.turn = Turn.QUIET
            self._deadlines.pop(Timer.TURN, None)
        if self._cancel_on_creation:
            self._send_cancel(now)
            return True
        if self.state is not GateState.CANCEL_PENDING:
            self._run(now)
        return False

    def receive_finished(self, response_id: str, *, completed: bool, now: float) -> None:
        """Note the end of a response."""
        self._progress_at = now
        if response_id in self._over:
            return
        self._over[response_id] = None
        if len(self._over) > _RESPONSES_KEPT:
            del self._over[next(iter(self._over))]
        # One runs at a time: what began before this one is over, even if its end was lost.
        if response_id in self._running:
            self._running = self._running[self._running.index(response_id) + 1 :]
            if self._running:
                self._run(now)
        elif "" in self._running:
            self._running = []
        if self._running:
            return
        self._sent, self._sent_id = None, ""
        absorbed, self._absorbed = self._absorbed, None
        self._release()
        if absorbed is not None and not completed:
            self.request(absorbed, now=now)

    def receive_active_elsewhere(self, event_id: str, message: str, *, now: float) -> bool:
        """
        Take ``conversation_already_has_active_response``; ``False`` when it ends the matter.

        The request waits for the end of the response that is in its way and then gets a
        second try, not a third.
        """
        request = self._sent
        if request is None or event_id not in ("", self._sent_id):
            return True
        self._sent, self._sent_id = None, ""
        interrupted, self._cancel_on_creation = self._cancel_on_creation, False
        if self.state is GateState.CREATE_PENDING:
            self._run_unseen(message, now)
        if interrupted:
            return True
        if request.plain and self._saw_all and self.state is GateState.ACTIVE and "" not in self._running:
            self._absorbed = request  # the response that runs is the answer that was asked for
            return True
        if request.refusals:
            return False
        self.request(replace(request, refusals=1), now=now)
        return True

    def receive_refusal(self, event_id: str) -> bool:
        """Take another error about our ``response.create``; ``False`` where nobody waits for it."""
        if not event_id or event_id != self._sent_id or self.state is not GateState.CREATE_PENDING:
            return False
        return self._fail_create()

    def receive_nothing_to_cancel(self, *, now: float) -> None:
        """Take ``response_cancel_not_active``: whatever we waited for has ended."""
        if self.state is GateState.CANCEL_PENDING:
            self._over.update(dict.fromkeys(self._running))
            self._running = []
            self._sent, self._sent_id = None, ""
            self._release()
            self._advance(now)

    def progress(self, now: float) -> None:
        """Note that the server is alive; on the audio path."""
        self._progress_at = now
        self._spoke_since = True

    def receive_audio(self, now: float) -> None:
        """Note that the response that runs has a voice; on the audio path."""
        self._spoke = True
        self.progress(now)

    def expect_item(self, key: str) -> None:
        """Note that we added an item which the server has not confirmed."""
        self._unseen[key] = None
        self._saw_all = False
        if len(self._unseen) > _ITEMS_KEPT:
            del self._unseen[next(iter(self._unseen))]

    def receive_item(self, key: str) -> None:
        self._unseen.pop(key, None)

    def advance(self, *, now: float) -> None:
        """Send what waits, if it may go; after all events of a finished response are dealt with."""
        self._advance(now)

    def handle_timeout(self, *, now: float) -> None:
        """Fire every timer that is due. Calling early is harmless."""
        for timer in [timer for timer, at in self._deadlines.items() if at <= now]:
            del self._deadlines[timer]
            match timer:
                case Timer.GATE:
                    self._owed(now)
                case Timer.TURN:
                    self.turn = Turn.QUIET
                case Timer.QUEUE:
                    pass
        self._advance(now)

    # Outputs.

    def next_timeout(self) -> float | None:
        return min(self._deadlines.values(), default=None)

    def to_send(self) -> list[CreateResponse | CancelResponse]:
        ready, self._out = self._out, []
        return ready

    def take_ignored(self) -> bool:
        """Say whether the server has ignored a request since the last time."""
        ignored, self._ignored = self._ignored, False
        return ignored

    @property
    def response_ids(self) -> tuple[str, ...]:
        """The responses that run, those that are being cancelled among them."""
        return tuple(self._running)

    # State machine.

    def _advance(self, now: float) -> None:
        request = self._queued
        self._deadlines.pop(Timer.QUEUE, None)
        if request is None or self.state is not GateState.FREE:
            return
        wait_until = request.not_before
        if self.turn is not Turn.QUIET:
            wait_until = max(wait_until, request.hold_until)
        if wait_until > now:
            self._deadlines[Timer.QUEUE] = wait_until
            return
        self._queued = None
        self._sent, self._sent_id, self._sent_at = request, self._event_id("create"), now
        self._asked_at, self._spoke, self._saw_all = now, False, True
        self.state = GateState.CREATE_PENDING
        self._spoke_since = False
        self._deadlines[Timer.GATE] = now + self._timing.ignored_wait
        self._out.append(
            CreateResponse(self._sent_id, request.instructions, request.tools, request.audio_only)
        )

    def _is_slow(self, now: float) -> bool:
        """Whether what was asked for knows everything, and has been waited for in vain."""
        return self._saw_all and not self._spoke and now - self._asked_at >= SLOW_S

    def _absorb(self) -> None:
        """Let the response that runs, which saw all that we added, satisfy what waits."""
        if self._queued is not None and self._queued.plain:
            self._absorbed, self._queued = self._queued, None

    def _run(self, now: float) -> None:
        self.state = GateState.ACTIVE
        self._deadlines[Timer.GATE] = now + self._timing.progress_wait

    def _run_unseen(self, message: str, now: float) -> None:
        """Wait for a response that the server has told of, but whose beginning we did not see."""
        found = re.search(r"\bresp_\w+", message)
        if found and found[0] in self._over:
            self._release()
            return
        self._running, self._saw_all = [found[0] if found else ""], False
        self.state = GateState.ACTIVE
        self._deadlines[Timer.GATE] = now + self._timing.unknown_wait

    def _send_cancel(self, now: float) -> None:
        self._cancel_on_creation = False
        self.state = GateState.CANCEL_PENDING
        self._deadlines[Timer.GATE] = now + self._timing.create_wait
        for response_id in filter(None, self._running):
            self._out.append(CancelResponse(self._event_id("cancel"), response_id))

    def _release(self) -> None:
        self.state = GateState.FREE
        self._cancel_on_creation = False
        self._deadlines.pop(Timer.GATE, None)

    def _fail_create(self) -> bool:
        """Give a request up; ``False`` where it was interrupted anyway."""
        self._sent, self._sent_id, self._absorbed = None, "", None
        interrupted = self._cancel_on_creation
        self._release()
        return not interrupted

    def _owed(self, now: float) -> None:
        """Deal with a server that does not do its next step."""
        match self.state:
            case GateState.FREE:
                pass
            case GateState.CREATE_PENDING:
                if self._spoke_since:
                    self._ignored = self._fail_create()
                elif now - self._sent_at >= self._timing.create_wait:
                    self.stalled = True
                else:
                    self._deadlines[Timer.GATE] = self._sent_at + self._timing.create_wait
            case GateState.CANCEL_PENDING if self._barged_in:
                self._barged_in = False
                self._send_cancel(now)
            case GateState.ACTIVE if "" in self._running:
                self._running = []
                self._release()
            case GateState.ACTIVE if now - self._progress_at < self._timing.progress_wait:
                self._deadlines[Timer.GATE] = self._progress_at + self._timing.progress_wait
            case GateState.ACTIVE | GateState.CANCEL_PENDING:
                self.stalled = True

    def _event_id(self, what: str) -> str:
        self._count += 1
        return f"{what}-{self._count}"
