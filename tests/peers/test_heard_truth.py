"""
What the model is told was heard is what was heard, and no farewell loses its end.

Three parties, and the gateway's word counts for nothing: its ledger, logs and events are not read.

* The **model** is `trunkline fake-openai` in a process of its own. What it says are coded recordings
  (`tests.kit.coded`), and it writes down every `conversation.item.truncate` that it receives.
* The **caller** keeps each packet with the kernel's time. After the call a model of its telephone
  (`tests.kit.handset`) plays them, and each 20 ms of what it played are found by their content.
* The **gateway** stands between, as `trunkline serve`.

*Buffering on the leg* is injected at both places where a line has it. Before the wire, models make speech
1.1, 1.6 and 4 times faster than it is spoken, so that from nothing to many seconds wait in the gateway at the
moment of a barge-in; who takes what was received for what was heard is wrong by that much. Behind the wire,
path and telephone of each call hold the sound back for 0 to 2 s, and the caller speaks by what the *ear*
heard; who goes by the clock since the first audio is wrong by that much.

*Really played* is where in the recording the last sample stands that the handset plays, ever: what was sent
cannot be called back over RTP, so the caller hears it, although later than he began to speak. How far the
handset was at the moment of the barge-in is nothing that a peer tells over SIP, and not what is measured.
Nothing is lost on this path (tests/peers/test_lossy_network.py has the other kind), but packets that come
after their turn in the telephone's buffer are not played, and count.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tests.kit.caller import Caller
from tests.kit.coded import LEAST, Piece, joined
from tests.kit.counts import counts
from tests.kit.gateway import Gateway
from tests.kit.handset import Played, any_handset
from tests.kit.lines import Line, Models, Said, Told
from tests.kit.office import KEY
from tests.kit.phone import Phone
from tests.kit.ports import Ports
from tests.kit.sound import decode

pytestmark = [
    pytest.mark.peers,
    pytest.mark.soak,
    pytest.mark.timeout(counts(test=240, full=1500)),
]

AT_ONCE = counts(test=12, full=20)
SPEEDS = {"slow": 1.1, "quick": 1.6, "fast": 4.0}
TURNS = counts(test=5, full=10)
"""Times that the caller of one call talks over the agent."""
BARGE_INS = counts(test=24, full=1_000)
FAREWELLS = counts(test=10, full=1_000)
FAREWELL_LINES = counts(test=10, full=60)
PATH_MS = 2_000.0
IMPATIENT = 5
"""So many things of the agent's are talked over or answered at once."""
LONGEST_GOODBYE_S = 8.0
ALLOWED_MS = 20
SAMPLES_MS = 8


@dataclass
class Call:
    """What one call left behind at the caller."""

    line: Line
    seed: str
    played: Played
    hung_up_by_gateway: bool
    pieces: list[Piece] = field(default_factory=list)
    strange: int = 0
    """Frames with sound that is in none of the line's recordings."""

    def heard(self, number: int) -> list[Piece]:
        return joined([piece for piece in self.pieces if piece.number == number])

    def position_ms(self, number: int) -> float:
        """Where in a recording the last sample stands that was played."""
        return max((piece.end for piece in self.heard(number)), default=0) / SAMPLES_MS

    def identify(self) -> Call:
        finder = self.line.finder()
        for frame in self.played.frames:
            found = finder.find(decode(frame.payload, self.line.codec))
            if found is None:
                self.strange += 1
            else:
                self.pieces += found
        return self


@pytest.fixture
def ports() -> Iterator[Ports]:
    with Ports() as ports:
        yield ports


def seed_of(name: str) -> int:
    """Return a new seed and print it; set it here by hand to see a run again."""
    seed = secrets.randbits(32)
    print(f"\n{name}: seed {seed}")
    return seed


def place_calls(
    lines: list[Line],
    calls_of: dict[int, int],
    seed: int,
    ports: Ports,
    folder: Path,
    converse: Callable[[Caller, random.Random], None],
    kind: str = "openai",
) -> list[tuple[Call, Told]]:
    """Run gateway and models; place so many calls on each line, and pair each with what its model wrote."""

    def on_line(line: Line) -> list[Call]:
        return [one_call(line, f"{seed}/{line.name}/{number}") for number in range(calls_of[line.index])]

    def one_call(line: Line, call_seed: str) -> Call:
        rng = random.Random(call_seed)
        handset = any_handset(rng, path_ms=rng.uniform(0, PATH_MS))
        with Ports() as own, Phone(gateway.sip, own, called=line.number, codec=line.codec) as phone:
            caller = Caller(phone, handset)
            phone.call()
            converse(caller, rng)
            by_gateway = caller.bye_at is not None
            if not by_gateway:
                phone.hang_up()
            return Call(line, call_seed, caller.played(), by_gateway)

    with ExitStack() as stack:
        models = stack.enter_context(Models(lines, SPEEDS, folder / "models", ports, kind=kind))
        gateway = Gateway(models.settings(), ports, folder / "gateway", rtp_ports=200, env={"MODEL_KEY": KEY})
        stack.enter_context(gateway)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            placed = list(pool.map(on_line, lines))
        gateway.until(lambda: gateway.metrics()["trunkline_calls_active"] == 0, 10, "idle")
    told = models.told()
    pairs: list[tuple[Call, Told]] = []
    for line, calls in zip(lines, placed, strict=True):
        assert len(told.get(line.name, [])) == len(calls), "one session for each call"
        pairs += zip((call.identify() for call in calls), told.get(line.name, []), strict=True)
    return pairs


# Barge-ins.


def interrupted_line(index: int, rng: random.Random) -> Line:
    """Return a line whose agent says something long to every turn; some answers are short or of two parts."""
    lengths: list[int] = []
    steps: list[dict[str, object]] = []
    line = Line(index, (), (), "PCMU" if index % 3 else "PCMA", list(SPEEDS)[index % len(SPEEDS)])
    for turn in range(TURNS + 1):
        kind = rng.random()
        parts = [rng.randint(400, 3_000), 10_000] if kind < 0.15 else [rng.randint(9_000, 13_000)]
        if 0.15 <= kind < 0.3:
            parts = [rng.randint(400, 2_500)]
        first = len(lengths)
        lengths += parts
        line = Line(index, tuple(lengths), (), line.codec, line.model)
        said = [line.say(place) for place in range(first, len(lengths))]
        steps.append({"on": "caller_turn" if turn else "greeting", "say": said})
    return Line(index, tuple(lengths), tuple(steps), line.codec, line.model)


def talk_over(caller: Caller, rng: random.Random) -> None:
    """Talk over each of the agent's answers, some time after the ear began to hear it."""
    for _ in range(TURNS):
        assert caller.wait_for_agent(15), "the gateway hung up"
        caller.pause(rng.uniform(0.05, 3.0))
        caller.speak(rng.getrandbits(32), rng.uniform(0.3, 0.6))
    caller.wait_for_agent(15)


@dataclass
class Errors:
    """How far what the model was told is from what was played, in ms; above zero it was told too much."""

    cut: list[float] = field(default_factory=list)
    """Of items that were being heard when the caller spoke."""
    unheard: list[float] = field(default_factory=list)
    """Of items that the model was told were not heard at all."""
    whole: list[float] = field(default_factory=list)
    """Of items that it was told nothing about, so that it takes them for heard."""

    def take(self, call: Call, said: Said) -> None:
        played_ms = call.position_ms(said.number)
        if said.truncated_ms is None:
            self.whole.append(call.line.recordings[said.number] - played_ms)
        elif said.truncated_ms or played_ms:
            self.cut.append(said.truncated_ms - played_ms)
        else:
            self.unheard.append(0.0)


def test_the_model_is_told_what_was_really_played(ports, tmp_path):
    seed = seed_of("barge-ins")
    rng = random.Random(seed)
    lines = [interrupted_line(index, rng) for index in range(AT_ONCE)]
    each, more = divmod(-(-BARGE_INS * 5 // 4 // TURNS), len(lines))  # some answers are over before
    calls_of = {line.index: each + (line.index < more) for line in lines}
    errors = Errors()
    late = strange = 0
    pairs = place_calls(lines, calls_of, seed, ports, tmp_path, talk_over)
    for call, told in pairs:
        items = list(told.items.values())
        for said in items:
            if said.number >= 0 and said.response_id != items[-1].response_id:
                errors.take(call, said)
        late, strange = late + call.played.late, strange + call.strange
    off = np.abs(errors.cut)
    p50, p99 = np.percentile(off, [50, 99])
    print(
        f"barge-ins: {len(off)}; |told - played| p50 {p50:.1f}, p99 {p99:.1f}, max {off.max():.1f} ms; "
        f"told too much by {max(errors.cut):.1f}, too little by {-min(errors.cut):.1f} ms at most\n"
        f"items taken for heard to their end: {len(errors.whole)}, off by "
        f"{max(map(abs, errors.whole)):.1f} ms at most; never begun: {len(errors.unheard)}; "
        f"packets too late for the handset: {late}"
    )
    assert [error for _, told in pairs for error in told.errors] == []
    assert strange == 0
    assert len(off) >= BARGE_INS
    assert p99 <= ALLOWED_MS
    assert np.percentile(np.abs(errors.whole), 99) <= ALLOWED_MS


# Farewells.


def farewell_line(index: int, rng: random.Random) -> Line:
    """Return a line whose agent greets, perhaps answers, says goodbye in one or two parts, and hangs up."""
    lengths = [rng.randint(300, 1_500), rng.randint(300, 1_500)]
    lengths += [rng.randint(200, 2_500) for _ in range(rng.randint(1, 2))]
    line = Line(index, tuple(lengths), (), rng.choice(["PCMU", "PCMA"]), rng.choice(list(SPEEDS)))
    goodbye = {"say": [line.say(place) for place in range(2, len(lengths))]}
    end = {"call": {"tool": "end_call", "arguments": {}}}
    last = {**goodbye, **end} if rng.random() < 0.7 else {**end, **goodbye}
    steps: list[dict[str, object]] = [{"on": "greeting", "say": line.say(0)}]
    if rng.random() < 0.4:
        steps.append({"on": "caller_turn", "say": line.say(1)})
    steps += [{"on": {"dtmf": "any"}, **last, "repeat": True}, {"on": "caller_turn", **last, "repeat": True}]
    return Line(index, line.lengths_ms, tuple(steps), line.codec, line.model)


def hear_the_farewell(caller: Caller, rng: random.Random) -> None:
    """
    Answer, or talk over, whatever the agent says; press keys now and then; until the gateway hangs up.

    Who talks over a goodbye that is still being made takes it back, so a caller does so a few times at most.
    """
    while caller.wait_for_agent(15, by_ear=rng.random() < 0.3):
        if len(caller.spurts) > IMPATIENT:
            caller.wait_for_bye(LONGEST_GOODBYE_S)
        else:
            caller.pause(rng.uniform(0.0, 1.8))
        if caller.bye_at is not None:
            return
        if rng.random() < 0.15:
            caller.phone.press(rng.choice("0123456789"))
        else:
            caller.speak(rng.getrandbits(32), rng.uniform(0.3, 0.8))
        assert len(caller.spurts) < 20, "the agent never ends the call"


def last_time(pieces: list[Piece]) -> list[Piece]:
    """Return the pieces of the last time that a recording was played; a goodbye may be begun twice."""
    run: list[Piece] = []
    for piece in pieces:
        run = [*run, piece] if run and piece.start >= run[-1].end else [piece]
    return run


def lost_frames(call: Call, numbers: list[int]) -> int:
    """Count the 20 ms of recordings that were not played the last time, one after the other."""
    lost = 0
    for number in numbers:
        samples = call.line.recordings[number] * SAMPLES_MS
        played = sum(piece.end - piece.start for piece in last_time(call.heard(number)))
        lost += -(-max(0, samples - played - LEAST) // 160)
    return lost


@pytest.mark.requirement("C-8")
def test_no_call_loses_a_frame_of_its_farewell(ports, tmp_path):
    seed = seed_of("farewells")
    rng = random.Random(seed)
    lines = [farewell_line(index, rng) for index in range(FAREWELL_LINES)]
    each, more = divmod(FAREWELLS, len(lines))
    calls_of = {line.index: each + (line.index < more) for line in lines}
    losers: list[str] = []
    frames = late = 0
    pairs = place_calls(lines, calls_of, seed, ports, tmp_path, hear_the_farewell)
    for call, told in pairs:
        numbers = [item.number for item in told.items.values() if item.response_id == told.ended_by]
        if not (call.hung_up_by_gateway and numbers) or call.strange:
            losers.append(f"{call.seed}: strange sounds {call.strange}, or not ended with a farewell")
            continue
        frames += sum(call.line.recordings[number] // 20 for number in numbers)
        late += call.played.late
        if lost := lost_frames(call, numbers):
            losers.append(f"{call.seed}: {lost} frames of {numbers}, {call.played.cut} cut by the BYE")
    print(
        f"farewells: {len(pairs)} calls, {frames} frames of goodbye; calls that lost one: {len(losers)}; "
        f"packets too late for the handset: {late}"
    )
    assert losers == []
    assert [error for _, told in pairs for error in told.errors] == []
