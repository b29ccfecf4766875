"""How an agent opens a call, how long it may think, and what it does about a caller who says nothing."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from config.fields import AudioFile, Number, Section, Text, Whole, invalid

DEFAULT_GREETING = "Greet the caller in one short sentence and ask how you can help."


class Greeting(Section):
    """
    The first words of a call: one of ``say``, ``ask`` and ``play``.

    A plain text is the same as ``ask``.
    """

    say: Text | None = None
    """Words that the agent says exactly so."""
    ask: Text | None = None
    """Instruction for words of the agent's own."""
    play: AudioFile | None = None
    """Recording that is played instead of the agent's voice; text must say its words."""
    text: Text | None = None
    """The words of the recording, for the transcript and for the model, which takes them as said already."""
    interruptible: bool = True
    """Whether the caller can cut it off; otherwise what the caller says meanwhile is answered afterwards."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string", "minLength": 1}, handler.resolve_ref_schema(handler(schema))]}

    @model_validator(mode="before")
    @classmethod
    def _plain_text_is_an_instruction(cls, value: object) -> object:
        return {"ask": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _is_one_of_three(self) -> Greeting:
        ways = [name for name in ("say", "ask", "play") if getattr(self, name) is not None]
        if len(ways) != 1:
            wrong = "has more than one of say, ask and play" if ways else "has none of say, ask and play"
            raise invalid(wrong, "write one of them, or null where the caller speaks first")
        if (self.play is None) != (self.text is None):
            wrong = "has text without play" if self.play is None else "has a recording without its words"
            raise invalid(wrong, "write play: FILE and text: WORDS together")
        return self


class SilenceSettings(Section):
    """
    What is done when nobody speaks, no tool runs and the line is not on hold.

    How long such silence may last altogether is ``limits.silence_hangup_s``.
    """

    nudge_after_s: Annotated[Number, Field(gt=0, le=3600)] | None = 10.0
    """The agent asks whether the caller is still there after so long; null for never."""
    nudge: Text = "The caller has been silent for a while. Ask in a few words whether they are still there."
    """Instruction for that question."""
    nudges: Annotated[Whole, Field(ge=1, le=100)] = 2
    """How often it is asked before the caller has said something again."""
    farewell: Text = (
        "The caller does not answer any more. Say in one short sentence that you cannot hear them, "
        "and goodbye."
    )
    """Instruction for the last words before the call is ended."""
