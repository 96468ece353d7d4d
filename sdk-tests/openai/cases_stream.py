"""Streamed chat completions: the rules of the stream, and the SDK's own helper."""

from __future__ import annotations

import json

from cases_chat import ARGUMENTS, CALL_WEATHER, WEATHER, Thing, check_usage
from client import client, user
from harness import MODEL, case, check, equal


def check_stream(chunks, choices: int = 1, usage: bool = False) -> None:
    """Checks the rules of a chat completion stream."""
    check(chunks, "the stream is empty")
    for name in ("id", "created", "model", "object"):
        values = {getattr(chunk, name) for chunk in chunks}
        check(len(values) == 1 and all(values), f"{name} on the chunks: {values}")
    equal(chunks[0].object, "chat.completion.chunk", "object")
    equal(chunks[0].model, MODEL, "model")
    content = chunks[:-1] if usage else chunks
    if usage:
        equal(chunks[-1].choices, [], "choices of the usage chunk")
        check_usage(chunks[-1].usage)
        check(all("usage" in chunk.model_fields_set for chunk in content), "a chunk lacks usage: null")
    check(all(chunk.usage is None for chunk in content), "usage where none belongs")
    check(all(chunk.choices for chunk in content), "a chunk without choices")
    for index in range(choices):
        own = [choice for chunk in content for choice in chunk.choices if choice.index == index]
        equal(own[0].delta.role, "assistant", f"role of choice {index}")
        check(not own[0].delta.content, "content in the role chunk")
        finishes = [choice.finish_reason is not None for choice in own]
        equal(finishes, [False] * (len(own) - 1) + [True], f"finish reasons of choice {index}")
        check(not own[-1].delta.content and own[-1].delta.tool_calls is None, "content in the finish chunk")


def text_of(chunks, index: int = 0) -> str:
    choices = (choice for chunk in chunks for choice in chunk.choices if choice.index == index)
    return "".join(choice.delta.content or "" for choice in choices)


def stream(text: str = "Say something short.", **parameters):
    return list(client().chat.completions.create(model=MODEL, messages=user(text), stream=True, **parameters))


@case("stream")
def plain_stream() -> None:
    chunks = stream()
    check_stream(chunks)
    pieces = [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.delta.content]
    check(len(pieces) >= 3, f"only {len(pieces)} pieces")
    whole = client().chat.completions.create(model=MODEL, messages=user("Say something short."), temperature=0)
    check(whole.choices[0].message.content and text_of(chunks), "no text")


@case("stream usage")
def stream_usage() -> None:
    check_stream(stream(stream_options={"include_usage": True}), usage=True)


@case("stream usage is the whole answer's", "scripted")
def stream_usage_equal() -> None:
    whole = client().chat.completions.create(model=MODEL, messages=user("[[sim tokens=20]]"))
    chunks = stream("[[sim tokens=20]]", stream_options={"include_usage": True})
    equal(text_of(chunks), whole.choices[0].message.content, "text")
    equal(chunks[-1].usage.prompt_tokens, whole.usage.prompt_tokens, "prompt_tokens")
    equal(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens, "completion_tokens")


@case("stream no usage unasked")
def stream_no_usage() -> None:
    check_stream(stream(stream_options={"include_usage": False}))


@case("stream n", "parameters")
def stream_n() -> None:
    chunks = stream(n=2, stream_options={"include_usage": True})
    check_stream(chunks, choices=2, usage=True)
    check(text_of(chunks, 0) and text_of(chunks, 1), "a choice is empty")


@case("stream max tokens")
def stream_length() -> None:
    chunks = stream("[[sim tokens=50]] Count to a thousand.", max_tokens=16)
    check_stream(chunks)
    equal(chunks[-1].choices[0].finish_reason, "length", "finish_reason")


@case("stream tools")
def stream_tools() -> None:
    chunks = stream(CALL_WEATHER, tools=[WEATHER], stream_options={"include_usage": True})
    check_stream(chunks, usage=True)
    choices = [choice for chunk in chunks for choice in chunk.choices]
    equal(choices[-1].finish_reason, "tool_calls", "finish_reason")
    deltas = [delta for choice in choices for delta in choice.delta.tool_calls or []]
    equal({delta.index for delta in deltas}, {0}, "indexes")
    first, rest = deltas[0], deltas[1:]
    check(first.id and first.type == "function", "the first delta lacks id or type")
    equal(first.function.name, "weather", "name")
    check(all(delta.id is None and delta.function.name is None for delta in rest), "id or name again")
    arguments = "".join(delta.function.arguments or "" for delta in deltas)
    equal(json.loads(arguments), ARGUMENTS, "arguments")


@case("stream structured")
def stream_structured() -> None:
    helper = client().chat.completions.stream(model=MODEL, messages=user("A thing."), response_format=Thing)
    with helper as events:
        kinds = [event.type for event in events]
        completion = events.get_final_completion()
    check("content.delta" in kinds and "content.done" in kinds, f"events {sorted(set(kinds))}")
    check(isinstance(completion.choices[0].message.parsed, Thing), "nothing was parsed")


@case("stream helper with tools")
def stream_helper_tools() -> None:
    strict = WEATHER | {"function": WEATHER["function"] | {"strict": True}}
    helper = client().chat.completions.stream(model=MODEL, messages=user(CALL_WEATHER), tools=[strict])
    with helper as events:
        kinds = [event.type for event in events]
        completion = events.get_final_completion()
    check("tool_calls.function.arguments.done" in kinds, f"events {sorted(set(kinds))}")
    equal(completion.choices[0].message.tool_calls[0].function.parsed_arguments, ARGUMENTS, "arguments")


@case("stream refusal and reasoning", "simulator")
def stream_refusal() -> None:
    deltas = [choice.delta for chunk in stream("[[sim refuse]]") for choice in chunk.choices]
    check("".join(delta.refusal or "" for delta in deltas), "there is no refusal")
    check(not any(delta.content for delta in deltas), "there is content")
    deltas = [choice.delta for chunk in stream("[[sim tokens=5 reason=8]]") for choice in chunk.choices]
    thoughts = [
        delta.model_extra["reasoning_content"] for delta in deltas if delta.model_extra.get("reasoning_content")
    ]
    check(thoughts, "there is no reasoning_content")


@case("stream bytes")
def stream_bytes() -> None:
    create = client().chat.completions.with_streaming_response.create
    with create(model=MODEL, messages=user("Hi."), stream=True) as response:
        check(response.headers["content-type"].startswith("text/event-stream"), response.headers["content-type"])
        check(response.headers.get("x-request-id"), "there is no x-request-id")
        body = b"".join(response.iter_bytes())
    check(body.endswith(b"data: [DONE]\n\n"), f"the end is {body[-40:]!r}")
    check(b"\r" not in body, "there are carriage returns")
    lines = [line for line in body.split(b"\n") if line and not line.startswith(b":")]
    check(all(line.startswith(b"data: ") for line in lines), "a line that is no data line")
