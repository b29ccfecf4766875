import asyncio

import pytest

from config.errors import ConfigError
from config.watch import Current, Reload, follow

ENVIRON = {"OPENAI_API_KEY": "sk-test-0123456789"}


@pytest.fixture
def current(folder, good):
    folder.write(good)
    return Current(folder.file, environ=ENVIRON)


def test_a_file_that_is_bad_at_start_cannot_be_used(folder):
    folder.write("agents: 5\n")

    with pytest.raises(ConfigError, match="agents: must be a mapping"):
        Current(folder.file)


@pytest.mark.report("BR-152")
def test_a_syntax_error_keeps_the_old_settings_and_is_shown(folder, current):
    before = current.settings
    folder.write("agents: [\n")
    reload = current.reload()

    assert not reload.accepted
    assert [problem.line for problem in reload.problems] == [1]
    assert "YAML syntax" in str(reload.problems[0])
    assert current.settings is before


@pytest.mark.report("BR-151")
def test_a_mistyped_key_keeps_the_old_settings(folder, good, current):
    before = current.settings
    folder.write(good.replace("prompt:", "promt:"))
    reload = current.reload()

    assert not reload.accepted
    assert [problem.path for problem in reload.problems] == [
        "agents.reception.prompt",
        "agents.reception.promt",
    ]
    assert current.settings is before


@pytest.mark.report("BR-152")
def test_a_changed_agent_reaches_new_calls_and_leaves_running_ones_alone(folder, good, current):
    running = current.settings
    folder.write(
        good.replace("prompt: You answer the phone.", "prompt: New., voice: cedar, tools: {end_call: {}}")
    )
    reload = current.reload()

    assert reload == Reload(accepted=True)
    new, old = current.settings.agents["reception"], running.agents["reception"]
    assert (new.prompt, new.voice, set(new.tools)) == ("New.", "cedar", {"end_call"})
    assert (old.prompt, old.voice, set(old.tools)) == ("You answer the phone.", None, set())


@pytest.mark.report("BR-152")
def test_a_changed_sip_port_is_announced_and_nothing_of_the_server_section_is_applied(folder, good, current):
    before = current.settings.server
    server = 'server: {sip: {listen: ["udp:0.0.0.0:5070"], max_calls: 7}, drain_s: 5}\n'
    folder.write(server + good.replace("You answer the phone.", "New."))
    reload = current.reload()

    assert reload.accepted
    assert [(p.line, p.path) for p in reload.restart] == [
        (1, "server.sip.listen"),
        (1, "server.sip.max_calls"),
        (1, "server.drain_s"),
    ]
    assert str(reload.restart[0]).endswith(
        "changed, and is read at start only; restart the gateway to use it"
    )
    assert current.settings.server == before
    assert current.settings.agents["reception"].prompt == "New."


def test_an_announced_change_is_announced_until_it_is_taken_back(folder, good, current):
    folder.write("server: {drain_s: 5}\n" + good)
    assert len(current.reload().restart) == 1
    assert len(current.reload().restart) == 1
    folder.write(good)
    assert current.reload() == Reload(accepted=True)


@pytest.mark.report("BR-152")
def test_a_removed_agent_is_gone_for_new_calls_and_kept_by_those_that_use_it(folder, good, current):
    running = current.settings
    folder.write(good.replace("reception", "desk"))

    assert current.reload().accepted
    assert set(current.settings.agents) == {"desk"}
    assert running.agents["reception"].prompt == "You answer the phone."


async def test_a_changed_file_is_followed_and_a_bad_one_refused(folder, good, current):
    reports: asyncio.Queue[Reload] = asyncio.Queue()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        task = group.create_task(follow(current, reports.put_nowait, settle_ms=50, poll_ms=100))
        folder.write("agents: [\n")
        assert not (await reports.get()).accepted
        folder.write(good.replace("You answer the phone.", "New."))
        assert (await reports.get()).accepted
        assert current.settings.agents["reception"].prompt == "New."
        task.cancel()


async def test_a_file_that_the_settings_name_is_followed_too(folder, good):
    prompts = folder.write("First.", "texts/prompt.md")
    folder.write(good.replace("You answer the phone.", "{file: texts/prompt.md}"))
    current = Current(folder.file, environ=ENVIRON)
    reports: asyncio.Queue[Reload] = asyncio.Queue()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        task = group.create_task(follow(current, reports.put_nowait, settle_ms=50, poll_ms=100))
        # Replaced as editors do it: a new file takes the name.
        folder.write("Second.", "texts/new").rename(prompts)
        assert (await reports.get()).accepted
        assert current.settings.agents["reception"].prompt == "Second."
        task.cancel()


async def test_a_missing_file_that_appears_mends_the_configuration(folder, good, current):
    reports: asyncio.Queue[Reload] = asyncio.Queue()
    folder.write(good.replace("You answer the phone.", "{file: later.md}"))
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        task = group.create_task(follow(current, reports.put_nowait, settle_ms=50, poll_ms=100))
        assert not (await reports.get()).accepted
        folder.write("Now.", "later.md")
        assert (await reports.get()).accepted
        assert current.settings.agents["reception"].prompt == "Now."
        task.cancel()


def test_a_file_that_is_written_again_with_the_same_content_is_no_change(folder, good, current):
    folder.write(good)
    assert not current.is_stale()
    folder.write(good + "# changed\n")
    assert current.is_stale()
    current.reload()
    assert not current.is_stale()
