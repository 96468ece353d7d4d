"""Cases for the LiteLLM library on the text formats. Settings: see ../harness/harness.py."""

from __future__ import annotations

import json
import os
import warnings
from importlib.metadata import version
from typing import Any

# Otherwise LiteLLM downloads a price list.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import harness  # noqa: E402
import litellm  # noqa: E402
from harness import BASE_URL, KEY, MODEL, ROOT_URL, VECTORS, case, check, equal  # noqa: E402
from pydantic import BaseModel  # noqa: E402

litellm.telemetry = False
# Otherwise LiteLLM prints hints between the results.
litellm.suppress_debug_info = True
# LiteLLM expects a float in `usage.cost` and would warn about the string in each answer.
warnings.filterwarnings("ignore", "Pydantic serializer warnings")
# Otherwise LiteLLM writes the schema into the prompt, as for every unknown model.
litellm.register_model(
    {f"gemini/{MODEL}": {"litellm_provider": "gemini", "mode": "chat", "supports_response_schema": True}}
)

PROMPT = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]'
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "weather", "description": "The weather of a city.", "parameters": PARAMETERS},
    }
]


class Thing(BaseModel):
    title: str
    count: int


# Format, its path, and the arguments that select it in LiteLLM.
FORMATS: list[tuple[str, str, dict[str, Any]]] = [
    ("chat", "/v1/chat/completions", {"model": f"openai/{MODEL}", "api_base": BASE_URL}),
    ("responses", "/v1/responses", {"model": f"openai/responses/{MODEL}", "api_base": BASE_URL}),
    ("messages", "/v1/messages", {"model": f"anthropic/{MODEL}", "api_base": ROOT_URL}),
    (
        "content",
        "/v1/models/{}:generateContent",
        {"model": f"gemini/{MODEL}", "api_base": f"{ROOT_URL}/v1beta"},
    ),
]


def ask(how: dict[str, Any], text: str, **members: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    settings = {"api_key": KEY, "num_retries": 0, "max_tokens": 500, "messages": messages}
    return litellm.completion(**(settings | how | members))


def check_usage(usage: Any) -> None:
    check(usage.prompt_tokens > 0 and usage.completion_tokens > 0, f"usage is {usage}")
    equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens, "total_tokens")


def text(how: dict[str, Any]) -> None:
    answer = ask(how, "Hello there, gateway")
    equal(answer.choices[0].message.content, "Hello there, gateway", "text")
    equal(answer.choices[0].finish_reason, "stop", "finish_reason")
    check_usage(answer.usage)


def stream(how: dict[str, Any]) -> None:
    chunks = list(ask(how, "[[sim tokens=20]]", stream=True, stream_options={"include_usage": True}))
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    check(len(pieces) >= 3, f"only {len(pieces)} pieces")
    whole = litellm.stream_chunk_builder(chunks)
    check_usage(whole.usage)
    equal(whole.usage.completion_tokens, 20, "completion_tokens")


def tools(how: dict[str, Any]) -> None:
    message = ask(how, PROMPT, tools=TOOLS).choices[0].message
    calls = message.tool_calls
    cities = [json.loads(call.function.arguments)["city"] for call in calls]
    equal(cities, ["Paris", "Oslo"], "cities")
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": f"rain in {city}"} for call, city in zip(calls, cities)
    ]
    messages = [{"role": "user", "content": PROMPT}, message.model_dump(exclude_none=True), *results]
    answer = ask(how, "", messages=messages, tools=TOOLS).choices[0].message
    check("rain in Oslo" in answer.content and not answer.tool_calls, f"answer is {answer.content!r}")


def structured(how: dict[str, Any]) -> None:
    schema = Thing.model_json_schema() | {"additionalProperties": False}
    shape = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema, "strict": True}}
    answer = ask(how, "A thing.", response_format=shape)
    check(Thing.model_validate_json(answer.choices[0].message.content), "content")


for name, path, how in FORMATS:
    case(f"{name} text", path, "simulator")(lambda how=how: text(how))
    case(f"{name} stream", path, "simulator")(lambda how=how: stream(how))
    case(f"{name} tools", path, "simulator")(lambda how=how: tools(how))
    case(f"{name} structured", path)(lambda how=how: structured(how))


@case("embeddings", "simulator")
def embeddings() -> None:
    answer = litellm.embedding(
        model=f"openai/{VECTORS}",
        input=["a", "b"],
        api_base=BASE_URL,
        api_key=KEY,
        dimensions=8,
        allowed_openai_params=["dimensions"],
    )
    equal([len(item["embedding"]) for item in answer.data], [8, 8], "dimensions")


if __name__ == "__main__":
    harness.main("litellm", version("litellm"))
