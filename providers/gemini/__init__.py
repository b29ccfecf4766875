"""Gemini Live."""

from providers.gemini.config import build_gemini_session_config

__all__ = ["build_gemini_session_config"]
