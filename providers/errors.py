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

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class ProviderUnavailable(ProviderError):
    """The provider could not be reached or did not answer in time."""


class ProviderRejected(ProviderError):
    """The provider refuses what we asked; trying again does not help."""


class SessionLost(ProviderError):
    """A session that was open is gone."""
