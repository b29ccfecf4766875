"""
Telephone numbers as peers write them, and the one form that we use: E.164 (no I/O).

ITU-T E.164 and E.123, RFC 3966; the national plans are libphonenumber's. Nothing is guessed: what cannot
be known stays as it was written, and what was written is always kept beside.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import phonenumbers
from phonenumbers import CountryCodeSource, NumberParseException, PhoneNumber, PhoneNumberFormat
from phonenumbers import ValidationResult as Length

MIN_NATIONAL: Final = 7
"""Digits of a number without country code at least; what is shorter may be an extension of a PBX."""

_MAX_WRITTEN: Final = 64
_EXTENSION = re.compile(r"(?i)[\s,;]*(?:ext(?:ension)?|x)\s*[.:=]?\s*([0-9]{1,9})\s*$")
_NUMBER = re.compile(r"\+?[0-9 ().\-/]*[0-9][0-9 ().\-/]*")
_TRUNK_ZERO = re.compile(r"\(\s*0\s*\)")
_SEPARATORS = str.maketrans("", "", " ().-/")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_DASHES = re.compile("[\u2010-\u2015\u2212]")


@dataclass(frozen=True, slots=True)
class TelephoneNumber:
    """One number."""

    written: str
    """As the peer wrote it, without blanks around it."""
    e164: str = ""
    """Such as ``+493023125017``; empty when it cannot be known, or is no telephone number at all."""
    dialled: str = ""
    """What was written without separators and extension; for a name, what was written."""
    extension: str = ""
    """Digits to dial once the number has answered."""

    @property
    def best(self) -> str:
        """E.164 where it is known, otherwise what was dialled."""
        return self.e164 or self.dialled


@dataclass(frozen=True, slots=True)
class PrefixRule:
    """A prefix that a peer writes in its own way: ``strip`` is taken away, ``prefix`` put in its place."""

    strip: str
    prefix: str


class NumberPlan:
    """
    How one trunk's numbers are read.

    Args:
        country: ISO code of the country of numbers without a country code; empty when it is not known.
        rules: Tried in their order before anything else; the first that fits is applied, once.
    """

    def __init__(self, country: str = "", rules: Iterable[PrefixRule] = ()) -> None:
        self._country = country
        self._rules = tuple(rules)

    def read(self, written: str) -> TelephoneNumber:
        """Read a number out of the user part of a URI, a ``tel:`` URI, or whatever a person typed."""
        written = written.strip()
        text, extension = _without_extension(_subscriber(_in_ascii(written)))
        if len(text) > _MAX_WRITTEN or not _NUMBER.fullmatch(text):
            return TelephoneNumber(written, dialled=written)
        if text.startswith(("+", "00")):
            text = _TRUNK_ZERO.sub("", text)
        dialled = text.translate(_SEPARATORS)
        return TelephoneNumber(written, self._e164(self._by_rule(dialled)), dialled, extension)

    def _by_rule(self, digits: str) -> str:
        for rule in self._rules:
            if digits.startswith(rule.strip) and (rule.strip or not digits.startswith("+")):
                return rule.prefix + digits[len(rule.strip) :]
        return digits

    def _e164(self, digits: str) -> str:
        if digits.startswith("+"):
            return _international(digits)
        if self._country and (found := _national(digits, self._country)):
            return found
        # 00 is what ITU-T E.164 recommends, so gateways write it in countries with another prefix as well.
        return _international("+" + digits[2:], certain=False) if digits.startswith("00") else ""


def as_dialled(number: str, form: str, country: str) -> str:
    """
    Write a number as a peer wants to be called.

    Args:
        number: E.164 with its plus; anything else is returned as it is.
        form: ``plus``, ``digits`` (without it), or ``national``: as somebody in the country would dial.
        country: ISO code for ``national``.
    """
    if form == "plus" or not number.startswith("+"):
        return number
    parsed = _parse(number, None) if form == "national" else None
    if parsed is None:
        return number[1:]
    if parsed.country_code == phonenumbers.country_code_for_region(country):
        written = phonenumbers.format_number(parsed, PhoneNumberFormat.NATIONAL)
    else:
        written = phonenumbers.format_out_of_country_calling_number(parsed, country)
    return re.sub("[^0-9]", "", written)


def _international(digits: str, *, certain: bool = True) -> str:
    """Read ``+`` and digits; unless it is ``certain`` that they are meant so, the number must exist."""
    number = _parse(digits, None)
    if number is None:
        return ""
    good = _is_possible(number) if certain else phonenumbers.is_valid_number(number)
    return phonenumbers.format_number(number, PhoneNumberFormat.E164) if good else ""


def _national(digits: str, country: str) -> str:
    """Read what somebody in that country would dial; its own international prefix included."""
    number = _parse(digits, country)
    if number is None or not _is_possible(number):
        return ""
    found = phonenumbers.format_number(number, PhoneNumberFormat.E164)
    if number.country_code_source == CountryCodeSource.FROM_NUMBER_WITH_IDD:
        return found
    if len(digits) < MIN_NATIONAL:
        return ""
    # A zero that stands in front where the country has none, as in a US "0015551234", is no part of a number.
    stray_zero = phonenumbers.national_significant_number(number).startswith("0")
    return found if phonenumbers.is_valid_number(number) or not stray_zero else ""


def _parse(digits: str, country: str | None) -> PhoneNumber | None:
    try:
        return phonenumbers.parse(digits, country, keep_raw_input=True)
    except NumberParseException:
        return None


def _is_possible(number: PhoneNumber) -> bool:
    return phonenumbers.is_possible_number_with_reason(number) == Length.IS_POSSIBLE


def _in_ascii(text: str) -> str:
    """Write digits of other scripts, full-width signs, dashes and invisible marks as a telephone would."""
    if text.isascii():
        return text
    text = _DASHES.sub("-", _INVISIBLE.sub("", text))
    return "".join(char if char.isascii() else _ascii_of(char) for char in text)


def _ascii_of(char: str) -> str:
    # decimal() and not int() or isdigit(): those take superscripts for digits as well.
    value = unicodedata.decimal(char, None)
    if value is not None:
        return str(value)
    plain = unicodedata.normalize("NFKC", char)
    return plain if plain in {"+", "(", ")", "-", ".", "/", " "} else char


def _subscriber(text: str) -> str:
    """Cut a scheme, a host and URI parameters off, but for ``ext``."""
    text = re.sub(r"(?i)^(?:tel|sips?):", "", text).partition("@")[0]
    number, *params = text.split(";")
    extension = next((each for each in params if each.strip().lower().startswith("ext")), "")
    return f"{number} {extension}".strip()


def _without_extension(text: str) -> tuple[str, str]:
    found = _EXTENSION.search(text)
    if found is None or found.start() == 0:
        return text, ""
    return text[: found.start()].strip(), found[1]
