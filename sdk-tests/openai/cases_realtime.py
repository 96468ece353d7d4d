"""Voice sessions and live transcription over WebSocket. Each event must have the shape of the
client's own type for it."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from typing import Any

import openai
from pydantic import ValidationError
from websockets.exceptions import InvalidStatus

from cases_audio import SPEECH, TRANSCRIBE
from client import async_client, client
from harness import BROKE_KEY, KEY, LIVE, MODEL, TLS_CERTIFICATE, TLS_URL, VOICE, case, check, equal, raises

NEEDS = ("voice", "gateway", "/v1/realtime")
# The simulator's models understand speech.
HEARS = (*NEEDS, "simulator")
SAID = "Good morning, harbour."
# 24,000 samples a second, two bytes each.
BYTES_PER_SECOND = 48_000
SILENCE = bytes(BYTES_PER_SECOND)
WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
VAD = {"type": "server_vad", "silence_duration_ms": 400}


class Heard:
    """Events of a session in the order of their arrival. Audio is collected separately."""

    def __init__(self) -> None:
        self.types: list[str] = []
        self.audio = b""
        self.transcript = ""
        self.input_transcript = ""

    def add(self, event: Any) -> None:
        check(event.type != "error", f"{event!r}")
        if event.type in ("response.output_audio.delta", "response.audio.delta"):
            self.audio += base64.b64decode(event.delta)
        if event.type in ("response.output_audio_transcript.delta", "response.audio_transcript.delta"):
            self.transcript += event.delta
        if event.type == "conversation.item.input_audio_transcription.delta":
            self.input_transcript += event.delta
        if self.types[-1:] != [event.type]:
            self.types.append(event.type)


def shaped(connection: Any, raw: bytes) -> Any:
    """Returns the event. Fails if its members do not have the types that the client declares."""
    event = connection.parse_event(raw)
    try:
        type(event).model_validate(json.loads(raw))
    except ValidationError as error:
        # The types of the beta list OpenAI's models.
        faults = [fault for fault in error.errors() if fault["loc"][-1] != "model"]
        check(not faults, f"{event.type}: {faults}")
    return event


def until(connection: Any, type: str, heard: Heard | None = None) -> Any:
    """Receives events up to the first one of this type, and returns it. Fails at an error."""
    heard = heard or Heard()
    while True:
        event = shaped(connection, connection.recv_bytes())
        heard.add(event)
        if event.type == type:
            return event


def next_error(connection: Any) -> Any:
    """Receives events up to the first error, and returns it."""
    while (event := shaped(connection, connection.recv_bytes())).type != "error":
        pass
    return event.error


def speech(text: str = SAID) -> bytes:
    return client().audio.speech.create(model=SPEECH, voice="alloy", input=text, response_format="pcm").content


def chunks(audio: bytes, milliseconds: int = 100) -> list[str]:
    size = BYTES_PER_SECOND * milliseconds // 1000
    return [base64.b64encode(audio[start : start + size]).decode() for start in range(0, len(audio), size)]


def append(connection: Any, audio: bytes) -> None:
    for chunk in chunks(audio):
        connection.input_audio_buffer.append(audio=chunk)


def write(connection: Any, text: str) -> None:
    """Adds a message of the user, and starts a response."""
    content = [{"type": "input_text", "text": text}]
    connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
    connection.response.create()


def check_paid(response: Any) -> None:
    check(response.usage.total_tokens > 0, "usage.total_tokens")
    check(float(response.usage.model_extra["cost"]) > 0, "usage.cost")
    check(response.model_extra["request_id"].startswith("req_"), "request_id")


def check_spoken(done: Any, heard: Heard, text: str) -> None:
    """Checks a completed response that says this text."""
    equal(done.response.status, "completed", "status")
    equal(done.response.output[-1].content[0].transcript, text, "transcript of the item")
    equal(heard.transcript, text, "transcript of the deltas")
    check(len(heard.audio) > 0.3 * BYTES_PER_SECOND, f"{len(heard.audio)} bytes of audio")
    check(done.response.usage.output_token_details.audio_tokens > 0, "audio tokens")
    check_paid(done.response)


@case("realtime text", *NEEDS)
def realtime_text() -> None:
    with client().realtime.connect(model=VOICE) as connection:
        created = until(connection, "session.created")
        equal((created.session.type, created.session.model), ("realtime", VOICE), "session")
        heard = Heard()
        write(connection, SAID)
        done = until(connection, "response.done", heard)
        check_spoken(done, heard, SAID)
        order = [
            "conversation.item.added",
            "conversation.item.done",
            "response.created",
            "rate_limits.updated",
            "response.output_item.added",
            "conversation.item.added",
            "response.content_part.added",
            "response.output_audio_transcript.delta",
            "response.output_audio.delta",
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            "conversation.item.done",
            "response.output_item.done",
            "response.done",
        ]
        equal(heard.types, order, "events")

        connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        equal(until(connection, "session.updated").session.output_modalities, ["text"], "output_modalities")
        heard = Heard()
        write(connection, "And in writing?")
        done = until(connection, "response.done", heard)
        equal(done.response.output[0].content[0].text, "And in writing?", "text")
        check("response.output_text.delta" in heard.types, "there is no delta of text")
        equal(heard.audio, b"", "audio of a text response")
        check_paid(done.response)


@case("realtime audio turn", *HEARS)
def audio_turn() -> None:
    with client().realtime.connect(model=VOICE) as connection:
        heard = Heard()
        append(connection, speech())
        connection.input_audio_buffer.commit()
        connection.response.create()
        transcribed = until(connection, "conversation.item.input_audio_transcription.completed", heard)
        equal(transcribed.transcript, SAID, "transcript of the audio")
        done = until(connection, "response.done", heard)
        check_spoken(done, heard, SAID)
        check(done.response.usage.input_token_details.audio_tokens > 5, "audio tokens of the input")


@case("realtime server_vad", *HEARS)
def server_vad() -> None:
    async def talk() -> None:
        async with async_client().realtime.connect(model=VOICE) as connection:
            await connection.session.update(session={"type": "realtime", "audio": {"input": {"turn_detection": VAD}}})
            for text in (SAID, "How is the weather today?"):
                heard = Heard()
                for chunk in chunks(await asyncio.to_thread(speech, text) + SILENCE):
                    await connection.input_audio_buffer.append(audio=chunk)
                while "response.done" not in heard.types:
                    event = shaped(connection, await connection.recv_bytes())
                    heard.add(event)
                    if event.type == "conversation.item.input_audio_transcription.completed":
                        equal(event.transcript, text, "transcript of the audio")
                check_spoken(event, heard, text)
                turn = ["speech_started", "speech_stopped", "committed"]
                types = [f"input_audio_buffer.{event}" for event in turn]
                equal([type for type in heard.types if type in types], types, "events of the turn")

    asyncio.run(talk())


@case("realtime interruption", *HEARS)
def interruption() -> None:
    words = [f"number {count}," for count in range(1, 60)]
    with client().realtime.connect(model=VOICE) as connection:
        connection.session.update(session={"type": "realtime", "audio": {"input": {"turn_detection": VAD}}})
        write(connection, " ".join(words))
        item = until(connection, "response.output_audio.delta").item_id
        append(connection, speech())
        heard = Heard()
        done = until(connection, "response.done", heard)
        equal(done.response.status, "cancelled", "status")
        equal(done.response.status_details.reason, "turn_detected", "reason")
        check("input_audio_buffer.speech_started" in heard.types, "there is no speech_started")
        check_paid(done.response)

        connection.conversation.item.truncate(item_id=item, content_index=0, audio_end_ms=1500)
        equal(until(connection, "conversation.item.truncated").audio_end_ms, 1500, "audio_end_ms")
        connection.conversation.item.retrieve(item_id=item)
        kept = until(connection, "conversation.item.retrieved").item.content[0].transcript
        check(" ".join(words).startswith(kept) and 0 < len(kept) < 60, f"transcript {kept!r}")

        # The turn that interrupted the response is answered.
        append(connection, SILENCE)
        heard = Heard()
        check_spoken(until(connection, "response.done", heard), heard, SAID)


@case("realtime tools", *NEEDS)
def tools() -> None:
    with client().realtime.connect(model=VOICE) as connection:
        connection.session.update(session={"type": "realtime", "tools": [WEATHER], "tool_choice": "auto"})
        write(connection, '[[sim tool=weather:{"city":"Paris"}]] How is the weather?')
        heard = Heard()
        arguments = until(connection, "response.function_call_arguments.done", heard)
        equal(json.loads(arguments.arguments), {"city": "Paris"}, "arguments")
        call = until(connection, "response.done", heard).response.output[0]
        equal((call.type, call.name, call.call_id), ("function_call", "weather", arguments.call_id), "call")
        check("response.function_call_arguments.delta" in heard.types, "there is no delta of the arguments")

        output = {"type": "function_call_output", "call_id": call.call_id, "output": "It rains."}
        connection.conversation.item.create(item=output)
        connection.response.create()
        heard = Heard()
        done = until(connection, "response.done", heard)
        equal(done.response.status, "completed", "status")
        check(done.response.output[0].content[0].transcript, "there is no answer")
        check(heard.audio, "there is no audio")


@case("realtime transcription", *HEARS)
def transcription() -> None:
    with client().realtime.connect(extra_query={"intent": "transcription"}) as connection:
        created = until(connection, "session.created")
        equal(created.session.type, "transcription", "type")
        equal(created.session.audio.input.transcription.model, TRANSCRIBE, "model")
        heard = Heard()
        audio = speech("Good morning, harbour. How are you today?")
        append(connection, audio)
        connection.input_audio_buffer.commit()
        done = until(connection, "conversation.item.input_audio_transcription.completed", heard)
        equal(done.transcript, "Good morning, harbour. How are you today?", "transcript")
        equal(done.usage.type, "duration", "usage.type")
        check(abs(done.usage.seconds - len(audio) / BYTES_PER_SECOND) < 0.01, f"{done.usage.seconds} seconds")
        check(float(done.usage.model_extra["cost"]) > 0, "usage.cost")
        check("input_audio_buffer.committed" in heard.types, "there is no committed")

        connection.session.update(session={"type": "transcription", "audio": {"input": {"turn_detection": VAD}}})
        heard = Heard()
        append(connection, speech() + SILENCE)
        done = until(connection, "conversation.item.input_audio_transcription.completed", heard)
        equal((done.transcript, heard.input_transcript), (SAID, SAID), "transcript and deltas of a turn")


@case("realtime live transcription", *NEEDS)
def live_transcription() -> None:
    with client().realtime.connect(model=LIVE) as connection:
        until(connection, "session.created")
        audio = speech("Good morning, harbour. How are you today? " * 3)
        append(connection, audio)
        # There is text before the end of the turn.
        delta = until(connection, "conversation.item.input_audio_transcription.delta")
        connection.input_audio_buffer.commit()
        done = until(connection, "conversation.item.input_audio_transcription.completed")
        equal(done.item_id, delta.item_id, "item")
        check(done.transcript.startswith(delta.delta.strip()), f"{done.transcript!r}")
        check(abs(done.usage.seconds - len(audio) / BYTES_PER_SECOND) < 0.01, f"{done.usage.seconds} seconds")
        check(float(done.usage.model_extra["cost"]) > 0, "usage.cost")


@case("realtime events of errors", *NEEDS)
def error_events() -> None:
    with client().realtime.connect(model=VOICE) as connection:
        connection.input_audio_buffer.commit(event_id="mine")
        error = next_error(connection)
        equal((error.code, error.event_id), ("input_audio_buffer_commit_empty", "mine"), "error")
        equal(error.type, "invalid_request_error", "type")
        audio = {"output": {"speed": 9}}
        connection.session.update(session={"type": "realtime", "audio": audio}, event_id="other")
        error = next_error(connection)
        expected = ("invalid_parameter", "session.audio.output.speed", "other")
        equal((error.code, error.param, error.event_id), expected, "error")
        write(connection, SAID)
        equal(until(connection, "response.done").response.status, "completed", "status after errors")


@case("realtime client secret", *NEEDS, "/v1/realtime/client_secrets")
def client_secret() -> None:
    session = {"type": "realtime", "model": VOICE, "instructions": "Be kind."}
    expires_after = {"anchor": "created_at", "seconds": 60}
    secret = client().realtime.client_secrets.create(session=session, expires_after=expires_after)
    check(secret.value.startswith("ek_") and secret.expires_at > time.time(), f"{secret}")
    equal(secret.session.model, VOICE, "model")
    holder = client(api_key=secret.value)
    with holder.realtime.connect(model=VOICE) as connection:
        equal(until(connection, "session.created").session.instructions, "Be kind.", "instructions")
        heard = Heard()
        write(connection, SAID)
        check_spoken(until(connection, "response.done", heard), heard, SAID)
    raises(openai.AuthenticationError, lambda: holder.models.list())


@case("realtime refused", *HEARS, "BROKE_KEY")
def refused() -> None:
    def failing(status: int, code: str, param: str | None, key: str = KEY, **query: Any) -> None:
        error = raises(InvalidStatus, client(api_key=key).realtime.connect(**query).enter)
        equal(error.response.status_code, status, "status")
        body = json.loads(error.response.body)["error"]
        equal((body["code"], body["param"]), (code, param), "error")
        check(error.response.headers["x-request-id"], "there is no x-request-id")

    failing(401, "invalid_api_key", None, key="sk-none", model=VOICE)
    failing(404, "model_not_found", "model", model="sim/none")
    failing(400, "unsupported_endpoint", "model", model=MODEL)
    failing(400, "missing_required_parameter", "model")
    failing(400, "unsupported_parameter", "call_id", call_id="rtc_1")

    # A session without credits opens, and its responses fail.
    with client(api_key=BROKE_KEY).realtime.connect(model=VOICE) as connection:
        write(connection, SAID)
        equal(next_error(connection).code, "insufficient_credits", "code")


def tls() -> dict[str, Any]:
    return {"ssl": ssl.create_default_context(cafile=TLS_CERTIFICATE)}


@case("realtime beta", *HEARS, "TLS_URL")
def beta() -> None:
    calls = client(base_url=TLS_URL)
    with calls.beta.realtime.connect(model=VOICE, websocket_connection_options=tls()) as connection:
        heard = Heard()
        created = until(connection, "session.created", heard)
        equal((created.session.model, created.session.input_audio_format), (VOICE, "pcm16"), "session")
        connection.session.update(session={"modalities": ["text", "audio"], "tools": [WEATHER], "turn_detection": None})
        equal(sorted(until(connection, "session.updated", heard).session.modalities), ["audio", "text"], "modalities")
        append(connection, speech())
        connection.input_audio_buffer.commit()
        connection.response.create()
        done = until(connection, "response.done", heard)
        check_spoken(done, heard, SAID)
        for type in ("conversation.item.created", "response.audio.delta", "response.audio_transcript.delta"):
            check(type in heard.types, f"there is no {type}")
        equal([type for type in heard.types if "output_audio." in type], [], "events of the current dialect")
