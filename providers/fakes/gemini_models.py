"""
What each Gemini Live model of the service takes, as a table. No I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Backend(StrEnum):
    """Which of Google's two services is spoken to; the path of the connection says it."""

    STUDIO = "studio"
    VERTEX = "vertex"


class Behavior(StrEnum):
    """How the model goes on while a function runs."""

    BLOCKING = "BLOCKING"
    NON_BLOCKING = "NON_BLOCKING"


@dataclass(frozen=True, slots=True)
class Model:
    """One model; what it does not take is refused at set-up."""

    backends: frozenset[Backend]
    default_behavior: Behavior
    behaviors: frozenset[Behavior] = frozenset(Behavior)
    thinking: bool = True
    """Whether ``thinkingConfig`` may be given."""
    affective: bool = False
    always_proactive: bool = False
    history_needs_config: bool = False
    """Whether ``clientContent`` is refused without ``historyConfig``."""
    content_always_interrupts: bool = True
    """Whether ``clientContent`` stops the model even without ``turnComplete``."""
    context_updates: bool = False
    reports_interaction: bool = False
    """Whether ``turnComplete`` says if more turns will come for the same request (``interactionStatus``)."""


_STUDIO = frozenset({Backend.STUDIO})
_VERTEX = frozenset({Backend.VERTEX})

MODELS: dict[str, Model] = {
    "gemini-3.8-live": Model(
        backends=_STUDIO | _VERTEX,
        default_behavior=Behavior.NON_BLOCKING,
        thinking=False,
        always_proactive=True,
        content_always_interrupts=False,
        context_updates=True,
    ),
    "gemini-3.8-live-extended-thinking": Model(
        backends=_STUDIO,
        default_behavior=Behavior.NON_BLOCKING,
        behaviors=frozenset({Behavior.NON_BLOCKING}),
        thinking=False,
        always_proactive=True,
        content_always_interrupts=False,
        context_updates=True,
        reports_interaction=True,
    ),
    "gemini-3.1-flash-live-preview": Model(
        backends=_STUDIO,
        default_behavior=Behavior.BLOCKING,
        behaviors=frozenset({Behavior.BLOCKING}),
        history_needs_config=True,
    ),
    "gemini-2.5-flash-native-audio-preview-12-2025": Model(
        backends=_STUDIO, default_behavior=Behavior.BLOCKING, affective=True
    ),
    "gemini-live-2.5-flash-native-audio": Model(
        backends=_VERTEX, default_behavior=Behavior.BLOCKING, affective=True
    ),
}

VOICES = frozenset({
    "Zephyr", "Kore", "Orus", "Autonoe", "Umbriel", "Erinome", "Laomedeia", "Schedar", "Achird", "Sadachbia",
    "Puck", "Fenrir", "Aoede", "Enceladus", "Algieba", "Algenib", "Achernar", "Gacrux", "Zubenelgenubi",
    "Sadaltager", "Charon", "Leda", "Callirrhoe", "Iapetus", "Despina", "Rasalgethi", "Alnilam",
    "Pulcherrima", "Vindemiatrix", "Sulafat",
})  # fmt: skip

_NAMES = {
    Backend.STUDIO: re.compile(r"models/[^/]+"),
    Backend.VERTEX: re.compile(r"(?:projects/[^/]+/locations/[^/]+/)?publishers/google/models/[^/]+"),
}

NATIVE_TOOLS = frozenset({"googleSearch"})
"""Tools of the service itself that Live has; any other closes the connection."""


def bare_name(name: str) -> str:
    """Return a model's own name, without ``models/`` or ``projects/…/publishers/google/models/``."""
    return name.rpartition("models/")[2]


def find_model(name: str, backend: Backend) -> Model | None:
    """Return the model that a set-up names, if this service has it under such a name."""
    if not _NAMES[backend].fullmatch(name):
        return None
    model = MODELS.get(bare_name(name))
    return model if model and backend in model.backends else None
