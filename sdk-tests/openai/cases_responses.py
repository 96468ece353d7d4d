"""Responses: create, stream, store and continue."""

from __future__ import annotations

import json

import openai

from cases_chat import ARGUMENTS, CALL_WEATHER, Thing
from client import client, user
from harness import BROKE_KEY, BROKEN_STREAM, LIMITED_KEY, MODEL, PNG, case, check, equal, raises

PATH = "/v1/responses"
KEPT = "/v1/responses/{}"
WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


def ask(given="Say something short.", settings=None, **members):
    return client(**settings or {}).responses.create(**({"model": MODEL, "input": given} | members))


def calls_of(response) -> list:
    return [item for item in response.output if item.type == "function_call"]


def check_usage(usage) -> None:
    check(usage.input_tokens > 0 and usage.output_tokens > 0, f"usage is {usage}")
    equal(usage.total_tokens, usage.input_tokens + usage.output_tokens, "total_tokens")
    check(usage.input_tokens_details.cached_tokens >= 0, "cached_tokens")
    check(usage.output_tokens_details.reasoning_tokens >= 0, "reasoning_tokens")


@case("responses", PATH)
def text() -> None:
    response = ask()
    equal((response.object, response.status, response.model), ("response", "completed", MODEL), "response")
    check(response.id.startswith("resp_"), f"id is {response.id}")
    check(response.created_at > 1_000_000_000, f"created_at is {response.created_at}")
    equal([item.type for item in response.output], ["message"], "output")
    equal((response.output[0].role, response.output[0].status), ("assistant", "completed"), "message")
    check(response.output_text, "there is no output_text")
    equal((response.error, response.incomplete_details, response.previous_response_id), (None, None, None), "nulls")
    check_usage(response.usage)


@case("responses input", PATH, "simulator")
def several_inputs() -> None:
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "low"}
    items = [
        {"role": "developer", "content": "Be brief."},
        *user("Hi."),
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": [{"type": "input_text", "text": "What is it?"}, image]},
    ]
    response = ask(items, instructions="Answer.", temperature=0.5, metadata={"a": "b"})
    equal(response.output_text, "What is it?", "output_text")
    equal((response.instructions, response.temperature, response.metadata), ("Answer.", 0.5, {"a": "b"}), "settings")


@case("responses cost", PATH, "gateway")
def cost() -> None:
    raw = client().responses.with_raw_response.create(model=MODEL, input="Hi.")
    equal(raw.parse().usage.model_extra["cost"], raw.headers["x-tollgate-cost"], "usage.cost")
    check(raw.headers.get("x-request-id"), "there is no x-request-id")


@case("responses stream", PATH)
def stream() -> None:
    events = list(ask(stream=True))
    kinds = [event.type for event in events]
    equal([event.sequence_number for event in events], list(range(len(events))), "sequence numbers")
    equal(
        kinds[:4],
        ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"],
        "first events",
    )
    equal(
        kinds[-4:],
        ["response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"],
        "last events",
    )
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    check(len(deltas) >= 3, f"only {len(deltas)} pieces")
    final = events[-1].response
    equal("".join(deltas), final.output_text, "text")
    equal({event.response.id for event in (events[0], events[1], events[-1])}, {final.id}, "ids")
    check_usage(final.usage)


@case("responses stream helper with tools", PATH)
def stream_helper() -> None:
    with client().responses.stream(model=MODEL, input=CALL_WEATHER, tools=[WEATHER]) as events:
        kinds = [event.type for event in events]
        final = events.get_final_response()
    check("response.function_call_arguments.delta" in kinds, f"events are {sorted(set(kinds))}")
    equal(json.loads(calls_of(final)[0].arguments), ARGUMENTS, "arguments")


@case("responses tools in parallel, the whole loop", PATH, "scripted")
def tools() -> None:
    prompt = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]'
    first = ask(prompt, tools=[WEATHER])
    calls = calls_of(first)
    cities = [json.loads(call.arguments)["city"] for call in calls]
    equal(([call.name for call in calls], cities), (["weather", "weather"], ["Paris", "Oslo"]), "calls")
    check(calls[0].call_id != calls[1].call_id, "two calls have one id")
    results = [
        {"type": "function_call_output", "call_id": call.call_id, "output": f"rain in {city}"}
        for call, city in zip(calls, cities)
    ]
    said = [item.model_dump(exclude_none=True) for item in first.output]
    equal(ask([*user(prompt), *said, *results], tools=[WEATHER], store=False).output_text, "rain in Oslo", "answer")


@case("responses continued by tools", KEPT, "scripted")
def continued() -> None:
    first = ask(CALL_WEATHER, tools=[WEATHER])
    result = {"type": "function_call_output", "call_id": calls_of(first)[0].call_id, "output": "rain"}
    second = ask([result], tools=[WEATHER], previous_response_id=first.id)
    equal((second.output_text, second.previous_response_id), ("rain", first.id), "answer")
    third = ask("And now?", previous_response_id=second.id)
    alone = ask("And now?")
    check(third.usage.input_tokens > alone.usage.input_tokens + 2, "the third call did not see the others")


@case("responses structured", PATH)
def structured() -> None:
    parsed = client().responses.parse(model=MODEL, input="A thing.", text_format=Thing)
    check(isinstance(parsed.output_parsed, Thing), "nothing was parsed")
    with client().responses.stream(model=MODEL, input="A thing.", text_format=Thing) as events:
        for _ in events:
            pass
        check(isinstance(events.get_final_response().output_parsed, Thing), "nothing was parsed of the stream")


@case("responses reasoning, refusal, length", PATH, "simulator")
def endings() -> None:
    response = ask("[[sim tokens=5 reason=8]]", reasoning={"effort": "low", "summary": "auto"})
    equal([item.type for item in response.output], ["reasoning", "message"], "output")
    equal(response.usage.output_tokens_details.reasoning_tokens, 8, "reasoning_tokens")
    equal(response.usage.output_tokens, 13, "output_tokens")
    equal(ask("[[sim refuse]]").output[0].content[0].type, "refusal", "part")
    response = ask("[[sim tokens=50]]", max_output_tokens=16)
    equal((response.status, response.incomplete_details.reason), ("incomplete", "max_output_tokens"), "ending")
    equal(response.usage.output_tokens, 16, "output_tokens")


@case("responses kept", KEPT)
def kept() -> None:
    calls = client()
    first = ask("My name is Ann.")
    again = calls.responses.retrieve(first.id)
    equal((again.id, again.output_text, again.usage), (first.id, first.output_text, first.usage), "kept response")
    items = list(calls.responses.input_items.list(first.id))
    equal([(item.role, item.content[0].text) for item in items], [("user", "My name is Ann.")], "input items")
    second = ask("Who am I?", previous_response_id=first.id)
    check(second.usage.input_tokens > first.usage.input_tokens, "the second call did not see the first")
    calls.responses.delete(first.id)
    for call in (
        lambda: calls.responses.retrieve(first.id),
        lambda: calls.responses.input_items.list(first.id),
        lambda: ask("And now?", previous_response_id=first.id),
        lambda: calls.responses.retrieve(ask(store=False).id),
    ):
        equal(raises(openai.APIStatusError, call).status_code in (400, 404), True, "status is 400 or 404")


@case("responses in the background, followed and gone on with", KEPT)
def background() -> None:
    calls = client()
    seen = []
    with calls.responses.create(model=MODEL, input="Say something short.", background=True, stream=True) as events:
        for event in events:
            seen.append(event)
            if event.type == "response.output_text.delta":
                break
    equal([event.type for event in seen[:3]], ["response.created", "response.queued", "response.in_progress"], "first events")
    response = seen[0].response
    equal((response.status, response.background), ("queued", True), "response")
    last = seen[-1].sequence_number
    rest = list(calls.responses.retrieve(response.id, stream=True, starting_after=last))
    numbers = [event.sequence_number for event in seen + rest]
    equal(numbers, list(range(len(numbers))), "sequence numbers")
    equal(rest[-1].type, "response.completed", "last event")
    deltas = [event.delta for event in seen + rest if event.type == "response.output_text.delta"]
    equal("".join(deltas), rest[-1].response.output_text, "text")
    again = list(calls.responses.retrieve(response.id, stream=True))
    equal([event.to_dict() for event in again], [event.to_dict() for event in seen + rest], "the events again")
    kept = calls.responses.retrieve(response.id)
    equal((kept.status, kept.output_text), ("completed", rest[-1].response.output_text), "kept response")
    with calls.responses.stream(response_id=response.id, starting_after=last) as events:
        final = events.get_final_response()
    equal(final.output_text, kept.output_text, "the helper's response")
    check_usage(final.usage)


@case("responses input tokens", "/v1/responses/input_tokens", "scripted")
def input_tokens() -> None:
    short, long = (client().responses.input_tokens.count(model=MODEL, input="one " * words) for words in (3, 300))
    equal(short.object, "response.input_tokens", "object")
    check(3 <= short.input_tokens < long.input_tokens, f"{short.input_tokens} and {long.input_tokens} tokens")


@case("responses errors", PATH, "simulator", "gateway", "BROKE_KEY", "LIMITED_KEY")
def errors() -> None:
    for streamed in ({}, {"stream": True}):
        for kind, code, call in [
            (
                openai.AuthenticationError,
                "invalid_api_key",
                lambda: ask(settings={"api_key": "sk-service-x"}, **streamed),
            ),
            (openai.NotFoundError, "model_not_found", lambda: ask(model="nobody/knows-this", **streamed)),
            (openai.BadRequestError, "invalid_parameter", lambda: ask(temperature=9, **streamed)),
            (openai.BadRequestError, "unknown_parameter", lambda: ask(extra_body={"no_such_field": 1}, **streamed)),
            (openai.APIStatusError, "insufficient_credits", lambda: ask(settings={"api_key": BROKE_KEY}, **streamed)),
            (
                openai.RateLimitError,
                "rate_limit_exceeded",
                lambda: ask("[[sim error=rate_limit_exceeded]]", **streamed),
            ),
            (openai.InternalServerError, "overloaded", lambda: ask("[[sim error=overloaded]]", **streamed)),
        ]:
            error = raises(kind, call)
            equal(error.code, code, "code")
            check(error.request_id, "there is no request id")
    raises(openai.RateLimitError, lambda: [ask(settings={"api_key": LIMITED_KEY}) for _ in range(3)])


@case("responses error in a stream", PATH, "scripted")
def error_in_stream() -> None:
    seen = []

    def read() -> None:
        for event in ask(BROKEN_STREAM, stream=True):
            seen.append(event.type)

    error = raises(openai.APIError, read)
    check("response.output_text.delta" in seen, "no content came before the error")
    check("response.completed" not in seen, "the response was completed")
    check(error.code, f"code {error.code!r}")
