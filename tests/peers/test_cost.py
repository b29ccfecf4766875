"""
What a call costs, by ``trunkline serve`` and a model that bills like the service.

The right answer is worked out here, from the usage that the fake sent on the wire and from prices that are
written down again: nothing of the gateway's arithmetic is used.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from providers.fakes.openai_session import RealtimeSession
from tests.kit import sound
from tests.kit.gateway import Gateway
from tests.kit.hear import hear
from tests.kit.model import Model, received, reports
from tests.kit.office import NUMBER, Office
from tests.kit.phone import Phone

pytestmark = pytest.mark.peers

GREETING, ANSWER, FAREWELL = (
    sound.utterance(seed, seconds) for seed, seconds in ((1, 0.8), (2, 1.6), (3, 2.0))
)
QUESTION = sound.utterance(5, 0.9)
SCRIPT = """
    speech: {speed: 50}
    steps:
      - {on: greeting, say: {audio: greeting.wav, text: Hello}}
      - {on: {text: goodbye}, say: {audio: farewell.wav, text: Goodbye}}
      - {on: caller_turn, say: {audio: answer.wav, text: It is so}, repeat: true}
"""
DOLLARS = {
    "text_in": "4.00",
    "cached_text_in": "0.40",
    "audio_in": "32.00",
    "cached_audio_in": "0.40",
    "text_out": "24.00",
    "audio_out": "64.00",
}
"""gpt-realtime-2.1, for a million tokens."""
SCRIBE = Decimal("0.017")
"""gpt-live-transcribe, for a minute."""


@pytest.fixture(autouse=True)
def sounds(tmp_path: Path) -> None:
    for name, pcm in {"greeting": GREETING, "answer": ANSWER, "farewell": FAREWELL}.items():
        sound.write(tmp_path / f"{name}.wav", pcm)


def settings(office: Office, model: Model, limits: dict[str, object], **more: object) -> dict[str, object]:
    return {
        "trunks": {"loopback": {"allow": ["127.0.0.0/8"]}},
        "providers": model.settings,
        "agents": {
            "reception": {
                "providers": [model.kind],
                "prompt": "You answer the phone.",
                "greeting": "Say hello.",
                "limits": limits,
            }
        },
        "numbers": {NUMBER: {"agent": "reception"}},
        "storage": {"recordings": str(office.folder / "recordings")},
        **more,
    }


def sent(session: RealtimeSession, kind: str) -> list[dict]:
    return [dict(each.event) for each in list(session.sent) if each.type == kind]


def tokens(session: RealtimeSession) -> dict[str, int]:
    """Sum what the fake billed for its responses."""
    total = dict.fromkeys(DOLLARS, 0)
    for event in sent(session, "response.done"):
        usage = event["response"]["usage"]
        heard, said = usage["input_token_details"], usage["output_token_details"]
        for kind in ("text", "audio"):
            cached = heard["cached_tokens_details"][f"{kind}_tokens"]
            total[f"cached_{kind}_in"] += cached
            total[f"{kind}_in"] += heard[f"{kind}_tokens"] - cached
            total[f"{kind}_out"] += said[f"{kind}_tokens"]
    return total


def seconds(session: RealtimeSession) -> Decimal:
    """Sum the audio that the fake billed for its transcripts: ten tokens are a second."""
    done = sent(session, "conversation.item.input_audio_transcription.completed")
    return Decimal(sum(event["usage"]["input_token_details"]["audio_tokens"] for event in done)) / 10


def cost(session: RealtimeSession, dollars: dict[str, str] = DOLLARS) -> Decimal:
    spoken = sum(count * Decimal(dollars[kind]) / 10**6 for kind, count in tokens(session).items())
    return Decimal(spoken) + seconds(session) / 60 * SCRIBE


def ask(phone: Phone, times: int = 1) -> None:
    """Hear the greeting, then ask; each answer is heard before the next question."""
    phone.call()
    phone.until_heard(GREETING, 10, "the greeting")
    for _ in range(times):
        phone.speak(QUESTION)
        phone.listen(1.0)


def test_a_call_that_costs_too_much_ends_with_a_farewell_that_is_heard_to_its_last_frame(
    openai_office, tmp_path
):
    """The greeting costs about a tenth of a cent, the answer a little more: the second is too much."""
    with Model(SCRIPT, tmp_path) as model:
        gateway = openai_office.start(settings(openai_office, model, {"max_cost_usd": 0.003}))
        phone = openai_office.phone(gateway)
        ask(phone)
        bye_at = phone.wait_for_bye(20)
        [report] = reports(tmp_path / "recordings")
        [session] = model.sessions
        [asked] = [
            event["response"]["instructions"]
            for event in received(session, "response.create")
            if "goodbye" in event.get("response", {}).get("instructions", "")
        ]
        right = cost(session)
        metrics = gateway.metrics()

    heard = phone.heard(before=bye_at)
    assert hear(ANSWER, heard).whole, "what was being said when the limit was reached is not cut"
    assert hear(FAREWELL, heard).whole
    assert "tool_choice" not in asked
    assert (report["reason"], report["by"]) == ("cost_limit", "gateway")
    assert [entry["reached"] for entry in report["limits"]][-1:] == [True]
    assert report["limits"][-1]["used"] >= 0.003
    assert seconds_of(report) == pytest.approx(float(seconds(session)), abs=0.001)
    assert tokens_of(report) == tokens(session)
    assert report["cost"]["usd"] == pytest.approx(float(right), abs=1e-6)
    assert sum(_metric(metrics, "trunkline_cost_usd_total")) == pytest.approx(float(right), abs=1e-9)
    assert metrics['trunkline_call_limits_total{limit="cost_limit",reached="true"}'] == 1


def tokens_of(report: dict) -> dict[str, int]:
    [spoken] = [each for each in report["cost"]["models"] if each["model"] == "gpt-realtime-2.1"]
    return spoken["tokens"]


def seconds_of(report: dict) -> float:
    [written] = [each for each in report["cost"]["models"] if each["model"] == "gpt-live-transcribe"]
    return written["seconds"]


def _metric(metrics: dict[str, float], name: str) -> list[float]:
    return [value for key, value in metrics.items() if key.startswith(name + "{")]


def call_and_hang_up(office: Office, gateway: Gateway) -> None:
    phone = office.phone(gateway)
    ask(phone)
    phone.until_heard(ANSWER, 10, "the answer")
    phone.listen(0.5)
    phone.hang_up()


def test_a_new_price_counts_for_the_next_call_from_its_day_on(openai_office, tmp_path):
    """The first call has the shipped prices; then the file has new ones."""
    dear = dict.fromkeys(DOLLARS, "1000.00")
    later = {**dict.fromkeys(DOLLARS, 9999.0), "since": "2999-01-01"}
    today = {**dict.fromkeys(DOLLARS, 1000.0), "since": "2000-01-01"}
    with Model(SCRIPT, tmp_path) as model:
        gateway = openai_office.start(settings(openai_office, model, {}))
        call_and_hang_up(openai_office, gateway)
        changed = settings(openai_office, model, {}, prices={"openai": {"gpt-realtime-2.1": [later, today]}})
        gateway.write({**gateway.settings, "prices": changed["prices"]})
        gateway.until(lambda: "config.reloaded" in gateway.log, 10, "the new prices")
        call_and_hang_up(openai_office, gateway)
        first, second = reports(tmp_path / "recordings", 2)
        right = [cost(model.sessions[0]), cost(model.sessions[1], dear)]
    assert [report["cost"]["usd"] for report in (first, second)] == pytest.approx(
        [float(each) for each in right], abs=1e-6
    )
    assert second["cost"]["usd"] > 15 * first["cost"]["usd"]


def test_what_nobody_has_priced_is_unknown_and_told_once_at_the_start(openai_office, tmp_path):
    with Model(SCRIPT, tmp_path) as model:
        own = settings(openai_office, model, {"max_cost_usd": 0.000001})
        own["providers"] = {"openai": {**model.settings["openai"], "model": "gpt-realtime-9"}}
        gateway = openai_office.start(own)
        call_and_hang_up(openai_office, gateway)
        call_and_hang_up(openai_office, gateway)
        found = reports(tmp_path / "recordings", 2)
        warnings = [
            line for line in gateway.log.splitlines() if "gpt-realtime-9" in line and "warning" in line
        ]
    for report in found:
        assert report["cost"]["usd"] is None
        # What writes the caller down is priced, and enough for so small a limit.
        assert 0 < report["cost"]["known_usd"] < 0.01
        assert [each["usd"] for each in report["cost"]["models"] if each["model"] == "gpt-realtime-9"] == [
            None
        ]
    assert len(warnings) == 1


def test_after_a_fail_over_the_bill_has_both_providers(openai_office, tmp_path):
    """The first model goes away in mid-call; the second goes on. Each is billed what it told."""
    with Model(SCRIPT, tmp_path) as second:
        with Model(SCRIPT, tmp_path) as first:
            own = settings(openai_office, first, {})
            own["providers"] = {
                name: {"kind": "openai", **model.settings["openai"]}
                for name, model in (("first", first), ("second", second))
            }
            own["agents"]["reception"]["providers"] = ["first", "second"]
            gateway = openai_office.start(own)
            phone = openai_office.phone(gateway)
            phone.call()
            phone.until_heard(GREETING, 10, "the greeting")
        phone.until(lambda: second.sessions, 10, "the second model")
        phone.listen(1.0)
        phone.speak(QUESTION)
        phone.until_heard(ANSWER, 10, "the answer of the second model")
        phone.listen(0.5)
        phone.hang_up()
        [report] = reports(tmp_path / "recordings")
        right = {"first": cost(first.sessions[0]), "second": cost(second.sessions[0])}
    told = {
        name: sum(each["usd"] for each in report["cost"]["models"] if each["provider"] == name)
        for name in right
    }
    assert told == pytest.approx({name: float(amount) for name, amount in right.items()}, abs=2e-6)
    assert report["cost"]["usd"] == pytest.approx(float(sum(right.values())), abs=2e-6)
    assert min(right.values()) > 0


def live_cost(model: Model) -> Decimal:
    """Five cents for a minute of session: GPT-Live says at the end how many seconds it was."""
    [closed] = sent(model.sessions[0], "session.closed")
    return Decimal(str(closed["usage"]["seconds"])) / 60 * Decimal("0.05")


def gemini_cost(model: Model) -> Decimal:
    """Gemini bills each turn with all that was said before; the last figures of a turn count."""
    dollars = {("prompt", "TEXT"): "0.75", ("prompt", "AUDIO"): "3.00"}
    dollars |= {("response", "TEXT"): "4.50", ("response", "AUDIO"): "12.00"}
    total, last = Decimal(0), Decimal(0)
    for each in list(model.sessions[0].sent):
        usage = each.message.get("usageMetadata")
        if usage is not None:
            last = sum(
                (
                    count["tokenCount"] * Decimal(price) / 10**6
                    for (side, modality), price in dollars.items()
                    for count in usage[f"{side}TokensDetails"]
                    if count["modality"] == modality
                ),
                Decimal(0),
            )
        if "turnComplete" in each.message.get("serverContent", {}):
            total, last = total + last, Decimal(0)
    return total + last


@pytest.mark.parametrize(
    ("kind", "limit", "right"), [("openai-live", 0.004, live_cost), ("gemini", 0.0004, gemini_cost)]
)
def test_a_limit_of_the_cost_ends_calls_of_the_other_providers_as_politely(
    openai_office, tmp_path, kind, limit, right
):
    with Model(SCRIPT, tmp_path, kind=kind) as model:
        gateway = openai_office.start(settings(openai_office, model, {"max_cost_usd": limit}))
        phone = openai_office.phone(gateway)
        ask(phone)
        bye_at = phone.wait_for_bye(30)
        [report] = reports(tmp_path / "recordings")
        cost_usd = float(right(model))
    assert hear(FAREWELL, phone.heard(before=bye_at)).whole
    assert (report["reason"], report["by"]) == ("cost_limit", "gateway")
    assert report["cost"]["usd"] == pytest.approx(cost_usd, abs=1e-6)
    assert report["cost"]["usd"] >= limit


def test_a_call_that_lasts_too_long_ends_with_a_farewell_after_the_answer_that_was_under_way(
    openai_office, tmp_path
):
    """The caller asks in the second in which the time is over: the answer is heard, then the goodbye."""
    slow = SCRIPT.replace("speech: {speed: 50}", "speech: {speed: 50, latency_ms: 1500}")
    with Model(slow, tmp_path) as model:
        gateway = openai_office.start(settings(openai_office, model, {"max_duration_s": 5}))
        phone = openai_office.phone(gateway)
        phone.call()
        phone.until_heard(GREETING, 10, "the greeting")
        phone.speak(QUESTION)
        bye_at = phone.wait_for_bye(30)
        [report] = reports(tmp_path / "recordings")
    heard = phone.heard(before=bye_at)
    assert hear(ANSWER, heard).whole
    assert hear(FAREWELL, heard).whole
    assert (report["reason"], report["by"]) == ("duration_limit", "gateway")
    assert [(entry["limit"], entry["reached"]) for entry in report["limits"]] == [
        ("duration_limit", False),
        ("duration_limit", True),
    ]
    assert report["limits"][1]["used"] == pytest.approx(5.0, abs=0.5)
