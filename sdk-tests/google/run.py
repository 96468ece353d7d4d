"""Cases for the official Google client against generateContent and related methods. Settings:
../harness/harness.py."""

from __future__ import annotations

import base64
import functools
import math
from typing import Any, Callable

import harness
from google import genai
from google.genai import errors, types
from google.genai._gaos.lib import compat_errors
from harness import (
    BROKE_KEY,
    BROKEN_STREAM,
    KEY,
    LIMITED_KEY,
    MODEL,
    PNG,
    ROOT_URL,
    VECTORS,
    case,
    check,
    equal,
    raises,
)
from pydantic import BaseModel

PATH = "/v1/models/{}:generateContent"
DECIDER = "sim/decide"
WEATHER = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="weather",
            description="The weather of a city.",
            parameters_json_schema={
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        )
    ]
)
TWO_CALLS = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]'


class Thing(BaseModel):
    title: str
    count: int
    tags: list[str]


# Cached, because a client closes its connections when it is garbage-collected, even during a call.
@functools.cache
def client(key: str = KEY, version: str | None = None) -> genai.Client:
    return genai.Client(
        api_key=key, http_options=types.HttpOptions(base_url=ROOT_URL, api_version=version, timeout=60_000)
    )


def ask(contents: Any, key: str = KEY, model: str = MODEL, **config: Any) -> types.GenerateContentResponse:
    return client(key).models.generate_content(
        model=model, contents=contents, config=types.GenerateContentConfig(**config)
    )


def stream(contents: Any, **config: Any) -> list[types.GenerateContentResponse]:
    pieces = client().models.generate_content_stream(
        model=MODEL, contents=contents, config=types.GenerateContentConfig(**config)
    )
    return list(pieces)


def user(*parts: types.Part) -> types.Content:
    return types.Content(role="user", parts=list(parts))


@case("content", PATH, "scripted")
def text() -> None:
    for version in (None, "v1", "v1beta"):
        answer = client(version=version).models.generate_content(model=MODEL, contents="Hello there, gateway")
        equal(answer.text, "Hello there, gateway", "text")
        equal(answer.candidates[0].finish_reason, types.FinishReason.STOP, "finish_reason")
        equal((answer.model_version, answer.candidates[0].content.role), (MODEL, "model"), "model and role")
        check(answer.response_id, "there is no response_id")


@case("content usage and cost", PATH, "scripted", "gateway", "reasoning")
def usage() -> None:
    answer = ask("one [[sim tokens=20 reason=8]]", thinking_config=types.ThinkingConfig(include_thoughts=True))
    used = answer.usage_metadata
    equal((used.prompt_token_count > 0, used.candidates_token_count), (True, 20), "tokens")
    equal(used.thoughts_token_count, 8, "thoughts")
    equal(used.total_token_count, used.prompt_token_count + 28, "total")
    check(any(part.thought for part in answer.candidates[0].content.parts), "there is no thought")
    check(float(answer.sdk_http_response.headers["x-tollgate-cost"]) > 0, "x-tollgate-cost")


@case("content settings", PATH, "simulator")
def settings() -> None:
    contents = [
        user(types.Part(text="Hi.")),
        types.Content(role="model", parts=[types.Part(text="Yes?")]),
        user(types.Part(text="one STOP two")),
    ]
    answer = ask(contents, system_instruction="Be brief.", temperature=0.5, top_p=0.9, stop_sequences=["STOP"])
    equal(answer.text, "one ", "text")
    answer = ask("[[sim tokens=50]]", max_output_tokens=5)
    equal(answer.candidates[0].finish_reason, types.FinishReason.MAX_TOKENS, "finish_reason")
    equal(len(ask("Hi.", candidate_count=2).candidates), 2, "candidates")


@case("content stream", PATH, "scripted")
def streamed() -> None:
    pieces = stream("[[sim tokens=20]]")
    check(len([piece for piece in pieces if piece.text]) >= 3, f"only {len(pieces)} pieces")
    whole = ask("[[sim tokens=20]]")
    equal("".join(piece.text or "" for piece in pieces), whole.text, "text")
    equal(pieces[-1].candidates[0].finish_reason, types.FinishReason.STOP, "finish_reason")
    equal(pieces[-1].usage_metadata.candidates_token_count, 20, "tokens")
    pieces = stream(TWO_CALLS, tools=[WEATHER])
    calls = [call.args for piece in pieces for call in piece.function_calls or []]
    equal(calls, [{"city": "Paris"}, {"city": "Oslo"}], "calls")


@case("content tools in parallel, the whole loop", PATH, "scripted")
def tool_loop() -> None:
    answer = ask(TWO_CALLS, tools=[WEATHER])
    calls = answer.function_calls
    equal([(call.name, call.args["city"]) for call in calls], [("weather", "Paris"), ("weather", "Oslo")], "calls")
    results = [
        types.Part(
            function_response=types.FunctionResponse(
                id=call.id, name=call.name, response={"output": f"rain in {call.args['city']}"}
            )
        )
        for call in calls
    ]
    contents = [user(types.Part(text=TWO_CALLS)), answer.candidates[0].content, user(*results)]
    check("rain in Oslo" in ask(contents, tools=[WEATHER]).text, "the answer does not have the result")


@case("content forced call", PATH, "simulator")
def forced_call() -> None:
    forced = types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode="ANY"))
    equal(len(ask("Hi.", tools=[WEATHER], tool_config=forced).function_calls), 1, "forced calls")


@case("content chat with automatic calls", PATH, "scripted")
def automatic_calls() -> None:
    asked = []

    def weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return f"rain in {city}"

    chat = client().chats.create(model=MODEL, config=types.GenerateContentConfig(tools=[weather]))
    answer = chat.send_message(TWO_CALLS)
    equal(asked, ["Paris", "Oslo"], "calls")
    check("rain in Oslo" in answer.text, f"answer is {answer.text!r}")
    equal(chat.send_message("And now?").text, "And now?", "the next answer")
    equal(len(chat.get_history()), 6, "contents of the history")


@case("content structured", PATH)
def structured() -> None:
    answer = ask("A thing.", response_mime_type="application/json", response_schema=Thing)
    check(isinstance(answer.parsed, Thing), f"parsed is {answer.parsed!r}")
    schema = Thing.model_json_schema()
    answer = ask("A thing.", response_mime_type="application/json", response_json_schema=schema)
    check(Thing.model_validate_json(answer.text), "text")


@case("content image", PATH, "scripted")
def image() -> None:
    image = types.Part.from_bytes(data=base64.b64decode(PNG), mime_type="image/png")
    answer = ask([image, "What is it?"])
    equal((answer.text, answer.usage_metadata.prompt_token_count > 0), ("What is it?", True), "text and tokens")


@case("content count tokens", PATH, "scripted")
def count_tokens() -> None:
    def count(words: int) -> int:
        return client().models.count_tokens(model=MODEL, contents="one " * words).total_tokens

    check(3 <= count(3) < count(300), f"{count(3)} and {count(300)} tokens")


@case("content embeddings", PATH, "simulator")
def embeddings() -> None:
    config = types.EmbedContentConfig(output_dimensionality=16)
    answer = client().models.embed_content(model=VECTORS, contents=["a", "b"], config=config)
    equal([len(item.values) for item in answer.embeddings], [16, 16], "dimensions")
    for item in answer.embeddings:
        length = math.sqrt(sum(value * value for value in item.values))
        check(abs(length - 1) < 1e-4, f"a vector of length {length}")


@case("content decisions", PATH, "simulator", "/v1/decisions")
def decisions() -> None:
    truth = "[[decide refund yes=0.9 no=0.1]] [[decide team a=0.7 b=0.3]] [[decide level low=0.1 high=0.9]]"
    questions: dict[str, Any] = {
        "refund": {"type": "noul", "instructions": "Is money asked for?", "criteria": {"true_description": "It is."}},
        "team": {"type": "choice", "instructions": "Who answers?", "criteria": {"a": "One", "b": "Another"}},
        "level": {"type": "score", "instructions": "How bad is it?", "criteria": ["low", "high"]},
    }
    for model in (DECIDER, f"models/{DECIDER}"):
        for version in (None, "v1"):
            answer = client(version=version).decisions.create(model=model, input=f"Twice! {truth}", questions=questions)
            said = answer.answers
            equal([type(said[name]).__name__ for name in questions], ["NoulAnswer", "ChoiceAnswer", "ScoreAnswer"], "types")
            check(abs(said["refund"].noul - 0.9) < 1e-6, f"noul is {said['refund'].noul}")
            equal((said["team"].choice, list(said["team"].probabilities)), ("a", ["a", "b"]), "choice")
            check(abs(said["level"].score - 0.9) < 1e-6, f"score is {said['level'].score}")
            equal(said["level"].legend, {"0": "low", "1": "high"}, "legend")
            check(answer.usage.total_input_tokens > 0, "usage")
            equal(answer.usage.total_output_tokens, 0, "output")


@case("content decisions errors", PATH, "simulator", "/v1/decisions")
def decisions_errors() -> None:
    def failing(kind: type[Exception], status: str, code: str, key: str = KEY, **request: Any) -> None:
        given = {"model": DECIDER, "input": "x", "questions": {"a": {"type": "noul", "instructions": "Is it?"}}}
        error = raises(kind, lambda: client(key).decisions.create(**(given | request)))
        body = str(error.body)
        check(status in body and code in body, f"{code}: {body}")

    one = {"type": "choice", "instructions": "Which?", "criteria": {"only": "One"}}
    failing(compat_errors.BadRequestError, "INVALID_ARGUMENT", "questions.a.criteria", questions={"a": one})
    failing(compat_errors.NotFoundError, "NOT_FOUND", "model_not_found", model="models/sim/none")
    failing(compat_errors.AuthenticationError, "UNAUTHENTICATED", "invalid_api_key", key="sk-service-nobody")


@case("content models", PATH, "gateway")
def models() -> None:
    names = [model.name for model in client().models.list()]
    check(f"models/{MODEL}" in names, f"models are {names[:3]}…")
    found = client().models.get(model=MODEL)
    equal(found.name, f"models/{MODEL}", "name")
    check(found.display_name and found.input_token_limit > 0, "display_name and input_token_limit")


@case("content errors", PATH, "simulator", "gateway", "BROKE_KEY", "LIMITED_KEY")
def failures() -> None:
    raised(errors.ClientError, 401, "UNAUTHENTICATED", "invalid_api_key", lambda: ask("x", key="sk-service-nobody"))
    raised(errors.ClientError, 404, "NOT_FOUND", "model_not_found", lambda: ask("x", model="none"))
    raised(errors.ClientError, 400, "INVALID_ARGUMENT", "invalid_parameter", lambda: ask("x", temperature=9))
    raised(errors.ClientError, 402, "RESOURCE_EXHAUSTED", "insufficient_credits", lambda: ask("x", key=BROKE_KEY))
    for code, kind, status, name in [
        ("rate_limit_exceeded", errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
        ("content_policy_violation", errors.ClientError, 400, "INVALID_ARGUMENT"),
        ("overloaded", errors.ServerError, 503, "UNAVAILABLE"),
        ("upstream_timeout", errors.ServerError, 504, "DEADLINE_EXCEEDED"),
    ]:
        raised(kind, status, name, code, lambda: ask(f"[[sim error={code}]]"))
        raised(kind, status, name, code, lambda: stream(f"[[sim error={code}]]"))
    limited = (errors.ClientError, 429, "RESOURCE_EXHAUSTED", "rate_limit_exceeded")
    raised(*limited, lambda: [ask("x", key=LIMITED_KEY) for _ in range(3)])


@case("content error of the provider", PATH, "scripted", "gateway")
def provider_error() -> None:
    failed = (errors.ServerError, 502, "UNAVAILABLE", "upstream_error")
    raised(*failed, lambda: ask("[[sim error=upstream_error]]"))
    raised(*failed, lambda: stream("[[sim error=upstream_error]]"))


@case("content error in a stream", PATH, "scripted")
def broken_stream() -> None:
    seen: list[str] = []

    def read() -> None:
        for piece in client().models.generate_content_stream(model=MODEL, contents=BROKEN_STREAM):
            seen.append(piece.text or "")

    error = raises(errors.APIError, read)
    check("".join(seen), "no content came before the error")
    equal((error.code, error.status), (502, "UNAVAILABLE"), "code and status")


def raised(kind: type[errors.APIError], status: int, name: str, code: str, call: Callable[[], Any]) -> None:
    error = raises(kind, call)
    equal((error.code, error.status), (status, name), f"code and status of {code}")
    reasons = [detail.get("reason") for detail in error.details["error"]["details"]]
    check(code in reasons, f"reasons are {reasons}, expected {code}")


if __name__ == "__main__":
    harness.main("google-genai-python", genai.__version__)
