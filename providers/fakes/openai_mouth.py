"""
The speaking side of a server session: the one active response, those out of band, faults. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from providers.fakes import openai_wire as wire
from providers.fakes.director import Director, Reaction, TextArrived
from providers.fakes.faults import Faults
from providers.fakes.openai_billing import Billing
from providers.fakes.openai_config import SessionConfig, check_response
from providers.fakes.openai_conversation import Conversation
from providers.fakes.openai_outbox import Outbox
from providers.fakes.openai_response import COMPLETED, Ending, ResponseRun, cancelled, failed, incomplete
from providers.fakes.openai_shapes import Problem
from providers.fakes.openai_wire import Ids, Json, JsonView
from providers.fakes.performance import (
    ArgumentsPiece,
    Beat,
    SpeechEnded,
    SpeechPiece,
    at_amplitude,
    perform,
    without_end,
)
from providers.fakes.script import Pace, Status
from providers.fakes.speech import silence
from providers.types import AudioFormat

_HUGE_BYTES = 800_000
"""As base64 more than 1 MiB."""


@dataclass(frozen=True, slots=True)
class _Plan:
    beats: Iterator[Beat]
    ending: Ending


class Mouth:
    """
    Creates, advances and stops responses.

    Args:
        done: Called with the time when the response of the default conversation is over.
    """

    def __init__(
        self,
        *,
        outbox: Outbox,
        ids: Ids,
        config: SessionConfig,
        conversation: Conversation,
        director: Director,
        pace: Pace,
        faults: Faults,
        done: Callable[[float], None],
    ) -> None:
        self._outbox = outbox
        self._ids = ids
        self._config = config
        self._conversation = conversation
        self._director = director
        self._pace = pace
        self._faults = faults
        self._done = done
        self._now = 0.0
        self._tokens = 0
        self._billing = Billing()
        self._active: ResponseRun | None = None
        self._asides: list[ResponseRun] = []
        self.count = 0
        self.spoken = False
        self.frozen = False
        """The model answers nothing any more."""
        self.playing_until = 0.0
        """When a client that plays at once has played everything."""

    @property
    def active(self) -> bool:
        return self._active is not None

    @property
    def next_timeout(self) -> float | None:
        return min((run.due for run in self._runs()), default=None)

    def _runs(self) -> list[ResponseRun]:
        return [*([self._active] if self._active else []), *self._asides]

    def create(self, request: JsonView, now: float) -> Problem | None:
        """Begin a response, or return why not."""
        self._now = now
        aside = request.get("conversation", "auto") == "none"
        if request.get("conversation", "auto") not in ("auto", "none"):
            return Problem(
                "invalid_value", "Supported values are: 'auto' and 'none'.", "response.conversation"
            )
        if self.frozen or self._faults.get("ignored", response=self.count + 1):
            self.count += 1
            return None
        if self._active is not None and not aside:
            message = (
                f"Conversation already has an active response in progress: {self._active.id}. "
                "Wait until the response is finished before creating a new one."
            )
            return Problem("conversation_already_has_active_response", message)
        problem = check_response(request)
        if problem:
            return problem
        run = self._run(request, self._reaction(request, aside=aside), aside=aside)
        if aside:
            self._asides.append(run)
        else:
            self._active = run
        self._announce_limits("before")
        run.begin(now)
        self.advance(now)
        return None

    def _reaction(self, request: JsonView, *, aside: bool) -> Reaction:
        self.count += 1
        choice = request.get("tool_choice", self._config.session["tool_choice"])
        tools = choice != "none" and request.get("tools", True) != []
        texts = [str(request["instructions"])] if request.get("instructions") else []
        for item in request.get("input", ()):
            texts += [str(part["text"]) for part in item.get("content", ()) if "text" in part]
        if aside:
            return self._director.remark(texts, tools=tools)
        for text in texts:
            self._director.notice(TextArrived(text))
        return self._director.react(tools=tools)

    def _run(self, request: JsonView, reaction: Reaction, *, aside: bool) -> ResponseRun:
        settings = self._settings(request)
        fmt = wire.format_of(settings["audio_output"]["format"])
        plan = self._plan(reaction, fmt, aside=aside)
        late = self._faults.get("late_deltas", response=self.count)
        stray = self._faults.get("stray_deltas", response=self.count)
        return ResponseRun(
            emit=self._outbox.emit,
            ids=self._ids,
            conversation=None if aside else self._conversation,
            settings=settings,
            format=fmt,
            beats=plan.beats,
            ending=plan.ending,
            read=self._billing.read(self._config.session, self._conversation),
            audio_sent=self._audio_sent,
            late_deltas=int(late.number) if late else 0,
            stray_deltas=int(stray.number) if stray else 0,
        )

    def _settings(self, request: JsonView) -> Json:
        session = self._config.session
        own = {key: session["audio"]["output"][key] for key in ("format", "voice")}
        output = own | dict(request.get("audio", {}).get("output", {}))
        if isinstance(output["voice"], Mapping):
            output["voice"] = output["voice"]["id"]
        return {
            "output_modalities": request.get("output_modalities", session["output_modalities"]),
            "max_output_tokens": request.get("max_output_tokens", session["max_output_tokens"]),
            "audio_output": {"format": output["format"], "voice": output["voice"]},
            "metadata": request.get("metadata"),
        }

    def _plan(self, reaction: Reaction, fmt: AudioFormat, *, aside: bool) -> _Plan:
        number = self.count
        fault = self._faults.get("failed", response=number) or self._faults.get("no_audio", response=number)
        if fault:
            if not aside:
                self._director.take_back()
            return _Plan(iter(()), failed(fault.setting) if fault.name == "failed" else COMPLETED)
        slow = self._faults.get("slow_arguments", response=number)
        beats = perform(reaction, fmt, self._pace, arguments_for=slow.number if slow else 0.0)
        if self._faults.get("huge_delta", response=number):
            beats = _in_one_delta(beats, fmt)
        if quiet := self._faults.get("silent_audio", response=number):
            beats = at_amplitude(beats, int(quiet.number), fmt)
        if self._faults.get("hang", response=number):
            beats = without_end(beats)
        cut = self._faults.get("incomplete", response=number)
        if cut:
            whole = list(beats)
            return _Plan(iter(whole[: max(len(whole) // 2, 1)]), incomplete(cut.setting))
        if self._faults.get("cut_arguments", response=number):
            whole = list(beats)
            until = next(
                (at for at, (_, piece) in enumerate(whole) if isinstance(piece, ArgumentsPiece)), None
            )
            if until is not None:
                return _Plan(iter(whole[: until + 1]), incomplete("max_output_tokens"))
            beats = iter(whole)
        return _Plan(beats, _ending(reaction))

    def _audio_sent(self, ms: int) -> None:
        self.spoken = True
        self.playing_until = max(self.playing_until, self._now) + ms / 1000

    def advance(self, now: float) -> None:
        """Emit what is due of every response."""
        self._now = now
        for run in self._runs():
            run.advance(now)
        self._settle(now)

    def interrupt(self, now: float) -> None:
        """Stop the active response because the caller speaks."""
        if (self.active or now < self.playing_until) and self._faults.get("freeze"):
            self.frozen = True
        self.playing_until = now
        if self._active is not None:
            self._active.stop(cancelled("turn_detected"))
            self._settle(now)

    def cancel(self, response_id: str | None, now: float) -> Problem | None:
        """Stop a response because the client wants so; without an id the active one."""
        for run in self._runs():
            if run.id == response_id or (response_id is None and run is self._active):
                run.stop(cancelled("client_cancelled"))
                self._settle(now)
                return None
        return Problem("response_cancel_not_active", "Cancellation failed: no active response found")

    def _settle(self, now: float) -> None:
        self._asides = [run for run in self._asides if not run.done]
        if self._active is not None and self._active.done:
            self._tokens += self._active.usage()["total_tokens"]
            self._active = None
            self._announce_limits("after")
            self._done(now)

    def _announce_limits(self, when: str) -> None:
        fault = self._faults.get("rate_limits")
        if (fault.setting if fault else "after") == when:
            self._outbox.emit("rate_limits.updated", rate_limits=wire.rate_limits(self._tokens))


def _ending(reaction: Reaction) -> Ending:
    match reaction.outcome.status:
        case Status.COMPLETED:
            return COMPLETED
        case Status.FAILED:
            return failed(reaction.outcome.code or "server_error")
        case Status.INCOMPLETE:
            return incomplete(reaction.outcome.code or "max_output_tokens")


def _in_one_delta(beats: Iterator[Beat], fmt: AudioFormat) -> Iterator[Beat]:
    audio, text, waited = b"", "", 0.0
    for wait, piece in beats:
        if isinstance(piece, SpeechPiece):
            audio, text, waited = audio + piece.audio, text + piece.text, waited + wait
            continue
        if isinstance(piece, SpeechEnded):
            missing_ms = max(0, _HUGE_BYTES - len(audio)) // fmt.bytes_per_ms + 1
            yield waited, SpeechPiece(audio + silence(missing_ms, fmt), text)
            audio, text, waited = b"", "", 0.0
        yield wait, piece
