"""
The kinds of values that settings are made of: addresses, port ranges, files, names.

A value that cannot be used raises :func:`invalid`, whose two sentences (what is wrong, what to
write) reach the operator unchanged. Neither sentence holds the value itself: it may come from a
secret, so :mod:`config.errors` shows what stands in the file instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    WithJsonSchema,
    WrapSerializer,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

INVALID = "trunkline_invalid"
"""The pydantic error type of everything that :func:`invalid` makes."""


def invalid(what: str, write: str) -> PydanticCustomError:
    """
    Make the error of one value.

    Args:
        what: What is wrong; ``{value}`` stands for the value as it is written in the file.
        write: What to write instead.
    """
    return PydanticCustomError(INVALID, "not valid", {"what": what, "write": write})


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"did you mean X?"`` for a near miss, otherwise an empty string."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else ""


class Section(BaseModel):
    """A part of the settings: closed (an unknown key is an error) and frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


K = TypeVar("K")
V = TypeVar("V")


def _dump(value: Mapping[str, object], handler: SerializerFunctionWrapHandler) -> object:
    return handler(dict(value))


KeyedTable = Annotated[Mapping[K, V], AfterValidator(MappingProxyType), WrapSerializer(_dump)]
Table = KeyedTable[str, V]
"""A read-only mapping from names to settings."""


def empty() -> Mapping[str, V]:
    """Return an empty table (a mapping proxy cannot be a default, because it cannot be copied)."""
    return MappingProxyType({})


def _no_bool(value: object) -> object:
    # pydantic would read true as 1, which nobody means who writes `max_calls: yes`.
    if isinstance(value, bool):
        raise invalid("must be a number, not true or false", "write a number")
    return value


Whole = Annotated[int, BeforeValidator(_no_bool)]
Number = Annotated[float, BeforeValidator(_no_bool), Field(allow_inf_nan=False)]


def _not_blank(value: str) -> str:
    if not value.strip():
        raise invalid("is empty", "write some text, or remove the key where it is optional")
    return value


Text = Annotated[str, AfterValidator(_not_blank)]

_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")


def _language_tag(value: str) -> str:
    if not _LANGUAGE.fullmatch(value):
        raise invalid("{value} is not a language tag", "write a tag such as en, de-DE or kk")
    return value


Language = Annotated[str, AfterValidator(_language_tag)]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2


def _header_name(value: str) -> str:
    if not _TOKEN.fullmatch(value):
        raise invalid("is not an HTTP header name", "write letters, digits, - and _ only")
    return value


HeaderName = Annotated[str, AfterValidator(_header_name)]


def _web_address(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+([/?#]\S*)?", value):
        raise invalid("is not a web address", "write https://host/path, without user or password")
    return value


WebAddress = Annotated[str, AfterValidator(_web_address)]


def _network(value: str) -> str:
    try:
        return str(ip_network(value))
    except ValueError:
        pass
    try:
        meant = ip_network(value, strict=False)
    except ValueError:
        raise invalid(
            "{value} is not an address or CIDR network",
            "write numbers such as 192.0.2.7 or 192.0.2.0/24; a host name is not possible here",
        ) from None
    raise invalid("{value} has bits set behind its prefix", f"write {meant} for the whole network")


Network = Annotated[str, AfterValidator(_network)]
"""An address or CIDR network, in its usual spelling (``192.0.2.7/32``)."""


_INTERFACE = re.compile(r"[A-Za-z0-9_.@-]{1,15}")
_STUN = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")


def _public_address(value: str) -> str:
    kind, colon, rest = value.partition(":")
    if value == "auto" or (kind == "auto" and _INTERFACE.fullmatch(rest)):
        return value
    if kind == "stun" and colon:
        found = _STUN.fullmatch(rest)
        if found is None or (found[2] and not _port(found[2][1:])):
            raise invalid("{value} names no STUN server", "write stun:HOST or stun:HOST:PORT")
        return value
    try:
        address = ip_address(value)
    except ValueError:
        raise invalid(
            "{value} is not an IP address",
            "write auto, auto:INTERFACE, stun:HOST:PORT, or the address under which the peers reach us",
        ) from None
    if address.is_unspecified or address.is_multicast:
        raise invalid("{value} cannot be reached by anybody", "write auto, or one address of this machine")
    return value


PublicAddress = Annotated[str, AfterValidator(_public_address)]


def _port(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,5}", text) and int(text) <= 65535 else None


def _host(text: str) -> str | None:
    """Return the bare address of ``text`` (IPv6 in brackets), or ``None``."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = ip_address(bare)
    except ValueError:
        return None
    return bare if (address.version == 6) == (bare != text) else None


@dataclass(frozen=True, slots=True)
class HttpListen:
    """Where the web server listens; port 0 takes any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, value: object) -> HttpListen:
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            host, _, port = value.rpartition(":")
            address, number = _host("127.0.0.1" if host == "localhost" else host), _port(port)
            if address is not None and number is not None:
                return cls(address, number)
        raise invalid(
            "is not an address to listen on",
            'write "address:port" in quotes, such as "127.0.0.1:8080" or "[::1]:8080"',
        )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.to_string_ser_schema()
        )


Transport: TypeAlias = Literal["udp", "tcp", "tls", "ws", "wss"]
_TRANSPORTS: dict[str, Transport] = {"udp": "udp", "tcp": "tcp", "tls": "tls", "ws": "ws", "wss": "wss"}


@dataclass(frozen=True, slots=True)
class Listen:
    """Where SIP is heard; port 0 takes any free one."""

    transport: Transport
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.transport}:{HttpListen(self.host, self.port)}"

    @property
    def secure(self) -> bool:
        """Whether it needs a certificate."""
        return self.transport in {"tls", "wss"}

    @classmethod
    def parse(cls, value: object) -> Listen:
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            transport, _, rest = value.partition(":")
            host, _, port = rest.rpartition(":")
            address, number = _host(host), _port(port)
            if transport in _TRANSPORTS and address is not None and number is not None:
                return cls(_TRANSPORTS[transport], address, number)
        raise invalid(
            "is not an address to listen on",
            'write "transport:address:port" in quotes, such as "udp:0.0.0.0:5060" or "tls:[::]:5061"'
            f" (transport is {', '.join(_TRANSPORTS)})",
        )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.to_string_ser_schema()
        )


@dataclass(frozen=True, slots=True)
class NameServer:
    """A server of the domain name system; port 53 where none is written."""

    host: str
    port: int

    def __str__(self) -> str:
        return str(HttpListen(self.host, self.port))

    @classmethod
    def parse(cls, value: object) -> NameServer:
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            if (alone := _host(value)) is not None:
                return cls(alone, 53)
            host, _, port = value.rpartition(":")
            address, number = _host(host), _port(port)
            if address is not None and number:
                return cls(address, number)
        raise invalid(
            "is not the address of a name server",
            'write an address, such as "192.0.2.53", "192.0.2.53:5353" or "[2001:db8::53]:53", in quotes',
        )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.to_string_ser_schema()
        )


def _host_name(value: str) -> str:
    if not re.fullmatch(
        r"(?=.{1,253}$)([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z][A-Za-z0-9-]*", value
    ):
        raise invalid("{value} is not a host name", "write a name such as sbc.example.com")
    return value


HostName = Annotated[str, AfterValidator(_host_name)]


def _origin(value: str) -> str:
    if value != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+", value):
        raise invalid(
            "{value} is not the origin of a web page",
            "write scheme and host, such as https://phone.example.com",
        )
    return value


WebOrigin = Annotated[str, AfterValidator(_origin)]


@dataclass(frozen=True, slots=True)
class PortRange:
    """UDP ports ``first`` to ``last``, both included; RTP takes the even ones, RTCP the odd."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def __contains__(self, port: int) -> bool:
        return self.first <= port <= self.last

    @property
    def pairs(self) -> int:
        """How many calls the range carries at once."""
        return (self.last - self.first + 1) // 2

    @classmethod
    def parse(cls, value: object) -> PortRange:
        if isinstance(value, cls):
            return value
        ends = (
            re.fullmatch(r"\s*([0-9]{1,5})\s*-\s*([0-9]{1,5})\s*", value) if isinstance(value, str) else None
        )
        if ends is None:
            raise invalid("is not a range of ports", "write first-last, such as 20000-29999")
        first, last = int(ends[1]), int(ends[2])
        if last < first:
            raise invalid("{value} ends before it begins", "write the smaller port first")
        if first < 1024 or last > 65535:
            raise invalid("{value} leaves the ports 1024 to 65535", "write a range such as 20000-29999")
        if first % 2:
            raise invalid("{value} begins with an odd port", f"begin with the even port {first + 1}")
        if last == first:
            raise invalid(
                "{value} has no room for one pair of RTP and RTCP", f"write {first}-{first + 1} or more"
            )
        return cls(first, last)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.to_string_ser_schema()
        )


def base_folder(info: ValidationInfo) -> Path:
    """Return the folder of the file that is being loaded: relative paths start there."""
    context = info.context if isinstance(info.context, Mapping) else {}
    base = context.get("base")
    return base if isinstance(base, Path) else Path()


def note_file(info: ValidationInfo, path: Path) -> None:
    """Remember that the settings depend on a file, so that a change of it is noticed."""
    context = info.context if isinstance(info.context, Mapping) else {}
    files = context.get("files")
    if isinstance(files, set):
        files.add(path)


def resolve_path(value: object, info: ValidationInfo) -> Path:
    """Turn text into a path, relative to the file that names it."""
    if isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise invalid("must be a path", "write the path of a file or folder, relative to this file")
    try:
        return base_folder(info) / Path(value).expanduser()
    except RuntimeError:
        raise invalid("{value} names a home folder that does not exist", "write another path") from None


def existing_file(value: object, info: ValidationInfo) -> Path:
    path = resolve_path(value, info)
    note_file(info, path)
    if not path.is_file():
        what = "{value} is a folder" if path.is_dir() else "there is no file {value}"
        raise invalid(what, f"write the path of a file, relative to {base_folder(info).absolute()}")
    return path


def _existing_folder(value: object, info: ValidationInfo) -> Path:
    path = resolve_path(value, info)
    if not path.is_dir():
        what = "{value} is not a folder" if path.exists() else "there is no folder {value}"
        raise invalid(what, f"write the path of a folder, relative to {base_folder(info).absolute()}")
    return path


def _future_folder(value: object, info: ValidationInfo) -> Path:
    path = resolve_path(value, info)
    if path.exists() and not path.is_dir():
        raise invalid("{value} is a file", "write the path of a folder; it is made when it does not exist")
    return path


def _audio_file(value: object, info: ValidationInfo) -> Path:
    import soundfile

    path = existing_file(value, info)
    try:
        length = soundfile.info(str(path)).frames
    except (soundfile.SoundFileError, RuntimeError):
        length = 0
    if length <= 0:
        raise invalid("{value} is not audio that can be read", "write the path of a WAV, FLAC or OGG file")
    return path


_PATH_SCHEMA = WithJsonSchema({"type": "string", "format": "path"})
ExistingFile = Annotated[Path, BeforeValidator(existing_file), _PATH_SCHEMA]
ExistingFolder = Annotated[Path, BeforeValidator(_existing_folder), _PATH_SCHEMA]
FutureFolder = Annotated[Path, BeforeValidator(_future_folder), _PATH_SCHEMA]
AudioFile = Annotated[Path, BeforeValidator(_audio_file), _PATH_SCHEMA]


def default_loop() -> Literal["uvloop", "asyncio"]:
    """Return ``uvloop`` where it is installed."""
    return "uvloop" if find_spec("uvloop") else "asyncio"
