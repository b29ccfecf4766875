"""
A party of a call: the number or user that a ``sip:``, ``sips:`` or ``tel:`` URI names.

(RFC 3261, section 19.1.6; RFC 3966; RFC 4694 for the parameters of number portability.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gateway.sip.text import Params, param, parse_params
from gateway.sip.uri import NameAddr, SipUri, Uri, unescape

MAX_TEXT: Final = 256
"""Characters of a number, a display name or a parameter; what is longer is no address of a person."""

_LOCAL_NUMBER = re.compile(r"\+?[0-9A-Fa-f*#().\- ]+")
_GLOBAL_NUMBER = re.compile(r"\+[0-9().\- ]+")
_DIGIT = re.compile(r"[0-9*#]")
_SEPARATORS = str.maketrans("", "", "().- ")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ANONYMOUS_USERS: Final = frozenset(
    {"anonymous", "restricted", "unavailable", "unknown", "private", "withheld"}
)
_ANONYMOUS_HOST: Final = "anonymous.invalid"


@dataclass(frozen=True, slots=True)
class Party:
    """An address out of a header, ready for use; ``uri`` keeps what was written, for comparison."""

    uri: Uri
    display: str = ""
    """Without quotes, without control characters, always valid text."""
    number: str = ""
    """
    The number or user: escapes decoded once, parameters and a number's visual separators cut off.
    Empty where the address names nobody, or holds control characters.
    """
    host: str = ""
    """In lower case; empty for ``tel:``."""
    context: str = ""
    """``phone-context`` of a local number: a domain, or the prefix of a global number."""
    extension: str = ""
    """``ext``: the digits to dial behind the number."""
    subaddress: str = ""
    """``isub``: an ISDN subaddress."""
    params: Params = ()
    """Further parameters of the user part, such as ``rn`` and ``npdi``."""

    @property
    def is_anonymous(self) -> bool:
        """Whether it says that somebody does not want to be known (RFC 3323, section 4.1.1.3)."""
        return self.host == _ANONYMOUS_HOST or self.number.lower() in _ANONYMOUS_USERS

    @property
    def is_known(self) -> bool:
        return bool(self.number) and not self.is_anonymous


def party_of(uri: Uri, display: str = "") -> Party:
    """Read a URI of any scheme; one that names no user gives a party without number."""
    if uri[:4].lower() == "tel:":
        subscriber, _, rest = uri[4:].partition(";")
        return _party(uri, display, subscriber, _params(rest), host="", is_number=True)
    sip = uri.sip
    if sip is None:
        return Party(uri, clean(display))
    return _sip_party(uri, display, sip)


def parse_party(text: str) -> tuple[Party, NameAddr]:
    """Read a name-addr or a bare URI with the parameters behind it; raise ``ValueError``."""
    address = NameAddr.parse(text)
    return party_of(address.uri, address.display), address


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """Return text that is safe to log, store and show: no control characters, no broken UTF-8."""
    if not text.isascii():
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return _CONTROL.sub("", text)[:limit].strip()


def _sip_party(uri: Uri, display: str, sip: SipUri) -> Party:
    subscriber, _, rest = sip.user.partition(";")
    # A local number says so: "12-a" may as well be the name of a room.
    is_phone = (sip.param("user") or "").lower() == "phone"
    is_number = is_phone or _GLOBAL_NUMBER.fullmatch(unescape(subscriber)) is not None
    return _party(uri, display, subscriber, _params(rest), host=sip.host.lower(), is_number=is_number)


def _party(uri: Uri, display: str, subscriber: str, params: Params, *, host: str, is_number: bool) -> Party:
    number = unescape(subscriber)
    if is_number and _LOCAL_NUMBER.fullmatch(number) and _DIGIT.search(number):
        number = number.translate(_SEPARATORS)
    if _CONTROL.search(number) or len(number) > MAX_TEXT:
        number = ""
    named = {"phone-context", "ext", "isub"}
    return Party(
        uri=uri,
        display=clean(display),
        number=clean(number),
        host=host,
        context=_value(params, "phone-context"),
        extension=_value(params, "ext").translate(_SEPARATORS),
        subaddress=_value(params, "isub"),
        params=tuple(pair for pair in params if pair[0].lower() not in named),
    )


def _params(text: str) -> Params:
    try:
        return parse_params(text)
    except ValueError:
        return ()


def _value(params: Params, name: str) -> str:
    return clean(unescape(param(params, name) or ""))
