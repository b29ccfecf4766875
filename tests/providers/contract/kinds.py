"""All providers that keep the contract. A new one is one entry here and its far side in a file beside."""

from __future__ import annotations

from tests.providers.contract.far import Kind
from tests.providers.contract.far_gemini import GEMINI
from tests.providers.contract.far_live import LIVE
from tests.providers.contract.far_openai import OPENAI
from tests.providers.contract.far_voice import VOICE

KINDS: tuple[Kind, ...] = (VOICE, OPENAI, GEMINI, LIVE)
