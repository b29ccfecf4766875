from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from config.errors import ConfigError, Marks, Problem, problems_of, show_path
from config.fields import HttpListen, Listen, PortRange
from config.load import load
from config.models import Settings
from config.providers import FakeSettings, OpenAISettings
from config.recovery import shipped_prompt

SECRET = "sk-test-0123456789"


def cases(name: str) -> list[tuple[str, str]]:
    """Read a table of cases: some lines of YAML, then ``=>`` and the line that they give."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return [tuple(case.strip().split("\n=> ")) for case in text.split("\n\n")]


def with_agent(extra: str) -> str:
    """Return a good file whose agent has more lines; the first of them is line 8."""
    indented = "".join(f"    {line}\n" for line in extra.splitlines())
    return f"""\
trunks: {{office: {{allow: ["192.0.2.10"]}}}}
providers:
  openai: {{api_key: "${{env:OPENAI_API_KEY}}"}}
agents:
  reception:
    providers: [openai]
    prompt: You answer the phone.
{indented}numbers:
  "+12125550100": {{agent: reception}}
"""


def test_a_good_file_is_loaded_with_its_defaults(folder, good):
    loaded = folder.load(good)
    settings = loaded.settings

    assert loaded.warnings == ()
    assert settings.trunks["office"].allow == ("192.0.2.10/32",)
    assert settings.trunks["office"].codecs == ("PCMU", "PCMA")
    openai = settings.providers["openai"]
    assert isinstance(openai, OpenAISettings)
    assert openai.api_key.get_secret_value() == SECRET
    assert openai.model == "gpt-realtime-2.1"
    assert openai.connect_timeout_s == 5
    sip = settings.server.sip
    assert sip.listen == (Listen("udp", "0.0.0.0", 5060), Listen("tcp", "0.0.0.0", 5060))
    assert (sip.rtp_ports, sip.max_calls, sip.refer_timeout_s) == (PortRange(20000, 29999), 500, 60)
    assert (sip.timers.t1_ms, sip.timers.t2_ms, sip.timers.t4_ms) == (500, 4000, 5000)
    assert settings.server.http.listen == HttpListen("127.0.0.1", 8080)
    assert settings.server.drain_s == 600
    agent = settings.agents["reception"]
    assert (agent.max_tool_calls, agent.apology, agent.recovery.max_swaps) == (6, None, 6)
    assert (agent.on_unavailable.say, agent.on_unavailable.transfer) == (None, None)
    assert settings.numbers["+12125550100"].agent == "reception"
    assert settings.storage.recordings is None


def test_settings_cannot_be_changed_after_loading(folder, good):
    settings = folder.load(good).settings

    with pytest.raises(ValueError, match="frozen"):
        settings.agents["reception"].prompt = "other"
    with pytest.raises(TypeError):
        settings.agents["other"] = settings.agents["reception"]
    with pytest.raises(TypeError):
        settings.agents["reception"].tools["end_call"] = {}


@pytest.mark.report("BR-151")
def test_every_mistake_is_reported_at_once_with_its_line(folder):
    lines = folder.problems("""\
        server:
          sip:
            session_expire: 1800
            max_callls: 5
            max_calls: 0
            rtp_ports: 20000-19999
        trunks:
          a: {allow: ["192.0.2.1"], codecs: [PCMU, G729]}
        providers:
          openai: {api_key: "${env:OPENAI_API_KEY}"}
        agents:
          desk: {providers: [opneai], prompt: Hello., tool: [end_call]}
        numbers:
          "+12125550100": {agent: dsk}
        numbers: {}
    """)

    expected = (Path(__file__).parent / "all_at_once.txt").read_text(encoding="utf-8").splitlines()
    assert lines == expected


def test_what_is_wrong_between_two_keys_has_the_line_of_the_one_that_it_names(folder):
    lines = folder.problems("""\
        trunks:
          a:
            allow: ["192.0.2.1"]
            codecs: [PCMU]
            headers: [X-Account]
          b:
            country: DE
        providers: {fake: {}}
        agents: {desk: {providers: [fake], prompt: Hello.}}
        numbers: {"+12125550100": {agent: desk}}
    """)

    assert [line.partition(" ")[0] for line in lines] == ["gateway.yaml:5:", "gateway.yaml:6:"]
    assert lines[0].endswith("; add trusted: true, or remove headers")


@pytest.mark.parametrize(("extra", "line"), cases("agent_problems.txt"))
def test_a_wrong_value_says_what_is_wrong_and_what_to_write(folder, extra, line):
    expected = f"gateway.yaml:8: agents.reception.{line}".replace("FOLDER", str(folder.path))

    assert folder.problems(with_agent(extra)) == [expected]


@pytest.mark.parametrize(("section", "line"), cases("section_problems.txt"))
def test_a_wrong_section_says_what_is_wrong_and_what_to_write(folder, section, line):
    lines = [text for text in folder.problems(section + "\n") if "under agents" not in text]

    assert lines == [f"gateway.yaml:{line}".replace("FOLDER", str(folder.path))]


def test_a_file_that_does_not_exist_is_a_problem_like_any_other(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "none.yaml")

    assert str(caught.value).endswith("none.yaml:1: cannot be read: No such file or directory; "
                                      "write the path of a file that exists")  # fmt: skip


def test_a_file_in_another_encoding_is_named_with_its_line(folder):
    folder.file.write_bytes("a: 1\nb: Ünïcode\n".encode("latin-1"))

    assert folder.problems() == ["gateway.yaml:2: is not UTF-8 text; save the file as UTF-8"]


@pytest.mark.report("BR-151")
def test_the_reported_file_is_refused_with_all_its_problems(folder):
    lines = folder.problems("""\
        sip:
          session_expire: 1800        # typo
          min_session_expires: 30     # below the floor
        agents: [{name: desk, tool: [end_call]}]   # 'tools'
        media: {rtp_port_min: 20000, rtp_port_max: 19999}
        duplicate_key: 1
        duplicate_key: 2
    """)

    assert [line.split("; ")[0] for line in lines] == [
        "gateway.yaml:1: sip: is not known here",
        "gateway.yaml:4: agents: must be a mapping, not a list",
        "gateway.yaml:5: media: is not known here",
        "gateway.yaml:6: duplicate_key: is not known here",
        "gateway.yaml:7: duplicate_key: stands here twice, first on line 6",
    ]
    assert lines[0].endswith("; its place is server.sip")


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("rtp_ports: 20000-29999", "server.sip.rtp_ports"),
        ("voice: marin", "agents.NAME.voice"),
        ("max_duration_s: 5", "agents.NAME.limits.max_duration_s"),
        ("silence_ms: 5", "providers.NAME.turn_detection.silence_ms"),
    ],
)
def test_a_key_in_the_wrong_section_is_told_its_place(folder, line, place):
    assert folder.problems(line + "\n")[0].endswith(f"is not known here; its place is {place}")


def test_a_missing_secret_is_one_problem_with_its_line(folder, good):
    (line,) = folder.problems(good, environ={})

    assert line == (
        "gateway.yaml:4: providers.openai.api_key: the environment variable OPENAI_API_KEY is not set; "
        "set OPENAI_API_KEY before the start, or write another reference"
    )


SECRETS_IN_WRONG_PLACES = """\
trunks:
  a: {allow: ["${env:OPENAI_API_KEY}"], max_calls: "${env:OPENAI_API_KEY}", codecs: ["${env:OPENAI_API_KEY}"]}
providers:
  openai: {api_key: "${env:OPENAI_API_KEY} x", base_url: "${env:OPENAI_API_KEY}", connect_timeout_s: "${env:OPENAI_API_KEY}"}
  other: {kind: "${env:OPENAI_API_KEY}"}
  fake: {script: "${env:OPENAI_API_KEY}"}
organizations:
  o: {client_lookup_auth: ["${env:OPENAI_API_KEY}"], client_lookup_auth_header: "${env:OPENAI_API_KEY} ä"}
knowledge_bases:
  k: {path: "${env:OPENAI_API_KEY}"}
agents:
  a:
    providers: ["${env:OPENAI_API_KEY}"]
    prompt: {file: "${env:OPENAI_API_KEY}"}
    language: "${env:OPENAI_API_KEY}!"
    on_unavailable: "${env:OPENAI_API_KEY}"
    tools: {transfer_call: {enabled: "${env:OPENAI_API_KEY}"}}
  b:
    providers: [openai]
    prompt: x
    on_unavailable: {say: "${env:OPENAI_API_KEY}", transfer: "${env:OPENAI_API_KEY}"}
numbers:
  x: {agent: "${env:OPENAI_API_KEY}", organization: "${env:OPENAI_API_KEY}"}
server:
  loop: "${env:OPENAI_API_KEY}"
  sip: {listen: ["${env:OPENAI_API_KEY}"], rtp_ports: "${env:OPENAI_API_KEY}", public_address: "${env:OPENAI_API_KEY}"}
storage: {recordings: "${env:OPENAI_API_KEY}\\0"}
"""  # noqa: E501


def test_no_message_ever_holds_a_secret_wherever_it_is_put(folder):
    lines = folder.problems(SECRETS_IN_WRONG_PLACES)

    assert len(lines) >= 20
    assert SECRET not in "\n".join(lines)
    assert "'${env:OPENAI_API_KEY}' is not an address or CIDR network" in "\n".join(lines)


def test_secrets_are_not_in_the_repr_of_anything(folder, good):
    loaded = folder.load(good)

    assert SECRET not in repr(loaded)
    assert SECRET not in str(loaded.settings)
    assert SECRET not in loaded.settings.model_dump_json()
    assert SECRET not in repr(loaded.marks)


def test_a_secret_from_a_file_is_read_beside_the_configuration(folder, good):
    folder.write("sk-from-file\n", "key")
    loaded = folder.load(good.replace("${env:OPENAI_API_KEY}", "${file:key}"))

    assert loaded.settings.providers["openai"].api_key.get_secret_value() == "sk-from-file"
    assert loaded.files == {folder.path / "key"}


def test_a_prompt_may_stand_in_a_file(folder, good):
    folder.write("You answer ${not replaced}.\n", "prompt.md")
    loaded = folder.load(good.replace("You answer the phone.", "{file: prompt.md}"))

    assert loaded.settings.agents["reception"].prompt == "You answer ${not replaced}.\n"
    assert loaded.files == {folder.path / "prompt.md"}


APOLOGY = str(shipped_prompt("apology", "en"))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("reject", (None, "reject", None)),
        ('{transfer: "+12125550123"}', (None, "transfer", "+12125550123")),
        ("{say: SOUND}", ("SOUND", "reject", None)),
        ("{say: SOUND, then: reject}", ("SOUND", "reject", None)),
        (
            '{say: SOUND, transfer: "sip:desk@pbx.example.com"}',
            ("SOUND", "transfer", "sip:desk@pbx.example.com"),
        ),
        ('{say: SOUND, then: transfer, transfer: "+12125550123"}', ("SOUND", "transfer", "+12125550123")),
    ],
)
def test_the_forms_of_on_unavailable(folder, written, expected):
    text = with_agent(f"on_unavailable: {written}".replace("SOUND", APOLOGY))
    policy = folder.load(text).settings.agents["reception"].on_unavailable

    say = str(policy.say) if policy.say else None
    assert (say, policy.then, policy.transfer) == (
        APOLOGY if expected[0] else None, expected[1], expected[2]
    )  # fmt: skip


def test_a_provider_is_the_kind_it_is_named_after(folder, good):
    text = good.replace("  openai:", '  second: {kind: openai, api_key: "x"}\n  fake: {}\n  openai:')
    providers = folder.load(text).settings.providers

    assert [type(p) for p in providers.values()] == [OpenAISettings, FakeSettings, OpenAISettings]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("gpt-realtime", "shut down by OpenAI on 2027-01-20"),
        ("gpt-realtime-2025-08-28", "shut down by OpenAI on 2027-01-20"),
        ("gpt-realtime-mini", "shut down by OpenAI on 2027-01-20"),
        ("gpt-realtime-mini-2025-10-06", "shut down by OpenAI on 2027-01-20"),
        ("gpt-4o-realtime-preview-2024-12-17", "retired preview"),
        ("gpt-realtime-2.1", None),
        ("gpt-realtime-2.1-mini", None),
        ("gpt-realtime-2", None),
        ("gpt-realtime-1.5", None),
    ],
)
def test_models_that_end_soon_are_warned_of(folder, good, model, words):
    loaded = folder.load(good.replace('OPENAI_API_KEY}"', f'OPENAI_API_KEY}}", model: {model}'))

    assert [w.path for w in loaded.warnings] == (["providers.openai.model"] if words else [])
    assert all(words in w.what for w in loaded.warnings)


def test_what_is_probably_not_meant_is_warned_of(folder):
    loaded = folder.load("""\
        server: {sip: {rtp_ports: 20000-20009, max_calls: 10}}
        trunks: {all: {allow: ["0.0.0.0/0", "::1"]}, x: {allow: ["::/0"], auth: {username: a, password: b}}}
        providers: {openai: {api_key: x, transcription_model: whisper-1}}
        agents:
          a: {providers: [openai], prompt: x, tools: {lookup_caller: {enabled: true}}}
    """)

    assert [(w.line, w.path) for w in loaded.warnings] == [
        (1, "numbers"),
        (1, "server.sip.rtp_ports"),
        (2, "trunks.all.allow[0]"),
        (3, "providers.openai.transcription_model"),
        (5, "agents.a.tools.lookup_caller"),
    ]
    assert "enough for 5 calls" in loaded.warnings[1].what


def test_a_knowledge_tool_without_documents_and_a_file_name_as_prompt_are_warned_of(folder):
    loaded = folder.load(with_agent("tools: {query_knowledge: {enabled: true}}").replace(
        "prompt: You answer the phone.", "prompt: prompts/reception.md"
    ))  # fmt: skip

    assert [(w.path, w.write) for w in loaded.warnings] == [
        ("agents.reception.prompt", "write prompt: {file: prompts/reception.md}"),
        ("agents.reception.tools.query_knowledge", "add knowledge_bases: [NAME]"),
    ]


def test_a_prompt_file_that_is_missing_is_named(folder):
    text = with_agent("").replace("prompt: You answer the phone.", "prompt: {file: prompts/missing.md}")

    [line] = folder.problems(text)
    assert line.startswith("gateway.yaml:7: agents.reception.prompt: there is no file 'prompts/missing.md'")


def test_the_second_pass_gets_each_agents_tools_and_its_problems_are_reported(folder, good):
    seen = []

    def check(agent: str, tools, marks: Marks) -> list[Problem]:
        seen.append((agent, dict(tools)))
        return [marks.problem(("agents", agent, "tools", name), "is odd", "remove it") for name in tools]

    text = with_agent("tools:\n  end_call: {enabled: true}\n  other: {a: 1}")
    assert folder.problems(text, check_tools=check) == [
        "gateway.yaml:9: agents.reception.tools.end_call: is odd; remove it",
        "gateway.yaml:10: agents.reception.tools.other: is odd; remove it",
    ]
    assert seen == [("reception", {"end_call": {"enabled": True}, "other": {"a": 1}})]


def test_the_last_pass_sees_good_settings_only(folder, good):
    def check(found: Settings, marks: Marks) -> list[Problem]:
        return [marks.problem(("agents", name), "is odd", "rename it") for name in found.agents]

    assert folder.problems(good, check_settings=check) == [
        "gateway.yaml:6: agents.reception: is odd; rename it"
    ]
    assert "odd" not in folder.problems(good + "x: 1\n", check_settings=check)[0]


def test_a_key_with_a_line_break_stays_on_one_line():
    assert show_path(("numbers", "+1\n2", 0, "a-b_c")) == 'numbers."+1\\n2"[0].a-b_c'


def test_an_error_that_we_have_no_words_for_is_not_left_to_pydantic():
    class Odd(BaseModel):
        when: bytes

    with pytest.raises(ValueError) as caught:
        Odd.model_validate({"when": 5})
    (problem,) = problems_of(caught.value, model=Odd, marks=Marks("x.yaml", {("when",): 3}))
    assert str(problem) == (
        "x.yaml:3: when: cannot be used here; see docs/configuration.md for what may stand here"
    )


leaf = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
tree = st.recursive(
    leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)
keys = st.sampled_from(
    [*Settings.model_fields, "sip", "listen", "allow", "kind", "prompt", "tools", "agent", "say"]
)
document = st.recursive(
    tree, lambda inner: st.dictionaries(keys | st.sampled_from(["a", "openai", "fake"]), inner, max_size=4)
)


@settings(max_examples=100, deadline=None)
@given(document)
def test_whatever_stands_in_the_file_pydantics_words_never_reach_the_reader(tmp_path_factory, data):
    import orjson

    path = tmp_path_factory.getbasetemp() / "any.yaml"
    try:
        path.write_bytes(orjson.dumps(data))  # JSON is YAML
    except (TypeError, orjson.JSONEncodeError):
        return
    try:
        load(path, environ={})
    except ConfigError as error:
        for problem in error.problems:
            line = str(problem)
            assert "\n" not in line
            assert "Input should" not in line
            assert "pydantic" not in line
            assert "cannot be used here" not in line


def test_networks_are_usable_as_they_are(folder, good):
    for entry in folder.load(good).settings.trunks["office"].allow:
        assert ip_network(entry).num_addresses == 1


@pytest.mark.parametrize(
    ("transfer", "path", "words"),
    [
        ("transfer: {method: bridge}", "agents.reception.transfer.method", "no trunk takes calls of ours"),
        ("transfer: {trunk: office}", "agents.reception.transfer.trunk", "takes no calls of ours"),
        ("transfer: {method: auto}", None, ""),
    ],
)
def test_a_transfer_that_can_only_fail_is_warned_of(folder, transfer, path, words):
    loaded = folder.load(with_agent(transfer))

    assert [warning.path for warning in loaded.warnings] == ([path] if path else [])
    assert all(words in warning.what for warning in loaded.warnings)


def test_a_transfer_over_a_trunk_that_does_not_exist_is_an_error(folder):
    [problem] = folder.problems(with_agent("transfer: {trunk: offcie}"))

    assert "agents.reception.transfer.trunk: there is no entry 'offcie' under trunks" in problem
    assert "office" in problem
