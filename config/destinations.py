"""
Numbers that a call may be transferred to: E.164 or a SIP URI (requirement C-22).

This check is separate from ``AgentToolConfig.validation_error``, which keeps the requirement's
own rule (not blank); here the message says what cannot be dialled.
"""

from __future__ import annotations

import re

import phonenumbers

_SIP_URI = re.compile(
    r"sips?:"
    r"[A-Za-z0-9_.!~*'()&=+$,;?/%-]+"  # user; RFC 3261 section 25.1, without a password
    r"@(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)"
    r"(:(?P<port>[0-9]{1,5}))?"
    r"(;[A-Za-z0-9_.!~*'()%-]+(=[A-Za-z0-9_.!~*'()%\[\]/:&+$-]+)?)*",
    re.IGNORECASE,
)


def destination_fault(text: str) -> tuple[str, str] | None:
    """
    Say why ``text`` cannot be dialled.

    Returns ``None`` for a good one, otherwise what is wrong (``{value}`` stands for the text)
    and what to write.
    """
    if text.lower().startswith(("sip:", "sips:")):
        uri = _SIP_URI.fullmatch(text)
        if uri is None or not 0 < int(uri["port"] or 5060) < 65536:
            return "{value} is not a SIP URI", "write sip:user@host or sip:user@host:port"
        return None
    if not text.startswith("+"):
        return (
            "{value} is not an E.164 number or a SIP URI",
            'write "+", country code and number, or sip:user@host',
        )
    if not re.fullmatch(r"\+[0-9]+", text):
        return "{value} has characters in it that are not digits", 'write "+" and digits only'
    return _e164_fault(text)


def _e164_fault(text: str) -> tuple[str, str] | None:
    try:
        number = phonenumbers.parse(text)
    except phonenumbers.NumberParseException:
        return "{value} has no country code that exists", 'write "+", country code and number'
    match phonenumbers.is_possible_number_with_reason(number):
        case phonenumbers.ValidationResult.TOO_SHORT | phonenumbers.ValidationResult.IS_POSSIBLE_LOCAL_ONLY:
            return "{value} is too short for its country", "write all digits of the number"
        case phonenumbers.ValidationResult.TOO_LONG | phonenumbers.ValidationResult.INVALID_LENGTH:
            return "{value} has a wrong length for its country", "write the number without surplus digits"
        case phonenumbers.ValidationResult.INVALID_COUNTRY_CODE:
            return "{value} has no country code that exists", 'write "+", country code and number'
        case _:
            return None
