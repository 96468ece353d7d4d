"""Cases for LangChain on the text formats, the same for each of its chat models. Settings:
../harness/harness.py."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Callable

import harness
from harness import BASE_URL, KEY, MODEL, ROOT_URL, case, check, equal
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

PROMPT = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]'


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


class Thing(BaseModel):
    """A thing."""

    title: str
    count: int


def openai(**settings: Any) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, base_url=BASE_URL, api_key=KEY, max_retries=0, stream_usage=True, **settings)


# Format, its path, and a function that creates a model for it.
MODELS: list[tuple[str, str, Callable[[], BaseChatModel]]] = [
    ("chat", "/v1/chat/completions", openai),
    ("responses", "/v1/responses", lambda: openai(use_responses_api=True)),
    (
        "messages",
        "/v1/messages",
        lambda: ChatAnthropic(model=MODEL, base_url=ROOT_URL, api_key=KEY, max_retries=0, max_tokens=500),
    ),
    (
        "content",
        "/v1/models/{}:generateContent",
        lambda: ChatGoogleGenerativeAI(model=MODEL, base_url=ROOT_URL, google_api_key=KEY, max_retries=1),
    ),
]


def text(model: BaseChatModel) -> None:
    answer = model.invoke("Hello there, gateway")
    equal(answer.text, "Hello there, gateway", "text")
    check_usage(answer.usage_metadata)


def stream(model: BaseChatModel) -> None:
    whole = None
    pieces = 0
    for piece in model.stream("[[sim tokens=20]]"):
        pieces += bool(piece.text)
        whole = piece if whole is None else whole + piece
    check(pieces >= 3, f"only {pieces} pieces")
    check_usage(whole.usage_metadata)
    equal(whole.usage_metadata["output_tokens"], 20, "output_tokens")


def tools(model: BaseChatModel) -> None:
    able = model.bind_tools([weather])
    asked = HumanMessage(PROMPT)
    answer = able.invoke([asked])
    equal([call["args"] for call in answer.tool_calls], [{"city": "Paris"}, {"city": "Oslo"}], "calls")
    results: list[ToolMessage] = [weather.invoke(call) for call in answer.tool_calls]
    last = able.invoke([asked, answer, *results])
    check("rain in Oslo" in last.text and not last.tool_calls, f"answer is {last.text!r}")


def structured(model: BaseChatModel) -> None:
    parsed = model.with_structured_output(Thing, method="json_schema").invoke("A thing.")
    check(isinstance(parsed, Thing), f"parsed is {parsed!r}")


def check_usage(usage: Any) -> None:
    check(usage["input_tokens"] > 0 and usage["output_tokens"] > 0, f"usage is {usage}")
    equal(usage["total_tokens"], usage["input_tokens"] + usage["output_tokens"], "total_tokens")


for name, path, make in MODELS:
    case(f"{name} text", path, "simulator")(lambda make=make: text(make()))
    case(f"{name} stream", path, "simulator")(lambda make=make: stream(make()))
    case(f"{name} tools", path, "simulator")(lambda make=make: tools(make()))
    case(f"{name} structured", path)(lambda make=make: structured(make()))


@case("embeddings", "simulator")
def embeddings() -> None:
    # With check_embedding_ctx_length, LangChain would download a tokenizer.
    model = OpenAIEmbeddings(
        model=harness.VECTORS, base_url=BASE_URL, api_key=KEY, dimensions=8, check_embedding_ctx_length=False
    )
    equal([len(vector) for vector in model.embed_documents(["a", "b"])], [8, 8], "dimensions")


if __name__ == "__main__":
    harness.main("langchain", version("langchain-core"))
