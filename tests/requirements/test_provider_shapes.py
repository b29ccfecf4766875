"""L-3 and L-29 with the real tools: what their definitions and their addendum become at each vendor."""

from __future__ import annotations

import json

import pytest
from google.genai import types
from openai.types.realtime import RealtimeSessionCreateRequest

from providers.gemini import build_gemini_session_config
from providers.openai import build_openai_session_config
from providers.types import PCMU, SessionSetup
from tests.tools.doubles import SALES, SUPPORT, full_config, full_sources
from tools import ToolBuilders

NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
KNOWLEDGE = (
    "Searches the knowledge bases of this agent.\n"
    "Knowledge bases and their documents:\n"
    "- handbook: Opening hours"
)
SHAPES = {
    "query_knowledge": (
        KNOWLEDGE,
        {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "The question in natural language."},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    ),
    "lookup_caller": ("Retrieves the caller's client record from the database.", NOTHING),
    "transfer_call": (
        "Transfers the current call to another phone number (cold transfer).",
        {
            "type": "object",
            "properties": {
                "phone_number": {
                    "type": "string",
                    "description": "The configured number of the destination.",
                    "enum": [SALES, SUPPORT],
                }
            },
            "required": ["phone_number"],
            "additionalProperties": False,
        },
    ),
    "end_call": ("Ends the current phone call.", NOTHING),
}
"""The snapshot: name -> description and parameters, in the order in which they are collected."""


@pytest.fixture
async def made() -> SessionSetup:
    """The set-up of a call whose agent has all four tools."""
    collected = await ToolBuilders(full_sources()).collect_agent_tools("reception", "acme", full_config())
    return SessionSetup(
        prompt="You answer the phone.",
        addendum=collected.addendum,
        tools=tuple(collected.definitions),
        line=PCMU,
    )


@pytest.mark.requirement("L-3")
async def test_the_four_tools_in_openai_s_shape(made):
    tools = json.loads(json.dumps(build_openai_session_config(made)["tools"]))

    assert tools == [
        {"type": "function", "name": name, "description": description, "parameters": parameters}
        for name, (description, parameters) in SHAPES.items()
    ]
    parsed = RealtimeSessionCreateRequest.model_validate({"type": "realtime", "tools": tools})
    assert [tool.name for tool in parsed.tools] == list(SHAPES)


@pytest.mark.requirement("L-3")
async def test_the_four_tools_in_gemini_s_shape(made):
    config = build_gemini_session_config(made)
    wire = json.loads(config.model_dump_json(exclude_none=True, by_alias=True))

    assert wire["tools"] == [
        {
            "functionDeclarations": [
                {"name": name, "description": description, "parametersJsonSchema": parameters}
                for name, (description, parameters) in SHAPES.items()
            ]
        }
    ]
    assert types.LiveConnectConfig.model_validate(wire) == config


@pytest.mark.requirement("L-29")
async def test_the_collected_addendum_follows_the_prompt_at_both_vendors(made):
    instructions = build_openai_session_config(made)["instructions"]
    system_instruction = build_gemini_session_config(made).system_instruction

    assert made.addendum.startswith("## Available Tools\n\n### Knowledge Base\n")
    expected = f"You answer the phone.\n\n{made.addendum}".encode()
    assert instructions.encode() == system_instruction.encode() == expected
