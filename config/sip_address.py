"""Addresses of SIP peers as an operator writes them: ``sip:200@pbx.example.com:5070;transport=tcp``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from config.fields import invalid

SipTransport = Literal["udp", "tcp", "tls", "ws", "wss"]

_ADDRESS = re.compile(
    r"(?P<scheme>sips?):"
    r"(?:(?P<user>[A-Za-z0-9_.!~*'()&=+$,;?/%-]+)@)?"  # RFC 3261 section 25.1, without a password
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"(:(?P<port>[0-9]{1,5}))?"
    r"(;transport=(?P<transport>udp|tcp|tls|ws|wss))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SipAddress:
    """A ``sip:`` or ``sips:`` address; what is not written stays open for RFC 3263 to find."""

    host: str
    """A name, or an IP address without brackets."""
    user: str = ""
    port: int | None = None
    transport: SipTransport | None = None
    secure: bool = False
    """Whether it is a ``sips:`` address: TLS and nothing else."""

    @property
    def place(self) -> str:
        """``host[:port]`` with brackets around an IPv6 address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def domain(self) -> str:
        """The URI without user: what a registrar is asked for, and whom a ping names."""
        transport = f";transport={self.transport}" if self.transport else ""
        return f"{self.scheme}:{self.place}{transport}"

    @property
    def scheme(self) -> str:
        return "sips" if self.secure else "sip"

    def __str__(self) -> str:
        transport = f";transport={self.transport}" if self.transport else ""
        user = f"{self.user}@" if self.user else ""
        return f"{self.scheme}:{user}{self.place}{transport}"

    @classmethod
    def parse(cls, value: object) -> SipAddress:
        if isinstance(value, cls):
            return value
        found = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
        if found is None or not _is_host(found["host"]) or not 0 < int(found["port"] or 5060) < 65536:
            raise invalid(
                "is not a SIP address",
                "write sip:host, sip:user@host or sip:host:5060;transport=tcp"
                " (transport is udp, tcp, tls, ws or wss)",
            )
        transport = _transport(found["transport"])
        secure = found["scheme"].lower() == "sips"
        if secure and transport not in {None, "tls", "wss"}:
            raise invalid("{value} asks for TLS and for a transport without", "write sip: or transport=tls")
        return cls(
            host=found["host"].strip("[]"),
            user=found["user"] or "",
            port=int(found["port"]) if found["port"] else None,
            transport=transport,
            secure=secure,
        )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "string", "examples": ["sip:sip.example.com", "sip:10.0.0.5:5060;transport=tcp"]}


def _is_host(text: str) -> bool:
    """Whether brackets hold an IPv6 address, and four numbers are an IPv4 one."""
    bare = text.strip("[]")
    if text.startswith("[") or re.fullmatch(r"[0-9.]+", bare):
        try:
            ip_address(bare)
        except ValueError:
            return False
    return True


def _transport(text: str | None) -> SipTransport | None:
    match (text or "").lower():
        case "udp" | "tcp" | "tls" | "ws" | "wss" as known:
            return known
        case _:
            return None
