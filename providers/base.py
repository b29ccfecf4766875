"""The provider seam: one live conversation with a speech model, whatever vendor runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from providers.types import (
    AudioFormat,
    Capabilities,
    ProviderEvent,
    ProviderWarning,
    SessionSetup,
    Usage,
)
from tools.types import CallUpdate, ToolResult


class ProviderSession(Protocol):
    """
    One live conversation.

    Iterating yields events until the session is closed by us; when the other side closes or
    breaks it, iteration raises :exc:`providers.errors.SessionLost` and nothing else does: the
    sending methods are silent on a lost session, so that one place learns of it.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def input(self) -> AudioFormat:
        """The format that ``send_audio`` takes in this session."""
        ...

    @property
    def output(self) -> AudioFormat:
        """The format of ``AudioDelta.audio`` in this session."""
        ...

    @property
    def usage(self) -> Usage:
        """
        What the session has consumed since it began; still there when it is closed or lost.

        Nothing, as long as the provider told of nothing. It changes between events, so a reader asks again
        after :class:`providers.types.ResponseDone`, every few seconds, and at the end.
        """
        ...

    def __aiter__(self) -> AsyncIterator[ProviderEvent]: ...

    async def send_audio(self, audio: bytes) -> None:
        """Send caller audio in :attr:`input`, in call order; waits while the socket is full."""
        ...

    async def send_text(self, text: str, *, role: str = "user") -> None:
        """Put a text turn into the conversation (``user`` or ``system``) without asking for an answer."""
        ...

    async def send_tool_result(self, result: ToolResult) -> None:
        """Answer one tool call. Unknown and already answered call ids are ignored."""
        ...

    async def respond(self, *, instructions: str | None = None, tools: bool = True) -> None:
        """
        Ask the model to speak, as soon as it may: at once, or when the running response is
        over. Several requests before that collapse into one. ``tools=False`` forbids tool calls in
        this response.
        """
        ...

    async def interrupt(self, *, item_id: str, heard_ms: int) -> None:
        """Stop the model and tell it how much of ``item_id`` the caller really heard."""
        ...

    async def update(self, update: CallUpdate) -> None:
        """Change the live-updatable parts; raises :exc:`providers.errors.ProviderRejected`."""
        ...


class Provider(Protocol):
    """A model that can be called."""

    @property
    def name(self) -> str:
        """The key of the configuration's ``providers`` section."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def connect(self, setup: SessionSetup) -> AbstractAsyncContextManager[ProviderSession]:
        """
        Open a session; entering returns when it is *configured*, leaving closes it.

        Raises :exc:`providers.errors.ProviderUnavailable` or ``ProviderRejected`` on entering.
        """
        ...


@runtime_checkable
class Advising(Protocol):
    """A provider that can say beforehand what its operator should know."""

    async def advice(self) -> list[ProviderWarning]:
        """Say what is going to change, such as a model's end; empty when that cannot be found out."""
        ...
