"""Whom a request of ours goes to, and with what it proves who we are."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.sip.flow import Flow


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a digest challenge is answered with (RFC 3261, section 22)."""

    username: str
    password: str = field(repr=False)
    realm: str | None = None
    """The only realm that may have them; ``None`` answers whoever challenges."""


@dataclass(frozen=True, slots=True)
class Target:
    """
    A request that begins something: a call, a registration, a ping.

    ``flows`` are the peer's addresses in the order of RFC 3263, already looked up: the next one is
    tried when one cannot be reached, does not answer, or answers 503 (section 4.3).
    """

    uri: str
    """Request-URI, and the To of the request."""
    from_: str
    """The From without tag, such as ``"Sales" <sip:+12125550100@gw.example.com>``."""
    flows: tuple[Flow, ...]
    to: str = ""
    """The To, where it is not ``uri`` (a REGISTER's)."""
    credentials: Credentials | None = None
    routes: tuple[str, ...] = ()
    """Route headers: an outbound proxy."""
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers of the request."""
    user: str = ""
    """User part of our Contact, escaped as a URI needs it."""

    def __post_init__(self) -> None:
        if not self.flows:
            raise ValueError(f"no address for {self.uri[:80]!r}")
