"""
What can go wrong in the SIP code.

ValueError
└── SipError
    ├── ParseError          the peer's message cannot be read (in :mod:`gateway.sip.parser`)
    ├── UnsafeText          we were about to write text that would break the framing
    └── LocalProtocolError  we asked for something that the state does not allow
"""

from __future__ import annotations


class SipError(ValueError):
    """Parent of every error of this package."""


class UnsafeText(SipError):
    """Text that holds CR, LF or what cannot be encoded must never reach the wire."""


class LocalProtocolError(SipError):
    """A command that is impossible in the present state: a mistake of ours, not of the peer."""
