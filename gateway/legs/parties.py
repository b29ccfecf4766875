"""
Who calls whom, as far as the trunk is to be believed (no I/O).

:mod:`gateway.sip.identity` reads what an INVITE says; here the trunk's settings decide what of it counts,
and :mod:`gateway.legs.numbers` brings numbers into one form. What was written is kept beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gateway.legs.numbers import NumberPlan, TelephoneNumber
from gateway.sip.identity import CallerSource, Diversion, Identity, identity_of
from gateway.sip.message import Request
from gateway.sip.party import Party, clean, parse_party

FORWARDED_FROM: Final = "forwarded_from"
"""Parameter: who forwarded the call, the most recent first, separated by a comma and a blank."""
MAX_HEADER: Final = 256
"""Characters of a configured header that are handed on."""


@dataclass(frozen=True, slots=True)
class PartyRules:
    """What one trunk is believed, and how it writes numbers."""

    plan: NumberPlan = field(default_factory=NumberPlan)
    order: tuple[CallerSource, ...] = (CallerSource.FROM,)
    """Where the caller is looked for."""
    trusted: bool = False
    """Whether the peer vouches for what it says of caller and called."""
    headers: tuple[str, ...] = ()
    """Headers that become parameters, their names in lower case."""


@dataclass(frozen=True, slots=True)
class Parties:
    """What is known of a call's two ends."""

    caller: str
    """Empty when withheld or not known."""
    called: str
    parameters: dict[str, str]
    """Only what is there: no value is empty."""


def describe(request: Request, rules: PartyRules, *, registered_as: str = "") -> Parties:
    """
    Read the parties of an INVITE.

    Args:
        request: As the parser accepted it.
        rules: Of the trunk that it came from.
        registered_as: The user whose registered contact was called. The Request-URI then names only
            that contact; whom the caller dialled stands in P-Called-Party-ID of a trusted trunk, else in To.
    """
    identity = identity_of(request)
    caller = identity.caller(rules.order)
    called = _dialled(request, identity, rules) if registered_as else identity.called
    from_number = _number(caller, rules.plan)
    to_number = _number(called, rules.plan)
    parameters = {
        "sip_call_id": clean(request.call_id),
        "to": identity.to.number,
        "registered_as": registered_as,
        "called_raw": to_number.written,
        "called_context": called.context,
        "caller_raw": from_number.written,
        "caller_name": caller.display if caller else "",
        "caller_extension": from_number.extension or (caller.extension if caller else ""),
        FORWARDED_FROM: _forwarded(identity, rules.plan),
        **{name: _header(request, name) for name in rules.headers},
    }
    return Parties(
        from_number.best,
        to_number.best or registered_as,
        {name: value for name, value in parameters.items() if value},
    )


def _dialled(request: Request, identity: Identity, rules: PartyRules) -> Party:
    """Return whom the caller of a registered contact dialled (RFC 7315, section 4.2)."""
    written = request.headers.get("P-Called-Party-ID")
    if written is not None and rules.trusted:
        try:
            return parse_party(written)[0]
        except ValueError:
            return identity.to
    return identity.to


def _number(party: Party | None, plan: NumberPlan) -> TelephoneNumber:
    """Read the number of a party as it was written: separators mean something to the plan."""
    if party is None or not party.number:
        return TelephoneNumber("")
    read = plan.read(clean(party.uri.user))
    # A local number with a domain or prefix as its context is complete only with it (RFC 3966, 5.1.5).
    if party.context.startswith("+") and not read.written.startswith("+"):
        whole = plan.read(party.context + read.dialled)
        return TelephoneNumber(read.written, whole.e164, read.dialled, read.extension)
    return read


def _forwarded(identity: Identity, plan: NumberPlan) -> str:
    return ", ".join(_diverter(each, plan) for each in identity.forwarded if each.party.is_known)


def _diverter(diversion: Diversion, plan: NumberPlan) -> str:
    return "private" if diversion.private else _number(diversion.party, plan).best.replace(",", "")


def _header(request: Request, name: str) -> str:
    return clean(", ".join(request.headers.get_all(name)), MAX_HEADER)
