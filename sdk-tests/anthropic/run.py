"""Cases for the official Anthropic client against POST /v1/messages; one JSON line for each, as the other clients print
them. Settings: see ../python/harness.py."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any, Callable

import anthropic
from pydantic import BaseModel

KEY = os.environ["SDK_KEY"]
MODEL = os.environ["SDK_MODEL"]
BASE_URL = os.environ["SDK_BASE_URL"].removesuffix("/v1")
CLIENT = f"anthropic-python {anthropic.__version__}"
# A case that takes longer than this hangs.
CASE_SECONDS = 90
TOOLS: list[Any] = [
    {
        "name": "weather",
        "input_schema": {"type": "object", "properties": {"city": {"const": "Oslo"}}, "required": ["city"]},
    }
]

CASES: list[tuple[str, Callable[[], None]]] = []


def case(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def register(function: Callable[[], None]) -> Callable[[], None]:
        CASES.append((name, function))
        return function

    return register


def client(**settings: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(**({"base_url": BASE_URL, "api_key": KEY, "max_retries": 0, "timeout": 60} | settings))


def ask(text: str, **members: Any) -> anthropic.types.Message:
    messages: list[Any] = [{"role": "user", "content": text}]
    return client().messages.create(**({"model": MODEL, "max_tokens": 200, "messages": messages} | members))


def equal(actual: Any, expected: Any, what: str) -> None:
    if actual != expected:
        raise AssertionError(f"{what}: {actual!r}, expected {expected!r}")


@case("messages.text")
def text() -> None:
    message = ask("Hello there, gateway")
    equal([block.type for block in message.content], ["text"], "blocks")
    equal(message.content[0].text, "Hello there, gateway", "text")
    equal((message.stop_reason, message.usage.input_tokens), ("end_turn", 3), "end")


@case("messages.stream")
def stream() -> None:
    prompt = "[[sim reason=2 tokens=3 tool=weather]]"
    messages: list[Any] = [{"role": "user", "content": prompt}]
    with client().messages.stream(model=MODEL, max_tokens=200, messages=messages, tools=TOOLS) as events:
        for _ in events:
            pass
        message = events.get_final_message()
    equal([block.type for block in message.content], ["thinking", "text", "tool_use"], "blocks")
    equal(message.content[2].input, {"city": "Oslo"}, "input")
    equal((message.stop_reason, message.usage.output_tokens > 4), ("tool_use", True), "end")


@case("messages.tool_loop")
def tool_loop() -> None:
    first = ask("How is it?", tools=TOOLS, tool_choice={"type": "any"})
    call = first.content[0]
    messages: list[Any] = [
        {"role": "user", "content": "How is it?"},
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "rain"}]},
    ]
    second = ask("", messages=messages, tools=TOOLS)
    equal(second.content[0].text, "rain", "answer")


@case("messages.parse")
def parse() -> None:
    class Number(BaseModel):
        n: int

    messages: list[Any] = [{"role": "user", "content": "go"}]
    message = client().messages.parse(model=MODEL, max_tokens=200, messages=messages, output_format=Number)
    equal(type(message.parsed_output.n), int, "parsed")


@case("messages.image")
def image() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}]
    message = ask("", messages=[{"role": "user", "content": content}])
    equal(message.content[0].text, "What is it?", "text")


@case("messages.count_tokens")
def count_tokens() -> None:
    counted = client().messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "one two three"}])
    equal(counted.input_tokens, 3, "tokens")


@case("messages.errors")
def errors() -> None:
    wanted = {
        "rate_limit_exceeded": (anthropic.RateLimitError, "rate_limit_error"),
        "overloaded": (anthropic.InternalServerError, "overloaded_error"),
        "upstream_error": (anthropic.InternalServerError, "api_error"),
        "content_policy_violation": (anthropic.BadRequestError, "invalid_request_error"),
    }
    for code, (kind, name) in wanted.items():
        raised(kind, name, code, lambda code=code: ask(f"[[sim error={code}]]"))
    raised(anthropic.NotFoundError, "not_found_error", "model_not_found", lambda: ask("x", model="none"))
    raised(
        anthropic.AuthenticationError,
        "authentication_error",
        "invalid_api_key",
        lambda: client(api_key="sk-service-nobody").messages.create(
            model=MODEL, max_tokens=1, messages=[{"role": "user", "content": "x"}]
        ),
    )
    raised(
        anthropic.BadRequestError,
        "invalid_request_error",
        "invalid_parameter",
        lambda: ask("x", extra_body={"temperature": 0.5}),
    )


@case("messages.broken_stream")
def broken_stream() -> None:
    def read() -> None:
        messages: list[Any] = [{"role": "user", "content": "[[sim tokens=20 cut=5]]"}]
        with client().messages.stream(model=MODEL, max_tokens=200, messages=messages) as events:
            for _ in events:
                pass

    raised(anthropic.APIStatusError, "api_error", "upstream_error", read)


def raised(kind: type[anthropic.APIStatusError], name: str, code: str, call: Callable[[], Any]) -> None:
    try:
        call()
    except kind as error:
        body: Any = error.body
        equal((body["error"]["type"], body["error"]["code"]), (name, code), "error")
        equal((error.request_id or "").startswith("req_"), True, "request id")
        return
    raise AssertionError(f"{code}: nothing was raised, expected {kind.__name__}")


def hang(_signal: int, _frame: Any) -> None:
    raise TimeoutError(f"no end after {CASE_SECONDS} s")


def main(pattern: str) -> int:
    failures = 0
    signal.signal(signal.SIGALRM, hang)
    for name, function in CASES:
        if pattern not in name:
            continue
        result, detail = "pass", ""
        signal.alarm(CASE_SECONDS)
        try:
            function()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong fails the case
            failures += 1
            result, detail = "fail", f"{type(error).__name__}: {error}"
            print(f"{CLIENT}: {name}: {detail}", file=sys.stderr, flush=True)
        finally:
            signal.alarm(0)
        print(json.dumps({"client": CLIENT, "case": name, "result": result, "detail": detail}), flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1] if len(sys.argv) > 1 else "") else 0)
