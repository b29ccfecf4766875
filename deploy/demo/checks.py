"""
Compares what the caller and the look-up service received with what the gateway recorded.

Each check is one sentence with a verdict. What was said is found in the caller's capture by content; the
gateway's record is never believed where a witness can be asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.demo.evidence import CallerSide, Lookup, Pcm, read_recording
from deploy.demo.record import Record
from deploy.demo.sound import Match, find

SALES = "+12125551234"
CALLER = "+12125550142"
SECRET = "demo-secret"  # noqa: S105 - it stands in demo.yaml
SPEECH = Path(__file__).parents[2] / "providers" / "fakes" / "audio"
LADDER = ["requested", "announced", "redirecting", "confirmed"]
LEDGER_TOLERANCE_MS = 20
"""How far the ledger may be from what arrived (DESIGN, section 3); audio comes in frames of 20 ms."""
SILENT_WITHIN_MS = 400
"""From the caller's first word to the agent's silence: 60 ms to call it speech, and one way each."""

PAUSE_S = 0.5
"""A longer silence than between two sentences."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what should be so, and whether it is; ``fault`` says what is wrong."""

    part: str
    claim: str
    fault: str = ""

    @property
    def ok(self) -> bool:
        return not self.fault

    def __str__(self) -> str:
        return f"{self.part}: {self.claim}" + ("" if self.ok else f": no, {self.fault}")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything about one call."""

    caller: CallerSide
    record: Record
    recording: Pcm
    """``call.flac``: caller left, agent right."""
    lookups: tuple[Lookup, ...]

    def hear(self, name: str) -> Match | None:
        """Find one of the agent's recordings in what the caller heard."""
        return find(read_recording(SPEECH / f"{name}.flac"), self.caller.heard)

    def heard_at(self, match: Match) -> float:
        """Return when the end of a match was heard, in seconds since the epoch."""
        return self.caller.media_at + match.ends_ms / 1000


def check_first(it: Evidence) -> list[Finding]:
    """The first call: greeting, barge-in, two tools, farewell, hang-up."""
    return [
        *_conversation(it),
        _whole(it, "greeting", "greeting", "the caller heard the whole greeting"),
        *_barge_in(it),
        _lookup(it),
        _knowledge(it),
        *_farewell(it),
        *_recording(it),
    ]


def check_transfer(it: Evidence) -> list[Finding]:
    """The second call: announcement, REFER, confirmed."""
    return [*_conversation(it), *_transfer(it)]


def check_refused(it: Evidence) -> list[Finding]:
    """The third call: a number that is not configured, and life goes on."""
    return [*_conversation(it), *_refusal(it), *_farewell(it)]


def silence_after_ms(it: Evidence) -> float | None:
    """Return the time from the caller's interrupting word to the last sound of the agent's answer."""
    words = next((said for said in it.caller.said if said.interrupting), None)
    if words is None:
        return None
    last = words.began_at
    for at in it.caller.audible_at:
        if at > last + PAUSE_S:
            break
        last = max(last, at)
    return (last - words.began_at) * 1000


def _finding(part: str, claim: str, *, unless: str | None) -> Finding:
    return Finding(part, claim, unless or "")


def _conversation(it: Evidence) -> Iterator[Finding]:
    yield _finding("call", "the caller could play its part to the end", unless=it.caller.failure)
    said = [said.text for said in it.caller.said]
    transcript = [turn.text for turn in it.record.caller_turns]
    yield _finding(
        "call", "the gateway's transcript has what the caller said",
        unless=None if said == transcript else f"the caller said {said}, call.json has {transcript}",
    )  # fmt: skip
    lost = it.caller.lost
    yield _finding("call", "no RTP packet was lost", unless=f"{lost} RTP packets were lost" if lost else None)


def _whole(it: Evidence, part: str, name: str, claim: str) -> Finding:
    match = it.hear(name)
    if match is None:
        return Finding(part, claim, f"the {name.replace('_', ' ')} is not in what the caller heard")
    if not match.complete:
        return Finding(part, claim, f"only {match.heard_ms} of its {match.of_ms} ms were heard")
    return Finding(part, claim)


def _barge_in(it: Evidence) -> Iterator[Finding]:
    interruptions, after_ms = it.record.interruptions, silence_after_ms(it)
    claim = "the agent fell silent when the caller interrupted it"
    if after_ms is None or len(interruptions) != 1:
        yield Finding("barge_in", claim, f"call.json has {len(interruptions)} interruptions, 1 is expected")
        return
    late = f"it spoke on for {after_ms:.0f} ms, {SILENT_WITHIN_MS} are allowed"
    yield _finding("barge_in", claim, unless=late if after_ms > SILENT_WITHIN_MS else None)
    ledger_ms, match = interruptions[0].heard_ms, it.hear("hours")
    low, high = (match.heard_ms, match.unheard_ms) if match else (0, 0)
    known = low - LEDGER_TOLERANCE_MS <= ledger_ms <= high + LEDGER_TOLERANCE_MS
    wrong = f"the ledger says {ledger_ms} ms, the caller's capture {low} to {high} ms"
    yield _finding("barge_in", "the ledger knows how much of it was heard", unless=None if known else wrong)


def _lookup(it: Evidence) -> Finding:
    claim = "lookup_caller asked the look-up service about the caller's number, once, with the secret"
    asked = [lookup.query.get("phone") for lookup in it.lookups]
    if asked != [CALLER]:
        return Finding("lookup_caller", claim, f"the look-up service was asked about {asked or 'nobody'}")
    if SECRET not in it.lookups[0].headers.values():
        return Finding("lookup_caller", claim, "the request came without the secret")
    return _used(it, "lookup_caller", claim, "Alice Martin")


def _knowledge(it: Evidence) -> Finding:
    claim = "query_knowledge found the passage about today's opening hours"
    return _used(it, "query_knowledge", claim, "Today the front desk is open until 18:00")


def _used(it: Evidence, tool: str, claim: str, content: str) -> Finding:
    uses = it.record.uses_of(tool)
    if [use.status for use in uses] != ["ok"]:
        return Finding(tool, claim, f"call.json has {[use.status for use in uses] or 'no call of it'}")
    if content not in uses[0].data:
        return Finding(tool, claim, f"its answer was {uses[0].data}")
    return Finding(tool, claim)


def _farewell(it: Evidence) -> Iterator[Finding]:
    yield _whole(it, "farewell", "farewell", "the caller heard the farewell to its last 20 ms")
    claim = "the gateway hung up with BYE once the farewell was heard"
    match = it.hear("farewell")
    if it.caller.ended_by != "gateway":
        yield Finding("end_call", claim, f"the BYE came from {it.caller.ended_by}")
    elif match is not None and it.caller.ended_at < it.heard_at(match):
        yield Finding("end_call", claim, "the BYE came before the end of the farewell")
    elif (it.record.reason, it.record.by) != ("end_call", "agent"):
        yield Finding("end_call", claim, f"call.json says {it.record.reason} by {it.record.by}")
    else:
        yield Finding("end_call", claim)


def _transfer(it: Evidence) -> Iterator[Finding]:
    caller = it.caller
    yield _whole(it, "transfer_call", "to_sales", "the caller heard the whole announcement")
    claim = "REFER named the configured number, after the announcement"
    match = it.hear("to_sales")
    if not caller.refer_to:
        yield Finding("transfer_call", claim, "the caller was never sent a REFER")
    elif SALES not in caller.refer_to:
        yield Finding("transfer_call", claim, f"it named {caller.refer_to}")
    elif match is not None and caller.refer_at < it.heard_at(match):
        yield Finding("transfer_call", claim, "it came before the end of the announcement")
    else:
        yield Finding("transfer_call", claim)
    states = [step.state for step in it.record.transfer]
    saw = f"call.json has {states}, the caller notified {list(caller.notified)}, BYE from {caller.ended_by}"
    confirmed = states == LADDER and caller.notified[-1:] == ("200 OK",) and caller.ended_by == "gateway"
    claim = "NOTIFY 200 confirmed it, and the gateway hung up"
    yield _finding("transfer_call", claim, unless=None if confirmed else saw)


def _refusal(it: Evidence) -> Iterator[Finding]:
    uses, referred = it.record.uses_of("transfer_call"), it.caller.refer_to or "nobody"
    refused = bool(uses) and all(use.status not in {"ok", "requested"} for use in uses)
    claim = "a number that is not configured was refused"
    if not uses:
        yield Finding("transfer_call", claim, "call.json has no call of transfer_call")
    elif not refused or it.caller.refer_to:
        answers = [use.status for use in uses]
        yield Finding("transfer_call", claim, f"the answer was {answers}, REFER to {referred}")
    else:
        yield Finding("transfer_call", claim)
    yield _whole(it, "transfer_call", "not_allowed", "the agent said so and the call went on")


def _recording(it: Evidence) -> Iterator[Finding]:
    claim = "call.flac has the caller left and the agent right"
    if it.recording.ndim != 2 or it.recording.shape[1] != 2:
        yield Finding("recording", claim, f"it has the shape {it.recording.shape}")
        return
    farewell = find(read_recording(SPEECH / "farewell.flac"), it.recording[:, 1])
    said = Path(__file__).parent / "audio" / f"{it.caller.said[-1].line}.wav" if it.caller.said else None
    words = find(read_recording(said), it.recording[:, 0]) if said else None
    missing = [
        name
        for name, match in (("the agent's farewell", farewell), ("the caller's last words", words))
        if match is None or not match.complete
    ]
    yield _finding("recording", claim, unless=f"{' and '.join(missing)} cannot be found" if missing else None)
