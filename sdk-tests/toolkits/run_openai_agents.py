"""Cases for OpenAI Agents for Python on chat completions and responses: an agent with a tool, an
image in its result, instructions within the conversation, and structured output. Settings: see
../harness/harness.py."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Callable

import harness
from agents import (
    Agent,
    Model,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    ToolOutputImage,
    ToolOutputText,
    function_tool,
    set_tracing_disabled,
)
from harness import BASE_URL, KEY, MODEL, PNG, case, check, equal
from openai import AsyncOpenAI
from openai.types.shared import Reasoning
from pydantic import BaseModel

import realtime_openai_agents  # noqa: F401 - registers its cases

# With tracing, the SDK would send traces to OpenAI.
set_tracing_disabled(True)


class Thing(BaseModel):
    """A thing."""

    title: str
    count: int


def client() -> AsyncOpenAI:
    return AsyncOpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0)


# Format, its path, and a function that creates a model for it.
MODELS: list[tuple[str, str, Callable[[], Model]]] = [
    ("chat", "/v1/chat/completions", lambda: OpenAIChatCompletionsModel(MODEL, client())),
    ("responses", "/v1/responses", lambda: OpenAIResponsesModel(MODEL, client())),
]


def run(model: Model, prompt: Any, **settings: Any) -> Any:
    return Runner.run_sync(Agent(name="tester", model=model, **settings), prompt)


def text(model: Model) -> None:
    answer = run(model, "Hello there, gateway").final_output
    check("Hello there, gateway" in answer, f"answer is {answer!r}")


def tools(model: Model) -> None:
    asked: list[str] = []

    @function_tool
    def weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return f"rain in {city}"

    run(model, '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]', tools=[weather])
    equal(sorted(asked), ["Oslo", "Paris"], "calls")


def single_calls(model: Model) -> None:
    @function_tool
    def weather(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    settings = ModelSettings(parallel_tool_calls=False)
    run(model, '[[sim tool=weather:{"city":"Paris"}]]', tools=[weather], model_settings=settings)


def instructions(model: Model) -> None:
    """Tests a reminder that a framework adds between two turns."""
    turns = [
        {"role": "user", "content": "One."},
        {"role": "assistant", "content": "Two."},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Three."},
    ]
    check(run(model, turns, instructions="Be kind.").final_output, "no answer")


def effort(model: Model) -> None:
    settings = ModelSettings(reasoning=Reasoning(effort="medium"))
    check(run(model, "Think.", model_settings=settings).final_output, "no answer")


def structured(model: Model) -> None:
    parsed = run(model, "A thing.", output_type=Thing).final_output
    check(isinstance(parsed, Thing), f"parsed is {parsed!r}")


for name, path, make in MODELS:
    for function in (text, tools, single_calls, instructions, effort):
        case(f"{name} {function.__name__}", path, "scripted")(lambda make=make, function=function: function(make()))
    case(f"{name} structured", path, "simulator")(lambda make=make: structured(make()))


@case("responses image", "/v1/responses", "scripted")
def image() -> None:
    @function_tool
    def screenshot() -> list[ToolOutputText | ToolOutputImage]:
        """What is on the screen."""
        return [ToolOutputText(text="the screen"), ToolOutputImage(image_url=f"data:image/png;base64,{PNG}")]

    model = OpenAIResponsesModel(MODEL, client())
    first = run(model, "[[sim tool=screenshot:{}]]", tools=[screenshot])
    turns = [*first.to_input_list(), {"role": "user", "content": "Go on."}]
    check(run(model, turns, tools=[screenshot]).final_output, "no answer to the next turn")


if __name__ == "__main__":
    harness.main("openai-agents", version("openai-agents"))
