from functools import partial

import pytest
from pydantic import BaseModel, ConfigDict

from config.agent_tools import QueryKnowledgeSettings, TransferCallSettings
from config.tool_checks import check_tools


class WeatherSettings(BaseModel):
    """A tool that a consumer registered."""

    model_config = ConfigDict(extra="forbid")

    city: str
    days: int = 1


KNOWN = {
    "end_call": None,
    "lookup_caller": None,
    "transfer_call": TransferCallSettings,
    "query_knowledge": QueryKnowledgeSettings,
    "weather": WeatherSettings,
}
check = partial(check_tools, known=KNOWN)


@pytest.fixture
def problems(folder, good):
    def run(tools: str) -> list[str]:
        text = good.replace("prompt: You answer the phone.}", f"prompt: x, tools: {{\n{tools}\n  }}}}")
        return [
            line.replace("agents.reception.tools.", "") for line in folder.problems(text, check_tools=check)
        ]

    return run


def test_good_tools_have_no_problems(folder, good):
    numbers = '[{number: "+12125551234"}, {number: " "}]'
    tools = f"end_call: {{}}, transfer_call: {{numbers: {numbers}}}, weather: {{city: Oslo}}"
    text = good.replace("prompt: You answer the phone.}", f"prompt: x, tools: {{{tools}}}}}")

    assert set(folder.load(text, check_tools=check).settings.agents["reception"].tools) == {
        "end_call", "transfer_call", "weather",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tools", "line"),
    [
        ("    end_cal: {}", "end_cal: there is no such tool; did you mean end_call?"),
        ("    x: {}", "x: there is no such tool; known tools: " + ", ".join(KNOWN)),
        ("    end_call: {number: 1}", "end_call.number: is not known here; remove it"),
        ("    transfer_call: {numbrs: []}", "transfer_call.numbrs: is not known here; did you mean numbers?"),
        (
            "    transfer_call: {numbers: [{number: 1212}]}",
            "transfer_call.numbers[0].number: must be text, not a number; put the value in quotes",
        ),
        ("    weather: {}", "weather.city: is missing; add city"),
        (
            "    weather: {city: Oslo, days: many}",
            "weather.days: 'many' is not a whole number; write a whole number",
        ),
    ],
)
def test_a_wrong_setting_is_one_line_with_its_place(problems, tools, line):
    assert problems(tools) == [f"gateway.yaml:7: {line}"]


@pytest.mark.parametrize(
    "tools",
    ["transfer_call: {}", "transfer_call: {numbers: []}", 'transfer_call: {numbers: [{number: "  "}]}'],
)
def test_transfer_without_a_number_says_the_requirements_sentence(problems, tools):
    assert problems(tools) == [
        (
            "gateway.yaml:7: transfer_call: Transfer Call requires at least one phone number; "
            'add numbers: [{number: "+12125551234", label: Sales}]'
        )
    ]


def test_transfer_that_is_switched_off_needs_no_number(folder, good):
    text = good.replace(
        "prompt: You answer the phone.}", "prompt: x, tools: {transfer_call: {enabled: false}}}"
    )

    assert folder.load(text, check_tools=check).warnings == ()


def test_each_number_that_cannot_be_dialled_is_named_with_its_line(problems):
    lines = problems("""\
    transfer_call: {numbers: [
      {number: "+12125551234", label: Good},
      {number: "5551234"},
      {number: " "},
      {number: "+1 212"},
      {number: "sip:desk"}]}""")

    assert [line.split(";")[0] for line in lines] == [
        "gateway.yaml:9: transfer_call.numbers[1].number: '5551234' is not an E.164 number or a SIP URI",
        "gateway.yaml:11: transfer_call.numbers[3].number: '+1 212' has characters in it that are not digits",
        "gateway.yaml:12: transfer_call.numbers[4].number: 'sip:desk' is not a SIP URI",
    ]


@pytest.mark.report("BR-148")
def test_an_unquoted_transfer_number_is_explained_and_not_dialled_without_its_plus(problems):
    (line,) = problems("    transfer_call: {numbers: [{number: +442079460958, label: sales}]}")

    assert line == (
        "gateway.yaml:7: transfer_call.numbers[0].number: YAML takes the unquoted +442079460958 for an "
        'integer and drops its plus sign; quote this number: "+442079460958"'
    )
