"""Speech models from the settings; one that did not change survives a reload with its connections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from config.models import Settings
from config.providers import FakeSettings, GeminiSettings, LiveSettings, OpenAISettings
from providers.base import Advising, Provider
from providers.fakes.voice import FakeVoiceProvider
from providers.openai import OpenAIProvider
from providers.openai_live import OpenAILiveProvider

log = structlog.get_logger(__name__)

Connected = OpenAISettings | LiveSettings | GeminiSettings


class ProviderPool:
    """Makes providers; one with connections is made only once while its settings stay the same."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Connected, Provider]] = {}
        self.providers: Mapping[str, Provider] = {}
        """Those that calls begin with now."""

    def use(self, settings: Settings) -> Mapping[str, Provider]:
        """
        Return the providers of these settings by name.

        Raises ``ScriptError`` for a fake's script that went bad after it was checked.
        """
        providers: dict[str, Provider] = {}
        made: dict[str, tuple[Connected, Provider]] = {}
        for name, entry in settings.providers.items():
            match entry:
                case OpenAISettings() | LiveSettings() | GeminiSettings():
                    known = self._made.get(name)
                    made[name] = known if known and known[0] == entry else (entry, _make(entry, name))
                    providers[name] = made[name][1]
                case FakeSettings():
                    providers[name] = FakeVoiceProvider(entry.script, name)
        self._made, self.providers = made, providers
        return providers


def _make(entry: Connected, name: str) -> Provider:
    match entry:
        case OpenAISettings():
            return OpenAIProvider(entry, name)
        case LiveSettings():
            return OpenAILiveProvider(entry, name)
        case GeminiSettings():
            # Its SDK takes a second and a hundred megabytes; who does not use it does not pay for it.
            from providers.gemini import GeminiProvider

            return GeminiProvider(entry, name)


async def give_advice(providers: Iterable[Provider]) -> None:
    """Log what the providers can say beforehand; it may take them a while, and nobody waits for it."""
    warnings = 0
    for provider in providers:
        for warning in await provider.advice() if isinstance(provider, Advising) else ():
            warnings += 1
            log.warning("provider.advice", provider=provider.name, code=warning.code, message=warning.message)
    log.info("providers.advised", warnings=warnings)
