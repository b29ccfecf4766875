"""OpenAI's Live API (GPT-Live): one full-duplex session a call."""

from providers.openai_live.provider import OpenAILiveProvider

__all__ = ["OpenAILiveProvider"]
