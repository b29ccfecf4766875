"""Tool calls of a GPT-Live session: by its backend, or by the client's own work."""

import json
import textwrap
from pathlib import Path

from providers.fakes.script_parser import parse_script
from tests.kit.live_line import LiveLine

TOOLS = """
steps:
  - on: caller_turn
    say: {tone: 500, ms: 600, text: "One moment"}
    call:
      - {tool: lookup_caller, arguments: {number: "+12125550100"}}
      - {tool: query_knowledge, arguments: {query: hours}}
  - {on: {tool_result: [lookup_caller, query_knowledge]}, say: {tone: 600, ms: 400, text: "I found you"}}
"""


def line(faults: str = "", text: str = TOOLS, **changes) -> LiveLine:
    made = LiveLine(parse_script(textwrap.dedent(text), Path("test.yaml")), faults)
    made.start(**changes)
    made.turn()
    return made


def calls(made: LiveLine) -> list[dict]:
    return [
        each["item"]
        for each in made.nested("response.output_item.done")
        if each["item"]["type"] == "function_call"
    ]


def answer(made: LiveLine, call_id: str, output: str = "{}") -> None:
    item = {"type": "function_call_output", "call_id": call_id, "output": output}
    made.send("response.item.create", event_id=f"a-{call_id}", item=item)


def test_the_backend_calls_all_tools_of_a_step_in_one_response_when_the_words_before_are_said():
    made = line()
    assert made.nested() == []
    made.listen(700)

    delegation = made.all("session.delegation.created")[0]["delegation"]
    assert delegation["target"] == "responses"
    assert {event["delegation_id"] for event in made.all("response.event")} == {delegation["id"]}
    kinds = [event["type"] for event in made.nested()]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert [call["name"] for call in calls(made)] == ["lookup_caller", "query_knowledge"]
    assert json.loads(calls(made)[0]["arguments"]) == {"number": "+12125550100"}
    assert made.nested("response.completed")[0]["response"]["output"] == []


def test_early_calls_come_while_it_still_speaks():
    made = line("early_calls#1")
    made.listen(80)
    assert len(calls(made)) == 2


def test_it_goes_on_when_all_calls_are_answered_and_it_is_told_to():
    made = line()
    made.listen(700)
    first, second = calls(made)
    answer(made, first["call_id"], '{"name":"Ann"}')
    made.send("response.create", event_id="c1")
    assert first["call_id"] not in made.error()["message"]
    assert second["call_id"] in made.error()["message"]
    answer(made, second["call_id"])
    made.send("response.create", event_id="c2")
    made.listen(500)

    assert made.nested("response.output_text.done")[-1]["text"] == "I found you"
    assert made.said() == "One momentI found you"
    assert made.session.backend.ledger.answered[first["call_id"]] == ("lookup_caller", '{"name":"Ann"}')


def test_an_unknown_call_and_a_second_answer_are_refused():
    made = line()
    made.listen(700)
    answer(made, "call_x")
    assert made.error()["param"] == "item.call_id"
    call_id = calls(made)[0]["call_id"]
    answer(made, call_id)
    before = len(made.all("error"))
    answer(made, call_id)
    assert len(made.all("error")) == before + 1


def test_a_failed_response_has_a_code_and_no_finished_call():
    made = line("failed#1:rate_limit_exceeded")
    made.listen(700)
    assert made.nested("response.failed")[0]["response"]["error"]["code"] == "rate_limit_exceeded"
    assert calls(made) == []


def test_arguments_can_break_off():
    made = line("cut_arguments#1")
    made.listen(700)
    assert made.nested("response.incomplete")[0]["response"]["incomplete_details"] == {
        "reason": "max_output_tokens"
    }
    assert calls(made) == []


def test_slow_arguments_come_later():
    made = line("slow_arguments:2")
    made.listen(700)
    assert calls(made) == []
    made.wait(2.0)
    assert len(calls(made)) == 2


def test_tools_can_be_forbidden_by_an_update_which_changes_nothing_else():
    made = line()
    made.listen(700)
    for call in calls(made):
        answer(made, call["call_id"])
    update = {"delegation": {"type": "responses", "responses": {"tool_choice": "none"}}}
    made.send("session.update", event_id="u1", session=update)

    updated = made.all("session.updated")[-1]
    assert updated["client_event_id"] == "u1"
    assert updated["session"]["delegation"]["responses"]["tool_choice"] == "none"
    assert updated["session"]["delegation"]["responses"]["model"] == "gpt-5.6-luna"
    assert not made.session.config.calls_tools


def test_instructions_voice_and_kind_of_delegation_cannot_be_updated():
    made = line()
    made.send("session.update", session={"instructions": "New"})
    assert made.error()["code"] == "unknown_parameter"
    made.send("session.update", session={"delegation": {"type": "decisions"}})
    assert made.error()["param"] == "session.delegation.type"


def test_a_client_that_works_itself_is_told_only_that_there_is_a_task():
    made = line(delegation={"type": "client"})
    made.listen(700)
    delegation = made.all("session.delegation.created")[0]["delegation"]
    assert set(delegation) == {"id", "type", "target"}
    assert made.nested() == []
    made.append("commentary", "The record is found.", delegation["id"])
    made.listen(500)
    assert made.said() == "One momentI found you"

    made.append("commentary", "Once more.", "dlg_unknown")
    assert made.error()["param"] == "delegation_id"
    made.send("response.create")
    assert made.error()["message"] == "'response.create' requires Responses delegation."
