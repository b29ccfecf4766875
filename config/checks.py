"""
What one section says about another: names that must exist, networks that must not overlap.

These checks read the plain data and not the models, so that a mistake elsewhere in the file never
hides them: everything is reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

from cryptography import x509
from pydantic import JsonValue
from pydantic_core import PydanticCustomError

from config.agent_tools import AgentToolConfig, QueryKnowledgeSettings
from config.errors import KeyPath, Marks, Problem
from config.fields import did_you_mean
from config.models import Settings
from config.providers import ENDING_MODELS, ENDING_TRANSCRIBERS, LEGACY_MODELS, OpenAISettings
from config.server import ServerSettings
from config.sip_address import SipAddress

_SOON = timedelta(days=14)
_EVERYBODY = {"0.0.0.0/0", "::/0"}


def _entries(data: JsonValue, *path: str) -> Iterator[tuple[str, JsonValue]]:
    """Yield the entries of a mapping, or nothing where there is none."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    if isinstance(data, dict):
        yield from data.items()


def _items(data: JsonValue, *path: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of a list with their index."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    if isinstance(data, list):
        yield from ((index, item) for index, item in enumerate(data) if isinstance(item, str))


def cross_references(data: JsonValue, marks: Marks) -> list[Problem]:
    """Check that every name that one section uses is defined in another."""
    names = {
        section: [name for name, _ in _entries(data, section)]
        for section in ("providers", "organizations", "knowledge_bases", "agents", "trunks")
    }

    def check(path: KeyPath, name: JsonValue, section: str) -> Iterator[Problem]:
        if not isinstance(name, str) or name in names[section]:
            return
        known = names[section]
        near = did_you_mean(name, known)
        choices = f"choose from {', '.join(known)}" if known else f"define it under {section}"
        yield marks.problem(path, f"there is no entry {{value}} under {section}", near or choices)

    problems: list[Problem] = []
    for agent, settings in _entries(data, "agents"):
        for index, name in _items(settings, "providers"):
            problems += check(("agents", agent, "providers", index), name, "providers")
        for index, name in _items(settings, "tools", "query_knowledge", "knowledge_bases"):
            path = ("agents", agent, "tools", "query_knowledge", "knowledge_bases", index)
            problems += check(path, name, "knowledge_bases")
        trunk = dict(_entries(settings, "transfer")).get("trunk")
        problems += check(("agents", agent, "transfer", "trunk"), trunk, "trunks")
    for number, settings in _entries(data, "numbers"):
        if isinstance(settings, dict):
            problems += check(("numbers", number, "agent"), settings.get("agent"), "agents")
            problems += check(
                ("numbers", number, "organization"), settings.get("organization"), "organizations"
            )
    return problems


def shared_networks(data: JsonValue, marks: Marks) -> list[Problem]:
    """
    Check that a call from any network belongs to one trunk.

    Two trunks may share one where something else tells their calls apart: each has its own listener, or
    calls to one of them come to the contact that it registered.
    """
    owners: dict[str, list[str]] = {}
    problems = []
    for trunk, settings in _entries(data, "trunks"):
        for path, place in _places(trunk, settings):
            known = owners.setdefault(place, [])
            twin = next((owner for owner in known if owner != trunk and _alike(data, owner, trunk)), None)
            if twin is not None:
                write = "keep it in one of the two, or give each its own listen"
                problems.append(marks.problem(path, f"{{value}} belongs to the trunk {twin} already", write))
            known.append(trunk)
    return problems


def _places(trunk: str, settings: JsonValue) -> Iterator[tuple[KeyPath, str]]:
    """Yield each place that a trunk's calls come from, with the key that says so."""
    for index, entry in _items(settings, "allow"):
        try:
            yield ("trunks", trunk, "allow", index), str(ip_network(entry, strict=False))
        except ValueError:
            continue  # reported with the field itself
    address = settings.get("address") if isinstance(settings, dict) else None
    if isinstance(address, str):
        try:
            host = SipAddress.parse(address).host
        except PydanticCustomError:
            return  # reported with the field itself
        try:
            yield ("trunks", trunk, "address"), str(ip_network(host))
        except ValueError:
            yield ("trunks", trunk, "address"), host.lower()


def _alike(data: JsonValue, one: str, other: str) -> bool:
    """Whether nothing but the network could tell the calls of two trunks apart."""
    first, second = mapping_at(data, "trunks", one), mapping_at(data, "trunks", other)
    if first.get("register") is not None or second.get("register") is not None:
        return False
    return not any(
        first.get(mark) and second.get(mark) and first[mark] != second[mark]
        for mark in ("listen", "certificate")
    )


def trunk_certificates(data: JsonValue, marks: Marks) -> list[Problem]:
    """Check that peers are asked for the certificates that trunks want to see."""
    if mapping_at(data, "server", "sip", "tls").get("verify_client") is True:
        return []
    return [
        marks.problem(
            ("trunks", trunk, "certificate"),
            "nobody is asked for a certificate, so no call has one",
            "add server.sip.tls with verify_client: true",
        )
        for trunk, settings in _entries(data, "trunks")
        if isinstance(settings, dict) and settings.get("certificate") is not None
    ]


def trunk_listeners(data: JsonValue, marks: Marks) -> list[Problem]:
    """Check that each trunk's listener is one of the server's."""
    written = [entry for _, entry in _items(data, "server", "sip", "listen")]
    known = written or [str(entry) for entry in ServerSettings().sip.listen]
    return [
        marks.problem(
            ("trunks", trunk, "listen"),
            "{value} is not in server.sip.listen",
            f"choose from {', '.join(known)}",
        )
        for trunk, settings in _entries(data, "trunks")
        if isinstance(settings, dict)
        and isinstance(settings.get("listen"), str)
        and settings["listen"] not in known
    ]


def warnings_of(settings: Settings, marks: Marks) -> list[Problem]:
    """List what works but is probably not meant, or will not work for long."""
    return [
        *_model_warnings(settings, marks),
        *_reach_warnings(settings, marks),
        *_certificate_warnings(settings, marks),
        *_tool_warnings(settings, marks),
        *_prompt_warnings(settings, marks),
        *_transfer_warnings(settings, marks),
    ]


def _of_family(model: str, families: tuple[str, ...]) -> bool:
    """Whether a name is one of ``families`` or a dated snapshot of one (``gpt-realtime-2025-08-28``)."""
    return any(model == name or model.startswith((f"{name}-20", f"{name}-latest")) for name in families)


def _model_warnings(settings: Settings, marks: Marks) -> Iterator[Problem]:
    for name, provider in settings.providers.items():
        if not isinstance(provider, OpenAISettings):
            continue
        if _of_family(provider.model, ENDING_MODELS):
            yield marks.problem(
                ("providers", name, "model"),
                "{value} is shut down by OpenAI on 2027-01-20",
                "write gpt-realtime-2.1, or gpt-realtime-2.1-mini for the small one",
            )
        elif _of_family(provider.model, LEGACY_MODELS):
            yield marks.problem(
                ("providers", name, "model"), "{value} is a retired preview", "write gpt-realtime-2.1"
            )
        if provider.transcription_model and _of_family(provider.transcription_model, ENDING_TRANSCRIBERS):
            yield marks.problem(
                ("providers", name, "transcription_model"),
                "{value} is shut down by OpenAI on 2027-02-26",
                "write gpt-live-transcribe or gpt-transcribe",
            )


def _reach_warnings(settings: Settings, marks: Marks) -> Iterator[Problem]:
    sip = settings.server.sip
    if not settings.trunks:
        yield marks.problem(("trunks",), "no trunk is allowed to call: no packet is answered", "add a trunk")
    if not settings.numbers:
        yield marks.problem(("numbers",), "no number is configured: every call gets 404", "add a number")
    if sip.rtp_ports.pairs < sip.max_calls:
        yield marks.problem(
            ("server", "sip", "rtp_ports"),
            f"{sip.rtp_ports} is enough for {sip.rtp_ports.pairs} calls and max_calls is {sip.max_calls}",
            "widen the range, or lower max_calls",
        )
    for trunk, entry in settings.trunks.items():
        for index, network in enumerate(entry.allow):
            if network in _EVERYBODY and entry.auth is None and entry.certificate is None:
                yield marks.problem(
                    ("trunks", trunk, "allow", index),
                    "{value} lets everybody call who can reach this machine",
                    "name the networks of the peer",
                )


def _certificate_warnings(settings: Settings, marks: Marks) -> Iterator[Problem]:
    tls = settings.server.sip.tls
    if tls is None:
        return
    certificate = x509.load_pem_x509_certificate(tls.certificate.read_bytes())
    ends, now = certificate.not_valid_after_utc, datetime.now(UTC)
    if now < ends - _SOON:
        return
    word = "has expired on" if ends < now else "expires on"
    yield marks.problem(
        ("server", "sip", "tls", "certificate"), f"{{value}} {word} {ends:%Y-%m-%d}", "put a new one there"
    )


def _tool_warnings(settings: Settings, marks: Marks) -> Iterator[Problem]:
    """A tool entry that is written and cannot do anything is worth a word; it is no error."""
    for agent, entry in settings.agents.items():
        tools = AgentToolConfig.model_validate(dict(entry.tools))
        if tools.is_tool_enabled("lookup_caller") and not _looks_up(settings, agent):
            yield marks.problem(
                ("agents", agent, "tools", "lookup_caller"),
                "no number of this agent has an organization with a client_lookup_url: it is left out",
                "add client_lookup_url to the organization of a number",
            )
        if tools.is_tool_enabled("query_knowledge") and not _knows(tools):
            yield marks.problem(
                ("agents", agent, "tools", "query_knowledge"),
                "no knowledge base is named: it is left out",
                "add knowledge_bases: [NAME]",
            )


def _prompt_warnings(settings: Settings, marks: Marks) -> Iterator[Problem]:
    for agent, entry in settings.agents.items():
        if re.fullmatch(r"\S+\.(md|txt|prompt)", entry.prompt):
            yield marks.problem(
                ("agents", agent, "prompt"),
                "looks like the name of a file, and is taken as the prompt itself",
                f"write prompt: {{file: {entry.prompt}}}",
            )


def _transfer_warnings(settings: Settings, marks: Marks) -> Iterator[Problem]:
    """A transfer by a call of ours needs a trunk that takes calls of ours."""
    outward = [name for name, trunk in settings.trunks.items() if trunk.peer is not None]
    for agent, entry in settings.agents.items():
        path: KeyPath = ("agents", agent, "transfer")
        trunk = entry.transfer.trunk
        if trunk is not None and trunk not in outward:
            yield marks.problem(
                (*path, "trunk"), "{value} takes no calls of ours", f"add address: sip:HOST to trunks.{trunk}"
            )
        elif entry.transfer.method == "bridge" and not outward:
            yield marks.problem(
                (*path, "method"),
                "no trunk takes calls of ours: every transfer fails",
                "add address: sip:HOST to a trunk",
            )


def _knows(tools: AgentToolConfig) -> bool:
    settings = tools.get_tool_settings(QueryKnowledgeSettings, "query_knowledge")
    return settings is not None and bool(settings.knowledge_bases)


def _looks_up(settings: Settings, agent: str) -> bool:
    organizations = {entry.organization for entry in settings.numbers.values() if entry.agent == agent}
    return any(
        name is not None and name in settings.organizations and settings.organizations[name].client_lookup_url
        for name in organizations
    )


def mapping_at(data: JsonValue, *path: str) -> Mapping[str, JsonValue]:
    """Return the mapping at a key path, empty where something else stands."""
    return dict(_entries(data, *path))
