"""Models that call tools in every wrong way, look-ups in bad moods: calls go on or end as they should."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.kit.exchange import Exchange, Number, assert_heard, open_exchange, together
from tests.kit.hear import hear
from tests.kit.office import SALES, SCRIPTS, recording

pytestmark = pytest.mark.peers

THANKS = recording("caller_thanks")


class LookUp(BaseHTTPRequestHandler):
    """A client database in its various bad moods; the path says which."""

    def do_GET(self) -> None:
        mood = self.path.split("?")[0].strip("/")
        try:
            match mood:
                case "500":
                    self.send_error(500)
                case "elsewhere" | "circle":
                    self.send_response(302)
                    self.send_header("Location", self.path if mood == "circle" else "http://127.0.0.2:1/")
                    self.end_headers()
                case "flood":
                    self.send_response(200)
                    self.end_headers()
                    while True:
                        self.wfile.write(b"Ada " * 100_000)
                case "slow":
                    time.sleep(1.5)
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(b"Ada Lovelace")
                case _:
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(b"\xff\xfe\x00 Ada")
        except OSError:
            pass  # the gateway had enough

    def log_message(self, *_: object) -> None:
        """Tests say what matters."""


@contextmanager
def look_up() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), LookUp)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class Case:
    """What the model does after the caller's turn, and what comes of it."""

    number: Number
    says: str
    tools: tuple[tuple[str, str], ...]
    """The tools of the record with their reasons, or ``ok``."""
    reason: str = "bye"


def cases(url: str, knowledge: Path) -> dict[str, Case]:
    pending = "terminal_action_pending"
    answered = "answer"
    return {
        "end twice": Case(
            Number("end twice"), "farewell", (("end_call", "ok"), ("end_call", pending)), "end_call"
        ),
        "end and transfer": Case(
            Number("end and transfer"), "farewell",
            (("end_call", "ok"), ("transfer_call", pending)), "end_call",
        ),
        "transfer and end": Case(
            Number("transfer and end"), "to_sales",
            (("transfer_call", "ok"), ("end_call", pending)), "transferred",
        ),
        "transfer anywhere": Case(
            Number("transfer anywhere"), "not_allowed",
            (("transfer_call", "phone_number_not_configured"), ("end_call", "earlier_action_failed")),
        ),
        "bad arguments": Case(Number("bad arguments"), answered, (("end_call", "invalid_arguments"),)),
        "round and round": Case(
            Number("look up for ever", lookup_url=f"{url}/fine", agent={"max_tool_calls": 2}), answered,
            (("lookup_caller", "ok"), ("lookup_caller", "ok"), ("lookup_caller", "max_tool_calls_reached")),
        ),
        "knowledge": Case(
            Number("knowledge", knowledge=knowledge), answered, (("query_knowledge", "tool_failed"),)
        ),
        **{
            mood: Case(Number("look up", lookup_url=f"{url}/{mood}"), answered, (("lookup_caller", reason),))
            for mood, reason in {
                "500": "tool_failed", "elsewhere": "tool_failed", "circle": "tool_failed",
                "flood": "ok", "slow": "ok", "fine": "ok",
            }.items()
        },
    }  # fmt: skip


def call(exchange: Exchange, name: str, case: Case) -> None:
    phone = exchange.phone(name)
    phone.call()
    if case.number.knowledge is not None:
        shutil.rmtree(case.number.knowledge)
    phone.listen(1.5)
    phone.speak(THANKS)
    deadline = time.monotonic() + 20
    while (heard := hear(recording(case.says), phone.heard())).audible_ms - heard.heard_ms > 100:
        assert time.monotonic() < deadline, (name, heard)
        phone.listen(0.5)
    if case.reason == "bye":
        phone.hang_up()
    else:
        bye_at = phone.wait_for_bye(10)
        assert_heard(recording(case.says), phone.heard(before=bye_at), name)
    if case.reason == "transferred":
        refer = next(each.message for each in phone.received if each.message.method == "REFER")
        assert SALES in refer.uri("refer-to")
    report = exchange.report(name)
    assert report["reason"] == case.reason, name
    tools = tuple((tool["tool"], tool["reason_code"] or tool["status"]) for tool in report["tool_calls"])
    assert tools == case.tools, name
    assert all(tool["ended"] >= tool["began"] for tool in report["tool_calls"])


@pytest.mark.crowd
def test_wrong_tool_calls_and_bad_look_ups_end_no_call(ports, tmp_path):
    handbook = tmp_path / "handbook"
    handbook.mkdir()
    (handbook / "hours.md").write_text("We are open from nine to five.\n")
    with look_up() as url:
        every = cases(url, handbook)
        numbers = {name: case.number for name, case in every.items()}
        with open_exchange(SCRIPTS / "adversary.yaml", numbers, ports, tmp_path) as exchange:
            before = exchange.gauges()
            together(
                [lambda name=name, case=case: call(exchange, name, case) for name, case in every.items()]
            )
            del before["process_open_fds"]  # connections to the look-up service are kept for a while
            exchange.gateway.until(
                lambda: exchange.gauges().items() >= before.items(), 15, f"as before: {before}"
            )
            assert "Traceback" not in exchange.gateway.log


def leaves_in_a_look_up(exchange: Exchange) -> None:
    phone = exchange.phone("slow")
    phone.call()
    phone.listen(1.5)
    phone.speak(THANKS)
    phone.listen(1.0)
    phone.hang_up()
    report = exchange.report("slow")
    assert (report["reason"], report["by"]) == ("bye", "caller")
    [tool] = report["tool_calls"]
    assert (tool["tool"], tool["status"]) == ("lookup_caller", "ok")
    assert report["transcript"][-1]["who"] == "caller"


def interrupts_the_farewell(exchange: Exchange) -> None:
    """The end_call of a response that the caller interrupted before it was complete must not run."""
    phone = exchange.phone("interrupted")
    phone.call()
    phone.listen(4.5)
    phone.speak(THANKS)
    phone.listen(1.5)
    phone.speak(THANKS)
    phone.until_heard(recording("okay"), 10, "an answer to the interruption")
    phone.hang_up()
    report = exchange.report("interrupted")
    assert (report["reason"], report["tool_calls"]) == ("bye", [])
    [cut] = report["barge_ins"]
    [farewell] = [turn for turn in report["transcript"] if turn["item_id"] == cut["item_id"]]
    assert farewell["interrupted"]
    assert abs(farewell["heard_ms"] - cut["heard_ms"]) <= 20


def test_no_tool_runs_or_answers_for_a_caller_who_left_or_interrupted(ports, tmp_path):
    with look_up() as url:
        numbers = {
            "slow": Number("look up", lookup_url=f"{url}/slow"),
            "interrupted": Number("farewell", faults="slow_arguments:3"),
        }
        with open_exchange(SCRIPTS / "adversary.yaml", numbers, ports, tmp_path) as exchange:
            acts = leaves_in_a_look_up, interrupts_the_farewell
            together([lambda act=act: act(exchange) for act in acts])
