"""What a set-up asks for, and why it is refused."""

import pytest

from providers.fakes.gemini_models import MODELS, VOICES, Backend, Behavior, bare_name, find_model
from providers.fakes.gemini_setup import read_setup, text_of
from providers.fakes.gemini_shapes import Refused

LIVE = "models/gemini-3.8-live"
OLD = "models/gemini-3.1-flash-live-preview"
ON_VERTEX = "projects/p/locations/l/publishers/google/models/gemini-3.8-live"


def read(backend=Backend.STUDIO, model=LIVE, **setup):
    return read_setup({"model": model, **setup}, backend)


def refused(backend=Backend.STUDIO, model=LIVE, **setup):
    with pytest.raises(Refused) as caught:
        read(backend, model, **setup)
    return caught.value.code


def test_a_bare_setup_has_the_defaults_of_the_service():
    setup = read()
    assert setup.name == "gemini-3.8-live"
    assert (setup.vad.silence_ms, setup.vad.onset_ms) == (300, 60)
    assert setup.interrupts
    wishes = (setup.resumption, setup.compression, setup.hears_words, setup.shows_words)
    assert wishes == (False, False, False, False)


def test_a_full_setup_is_understood():
    setup = read(
        systemInstruction={"parts": [{"text": "Be"}, {"text": "kind"}]},
        generationConfig={
            "responseModalities": ["AUDIO"],
            "temperature": 0.5,
            "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Puck"}}},
        },
        realtimeInputConfig={
            "activityHandling": "NO_INTERRUPTION",
            "automaticActivityDetection": {
                "startOfSpeechSensitivity": "START_SENSITIVITY_LOW",
                "prefixPaddingMs": 200,
                "silenceDurationMs": 700,
            },
        },
        sessionResumption={"handle": "h"},
        contextWindowCompression={},
        inputAudioTranscription={},
        outputAudioTranscription={},
        historyConfig={"initialHistoryInClientContent": True},
        labels={"call": "1"},
    )
    assert (setup.instructions, setup.voice, setup.handle) == ("Be\nkind", "Puck", "h")
    assert (setup.vad.threshold, setup.vad.onset_ms, setup.vad.silence_ms) == (0.6, 200, 700)
    assert not setup.interrupts
    assert setup.resumption
    assert setup.compression
    assert setup.hears_words
    assert setup.shows_words
    assert setup.history_first


def test_the_client_may_mark_speech_itself():
    assert read(realtimeInputConfig={"automaticActivityDetection": {"disabled": True}}).vad is None


@pytest.mark.parametrize(
    ("backend", "model"),
    [
        (Backend.STUDIO, "gemini-3.8-live"),
        (Backend.STUDIO, "models/gpt-realtime"),
        (Backend.STUDIO, "models/gemini-live-2.5-flash-native-audio"),
        (Backend.STUDIO, ON_VERTEX),
        (Backend.VERTEX, LIVE),
        (Backend.VERTEX, "publishers/google/models/gemini-3.1-flash-live-preview"),
        (Backend.STUDIO, ""),
    ],
)
def test_a_model_that_is_not_there_is_refused_with_1008(backend, model):
    assert refused(backend, model) == 1008


def test_every_model_is_found_where_it_is_served():
    for name, model in MODELS.items():
        assert (find_model(f"models/{name}", Backend.STUDIO) is model) is (Backend.STUDIO in model.backends)
        long = f"projects/p/locations/l/publishers/google/models/{name}"
        assert (find_model(long, Backend.VERTEX) is model) is (Backend.VERTEX in model.backends)
        assert bare_name(long) == name
    assert len(VOICES) == 30


@pytest.mark.parametrize(
    "setup",
    [
        {"generationConfig": {"responseModalities": ["TEXT"]}},
        {"generationConfig": {"responseModalities": ["AUDIO", "TEXT"]}},
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}}},
        {"generationConfig": {"enableAffectiveDialog": True}},
        {"generationConfig": {"temperature": 3}},
        {
            "generationConfig": {
                "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "marin"}}}
            }
        },
        {"proactivity": {"proactiveAudio": False}},
        {"sessionResumption": {"transparent": True}},
        {"explicitVadSignal": True},
        {"realtimeInputConfig": {"automaticActivityDetection": {"silenceDurationMs": -1}}},
        {"realtimeInputConfig": {"automaticActivityDetection": {"prefixPaddingMs": 100_000}}},
        {"tools": [{"functionDeclarations": [{"name": "two words"}]}]},
        {"tools": [{"functionDeclarations": [{"name": "a"}, {"name": "a"}]}]},
        {"tools": [{"functionDeclarations": [{"name": "a", "parameters": {}, "parametersJsonSchema": {}}]}]},
        {"tools": [{"functionDeclarations": [{}]}]},
    ],
)
def test_what_the_model_does_not_take_is_refused_with_1007(setup):
    assert refused(**setup) == 1007


@pytest.mark.parametrize("tool", ["urlContext", "codeExecution", "fileSearch", "googleMaps", "computerUse"])
def test_a_tool_that_live_does_not_have_is_refused_with_1008(tool):
    assert refused(tools=[{tool: {}}]) == 1008


def test_search_and_functions_go_together():
    setup = read(tools=[{"googleSearch": {}}, {"functionDeclarations": [{"name": "look.up-1"}]}])
    assert dict(setup.tools) == {"look.up-1": Behavior.NON_BLOCKING}


@pytest.mark.parametrize("name", ["historyConfig", "labels"])
def test_vertex_does_not_have_everything(name):
    """Fault 26."""
    assert refused(Backend.VERTEX, ON_VERTEX, **{name: {}}) == 1007
    assert read(Backend.VERTEX, ON_VERTEX, explicitVadSignal=True).vad_signals


def test_models_differ_in_how_their_functions_may_run():
    blocking = [{"functionDeclarations": [{"name": "a", "behavior": "BLOCKING"}]}]
    free = [{"functionDeclarations": [{"name": "a", "behavior": "NON_BLOCKING"}]}]
    assert dict(read(tools=blocking).tools) == {"a": Behavior.BLOCKING}
    assert refused(model=OLD, tools=free) == 1007
    assert refused(model="models/gemini-3.8-live-extended-thinking", tools=blocking) == 1007


def test_thinking_is_for_older_models():
    assert read(model=OLD, generationConfig={"thinkingConfig": {"thinkingLevel": "MINIMAL"}})


def test_the_text_of_a_content_is_that_of_its_parts():
    assert text_of({"parts": [{"text": "a"}, {"inlineData": {}}, {"text": "b"}]}) == "a\nb"
    assert text_of({}) == ""
