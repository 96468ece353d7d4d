"""Speech and transcripts. The transcript of generated speech must match its text."""

from __future__ import annotations

import io
import pathlib
import tempfile

import openai

from client import client
from harness import MODEL, case, check, equal, raises

SPEECH = "sim/speech"
TRANSCRIBE = "sim/transcribe"
SAID = "Good morning, harbour. How are you today?"


def spoken(text: str = SAID, **request) -> bytes:
    return client().audio.speech.create(**({"model": SPEECH, "voice": "alloy", "input": text} | request)).content


def recording(text: str = SAID, name: str = "said.mp3") -> io.BytesIO:
    file = io.BytesIO(spoken(text, response_format=name.split(".")[-1]))
    file.name = name
    return file


@case("speech", "simulator", "gateway")
def speech() -> None:
    for format, begins in [("mp3", b"ID3"), ("wav", b"RIFF"), ("flac", b"fLaC"), ("opus", b"OggS"), ("aac", b"ID3")]:
        raw = client().audio.speech.with_raw_response.create(
            model=SPEECH, voice="nova", input="Hello", response_format=format, speed=1.5, instructions="Softly."
        )
        check(raw.content.startswith(begins), f"{format} begins with {raw.content[:4]!r}")
        equal(raw.headers["x-tollgate-cost"], "0.000075", "cost")


@case("speech streamed", "simulator", "gateway")
def speech_streamed() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder) / "said.mp3"
        paced = {"model": SPEECH, "voice": "alloy", "input": f"{SAID} [[sim pace=1]]"}
        with client().audio.speech.with_streaming_response.create(**paced) as response:
            equal(response.headers["content-type"], "audio/mpeg", "content-type")
            response.stream_to_file(place)
        equal(place.read_bytes(), spoken(), "the sound")


@case("speech cut", "simulator", "gateway")
def speech_cut() -> None:
    def read() -> None:
        cut = {"model": SPEECH, "voice": "alloy", "input": f"{SAID} [[sim cut=1]]"}
        with client().audio.speech.with_streaming_response.create(**cut) as response:
            for _ in response.iter_bytes():
                pass

    raises(Exception, read)


@case("transcription", "simulator", "gateway")
def transcription() -> None:
    for name in ["said.mp3", "said.wav", "said.flac"]:
        answer = client().audio.transcriptions.create(model=TRANSCRIBE, file=recording(name=name))
        equal(answer.text, SAID, name)
        equal(answer.usage.type, "duration", "usage.type")
        check(answer.usage.seconds > 1, "usage.seconds")
        check(float(answer.usage.model_extra["cost"]) > 0, "usage.cost")


@case("transcription formats", "simulator", "gateway")
def transcription_formats() -> None:
    def ask(format: str, **request):
        transcriptions = client().audio.transcriptions
        return transcriptions.create(model=TRANSCRIBE, file=recording(), response_format=format, **request)

    equal(ask("text"), f"{SAID}\n", "text")
    check(ask("srt").startswith("1\n00:00:00,000 --> "), "srt")
    check(ask("vtt").startswith("WEBVTT\n\n00:00:00.000 --> "), "vtt")
    verbose = ask("verbose_json", language="en", temperature=0.5, timestamp_granularities=["segment", "word"])
    equal([segment.text for segment in verbose.segments], ["Good morning, harbour.", "How are you today?"], "segments")
    equal(" ".join(word.word for word in verbose.words), SAID, "words")
    check(abs(verbose.segments[-1].end - float(verbose.duration)) < 0.01, "it ends with the sound")


@case("audio errors", "simulator", "gateway")
def audio_errors() -> None:
    def failing(code: str, kind: type[openai.APIStatusError], param, call) -> None:
        error = raises(kind, call)
        equal((error.code, error.param), (code, param), code)

    failing("invalid_parameter", openai.BadRequestError, "input", lambda: spoken("x" * 4097))
    failing("invalid_parameter", openai.BadRequestError, "speed", lambda: spoken(speed=5))
    failing("unsupported_endpoint", openai.BadRequestError, "model", lambda: spoken(model=MODEL))
    failing("overloaded", openai.InternalServerError, None, lambda: spoken("[[sim error=overloaded]] Hello"))

    def hear(**request):
        file = io.BytesIO(b"no recording")
        file.name = "a.wav"
        return client().audio.transcriptions.create(**({"model": TRANSCRIBE, "file": file} | request))

    failing("invalid_parameter", openai.BadRequestError, "file", hear)
    failing("invalid_parameter", openai.BadRequestError, "temperature", lambda: hear(temperature=2))
    failing("unsupported_parameter", openai.BadRequestError, "stream", lambda: hear(stream=True))
    failing("model_not_found", openai.NotFoundError, "model", lambda: hear(model="sim/none"))
