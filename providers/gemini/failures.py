"""What can go wrong with a connection to Gemini, in the errors of the seam and without any key."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from google.auth.exceptions import GoogleAuthError, TransportError
from google.genai.errors import APIError
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidStatus,
    InvalidURI,
    SecurityError,
)

from config.providers import GeminiSettings
from providers.errors import ProviderError, ProviderRejected, ProviderUnavailable

REFUSALS = frozenset({"1007", "1008"})
"""Close codes that say that we, not the server, have to change something."""
_SECRETS = re.compile(r"AIza[\w-]+|ya29\.[\w.-]+|auth_tokens/[\w-]+|(?<=[?&]key=)[^&\s]+")


def close_reason(exc: ConnectionClosed, settings: GeminiSettings) -> tuple[str, str]:
    """Return code and sentence of a close; 1006 when there was no close frame."""
    if exc.rcvd is None:
        return "1006", "the connection to the provider broke"
    return _closed(exc.rcvd.code, exc.rcvd.reason, settings)


def without_key(text: str, settings: GeminiSettings) -> str:
    """Remove the key, and whatever else looks like one."""
    if settings.api_key is not None:
        text = text.replace(settings.api_key.get_secret_value(), "[key]")
    return _SECRETS.sub("[key]", text)


@contextmanager
def failures_named(settings: GeminiSettings, limit_s: float) -> Iterator[None]:
    """Turn what a set-up can raise into the two errors of the seam."""
    try:
        yield
    except InvalidStatus as exc:
        raise _refused(exc.response.status_code) from None
    except TimeoutError:
        raise ProviderUnavailable(f"no configured session within {limit_s:.3g} s", code="timeout") from None
    except APIError as exc:  # how the SDK reports a close before the set-up was answered
        code, message = _closed(exc.code, exc.message or str(exc.details), settings)
        raise _error(code, message) from None
    except ConnectionClosed as exc:
        raise _error(*close_reason(exc, settings)) from None
    except TransportError as exc:
        raise ProviderUnavailable(without_key(f"no access token: {exc}", settings)) from None
    except GoogleAuthError as exc:
        raise ProviderRejected(without_key(f"no access token: {exc}", settings)) from None
    except ssl.SSLCertVerificationError as exc:
        message = f"the server's certificate is not trusted: {exc.verify_message}; see ca_file"
        raise ProviderRejected(message, code="certificate") from None
    except (InvalidURI, SecurityError) as exc:
        raise ProviderRejected(without_key(f"cannot connect: {exc}", settings)) from None
    except (OSError, InvalidHandshake, ValueError, TypeError, AttributeError, RecursionError) as exc:
        # The SDK raises ValueError for an answer that is not JSON, and quotes it; the rest for JSON of a
        # shape that it does not expect.
        raise ProviderUnavailable(without_key(f"cannot connect: {exc}"[:300], settings)) from None


def _closed(code: int, reason: str, settings: GeminiSettings) -> tuple[str, str]:
    said = f": {without_key(reason, settings)}" if reason else ""
    return str(code), f"the provider closed the connection with {code}{said}"


def _error(code: str, message: str) -> ProviderError:
    return (ProviderRejected if code in REFUSALS else ProviderUnavailable)(message, code=code)


def _refused(status: int) -> ProviderError:
    """Return the error for an HTTP status instead of the upgrade."""
    message = f"the provider answered the connection with HTTP {status}"
    if status == 429 or status >= 500:
        return ProviderUnavailable(message, code=str(status))
    return ProviderRejected(message, code=str(status))
