"""Gemini Live."""

from providers.gemini.config import build_gemini_session_config
from providers.gemini.provider import GeminiProvider

__all__ = ["GeminiProvider", "build_gemini_session_config"]
