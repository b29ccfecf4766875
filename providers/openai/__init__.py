"""OpenAI Realtime: a turn-based session in which the client creates, cancels and truncates responses."""

from providers.openai.config import build_openai_session_config
from providers.openai.provider import OpenAIProvider

__all__ = ["OpenAIProvider", "build_openai_session_config"]
