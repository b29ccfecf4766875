"""What the service says of its models: when they are shut down."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAIError

from providers.types import ProviderWarning

_TIMEOUT_S = 10.0


async def retirements(api_key: str, base_url: str, models: Collection[str]) -> list[ProviderWarning]:
    """
    Ask which of ``models`` have a date of shut-down (``GET /models``).

    An address without such a list, or one that cannot be reached now, gives no warnings.
    """
    client = AsyncOpenAI(
        api_key=api_key,
        base_url=base_url,
        timeout=_TIMEOUT_S,
        max_retries=0,
        http_client=DefaultAsyncHttpxClient(trust_env=False),
    )
    try:
        async with client:
            listed = await client.get("/models", cast_to=object)
    except (OpenAIError, ValueError):
        return []
    return [
        ProviderWarning("model_shutdown", f"{name} is shut down on {date}")
        for name, date in _dates(listed)
        if name in models
    ]


def _dates(listed: object) -> Iterator[tuple[str, str]]:
    """Yield each model that has a date; an answer of another shape has none."""
    match listed:
        case {"data": [*entries]}:
            for entry in entries:
                match entry:
                    case {"id": str(name), "shutdown_date": str(date)} if date:
                        yield name, date
