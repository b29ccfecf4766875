"""How the requests of a peer are treated, asked for the flow that they come on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.sip.digest import Algorithm
from gateway.sip.flow import Flow
from gateway.sip.settings import SessionTerms
from gateway.sip.target import Credentials

NO_TIMERS: Final = SessionTerms(interval=0)


@dataclass(frozen=True, slots=True)
class Proof:
    """The digest that is asked of a peer."""

    credentials: Credentials
    """Their realm is that of the challenge."""
    algorithms: tuple[Algorithm, ...] = (Algorithm.MD5,)
    """What is offered, the preferred one first (RFC 8760, section 2.4)."""


@dataclass(frozen=True, slots=True)
class PeerPolicy:
    """What differs between the trunks of one user agent."""

    session_timers: bool = True
    """Whether RFC 4028 is spoken; without it ``timer`` is an extension that we do not have."""
    reliable_provisional: bool = False
    """Whether 18x are sent reliably to who supports it; who requires it gets them so anyway (RFC 3262)."""
    proof: Proof | None = None
    """What the peer must prove to know; ``None`` trusts the address."""

    def terms(self, terms: SessionTerms) -> SessionTerms:
        """Return the session timer's terms for this peer."""
        return terms if self.session_timers else NO_TIMERS


Policies: TypeAlias = Callable[[Flow, str], PeerPolicy]
"""Asked with the flow of a request and the user part of its Request-URI; ours go to a flow and nobody."""

ANYBODY = PeerPolicy()


def same_for_all(flow: Flow, user: str) -> PeerPolicy:
    """Return the policy of a user agent that makes no difference."""
    del flow, user
    return ANYBODY
