"""Cases for the realtime model of LiveKit Agents, with its default settings: messages, a function
tool, a turn and an interruption. Settings: see ../harness/harness.py."""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable

import aiohttp
import harness
from harness import BASE_URL, KEY, case, check, equal
from livekit import rtc
from livekit.agents import llm
from livekit.plugins import openai
from livekit.plugins.openai import realtime
from openai import AsyncOpenAI

NEEDS = ("simulator", "/v1/realtime")
VOICE = "sim/voice"
SAID = "Good morning, harbour."
RATE = 24_000


class Talk:
    """A session of the model, its events by name, and the errors that it reported."""

    def __init__(self, session: realtime.RealtimeSession) -> None:
        self.session = session
        self.context = llm.ChatContext.empty()
        self.errors: list[Any] = []
        self.events: dict[str, asyncio.Queue[Any]] = {}
        for name in (
            "generation_created",
            "input_speech_started",
            "input_audio_transcription_completed",
        ):
            queue = self.events[name] = asyncio.Queue()
            session.on(name, queue.put_nowait)
        self.responses: asyncio.Queue[Any] = asyncio.Queue()
        session.on("openai_server_event_received", self.add_response)
        session.on("error", self.errors.append)

    def add_response(self, event: Any) -> None:
        if event["type"] == "response.done":
            self.responses.put_nowait(event["response"])

    async def event(self, name: str) -> Any:
        return await asyncio.wait_for(self.events[name].get(), 30)

    async def write(self, text: str) -> None:
        self.context.add_message(role="user", content=text)
        await self.session.update_chat_ctx(self.context)

    def speak(self, audio: bytes) -> None:
        samples = RATE // 10
        for start in range(0, len(audio) - 2 * samples + 1, 2 * samples):
            self.session.push_audio(rtc.AudioFrame(audio[start : start + 2 * samples], RATE, 1, samples))

    async def heard(self, generation: llm.GenerationCreatedEvent) -> tuple[str, float, list[llm.FunctionCall]]:
        """Returns the text, the seconds of audio and the calls of a response."""
        text, samples = "", 0

        async def texts(message: llm.MessageGeneration) -> str:
            return "".join([str(part) async for part in message.text_stream])

        async for message in generation.message_stream:
            parts = asyncio.create_task(texts(message))
            async for frame in message.audio_stream:
                samples += frame.samples_per_channel
            text += await parts
        calls = [call async for call in generation.function_stream]
        check(not self.errors, f"errors: {self.errors}")
        return text, samples / RATE, calls


async def speech(text: str) -> bytes:
    async with AsyncOpenAI(base_url=BASE_URL, api_key=KEY) as client:
        request = {"model": "sim/speech", "voice": "alloy", "response_format": "pcm"}
        return (await client.audio.speech.create(input=text, **request)).content


def talking(conversation: Callable[[Talk], Awaitable[None]]) -> Callable[[], None]:
    """Returns a case that holds this conversation in a new session."""

    async def talk() -> None:
        async with aiohttp.ClientSession() as http:
            model = realtime.RealtimeModel(model=VOICE, base_url=BASE_URL, api_key=KEY, http_session=http)
            session = model.session()
            try:
                await conversation(Talk(session))
            finally:
                await session.aclose()
                await model.aclose()

    return lambda: asyncio.run(talk())


async def check_spoken(talk: Talk, generation: llm.GenerationCreatedEvent, said: str) -> None:
    text, seconds, _ = await talk.heard(generation)
    equal(text, said, "transcript")
    check(seconds > 0.3, f"{seconds} seconds of audio")
    usage = (await talk.responses.get())["usage"]
    check(usage["output_token_details"]["audio_tokens"] > 0 and float(usage["cost"]) > 0, f"usage {usage}")


@case("text", *NEEDS)
@talking
async def text(talk: Talk) -> None:
    await talk.session.update_instructions("Be kind.")
    await talk.write(SAID)
    await check_spoken(talk, await talk.session.generate_reply(), SAID)


@case("tools", *NEEDS)
@talking
async def tools(talk: Talk) -> None:
    @llm.function_tool
    async def weather(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    await talk.session.update_tools([weather])
    await talk.write('[[sim tool=weather:{"city":"Paris"}]]')
    _, _, calls = await talk.heard(await talk.session.generate_reply())
    equal([(call.name, call.arguments) for call in calls], [("weather", '{"city":"Paris"}')], "calls")
    talk.context = talk.session.chat_ctx.copy()
    output = llm.FunctionCallOutput(call_id=calls[0].call_id, name="weather", output="It rains.", is_error=False)
    talk.context.insert(output)
    await talk.session.update_chat_ctx(talk.context)
    said, seconds, _ = await talk.heard(await talk.session.generate_reply())
    check(said and seconds > 0, "no answer after the call")


@case("turns", *NEEDS)
@talking
async def turns(talk: Talk) -> None:
    talk.speak(await speech(SAID) + bytes(10 * RATE))
    transcription = await talk.event("input_audio_transcription_completed")
    equal((transcription.transcript, transcription.is_final), (SAID, True), "transcript of the audio")
    await check_spoken(talk, await talk.event("generation_created"), SAID)


@case("interruption", *NEEDS)
@talking
async def interruption(talk: Talk) -> None:
    await talk.write(" ".join(f"number {count}," for count in range(1, 60)))
    generation = await talk.session.generate_reply()
    equal(await talk.event("generation_created"), generation, "generation")
    message = await anext(aiter(generation.message_stream))
    await anext(aiter(message.audio_stream))
    talk.speak(await speech(SAID))
    await talk.event("input_speech_started")
    talk.session.interrupt()
    talk.session.truncate(message_id=message.message_id, modalities=["audio"], audio_end_ms=1500)
    # Silence ends the turn that interrupted the response.
    talk.speak(bytes(10 * RATE))
    equal((await talk.responses.get())["status"], "cancelled", "status")
    await check_spoken(talk, await talk.event("generation_created"), SAID)


if __name__ == "__main__":
    harness.main("livekit", openai.__version__)
