"""The settings of the process: where it listens, SIP's timers, the web server."""

from __future__ import annotations

import ssl
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, field_validator, model_validator

from config.fields import (
    ExistingFile,
    HostName,
    HttpListen,
    KeyedTable,
    Listen,
    NameServer,
    Number,
    PortRange,
    PublicAddress,
    Section,
    WebOrigin,
    Whole,
    default_loop,
    empty,
    invalid,
)
from config.recovery import BreakerSettings

_LISTEN_SCHEMA = WithJsonSchema({"type": "string", "examples": ["udp:0.0.0.0:5060", "tls:[::]:5061"]})
_HTTP_LISTEN_SCHEMA = WithJsonSchema({"type": "string", "examples": ["127.0.0.1:8080", "[::1]:8080"]})
_DNS_SCHEMA = WithJsonSchema({"type": "string", "examples": ["192.0.2.53", "[2001:db8::53]:53"]})
_PORTS_SCHEMA = WithJsonSchema({"type": "string", "pattern": r"^\d+-\d+$", "examples": ["20000-29999"]})


def _listener(value: str) -> str:
    return str(Listen.parse(value))


ListenKey = Annotated[str, AfterValidator(_listener)]
"""An entry of ``listen``, in its usual spelling."""


class SipTimers(Section):
    """The base values of RFC 3261's timers; other values than the defaults are for tests and odd networks."""

    t1_ms: Annotated[Whole, Field(ge=1, le=10_000)] = 500
    """Estimate of the round trip: the first retransmission comes after it."""
    t2_ms: Annotated[Whole, Field(ge=1, le=60_000)] = 4000
    """The longest pause between retransmissions."""
    t4_ms: Annotated[Whole, Field(ge=0, le=60_000)] = 5000
    """How long a message may stay in the network."""

    @model_validator(mode="after")
    def _t2_is_not_below_t1(self) -> SipTimers:
        if self.t2_ms < self.t1_ms:
            raise invalid("t2_ms is smaller than t1_ms", f"write t2_ms: {self.t1_ms} or more")
        return self


class TlsSettings(Section):
    """Our certificate, and whose we trust; changed files reach the next connection by themselves."""

    certificate: ExistingFile
    """PEM file: our certificate, then the intermediate ones."""
    private_key: ExistingFile
    """PEM file: its key, without a password."""
    ca: ExistingFile | None = None
    """PEM file: the authorities that may sign a peer's certificate; null takes those of the system."""
    verify_client: bool = False
    """Whether a peer that connects to us must show a certificate (mutual TLS)."""

    @model_validator(mode="after")
    def _files_can_be_used(self) -> TlsSettings:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.private_key, password=_no_password)
        except (ssl.SSLError, OSError, _Encrypted) as error:
            raise invalid(*_why_not(error)) from None
        if self.ca is not None:
            try:
                context.load_verify_locations(self.ca)
            except (ssl.SSLError, OSError):
                raise invalid("ca holds no certificate", "write the path of a PEM file") from None
        return self


class _Encrypted(Exception):
    """A key with a password."""


def _no_password() -> str:
    raise _Encrypted


def _why_not(error: Exception) -> tuple[str, str]:
    if isinstance(error, _Encrypted):
        return "private_key has a password", "write the path of a key without one"
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return "private_key does not belong to certificate", "write the paths of a pair"
    return "certificate or private_key cannot be read", "write the paths of PEM files"


class SipSettings(Section):
    """Where SIP and RTP are heard."""

    listen: Annotated[tuple[Annotated[Listen, _LISTEN_SCHEMA], ...], Field(min_length=1)] = Field(
        default=(Listen("udp", "0.0.0.0", 5060), Listen("tcp", "0.0.0.0", 5060)),  # noqa: S104  it is there to be called
        json_schema_extra={"default": ["udp:0.0.0.0:5060", "tcp:0.0.0.0:5060"]},
    )
    """Addresses for SIP, each as transport:address:port; transport is udp, tcp, tls, ws or wss."""
    tls: TlsSettings | None = None
    """The certificate for tls and wss, and for TLS connections of ours."""
    websocket_origins: tuple[WebOrigin, ...] = ()
    """Web sites whose pages may connect by ws or wss, such as https://phone.example.com; "*" lets all in."""
    public_address: PublicAddress = "auto"
    """The address that peers are told to send to: an IP address; auto takes the one that routes to the peer;
    auto:INTERFACE that of an interface; stun:HOST:PORT what a STUN server sees."""
    public_addresses: KeyedTable[ListenKey, PublicAddress] = Field(default_factory=empty)
    """Another public_address for single entries of listen, such as {"udp:10.0.0.1:5060": auto}."""
    public_name: HostName | None = None
    """Host name in Contact and Via in place of the address, for peers that compare it with a certificate."""
    tcp_above_bytes: Annotated[Whole, Field(ge=500, le=65_000)] | None = 1300
    """Requests of ours that are longer go by TCP, to a peer that takes it, in place of UDP; null for none."""
    max_messages_per_s: Annotated[Number, Field(gt=0, le=1_000_000)] = 2000.0
    """SIP messages that one address may send; further datagrams are dropped, connections read slowly."""
    rtp_ports: Annotated[PortRange, _PORTS_SCHEMA] = Field(
        default=PortRange(20000, 29999), json_schema_extra={"default": "20000-29999"}
    )
    """UDP ports for audio; each call takes an even one and the odd one above it."""
    max_calls: Annotated[Whole, Field(ge=1, le=32_000)] = 500
    """Calls at once over all trunks; one more is answered with 503 and Retry-After."""
    timers: SipTimers = SipTimers()
    """RFC 3261's timer values."""
    refer_timeout_s: Annotated[Number, Field(gt=0, le=3600)] = 60.0
    """A transfer has failed when the peer says nothing about it for so long."""
    media_timeout_s: Annotated[Number, Field(ge=1, le=86_400)] = 30.0
    """A call is ended when it brings no audio for so long; not while it is on hold."""
    hold_timeout_s: Annotated[Number, Field(ge=1, le=86_400)] = 1800.0
    """A call is ended when its peer has held it for so long."""
    session_expires_s: Annotated[Whole, Field(ge=90, le=86_400)] = 1800
    """The session timer (RFC 4028): a call that is not refreshed for so long is ended.
    It is what we ask for, and the longest that we agree to."""
    min_se_s: Annotated[Whole, Field(ge=90, le=86_400)] = 90
    """The shortest session timer that a peer may ask for; a shorter one is answered with 422."""

    @model_validator(mode="after")
    def _sessions_last_as_long_as_they_must(self) -> SipSettings:
        if self.min_se_s > self.session_expires_s:
            raise invalid(
                "min_se_s is longer than session_expires_s",
                f"write min_se_s: {self.session_expires_s} or less",
            )
        return self

    @model_validator(mode="after")
    def _no_port_is_used_twice(self) -> SipSettings:
        for listen in self.listen:
            if listen.transport == "udp" and listen.port in self.rtp_ports:
                raise invalid(
                    f"rtp_ports {self.rtp_ports} contain the SIP port {listen.port}",
                    "move one of the two, so that a call never takes the SIP port",
                )
        taken = [(each.transport == "udp", each.host, each.port) for each in self.listen if each.port]
        if len(set(taken)) < len(taken):
            raise invalid("listen names one address twice", "remove one of the two, or give it another port")
        return self

    @model_validator(mode="after")
    def _public_addresses_have_a_listener(self) -> SipSettings:
        for listen in self.public_addresses:
            if Listen.parse(listen) not in self.listen:
                known = ", ".join(str(each) for each in self.listen)
                raise invalid(f"public_addresses names {listen}, not one of listen", f"choose from {known}")
        return self

    @model_validator(mode="after")
    def _tls_has_a_certificate(self) -> SipSettings:
        secure = next((each for each in self.listen if each.secure), None)
        if secure is not None and self.tls is None:
            raise invalid(f"{secure} needs a certificate", "add tls: {certificate: FILE, private_key: FILE}")
        return self


class HttpSettings(Section):
    """Health, trunks, metrics."""

    listen: Annotated[HttpListen, _HTTP_LISTEN_SCHEMA] = Field(
        default=HttpListen("127.0.0.1", 8080), json_schema_extra={"default": "127.0.0.1:8080"}
    )
    """Address of /healthz, /readyz, /trunks and /metrics, as address:port."""


class ServerSettings(Section):
    """The process. A change here needs a restart."""

    sip: SipSettings = Field(default_factory=SipSettings)
    """SIP and RTP."""
    http: HttpSettings = HttpSettings()
    """The web server."""
    dns: tuple[Annotated[NameServer, _DNS_SCHEMA], ...] = ()
    """Name servers for SIP (NAPTR, SRV and addresses), as address:port; none takes the system's."""
    drain_s: Annotated[Number, Field(ge=0, le=86_400)] = 600.0
    """How long SIGTERM waits for running calls before it ends them."""
    breaker: BreakerSettings = BreakerSettings()
    """When a provider that fails is left alone for a while."""
    loop: Literal["uvloop", "asyncio"] = Field(
        default_factory=default_loop, json_schema_extra={"default": "uvloop"}
    )
    """The event loop; uvloop where it is installed."""

    @field_validator("loop", mode="after")
    @classmethod
    def _loop_is_installed(cls, value: str) -> str:
        if value == "uvloop" and default_loop() != "uvloop":
            raise invalid("uvloop is not installed", "install uvloop, or write loop: asyncio")
        return value
