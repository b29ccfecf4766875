"""The settings of a trunk: who may call us, how we reach the peer, and what we believe of what it says."""

from __future__ import annotations

import re
import warnings
from typing import Annotated, Literal

import phonenumbers
from pydantic import AfterValidator, Field, SecretStr, WithJsonSchema, field_validator, model_validator

from config.fields import HostName, Listen, Network, Number, Section, Text, Whole, did_you_mean, invalid
from config.media import JitterSettings
from config.sip_address import SipAddress
from config.transfers import TrunkTransfer

Codec = Literal["PCMU", "PCMA"]
Srtp = Literal["off", "optional", "required"]
CallerSource = Literal["pai", "rpid", "from"]
NumberFormat = Literal["plus", "digits", "national"]

# pydantic warns of a field named as something of its metaclass, ABCMeta.register; nobody calls that here.
warnings.filterwarnings("ignore", message='Field name "register"', category=UserWarning)

_LISTEN_SCHEMA = WithJsonSchema({"type": "string", "examples": ["udp:192.0.2.1:5062"]})
_UNTRUSTED: tuple[CallerSource, ...] = ("from",)
_TRUSTED: tuple[CallerSource, ...] = ("pai", "rpid", "from")


def _country(value: str) -> str:
    code = value.upper()
    if code in phonenumbers.SUPPORTED_REGIONS:
        return code
    near = did_you_mean(code, phonenumbers.SUPPORTED_REGIONS)
    raise invalid(
        "{value} is not a country", "write two letters such as DE or US" + (f"; {near}" if near else "")
    )


def _extension_header(value: str) -> str:
    if not re.fullmatch(r"[Xx]-[A-Za-z0-9_.-]{1,60}", value):
        raise invalid("{value} is not an extension header", "write the name of a header such as X-Account-Id")
    return value


def _dialled_prefix(value: str) -> str:
    if not re.fullmatch(r"\+?[0-9*#]{0,15}", value):
        raise invalid("{value} is not the beginning of a number", 'write digits in quotes, such as "0049"')
    return value


def _user_part(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.!~*'()&=+$,;?/%-]+", value):
        raise invalid("{value} is not the user part of a SIP address", "write digits or a name, in quotes")
    return value


def _host_part(value: str) -> str:
    if not re.fullmatch(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", value):
        raise invalid("{value} is not a host", "write a name or an address, without port")
    return value


Country = Annotated[str, AfterValidator(_country)]
ExtensionHeader = Annotated[str, AfterValidator(_extension_header)]
DialledPrefix = Annotated[str, AfterValidator(_dialled_prefix)]
UserPart = Annotated[str, AfterValidator(_user_part)]
HostPart = Annotated[str, AfterValidator(_host_part)]


class NumberRule(Section):
    """How one prefix that this peer writes is read; the first rule that fits a number is applied to it."""

    strip: DialledPrefix
    """Digits that the number begins with; they are taken away. Empty fits every number without a plus."""
    prefix: DialledPrefix = ""
    """What is put in their place, such as "+49"."""

    @model_validator(mode="after")
    def _does_something(self) -> NumberRule:
        if self.strip == self.prefix:
            raise invalid("strip and prefix are the same", "write what stands in the place of the digits")
        return self


class CallerAuth(Section):
    """What a caller on this trunk has to know: its requests are challenged with a digest."""

    username: Text
    """The user name."""
    password: SecretStr
    """The password; write ${env:NAME}."""
    algorithms: Annotated[tuple[Literal["SHA-256", "MD5"], ...], Field(min_length=1)] = ("MD5",)
    """What is offered, the preferred one first. Add SHA-256 for a peer that has it; others may give up."""

    @field_validator("algorithms")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise invalid("names one algorithm twice", "name each once")
        return value


class TrunkSettings(Section):
    """
    A peer that calls us or that we call: a carrier, a PBX, a proxy.

    It has allow, address or register; the addresses behind address and register may always talk to us.
    """

    allow: tuple[Network, ...] = ()
    """Addresses and CIDR networks of the peer; a packet from elsewhere gets no answer."""
    listen: Annotated[Listen, _LISTEN_SCHEMA] | None = None
    """The one entry of server.sip.listen by which this peer reaches us; null takes any."""
    certificate: HostName | None = None
    """A name that this peer's certificate must have when it connects (mutual TLS); null asks for none."""
    address: SipAddress | None = None
    """Where we send our calls, OPTIONS and REGISTER, such as sip:sip.example.com:5060;transport=tcp."""
    register: SipAddress | None = None
    """The address that we register, such as sip:200@pbx.example.com; null does not register."""
    register_expires_s: Annotated[Whole, Field(ge=60, le=86_400)] = 600
    """How long a registration is asked to last; what the registrar grants counts."""
    username: Text | None = None
    """Our name where the peer asks us for a digest; null takes the user of register."""
    password: SecretStr | None = None
    """Our password for it; write ${env:NAME}."""
    realm: Text | None = None
    """The only realm of a digest that we answer; null answers whoever asks, also a callee behind the peer."""
    auth: CallerAuth | None = None
    """The digest that is asked of callers on this trunk; null asks for none."""
    codecs: Annotated[tuple[Codec, ...], Field(min_length=1)] = ("PCMU", "PCMA")
    """Codecs that we accept, the preferred one first."""
    srtp: Srtp = "optional"
    """Encrypted audio: off refuses it, optional takes it where it is offered, required takes nothing else."""
    max_calls: Annotated[Whole, Field(ge=1)] | None = None
    """Calls at once on this trunk, in both directions; one more gets 503. null leaves it to server.sip."""
    symmetric_rtp: Literal["nat", "strict"] = "nat"
    """strict: audio from the host that the peer names, and to its address; nat: also of who really sends."""
    jitter_ms: JitterSettings = JitterSettings()
    """How long a packet that is missing is waited for, as {min: 40, max: 200}."""
    inband_dtmf: bool = False
    """Whether keys are heard as tones in the audio even of a peer that has telephone-events."""
    session_timers: bool = True
    """Whether calls have session timers (RFC 4028) where the peer has them too."""
    reliable_ringing: bool = False
    """Whether ringing is sent reliably (RFC 3262) to who supports it; who requires it gets it in any case."""
    qualify_s: Annotated[Number, Field(ge=1, le=3600)] | None = None
    """Seconds between OPTIONS that ask whether the peer is alive; null sends none."""
    tls_verify: bool = True
    """Whether the peer's certificate must be valid and name its host when we connect to it by TLS."""
    trusted: bool = False
    """Whether the peer vouches for P-Asserted-Identity, Remote-Party-ID and headers: a carrier, our PBX."""
    caller_id: Annotated[tuple[CallerSource, ...], Field(min_length=1)] | None = None
    """Where the caller's number stands, in this order; null is [pai, rpid, from] if trusted, else [from]."""
    headers: tuple[ExtensionHeader, ...] = ()
    """X- headers of a call that the agent is told of; only of a trusted trunk."""
    country: Country | None = None
    """Country of numbers without a country code, such as DE; null leaves them as they are."""
    number_rules: tuple[NumberRule, ...] = ()
    """Prefixes that this peer writes in its own way, tried before country."""
    number_format: NumberFormat = "plus"
    """How we write the numbers that we call: +49301234, its digits 49301234, or as in country: 0301234."""
    dial_prefix: DialledPrefix = ""
    """What stands in front of a number that we call, such as "0" for an outside line."""
    from_user: UserPart | None = None
    """The user part of our calls' From; null takes the user of register, else the number that was called."""
    from_host: HostPart | None = None
    """The host of our calls' From; null takes that of register, else our own address."""

    transfer: TrunkTransfer = TrunkTransfer()
    """How calls that came over this trunk are transferred."""

    @property
    def peer(self) -> SipAddress | None:
        """Where our requests go: the address, else the registrar."""
        return self.address or self.register

    @property
    def caller_order(self) -> tuple[CallerSource, ...]:
        """Where the caller's number is looked for."""
        return self.caller_id or (_TRUSTED if self.trusted else _UNTRUSTED)

    @property
    def credentials(self) -> tuple[str, SecretStr] | None:
        """What our digest is made of."""
        name = self.username or (self.register.user if self.register else "")
        return None if self.password is None or not name else (name, self.password)

    @field_validator("codecs", "caller_id", "headers")
    @classmethod
    def _each_once(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and len({each.lower() for each in value}) < len(value):
            raise invalid("names one entry twice", "name each once")
        return value

    @field_validator("address")
    @classmethod
    def _is_a_place(cls, value: SipAddress | None) -> SipAddress | None:
        if value is not None and value.user:
            raise invalid("{value} names a user", f"write {value.domain}; the user belongs to register")
        return value

    @field_validator("register")
    @classmethod
    def _names_somebody(cls, value: SipAddress | None) -> SipAddress | None:
        if value is not None and not value.user:
            raise invalid("{value} names nobody to register", f"write {value.scheme}:USER@{value.place}")
        return value

    @model_validator(mode="after")
    def _has_a_peer(self) -> TrunkSettings:
        if not self.allow and self.peer is None:
            raise invalid(
                "nobody can call on this trunk",
                "add allow: [NETWORK], address: sip:HOST or register: sip:USER@HOST",
            )
        if self.qualify_s is not None and self.peer is None:
            raise invalid("qualify_s has nobody to ask", "add address: sip:HOST")
        return self

    @model_validator(mode="after")
    def _national_numbers_have_a_nation(self) -> TrunkSettings:
        if self.number_format == "national" and self.country is None:
            raise invalid("number_format: national is that of no country", "add country: DE, or yours")
        return self

    @model_validator(mode="after")
    def _credentials_are_whole(self) -> TrunkSettings:
        if self.username is not None and self.password is None:
            raise invalid("username is set without password", 'add password: "${env:NAME}"')
        if self.password is not None and self.credentials is None:
            raise invalid("password is set without username", "add username: NAME")
        if self.realm is not None and self.password is None:
            raise invalid("realm is set without password", 'add password: "${env:NAME}"')
        return self

    @model_validator(mode="after")
    def _belief_needs_trust(self) -> TrunkSettings:
        if self.trusted:
            return self
        if self.headers:
            raise invalid(
                "headers of a trunk that is not trusted are anybody's", "add trusted: true, or remove headers"
            )
        if self.caller_id is not None and set(self.caller_id) - {"from"}:
            raise invalid(
                "caller_id names a header that is not believed of this trunk",
                "add trusted: true, or write caller_id: [from]",
            )
        return self
