"""What an INVITE gives to the agent beside caller and called number: the call's parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.sip.identity import Diversion, Identity
from gateway.sip.message import Headers
from gateway.sip.party import clean

MAX_CHOSEN: Final = 32
"""Headers that a trunk may choose."""
MAX_VALUE: Final = 1024
"""Characters of a parameter."""
SECRET_HEADERS: Final = frozenset({"authorization", "proxy-authorization"})
"""Never given to anybody, whatever a trunk's list says."""


def diversion_parameters(identity: Identity) -> dict[str, str]:
    """
    Say who forwarded the call, for those who do not hide it.

    ``diverted_from`` is the number that was called originally, ``diversions`` the whole chain, the most
    recent first, each with its reason: ``+12025550111 unconditional, +12025550122 no-answer``.
    Empty for a call that was not forwarded.
    """
    shown = [each for each in identity.forwarded if not each.private and each.party.is_known]
    if not shown:
        return {}
    chain = ", ".join(map(_told, shown))
    return {"diverted_from": shown[-1].party.number, "diversions": chain[:MAX_VALUE]}


def header_parameters(headers: Headers, names: Iterable[str]) -> dict[str, str]:
    """
    Return the headers that a trunk's settings name, and no others.

    Args:
        headers: Of the INVITE.
        names: As the settings write them; compared without case, and the keys of the result.

    Returns:
        For each header that is there its values, joined by commas, safe to show and to store.
    """
    chosen: dict[str, str] = {}
    for name in list(names)[:MAX_CHOSEN]:
        values = [] if name.lower() in SECRET_HEADERS else headers.get_all(name)
        if values:
            chosen[name] = ", ".join(clean(value, MAX_VALUE) for value in values)[:MAX_VALUE]
    return chosen


def _told(diversion: Diversion) -> str:
    return f"{diversion.party.number} {diversion.reason}"
