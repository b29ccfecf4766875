"""One bounded HTTP GET of a tool: limited body, and secrets that never leave their origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import httpx2

from tools.ports import PortError

MAX_BODY_BYTES: Final = 1_048_576
_MAX_REDIRECTS: Final = 3


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer, cut where the limit was reached."""

    status: int
    body: str
    truncated: bool


async def get_text(
    client: httpx2.AsyncClient, url: str, headers: Mapping[str, str], *, max_bytes: int = MAX_BODY_BYTES
) -> Fetched:
    """
    Fetch ``url``; never holds more than ``max_bytes`` and one chunk of the body.

    Redirects are followed inside the same origin only, because the headers hold secrets and the
    query holds the caller's number. Raises :exc:`PortError`, whose text names neither.
    """
    try:
        target = httpx2.URL(url)
        for _ in range(_MAX_REDIRECTS + 1):
            answer = await _get_once(client, target, headers, max_bytes)
            if isinstance(answer, Fetched):
                return answer
            target = _same_origin(target, answer)
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        raise PortError(f"request failed: {type(error).__name__}") from None
    raise PortError("request failed: too many redirects")


async def _get_once(
    client: httpx2.AsyncClient, url: httpx2.URL, headers: Mapping[str, str], max_bytes: int
) -> Fetched | str:
    """Return the answer, or the location of a redirect."""
    # A compressed body could unfold to any size in one step.
    plain = {**headers, "Accept-Encoding": "identity"}
    async with client.stream("GET", url, headers=plain, follow_redirects=False) as response:
        if response.has_redirect_location:
            return response.headers["Location"]
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise PortError("request failed: the answer is compressed though that was not asked for")
        body = bytearray()
        async for chunk in response.aiter_raw(chunk_size=65_536):
            body += chunk
            if len(body) > max_bytes:
                break
        text = bytes(body[:max_bytes]).decode(_charset(response), errors="replace")
        return Fetched(response.status_code, text, truncated=len(body) > max_bytes)


def _same_origin(url: httpx2.URL, location: str) -> httpx2.URL:
    target = url.join(location)
    if (target.scheme, target.host, target.port) != (url.scheme, url.host, url.port):
        raise PortError("request failed: redirected to another host")
    return target


def _charset(response: httpx2.Response) -> str:
    named = response.charset_encoding or "utf-8"
    try:
        "".encode(named)
    except LookupError:
        return "utf-8"
    return named
