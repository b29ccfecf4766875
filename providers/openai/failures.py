"""What can go wrong with a connection to OpenAI, in the two errors of the seam and without the key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from openai import OpenAIError
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidStatus,
    InvalidURI,
    SecurityError,
)

from config.providers import LiveSettings, OpenAISettings
from providers.errors import ProviderError, ProviderRejected, ProviderUnavailable

Account: TypeAlias = OpenAISettings | LiveSettings


@contextmanager
def failures_named(settings: Account) -> Iterator[None]:
    """Turn what a set-up can raise into the two errors of the seam, without the key."""
    try:
        yield
    except InvalidStatus as exc:
        raise _refused(exc.response.status_code) from None
    except TimeoutError:
        limit = settings.connect_timeout_s
        raise ProviderUnavailable(f"no configured session within {limit:g} s", code="timeout") from None
    except ConnectionClosed as exc:
        code, message = close_reason(exc, settings)
        kind = ProviderRejected if code == "1008" or code.startswith(("3", "4")) else ProviderUnavailable
        raise kind(message, code=code) from None
    except (InvalidURI, SecurityError, OpenAIError) as exc:
        raise ProviderRejected(without_key(f"cannot connect: {exc}", settings)) from None
    except (OSError, InvalidHandshake, ValueError) as exc:  # ValueError: a redirect to no address
        raise ProviderUnavailable(without_key(f"cannot connect: {exc}", settings)) from None


def _refused(status: int) -> ProviderError:
    """Return the error for an HTTP status instead of the upgrade."""
    message = f"the provider answered the connection with HTTP {status}"
    if status == 429 or status >= 500:
        return ProviderUnavailable(message, code=str(status))
    return ProviderRejected(message, code=str(status))


def close_reason(exc: ConnectionClosed, settings: Account) -> tuple[str, str]:
    """Return code and sentence of a close; 1006 when there was no close frame."""
    if exc.rcvd is None:
        return "1006", "the connection to the provider broke"
    reason = f": {without_key(exc.rcvd.reason, settings)}" if exc.rcvd.reason else ""
    return str(exc.rcvd.code), f"the provider closed the connection with {exc.rcvd.code}{reason}"


def without_key(text: str, settings: Account) -> str:
    """Remove the key, also in the abbreviated form that the provider quotes."""
    return re.sub(r"sk-[\w*.-]+", "[key]", text.replace(settings.api_key.get_secret_value(), "[key]"))
