"""Cases for the official Anthropic client against POST /v1/messages. Settings: see
../harness/harness.py."""

from __future__ import annotations

import json
import time
from typing import Any, Callable

import anthropic
import harness
from harness import BROKE_KEY, BROKEN_STREAM, KEY, LIMITED_KEY, MODEL, PNG, ROOT_URL, case, check, equal, raises
from pydantic import BaseModel

PATH = "/v1/messages"
TOOLS: list[Any] = [
    {
        "name": "weather",
        "description": "The weather of a city.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]


class Number(BaseModel):
    n: int


def client(**settings: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(**({"base_url": ROOT_URL, "api_key": KEY, "max_retries": 0, "timeout": 60} | settings))


def request(text: str, **members: Any) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 200, "messages": [{"role": "user", "content": text}]} | members


def ask(text: str, key: str = KEY, **members: Any) -> anthropic.types.Message:
    return client(api_key=key).messages.create(**request(text, **members))


def whole_stream(text: str, **members: Any) -> anthropic.types.Message:
    with client().messages.stream(**request(text, **members)) as events:
        for _ in events:
            pass
        return events.get_final_message()


@case("messages", PATH, "scripted")
def text() -> None:
    message = ask("Hello there, gateway")
    equal([block.type for block in message.content], ["text"], "blocks")
    equal(message.content[0].text, "Hello there, gateway", "text")
    equal((message.stop_reason, message.usage.input_tokens > 0), ("end_turn", True), "end")
    equal((message.type, message.role, message.model), ("message", "assistant", MODEL), "message")


@case("messages usage and cost", PATH, "scripted", "gateway", "reasoning")
def usage() -> None:
    raw = client().messages.with_raw_response.create(**request("one [[sim tokens=20 reason=8]]"))
    used = raw.parse().usage
    equal((used.output_tokens, used.output_tokens_details.thinking_tokens), (28, 8), "output tokens")
    equal(used.model_extra["cost"], raw.headers["x-tollgate-cost"], "usage.cost")
    check(int(raw.headers["anthropic-ratelimit-requests-remaining"]) > 0, "anthropic-ratelimit-requests-remaining")
    streamed = whole_stream("one [[sim tokens=20 reason=8]]").usage
    equal((streamed.input_tokens, streamed.output_tokens), (used.input_tokens, 28), "usage of the stream")


@case("messages roles and settings", PATH, "simulator")
def settings() -> None:
    messages = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": [{"type": "text", "text": "one STOP two", "cache_control": {"type": "ephemeral"}}]},
    ]
    message = ask("", messages=messages, system=[{"type": "text", "text": "Be brief."}], stop_sequences=["STOP"])
    equal((message.content[0].text, message.stop_reason), ("one ", "stop_sequence"), "answer")
    equal(message.stop_sequence, "STOP", "stop_sequence")
    equal(ask("[[sim tokens=50]]", max_tokens=5).stop_reason, "max_tokens", "stop_reason")


@case("messages stream", PATH, "scripted")
def stream() -> None:
    prompt = '[[sim reason=2 tokens=3 tool=weather:{"city":"Oslo"}]]'
    message = whole_stream(prompt, tools=TOOLS)
    # A signature without thinking text, as Gemini sends it, is a separate block.
    shown = [block.type for block in message.content if block.type != "redacted_thinking"]
    equal(shown, ["thinking", "text", "tool_use"], "blocks")
    equal(message.content[-1].input, {"city": "Oslo"}, "input")
    equal((message.stop_reason, message.usage.output_tokens > 4), ("tool_use", True), "end")
    kinds = [event.type for event in client().messages.create(**request("Hi."), stream=True)]
    framed = [kind for kind in kinds if kind not in ("content_block_delta", "ping")]
    expected = ["message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"]
    equal(framed, expected, "events")


@case("messages tools in parallel, the whole loop", PATH, "scripted")
def tool_loop() -> None:
    prompt = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]'
    first = ask(prompt, tools=TOOLS)
    equal(first.stop_reason, "tool_use", "stop_reason")
    equal([block.input for block in first.content], [{"city": "Paris"}, {"city": "Oslo"}], "inputs")
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": f"rain in {block.input['city']}"}
        for block in first.content
    ]
    messages = [
        {"role": "user", "content": prompt},
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": results},
    ]
    second = ask("", messages=messages, tools=TOOLS)
    equal((second.content[0].text, second.stop_reason), ("rain in Oslo", "end_turn"), "answer")


@case("messages tools one at a time", PATH, "simulator")
def tools_one_at_a_time() -> None:
    prompt = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]'
    choice = {"type": "any", "disable_parallel_tool_use": True}
    equal(len(ask(prompt, tools=TOOLS, tool_choice=choice).content), 1, "calls that are not parallel")


@case("messages tool runner", PATH, "scripted")
def tool_runner() -> None:
    asked = []

    @anthropic.beta_tool
    def weather(city: str) -> str:
        """The weather of a city.

        Args:
            city: Its name.
        """
        asked.append(city)
        return f"rain in {city}"

    prompt = '[[sim tool=weather:{"city":"Oslo"}]]'
    last = client().beta.messages.tool_runner(**request(prompt, tools=[weather])).until_done()
    equal((asked, last.content[0].text), (["Oslo"], "rain in Oslo"), "calls and answer")


@case("messages structured", PATH)
def parse() -> None:
    message = client().messages.parse(**request("go"), output_format=Number)
    equal(type(message.parsed_output.n), int, "parsed")
    output = {"format": {"type": "json_schema", "schema": Number.model_json_schema() | {"additionalProperties": False}}}
    equal(list(json.loads(whole_stream("go", output_config=output).content[0].text)), ["n"], "members")


@case("messages image", PATH, "scripted")
def image() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}]
    message = ask("", messages=[{"role": "user", "content": content}])
    equal((message.content[0].text, message.usage.input_tokens > 0), ("What is it?", True), "text and tokens")


@case("messages count tokens", PATH, "scripted")
def count_tokens() -> None:
    def count(words: int) -> int:
        messages = [{"role": "user", "content": "one " * words}]
        return client().messages.count_tokens(model=MODEL, messages=messages).input_tokens

    check(3 <= count(3) < count(300), f"{count(3)} and {count(300)} tokens")


@case("messages models", PATH, "gateway")
def models() -> None:
    found = [model for model in client().models.list() if model.id == MODEL]
    equal([model.type for model in found], ["model"], "models")
    check(found[0].display_name and found[0].created_at.year >= 1970, "display_name and created_at")
    equal(client().models.retrieve(MODEL).id, MODEL, "id")
    equal(raises(anthropic.NotFoundError, lambda: client().models.retrieve("none")).type, "not_found_error", "type")


@case("messages errors", PATH, "simulator", "gateway", "BROKE_KEY", "LIMITED_KEY")
def errors() -> None:
    wanted = {
        "rate_limit_exceeded": (anthropic.RateLimitError, "rate_limit_error"),
        "overloaded": (anthropic.InternalServerError, "overloaded_error"),
        "upstream_error": (anthropic.InternalServerError, "api_error"),
        "upstream_timeout": (anthropic.InternalServerError, "timeout_error"),
        "permission_denied": (anthropic.PermissionDeniedError, "permission_error"),
        "content_policy_violation": (anthropic.BadRequestError, "invalid_request_error"),
    }
    for code, (kind, name) in wanted.items():
        for streamed in ({}, {"stream": True}):
            raised(kind, name, code, lambda: ask(f"[[sim error={code}]]", **streamed))
    raised(anthropic.NotFoundError, "not_found_error", "model_not_found", lambda: ask("x", model="none"))
    invalid = (anthropic.BadRequestError, "invalid_request_error")
    raised(*invalid, "invalid_parameter", lambda: ask("x", extra_body={"temperature": 0.5}))
    raised(*invalid, "unknown_parameter", lambda: ask("x", extra_body={"no_such_field": 1}))
    unknown = (anthropic.AuthenticationError, "authentication_error", "invalid_api_key")
    raised(*unknown, lambda: ask("x", key="sk-service-nobody"))
    raised(anthropic.APIStatusError, "billing_error", "insufficient_credits", lambda: ask("x", key=BROKE_KEY))
    limited = (anthropic.RateLimitError, "rate_limit_error", "rate_limit_exceeded")
    raised(*limited, lambda: [ask("x", key=LIMITED_KEY) for _ in range(3)])


@case("messages error of the provider", PATH, "scripted", "gateway")
def provider_error() -> None:
    for streamed in ({}, {"stream": True}):
        failed = (anthropic.InternalServerError, "api_error", "upstream_error")
        raised(*failed, lambda: ask("[[sim error=upstream_error]]", **streamed))


@case("messages error in a stream", PATH, "scripted")
def broken_stream() -> None:
    raised(anthropic.APIStatusError, "api_error", "upstream_error", lambda: whole_stream(BROKEN_STREAM))


@case("files", "gateway", "/v1/files")
def files() -> None:
    beta = client().beta.files
    file = beta.upload(file=("notes.txt", b"plain words", "text/plain"))
    equal((file.type, file.filename, file.mime_type, file.size_bytes), ("file", "notes.txt", "text/plain", 11), "file")
    check(file.downloadable and file.created_at.year >= 2026, "downloadable and created_at")
    equal(beta.retrieve_metadata(file.id), file, "retrieved")
    equal(beta.download(file.id).read(), b"plain words", "content")
    others = [beta.upload(file=(f"{number}.txt", b"x", "text/plain")).id for number in range(2)]
    ids = [*reversed(others), file.id]
    equal([found.id for _, found in zip(range(3), beta.list(limit=2))], ids, "newest first, over two pages")
    named = beta.list(ids=[ids[2], ids[0], "file-none"])
    equal([found.id for found in named.data], [ids[0], ids[2]], "by their ids")
    for id in ids:
        gone = beta.delete(id)
        equal((gone.id, gone.type), (id, "file_deleted"), "deleted")
    raised(anthropic.NotFoundError, "not_found_error", "not_found", lambda: beta.retrieve_metadata(file.id))


@case("message batches", "scripted", "gateway", "/v1/messages/batches")
def message_batches() -> None:
    batches = client().messages.batches
    texts = {"a": "hello", "b": "goodbye", "c": "[[sim error=upstream_error]]"}
    asked = [{"custom_id": name, "params": request(text)} for name, text in texts.items()]
    batch = batches.create(requests=asked)
    equal((batch.type, batch.processing_status, batch.request_counts.processing), ("message_batch", "in_progress", 3), "batch")
    while batch.processing_status != "ended":
        time.sleep(0.2)
        batch = batches.retrieve(batch.id)
    equal((batch.request_counts.succeeded, batch.request_counts.errored), (2, 1), "counts")
    found = {line.custom_id: line.result for line in batches.results(batch.id)}
    equal(found["a"].message.content[0].text, "hello", "an answer")
    equal((found["c"].type, found["c"].error.error.type), ("errored", "api_error"), "what has failed")
    equal(next(iter(batches.list(limit=1))).id, batch.id, "the newest")
    equal(batches.cancel(batch.id).processing_status, "ended", "too late to cancel")
    twice = [{"custom_id": "a", "params": request("x")}] * 2
    error = raises(anthropic.BadRequestError, lambda: batches.create(requests=twice))
    equal(error.body["error"]["param"], "requests[1].custom_id", "param")
    equal(list(batches.list(before_id=batch.id)), [], "nothing is newer")
    deleted = batches.delete(batch.id)
    equal((deleted.id, deleted.type), (batch.id, "message_batch_deleted"), "deleted")
    raised(anthropic.NotFoundError, "not_found_error", "not_found", lambda: batches.retrieve(batch.id))


def raised(kind: type[anthropic.APIStatusError], name: str, code: str, call: Callable[[], Any]) -> None:
    error = raises(kind, call)
    body: Any = error.body
    equal((body["error"]["type"], body["error"]["code"]), (name, code), "error")
    equal(error.type, name, "type")
    check((error.request_id or "").startswith("req_"), f"request id {error.request_id}")


if __name__ == "__main__":
    harness.main("anthropic-python", anthropic.__version__)
