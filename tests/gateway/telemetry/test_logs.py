import io
import json
import logging

import pytest
import structlog

from gateway.telemetry.logs import call_context, configure


@pytest.fixture(autouse=True)
def untouched():
    """Leave logging as it was found."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {
        name: logger.level
        for name, logger in root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger)
    }
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, value in levels.items():
        logging.getLogger(name).setLevel(value)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.fixture
def stream():
    return io.StringIO()


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_of_json_holds_the_event_and_its_fields(stream):
    configure("json", stream=stream)
    structlog.get_logger("gateway.calls").info("call.answered", codec="PCMA")
    (line,) = lines(stream)

    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "call.answered", "codec": "PCMA", "level": "info", "logger": "gateway.calls"}


def test_inside_a_call_every_line_carries_its_id_also_those_of_libraries(stream):
    configure("json", stream=stream)
    with call_context("c-1", "carrier"):
        structlog.get_logger().info("one")
        logging.getLogger("some.library").warning("two %s", 2)
    structlog.get_logger().info("three")

    assert [(line["event"], line.get("call_id"), line.get("trunk")) for line in lines(stream)] == [
        ("one", "c-1", "carrier"),
        ("two 2", "c-1", "carrier"),
        ("three", None, None),
    ]


@pytest.mark.parametrize("form", ["json", "console"])
def test_what_a_peer_wrote_in_no_utf8_costs_no_line(form):
    octets = io.BytesIO()
    stream = io.TextIOWrapper(octets, encoding="utf-8")
    configure(form, stream=stream)
    broken = b"RTP/X\xff".decode("utf-8", "surrogateescape")
    structlog.get_logger().info("call.offer_refused", why=broken, also=[broken], big=1 << 70)
    try:
        raise ValueError(broken)
    except ValueError as error:
        structlog.get_logger().exception("call.failed", error=error)
    stream.flush()
    text = octets.getvalue().decode()

    assert "call.offer_refused" in text
    assert "call.failed" in text
    assert text.count("RTP/X") >= 4
    if form == "json":
        assert json.loads(text.splitlines()[0])["also"] == ["RTP/X?"]


@pytest.mark.parametrize("form", ["json", "console"])
def test_secrets_and_callers_numbers_are_not_written_by_anybody(stream, form):
    configure(form, stream=stream)
    structlog.get_logger().info(
        "call.ringing", caller="+12125551234", headers={"Authorization": "Bearer abcdefghij"}
    )
    logging.getLogger("library").error("refused: sk-proj-abcdefghij")
    try:
        raise ValueError("bad key sk-proj-abcdefghij")
    except ValueError:
        structlog.get_logger().exception("call.failed")
        logging.getLogger("library").exception("failed")
    text = stream.getvalue()

    assert "abcdefghij" not in text
    assert "1212555" not in text
    assert "1234" in text
    assert text.count("Traceback") == 2


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_caller_cannot_forge_a_line(stream, form):
    configure(form, stream=stream)
    structlog.get_logger().info("call.ringing", called="x\n2026 [info] forged\r\x1b[2J")

    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()


def test_lines_below_the_level_are_not_written(stream):
    configure("json", level="warning", stream=stream)
    structlog.get_logger("a").info("no")
    structlog.get_logger("a").warning("yes")
    logging.getLogger("b").info("no")

    assert [line["event"] for line in lines(stream)] == ["yes"]


def test_libraries_that_tell_of_every_request_are_quiet(stream):
    configure("json", level="info", stream=stream)
    logging.getLogger("httpx").info("GET https://crm.example.com/?phone=+12125551234")
    logging.getLogger("websockets.client").info("connection open")

    assert stream.getvalue() == ""


def test_a_stream_that_is_no_terminal_gets_json(stream):
    configure(stream=stream)
    structlog.get_logger().info("x", odd=object, key_of={1: 2})

    assert lines(stream)[0]["event"] == "x"


def test_numbers_may_be_shown_in_full(stream):
    configure("json", show_callers=True, stream=stream)
    structlog.get_logger().info("x", caller="+12125551234")

    assert lines(stream)[0]["caller"] == "+12125551234"
