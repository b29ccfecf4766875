"""What a user agent refuses before its application hears of it (RFC 3261, section 8.2)."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.sip.body import SDP_TYPE
from gateway.sip.message import Request
from gateway.sip.policy import ANYBODY, PeerPolicy
from gateway.sip.respond import ACCEPT, ALLOW, ALLOWED_METHODS, EXTENSIONS
from gateway.sip.uri import scheme_of

_SCHEMES = frozenset({"sip", "sips", "tel"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """A final response in place of service."""

    status: int
    why: str
    headers: tuple[tuple[str, str], ...] = ()
    quiet: bool = False
    """Whether it is part of the normal course of things, and nothing to report."""


UNSUPPORTED_MEDIA = ("Accept", ACCEPT), ("Accept-Encoding", "identity")


def extensions(policy: PeerPolicy) -> tuple[str, ...]:
    """Return the option tags that a peer may require, which are also those of our Supported header."""
    return tuple(tag for tag in EXTENSIONS if policy.session_timers or tag != "timer")


def inspect(request: Request, policy: PeerPolicy = ANYBODY) -> Refusal | None:
    """
    Judge a request other than ACK and CANCEL in the order of RFC 3261, section 8.2.

    Returns:
        405 with Allow, 416, 420 with Unsupported or 406; ``None`` when it may be served.
    """
    if request.method not in ALLOWED_METHODS:
        return Refusal(405, f"method {request.method[:40]}", (("Allow", ALLOW),))
    if scheme_of(request.uri) not in _SCHEMES:
        return Refusal(416, "the scheme of the Request-URI")
    known = extensions(policy)
    unsupported = [tag for tag in request.headers.tokens("Require") if tag not in known]
    if unsupported:
        return Refusal(420, "a required extension", (("Unsupported", ", ".join(unsupported)),))
    if request.method in {"INVITE", "UPDATE"} and not _accepts_sdp(request):
        return Refusal(406, "SDP is not accepted")
    return None


def _accepts_sdp(request: Request) -> bool:
    """Whether Accept lets us answer with SDP; no Accept header means yes (RFC 3261, section 20.1)."""
    if "Accept" not in request.headers:
        return True
    return not {SDP_TYPE, "application/*", "*/*"}.isdisjoint(request.headers.tokens("Accept"))
