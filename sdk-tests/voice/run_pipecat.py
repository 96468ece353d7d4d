"""Cases for the realtime service of Pipecat in a pipeline: messages, a function tool, a turn and an
interruption. Settings: see ../harness/harness.py."""

from __future__ import annotations

import asyncio
import os
from importlib.metadata import version
from typing import Any, Awaitable, Callable

import harness
from harness import BASE_URL, KEY, case, check, equal
from loguru import logger
from openai import AsyncOpenAI
from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    LLMFullResponseEndFrame,
    LLMRunFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSTextFrame,
    UserStartedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner

if not os.environ.get("SDK_TRACE"):
    logger.remove()

NEEDS = ("simulator", "/v1/realtime")
VOICE = "sim/voice"
SAID = "Good morning, harbour."
RATE = 24_000


class Recorder(FrameProcessor):
    """Queues the frames of one direction, and passes all frames on."""

    def __init__(self, direction: FrameDirection, frames: asyncio.Queue[Frame]) -> None:
        super().__init__()
        self.direction = direction
        self.frames = frames

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if direction == self.direction:
            self.frames.put_nowait(frame)
        await self.push_frame(frame, direction)


class Heard:
    """Spoken words and audio of the service."""

    def __init__(self) -> None:
        self.text = ""
        self.audio = b""
        self.responses: list[Any] = []


class Talk:
    """A running pipeline around the service."""

    def __init__(self, tools: list[Any], messages: list[Any]) -> None:
        turn_detection = events.TurnDetection(silence_duration_ms=400)
        audio = events.AudioConfiguration(input=events.AudioInput(turn_detection=turn_detection))
        self.service = OpenAIRealtimeLLMService(
            api_key=KEY,
            base_url=f"{BASE_URL.replace('http', 'ws', 1)}/realtime",
            settings=OpenAIRealtimeLLMService.Settings(
                model=VOICE,
                system_instruction="Be kind.",
                session_properties=events.SessionProperties(audio=audio),
            ),
        )
        self.context = LLMContext(messages, tools=tools)
        user, assistant = LLMContextAggregatorPair(self.context)
        self.frames: asyncio.Queue[Frame] = asyncio.Queue()
        upstream = Recorder(FrameDirection.UPSTREAM, self.frames)
        downstream = Recorder(FrameDirection.DOWNSTREAM, self.frames)
        self.worker = PipelineWorker(Pipeline([user, upstream, self.service, downstream, assistant]))

    async def until(self, kind: type[Frame]) -> tuple[Any, Heard]:
        """Returns the first frame of this class, and what was heard before it. Fails at an error."""
        heard = Heard()
        while True:
            frame = await asyncio.wait_for(self.frames.get(), 30)
            check(not isinstance(frame, ErrorFrame), f"error: {frame}")
            if isinstance(frame, TTSTextFrame):
                heard.text += frame.text
            if isinstance(frame, TTSAudioRawFrame):
                heard.audio += frame.audio
            if isinstance(frame, kind):
                return frame, heard

    async def speak(self, audio: bytes) -> None:
        size = RATE // 10 * 2
        for start in range(0, len(audio), size):
            await self.worker.queue_frame(InputAudioRawFrame(audio[start : start + size], RATE, 1))


async def speech(text: str) -> bytes:
    async with AsyncOpenAI(base_url=BASE_URL, api_key=KEY) as client:
        request = {"model": "sim/speech", "voice": "alloy", "response_format": "pcm"}
        return (await client.audio.speech.create(input=text, **request)).content


def talking(
    tools: list[Any], messages: list[Any]
) -> Callable[[Callable[[Talk], Awaitable[None]]], Callable[[], None]]:
    """Returns a decorator whose case holds the conversation in a new pipeline."""

    def decorate(conversation: Callable[[Talk], Awaitable[None]]) -> Callable[[], None]:
        async def talk() -> None:
            talk = Talk(tools, messages)
            runner = WorkerRunner(handle_sigint=False)
            await runner.add_workers(talk.worker)
            running = asyncio.create_task(runner.run())
            try:
                await conversation(talk)
            finally:
                await talk.worker.queue_frame(EndFrame())
                await running

        return lambda: asyncio.run(talk())

    return decorate


def check_spoken(heard: Heard, text: str) -> None:
    equal(heard.text, text, "transcript")
    check(len(heard.audio) > 0.3 * 2 * RATE, f"{len(heard.audio)} bytes of audio")


@case("text", *NEEDS)
@talking([], [{"role": "user", "content": SAID}])
async def text(talk: Talk) -> None:
    await talk.worker.queue_frame(LLMRunFrame())
    _, heard = await talk.until(LLMFullResponseEndFrame)
    check_spoken(heard, SAID)


asked: list[str] = []


async def weather(params: FunctionCallParams, city: str) -> None:
    """Returns the weather of a city.

    Args:
        city: Name of the city.
    """
    asked.append(city)
    await params.result_callback({"weather": f"rain in {city}"})


@case("tools", *NEEDS)
@talking([weather], [{"role": "user", "content": '[[sim tool=weather:{"city":"Paris"}]]'}])
async def tools(talk: Talk) -> None:
    await talk.worker.queue_frame(LLMRunFrame())
    await talk.until(LLMFullResponseEndFrame)
    _, heard = await talk.until(LLMFullResponseEndFrame)
    equal(asked, ["Paris"], "calls")
    check(heard.text and heard.audio, "no answer after the call")


@case("turns", *NEEDS)
@talking([], [{"role": "user", "content": "Greet the caller."}])
async def turns(talk: Talk) -> None:
    # After a response, the session has its settings for sure.
    await talk.worker.queue_frame(LLMRunFrame())
    await talk.until(LLMFullResponseEndFrame)
    await talk.speak(await speech(SAID) + bytes(2 * RATE))
    frame, _ = await talk.until(TranscriptionFrame)
    equal(frame.text, SAID, "transcript of the audio")
    _, heard = await talk.until(LLMFullResponseEndFrame)
    check_spoken(heard, SAID)


@case("interruption", *NEEDS)
@talking([], [{"role": "user", "content": " ".join(f"number {count}," for count in range(1, 60))}])
async def interruption(talk: Talk) -> None:
    await talk.worker.queue_frame(LLMRunFrame())
    await talk.until(TTSAudioRawFrame)
    await talk.speak(await speech(SAID))
    await talk.until(UserStartedSpeakingFrame)
    # Silence ends the turn that interrupted the response.
    await talk.speak(bytes(2 * RATE))
    frame, _ = await talk.until(TranscriptionFrame)
    equal(frame.text, SAID, "transcript of the audio")
    _, heard = await talk.until(LLMFullResponseEndFrame)
    check_spoken(heard, SAID)


if __name__ == "__main__":
    harness.main("pipecat", version("pipecat-ai"))
