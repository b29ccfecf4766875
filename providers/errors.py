"""
What can go wrong with a provider::

    ProviderError
    ├── ProviderUnavailable     refused, timed out, overloaded: another try may work
    ├── ProviderRejected        our key or our configuration: another try is useless
    └── SessionLost             the session ended while the call goes on
"""

from __future__ import annotations


class ProviderError(Exception):
    """
    Base of this module.

    Args:
        message: A sentence for the operator, without secrets.
        code: The provider's own code where there is one (``invalid_api_key``, ``1011``).
    """

    final = False
    """Whether another try at the same provider is useless."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class ProviderUnavailable(ProviderError):
    """The provider could not be reached or did not answer in time."""


class ProviderRejected(ProviderError):
    """The provider refuses what we asked; trying again does not help."""

    final = True


class SessionLost(ProviderError):
    """
    A session that was open is gone.

    Args:
        message: As above.
        code: As above.
        final: Whether another session of this provider would be lost for the same reason: a key that was
            revoked, an account without money. A broken connection and a session that grew too old are not.
    """

    def __init__(self, message: str, *, code: str = "", final: bool = False) -> None:
        super().__init__(message, code=code)
        self.final = final
