"""Voice sessions of OpenAI Agents for Python, with the settings that the SDK sends by default."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator

from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession
from agents.realtime.config import RealtimeSessionModelSettings
from harness import BASE_URL, KEY, case, check, equal
from openai import AsyncOpenAI

NEEDS = ("simulator", "/v1/realtime")
VOICE = "sim/voice"
SAID = "Good morning, harbour."
# 24,000 samples a second, two bytes each.
BYTES_PER_SECOND = 48_000


class Turn:
    """Audio and events of the session up to the end of a response."""

    def __init__(self) -> None:
        self.audio = b""
        self.types: list[str] = []
        self.said = ""
        self.costs: list[str] = []


async def open_session(settings: RealtimeSessionModelSettings | None = None, **agent: Any) -> RealtimeSession:
    url = f"{BASE_URL.replace('http', 'ws', 1)}/realtime?model={VOICE}"
    return await RealtimeRunner(RealtimeAgent(name="tester", **agent), config={"tracing_disabled": True}).run(
        model_config={
            "url": url,
            "headers": {"Authorization": f"Bearer {KEY}"},
            "initial_model_settings": {"model_name": VOICE, **(settings or {})},
        }
    )


async def play(events: AsyncIterator[Any], end: str) -> Turn:
    """Returns the turn that the first event of this type of the server ends. Fails at an error."""
    turn = Turn()
    async for event in events:
        check(event.type != "error", f"error: {getattr(event, 'error', None)}")
        turn.types.append(event.type)
        if event.type == "audio":
            turn.audio += event.audio.data
        if event.type != "raw_model_event":
            continue
        check(event.data.type not in ("error", "exception"), f"{event.data}")
        if event.data.type == "transcript_delta":
            turn.said += event.data.delta
        if event.data.type != "raw_server_event":
            continue
        if event.data.data["type"] == "response.done":
            turn.costs.append(event.data.data["response"]["usage"]["cost"])
        if event.data.data["type"] == end:
            return turn
    raise AssertionError(f"the session ended before {end}")


def check_spoken(turn: Turn, text: str) -> None:
    equal(turn.said, text, "transcript")
    check(len(turn.audio) > 0.3 * BYTES_PER_SECOND, f"{len(turn.audio)} bytes of audio")
    check(all(float(cost) > 0 for cost in turn.costs), f"costs {turn.costs}")


async def speech(text: str) -> bytes:
    async with AsyncOpenAI(base_url=BASE_URL, api_key=KEY) as client:
        request = {"model": "sim/speech", "voice": "alloy", "response_format": "pcm"}
        return (await client.audio.speech.create(input=text, **request)).content


async def send_audio(session: RealtimeSession, audio: bytes) -> None:
    for start in range(0, len(audio), 4800):
        await session.send_audio(audio[start : start + 4800])


@case("realtime text", *NEEDS)
def text() -> None:
    async def talk() -> None:
        async with await open_session(instructions="Be kind.") as session:
            events = aiter(session)
            await session.send_message(SAID)
            check_spoken(await play(events, "response.done"), SAID)

    asyncio.run(talk())


@case("realtime tools", *NEEDS)
def tools() -> None:
    asked: list[str] = []

    @function_tool
    def weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return f"rain in {city}"

    async def talk() -> None:
        async with await open_session(tools=[weather]) as session:
            events = aiter(session)
            await session.send_message('[[sim tool=weather:{"city":"Paris"}]]')
            await play(events, "response.done")
            answer = await play(events, "response.done")
            equal(asked, ["Paris"], "calls")
            check(answer.said, "no answer after the call")
            check(answer.audio, "no audio after the call")

    asyncio.run(talk())


@case("realtime turns", *NEEDS)
def turns() -> None:
    async def talk() -> None:
        async with await open_session() as session:
            events = aiter(session)
            await send_audio(session, await speech(SAID) + bytes(5 * BYTES_PER_SECOND))
            check_spoken(await play(events, "response.done"), SAID)

    asyncio.run(talk())


@case("realtime interruption", *NEEDS)
def interruption() -> None:
    async def talk() -> None:
        async with await open_session() as session:
            events = aiter(session)
            await session.send_message(" ".join(f"number {count}," for count in range(1, 60)))
            await play(events, "response.output_audio.delta")
            await send_audio(session, await speech(SAID))
            turn = await play(events, "response.done")
            check("audio_interrupted" in turn.types, f"events {turn.types}")
            # Silence ends the turn that interrupted the response.
            await send_audio(session, bytes(5 * BYTES_PER_SECOND))
            check_spoken(await play(events, "response.done"), SAID)

    asyncio.run(talk())
