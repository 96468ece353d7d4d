"""Cases for CrewAI's clients of chat completions and messages: text, a tool and structured
output. Settings: see ../harness/harness.py."""

from __future__ import annotations

import os
import tempfile

# CrewAI sends telemetry and writes files to the home directory by default.
os.environ["CREWAI_DISABLE_TELEMETRY"] = os.environ["OTEL_SDK_DISABLED"] = "true"
os.environ["HOME"] = os.environ["CREWAI_STORAGE_DIR"] = tempfile.mkdtemp(prefix="crewai")

from importlib.metadata import version
from typing import Any, Callable

import harness
from crewai import LLM
from harness import BASE_URL, KEY, MODEL, ROOT_URL, case, check, equal
from pydantic import BaseModel

# CrewAI prints events on standard output, which is for the results of the cases.
os.dup2(2, 1)


class Thing(BaseModel):
    """A thing."""

    title: str
    count: int


WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def openai(**settings: Any) -> LLM:
    return LLM(model=MODEL, provider="openai", base_url=BASE_URL, api_key=KEY, max_retries=0, **settings)


def anthropic(**settings: Any) -> LLM:
    return LLM(model=MODEL, provider="anthropic", base_url=ROOT_URL, api_key=KEY, max_retries=0, max_tokens=500, **settings)


# Format, its path, and a function that creates a model for it.
MODELS: list[tuple[str, str, Callable[..., LLM]]] = [
    ("chat", "/v1/chat/completions", openai),
    ("messages", "/v1/messages", anthropic),
]


def text(make: Callable[..., LLM]) -> None:
    answer = make().call([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello there, gateway"}])
    check("Hello there, gateway" in answer, f"answer is {answer!r}")


def tools(make: Callable[..., LLM]) -> None:
    asked: list[str] = []

    def weather(city: str) -> str:
        asked.append(city)
        return f"rain in {city}"

    prompt = '[[sim tool=weather:{"city":"Paris"}]]'
    make().call(prompt, tools=[WEATHER], available_functions={"weather": weather})
    equal(asked, ["Paris"], "calls")


def structured(make: Callable[..., LLM]) -> None:
    answer = make().call("A thing.", response_model=Thing)
    parsed = answer if isinstance(answer, Thing) else Thing.model_validate_json(answer)
    check(isinstance(parsed.count, int), f"parsed is {parsed!r}")


for name, path, make in MODELS:
    case(f"{name} text", path, "scripted")(lambda make=make: text(make))
    case(f"{name} tools", path, "scripted")(lambda make=make: tools(make))
    case(f"{name} structured", path, "simulator")(lambda make=make: structured(make))

if __name__ == "__main__":
    harness.main("crewai", version("crewai"))
