"""Cases for Pydantic AI on every format: an agent with a tool, an image in its result,
instructions within the conversation, effort, and structured output. Settings: see
../harness/harness.py."""

from __future__ import annotations

import base64
from importlib.metadata import version
from typing import Callable

import harness
from harness import BASE_URL, KEY, MODEL, PNG, ROOT_URL, case, check, equal
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, NativeOutput
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider


class Thing(BaseModel):
    """A thing."""

    title: str
    count: int


def openai() -> OpenAIProvider:
    return OpenAIProvider(base_url=BASE_URL, api_key=KEY)


# Format, its path, and a function that creates a model for it.
MODELS: list[tuple[str, str, Callable[[], Model]]] = [
    ("chat", "/v1/chat/completions", lambda: OpenAIChatModel(MODEL, provider=openai())),
    ("responses", "/v1/responses", lambda: OpenAIResponsesModel(MODEL, provider=openai())),
    (
        "messages",
        "/v1/messages",
        lambda: AnthropicModel(
            MODEL, provider=AnthropicProvider(base_url=ROOT_URL, api_key=KEY), settings={"max_tokens": 4_000}
        ),
    ),
    (
        "content",
        "/v1/models/{}:generateContent",
        lambda: GoogleModel(MODEL, provider=GoogleProvider(base_url=ROOT_URL, api_key=KEY)),
    ),
]


def text(model: Model) -> None:
    answer = Agent(model).run_sync("Hello there, gateway")
    check("Hello there, gateway" in answer.output, f"answer is {answer.output!r}")
    check(answer.usage.output_tokens > 0, f"usage is {answer.usage}")


def tools(model: Model) -> None:
    asked: list[str] = []
    agent = Agent(model)

    @agent.tool_plain
    def weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return f"rain in {city}"

    agent.run_sync('[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]')
    equal(sorted(asked), ["Oslo", "Paris"], "calls")


def image(model: Model) -> None:
    """The tool returns an image, which stays in the conversation."""
    agent = Agent(model)

    @agent.tool_plain
    def screenshot() -> list[str | BinaryContent]:
        """What is on the screen."""
        return ["the screen", BinaryContent(base64.b64decode(PNG), media_type="image/png")]

    first = agent.run_sync("[[sim tool=screenshot:{}]]")
    second = agent.run_sync("Go on.", message_history=first.all_messages())
    check(second.output, "no answer to the next turn")


def instructions(model: Model) -> None:
    """Tests a reminder that a framework adds between two turns."""
    history: list[ModelMessage] = [
        ModelRequest(parts=[SystemPromptPart("Be kind."), UserPromptPart("One.")]),
        ModelResponse(parts=[TextPart("Two.")]),
        ModelRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart("Three.")]),
        ModelResponse(parts=[TextPart("Four.")]),
    ]
    check(Agent(model).run_sync("Five.", message_history=history).output, "no answer")


def effort(model: Model) -> None:
    check(Agent(model, model_settings={"thinking": "low"}).run_sync("Think.").output, "no answer")


def single_calls(model: Model) -> None:
    agent = Agent(model, model_settings={"parallel_tool_calls": False})

    @agent.tool_plain
    def weather(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    agent.run_sync('[[sim tool=weather:{"city":"Paris"}]]')


def structured(model: Model) -> None:
    # For unknown Anthropic models, Pydantic AI requests structured output through a forced tool.
    output_type = Thing if isinstance(model, AnthropicModel) else NativeOutput(Thing)
    parsed = Agent(model, output_type=output_type).run_sync("A thing.").output
    check(isinstance(parsed, Thing), f"parsed is {parsed!r}")


for name, path, make in MODELS:
    for function in (text, tools, image, instructions, effort, single_calls):
        case(f"{name} {function.__name__}", path, "scripted")(lambda make=make, function=function: function(make()))
    case(f"{name} structured", path, "simulator")(lambda make=make: structured(make()))

if __name__ == "__main__":
    harness.main("pydantic-ai", version("pydantic-ai-slim"))
