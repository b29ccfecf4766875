"""Speech models from the settings; one that did not change survives a reload with its connections."""

from __future__ import annotations

from collections.abc import Mapping

from config.models import FakeSettings, OpenAISettings, Settings
from providers.base import Provider
from providers.fakes.voice import FakeVoiceProvider
from providers.openai import OpenAIProvider


class ProviderPool:
    """Makes providers, and makes each only once while its settings stay the same."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[OpenAISettings | FakeSettings, Provider]] = {}

    def use(self, settings: Settings) -> Mapping[str, Provider]:
        """Return the providers of these settings by name."""
        made: dict[str, tuple[OpenAISettings | FakeSettings, Provider]] = {}
        for name, entry in settings.providers.items():
            known = self._made.get(name)
            made[name] = known if known is not None and known[0] == entry else (entry, _make(name, entry))
        self._made = made
        return {name: provider for name, (_, provider) in made.items()}


def _make(name: str, entry: OpenAISettings | FakeSettings) -> Provider:
    match entry:
        case OpenAISettings():
            return OpenAIProvider(entry, name)
        case FakeSettings():
            return FakeVoiceProvider(entry.script, name)
