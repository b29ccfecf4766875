import asyncio
import inspect
import logging
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.doubles import LOOKUP_URL, SECRET, FakeSources, called, full_sources, make_desk, streamed
from tools import (
    AgentToolConfig,
    AppError,
    CallInvocationContext,
    OrganizationSettings,
    ToolBuilders,
    ToolStatus,
    build_client_lookup_tool_definition,
)
from tools.builders.client_lookup import is_withheld, with_phone

CALLER = "+12025550123"
BEARER = {"authorization": f"Bearer {SECRET}"}
ON = AgentToolConfig.model_validate({"lookup_caller": {"enabled": True}})


def sources(organization=None, answer=None):
    known = {"acme": organization} if organization else {}
    made = FakeSources(organizations=known)
    if answer is not None:
        made.http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    return made


async def looked_up(answer, *, caller=CALLER, spellings=(), organization=None, arguments="{}"):
    """Run the tool as a model calls it; returns the result and the desk around it."""
    organization = organization or OrganizationSettings(LOOKUP_URL, SECRET)
    prepared = await ToolBuilders(sources(organization, answer)).prepare_call(
        "reception", "acme", ON, CallInvocationContext("call-1", caller=caller, caller_spellings=spellings)
    )
    desk = make_desk(*prepared.tools)
    [result] = (await desk.dispatcher.run([called("lookup_caller", arguments)])).results
    return result, desk


def answering(status=200, text='{"name": "Ann Example"}', seen=None):
    def answer(request):
        if seen is not None:
            seen.append(request)
        return streamed(status, text)

    return answer


@pytest.mark.requirement("L-10")
async def test_the_builder_is_async_takes_the_organization_and_fails_with_an_app_error():
    builders = ToolBuilders(FakeSources(broken=True))
    build = builders.build_client_lookup_tool_definition

    assert inspect.iscoroutinefunction(build)
    assert list(inspect.signature(build).parameters) == ["organization_id"]
    with pytest.raises(AppError, match="organization acme cannot be read: the store is gone"):
        await build("acme")
    with pytest.raises(AppError):
        await build_client_lookup_tool_definition("acme", sources=FakeSources(broken=True))


@pytest.mark.requirement("L-11")
@pytest.mark.parametrize(
    "organization",
    [
        OrganizationSettings(None),
        OrganizationSettings(""),
        OrganizationSettings("  "),
        OrganizationSettings(),
        None,
    ],
    ids=["none", "empty", "blank", "absent", "no organization"],
)
async def test_without_a_look_up_address_there_is_no_tool(organization):
    builders = ToolBuilders(sources(organization))

    assert await builders.build_client_lookup_tool_definition("acme") is None
    definitions, addendum = await builders.collect_agent_tools("reception", "acme", ON)
    assert [one.name for one in definitions] == ["end_call"]
    assert "lookup_caller" not in addendum


@pytest.mark.requirement("L-12")
async def test_the_description_is_the_requirement_s():
    built = await ToolBuilders(full_sources()).build_client_lookup_tool_definition("acme")

    described = built.definition.description.replace("\u2019", "'")
    assert described == "Retrieves the caller's client record from the database."


@pytest.mark.requirement("L-13")
async def test_there_are_no_parameters_and_the_number_is_the_call_s():
    seen = []

    result, _ = await looked_up(answering(seen=seen))

    built = await ToolBuilders(full_sources()).build_client_lookup_tool_definition("acme")
    assert built.definition.parameters["properties"] == {}
    assert (result.status, result.data) == (
        ToolStatus.OK,
        {"found": True, "record": '{"name": "Ann Example"}'},
    )
    [request] = seen
    assert (request.method, parse_qs(request.url.query.decode())) == ("GET", {"phone": [CALLER]})


@pytest.mark.requirement("L-13")
@pytest.mark.parametrize("arguments", ['{"phone": "+12025550199"}', '{"phone_number": "+12025550199"}'])
async def test_a_number_that_the_model_supplies_is_rejected(arguments):
    seen = []

    result, _ = await looked_up(answering(seen=seen), arguments=arguments)

    assert result.status is ToolStatus.INVALID_ARGUMENTS
    assert seen == []


@pytest.mark.requirement("L-14")
async def test_the_section_asks_for_the_look_up_at_the_start_and_a_personal_greeting():
    built = await ToolBuilders(full_sources()).build_client_lookup_tool_definition("acme")

    assert built.section.startswith("### Caller Lookup (PROACTIVE)\n- ")
    for word in ("`lookup_caller`", "proactively", "start", "greeting"):
        assert word in built.section


@pytest.mark.requirement("D-4")
@pytest.mark.parametrize(
    ("status", "text", "data"),
    [
        (200, "Ann", {"found": True, "record": "Ann"}),
        (206, "Ann", {"found": True, "record": "Ann"}),
        (200, "", {"found": False, "record": ""}),
        (200, " \n", {"found": False, "record": ""}),
        (204, "", {"found": False, "record": ""}),
        (404, "no such client", {"found": False, "record": ""}),
    ],
)
async def test_the_answer_of_the_database_is_found_or_not(status, text, data):
    result, _ = await looked_up(answering(status, text))

    assert (result.status, result.data) == (ToolStatus.OK, data)


@pytest.mark.report("BR-187")
async def test_a_number_that_is_stored_in_an_older_form_is_found():
    seen = []

    def answer(request):
        seen.append(parse_qs(urlsplit(str(request.url)).query)["phone"][0])
        return streamed(200 if seen[-1] == "+00919876543210" else 404, "Ann")

    spellings = ("00919876543210", "+00919876543210", "never asked for")
    result, _ = await looked_up(answer, caller="+919876543210", spellings=spellings)
    assert result.data == {"found": True, "record": "Ann"}
    assert seen == ["+919876543210", "00919876543210", "+00919876543210"]


@pytest.mark.parametrize(
    "caller",
    ["", " ", "anonymous", "Anonymous", "sip:anonymous@anonymous.invalid", "restricted", "unavailable",
     "private", "unknown@carrier.example", "sip:+1@anonymous.invalid"],
)  # fmt: skip
async def test_nobody_is_looked_up_when_the_number_is_withheld(caller):
    seen = []

    result, _ = await looked_up(answering(seen=seen), caller=caller)

    assert (result.status, result.data) == (ToolStatus.OK, {"found": False, "record": ""})
    assert seen == []


@pytest.mark.parametrize(
    "caller", ["+12025550123", "4012", "sip:ann@pbx.example", "anonymouse", "private-office"]
)
def test_a_number_that_is_shown_is_not_withheld(caller):
    assert not is_withheld(caller)


@pytest.mark.parametrize(
    ("organization", "headers"),
    [
        (OrganizationSettings(LOOKUP_URL, SECRET), {"loquent_x_check": SECRET}),
        (
            OrganizationSettings(LOOKUP_URL, f"Bearer {SECRET}", "Authorization"),
            {"authorization": f"Bearer {SECRET}"},
        ),
        (OrganizationSettings(LOOKUP_URL, ""), {}),
    ],
    ids=["default", "configured", "empty"],
)
async def test_the_secret_goes_out_in_the_configured_header_or_not_at_all(organization, headers):
    seen = []

    await looked_up(answering(seen=seen), organization=organization)

    sent = {
        name: value for name, value in seen[0].headers.items() if name in {"loquent_x_check", "authorization"}
    }
    assert sent == headers


@pytest.mark.parametrize("failing", [500, 503, None], ids=["500", "503", "unreachable"])
async def test_a_database_that_fails_once_is_asked_again(failing):
    seen = []

    def answer(request):
        seen.append(request)
        if len(seen) > 1:
            return streamed(200, "Ann")
        if failing is None:
            raise httpx2.ConnectError("nothing listens", request=request)
        return streamed(failing)

    result, desk = await looked_up(answer)

    assert (result.ok, len(seen), desk.failures) == (True, 2, [])


@pytest.mark.parametrize(("status", "asked"), [(500, 2), (401, 1), (403, 1), (400, 1), (302, 2)])
async def test_a_database_that_refuses_is_a_failure_and_asked_as_often_as_that_may_help(status, asked):
    seen = []

    def answer(request):
        seen.append(request)
        return streamed(status, SECRET, {"Location": "https://evil.example/"})

    result, desk = await looked_up(answer)

    assert (result.status, len(seen)) == (ToolStatus.FAILED, asked)
    assert {request.url.host for request in seen} == {"crm.example.com"}
    assert SECRET not in result.to_json()
    assert SECRET not in repr(desk.failures)


async def test_the_secret_and_the_record_stay_out_of_audit_results_and_logs(caplog):
    caplog.set_level(logging.DEBUG)

    found, desk = await looked_up(answering(text="Ann, card 4111"))
    failed, broken = await looked_up(answering(500))

    assert [record.evidence for record in desk.audit.records] == [{"output.found": True}]
    everything = repr((desk.audit, found, failed, broken.failures, broken.audit, caplog.text))
    everything += repr(OrganizationSettings(LOOKUP_URL, SECRET))
    assert SECRET not in everything
    assert "4111" not in repr(desk.audit)


async def test_a_record_is_cut_at_one_mebibyte():
    result, _ = await looked_up(answering(text="x" * 2_000_000))

    assert len(result.data["record"]) == 1_048_576


async def test_an_answer_that_never_comes_is_a_failure_of_the_tool_only():
    async def hang(request):
        await asyncio.Event().wait()

    organization = OrganizationSettings(LOOKUP_URL)
    prepared = await ToolBuilders(sources(organization, hang)).prepare_call(
        "reception", "acme", ON, CallInvocationContext("call-1", caller=CALLER)
    )
    [lookup] = [tool for tool in prepared.tools if tool.name == "lookup_caller"]
    desk = make_desk(lookup)

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        batch = group.create_task(desk.dispatcher.run([called("lookup_caller")]))
        await asyncio.sleep(0)
        batch.cancel()

    assert lookup.execution.timeout_ms * lookup.execution.retry.max_attempts <= 10_000
    assert desk.audit.records[0].status is ToolStatus.FAILED


async def test_a_look_up_that_vanishes_while_tools_are_collected_is_an_error():
    class Vanishing(FakeSources):
        asked = 0

        async def organization(self, organization_id):
            self.asked += 1
            return OrganizationSettings(LOOKUP_URL if self.asked == 1 else None)

    with pytest.raises(AppError, match="was removed"):
        await ToolBuilders(Vanishing()).prepare_call("a", "acme", ON, CallInvocationContext("c"))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://c.example/l", "https://c.example/l?phone=%2B1"),
        ("https://c.example/l?key=a+b%20c&x", "https://c.example/l?key=a+b%20c&x&phone=%2B1"),
        ("https://c.example", "https://c.example?phone=%2B1"),
        ("https://u:p@c.example:8443/l?a=1#frag", "https://u:p@c.example:8443/l?a=1&phone=%2B1"),
        ("https://c.example/l?", "https://c.example/l?phone=%2B1"),
    ],
)
def test_the_query_of_the_address_is_kept(url, expected):
    assert with_phone(url, "+1") == expected


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_any_caller_arrives_as_it_is_and_changes_nothing_else(caller):
    parts = urlsplit(with_phone("https://c.example/l?a=1", caller))

    assert (parts.netloc, parts.path, parts.fragment) == ("c.example", "/l", "")
    assert parse_qs(parts.query, keep_blank_values=True) == {"a": ["1"], "phone": [caller]}
