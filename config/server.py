"""The settings of the process: where it listens, SIP's timers, the web server."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema, field_validator, model_validator

from config.fields import (
    HttpListen,
    Listen,
    Number,
    PortRange,
    PublicAddress,
    Section,
    Whole,
    default_loop,
    invalid,
)

_LISTEN_SCHEMA = WithJsonSchema({"type": "string", "examples": ["udp:0.0.0.0:5060", "tcp:[::]:5060"]})
_HTTP_LISTEN_SCHEMA = WithJsonSchema({"type": "string", "examples": ["127.0.0.1:8080", "[::1]:8080"]})
_PORTS_SCHEMA = WithJsonSchema({"type": "string", "pattern": r"^\d+-\d+$", "examples": ["20000-29999"]})


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


class SipSettings(Section):
    """Where SIP and RTP are heard."""

    listen: Annotated[tuple[Annotated[Listen, _LISTEN_SCHEMA], ...], Field(min_length=1)] = Field(
        default=(Listen("udp", "0.0.0.0", 5060), Listen("tcp", "0.0.0.0", 5060)),  # noqa: S104  it is there to be called
        json_schema_extra={"default": ["udp:0.0.0.0:5060", "tcp:0.0.0.0:5060"]},
    )
    """Addresses for SIP, each as transport:address:port; transport is udp or tcp."""
    public_address: PublicAddress = "auto"
    """The address that peers are told to send to; auto takes the one that routes to the peer."""
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

    @model_validator(mode="after")
    def _no_port_is_used_twice(self) -> SipSettings:
        for listen in self.listen:
            if listen.transport == "udp" and listen.port in self.rtp_ports:
                raise invalid(
                    f"rtp_ports {self.rtp_ports} contain the SIP port {listen.port}",
                    "move one of the two, so that a call never takes the SIP port",
                )
        if len({(x.transport, x.host, x.port) for x in self.listen if x.port}) < sum(
            1 for x in self.listen if x.port
        ):
            raise invalid("listen names one address twice", "remove one of the two")
        return self


class HttpSettings(Section):
    """Health, metrics."""

    listen: Annotated[HttpListen, _HTTP_LISTEN_SCHEMA] = Field(
        default=HttpListen("127.0.0.1", 8080), json_schema_extra={"default": "127.0.0.1:8080"}
    )
    """Address of /healthz, /readyz and /metrics, as address:port."""


class ServerSettings(Section):
    """The process. A change here needs a restart."""

    sip: SipSettings = SipSettings()
    """SIP and RTP."""
    http: HttpSettings = HttpSettings()
    """The web server."""
    drain_s: Annotated[Number, Field(ge=0, le=86_400)] = 600.0
    """How long SIGTERM waits for running calls before it ends them."""
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
