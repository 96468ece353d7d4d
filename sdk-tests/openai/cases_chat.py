"""Models, and chat completions without streaming."""

from __future__ import annotations

import json
from enum import Enum
from typing import List, Optional

import openai
from pydantic import BaseModel

from client import client, user
from harness import MODEL, PNG, case, check, equal, raises

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
CALL_WEATHER = '[[sim tool=weather:{"city":"Paris","days":[1,2]}]]'
ARGUMENTS = {"city": "Paris", "days": [1, 2]}


class Kind(str, Enum):
    small = "small"
    large = "large"


class Part(BaseModel):
    name: str
    weight: float


class Thing(BaseModel):
    title: str
    kind: Kind
    count: int
    fresh: bool
    note: Optional[str]
    parts: List[Part]


def check_usage(usage) -> None:
    check(usage is not None, "there is no usage")
    check(usage.prompt_tokens > 0, f"prompt_tokens is {usage.prompt_tokens}")
    check(usage.completion_tokens > 0, f"completion_tokens is {usage.completion_tokens}")
    equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens, "total_tokens")


@case("models list")
def models_list() -> None:
    models = list(client().models.list())
    found = [model for model in models if model.id == MODEL]
    equal(len(found), 1, f"models named {MODEL}")
    equal(found[0].object, "model", "object")
    check(isinstance(found[0].created, int) and found[0].owned_by, "created and owned_by")


@case("models retrieve")
def models_retrieve() -> None:
    equal(client().models.retrieve(MODEL).id, MODEL, "id")


@case("models retrieve raw slash")
def models_retrieve_raw() -> None:
    # The SDK sends `/` as %2F; curl and other clients send it unescaped.
    record = client().get(f"/models/{MODEL}", cast_to=object)
    equal(record["id"], MODEL, "id")


@case("chat")
def chat() -> None:
    completion = client().chat.completions.create(model=MODEL, messages=user("Say something short."))
    check(completion.id, "there is no id")
    equal(completion.object, "chat.completion", "object")
    equal(completion.model, MODEL, "model")
    check(completion.created > 1_000_000_000, f"created is {completion.created}")
    equal(len(completion.choices), 1, "choices")
    choice = completion.choices[0]
    equal((choice.index, choice.message.role, choice.finish_reason), (0, "assistant", "stop"), "choice")
    check(choice.message.content, "there is no content")
    check_usage(completion.usage)


@case("chat roles and parts")
def chat_roles() -> None:
    completion = client().chat.completions.create(
        model=MODEL,
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Hëllo "}, {"type": "text", "text": "wörld 🌍"}]},
            {"role": "assistant", "content": "Yes?"},
            {"role": "user", "name": "ann", "content": "Go on."},
        ],
    )
    check(completion.choices[0].message.content, "there is no content")


@case("chat parameters", "parameters")
def chat_parameters() -> None:
    completion = client().chat.completions.create(
        model=MODEL,
        messages=user("Say something short."),
        temperature=0.5,
        top_p=0.9,
        frequency_penalty=0.1,
        presence_penalty=-0.1,
        seed=7,
        user="user-1",
        metadata={"a": "b"},
        store=False,
        service_tier="auto",
    )
    check(completion.choices[0].message.content, "there is no content")


@case("chat long prompt")
def chat_long_prompt() -> None:
    completion = client().chat.completions.create(
        model=MODEL, messages=user("word " * 20_000 + "Say ok."), max_tokens=16
    )
    check(completion.usage.prompt_tokens > 5_000, f"prompt_tokens is {completion.usage.prompt_tokens}")


@case("request id")
def request_id() -> None:
    raw = client().chat.completions.with_raw_response.create(model=MODEL, messages=user("Hi."))
    check(raw.headers.get("x-request-id"), "there is no x-request-id")
    completion = raw.parse()
    equal(completion._request_id, raw.headers["x-request-id"], "_request_id")
    again = client().chat.completions.with_raw_response.create(model=MODEL, messages=user("Hi."))
    check(again.headers["x-request-id"] != raw.headers["x-request-id"], "two requests have one id")


@case("gateway headers", "gateway")
def gateway_headers() -> None:
    raw = client().chat.completions.with_raw_response.create(model=MODEL, messages=user("Hi."))
    for name in ("requests", "tokens"):
        limit = int(raw.headers[f"x-ratelimit-limit-{name}"])
        remaining = int(raw.headers[f"x-ratelimit-remaining-{name}"])
        check(0 <= remaining <= limit, f"{name}: {remaining} of {limit} remain")
        check(raw.headers.get(f"x-ratelimit-reset-{name}"), f"there is no x-ratelimit-reset-{name}")
    check(float(raw.headers["x-tollgate-cost"]) >= 0, "x-tollgate-cost")
    cost = raw.parse().usage.model_extra["cost"]
    equal(cost, raw.headers["x-tollgate-cost"], "usage.cost")


@case("tools")
def tools() -> None:
    completion = client().chat.completions.create(
        model=MODEL, messages=user(CALL_WEATHER), tools=[WEATHER], tool_choice="auto"
    )
    choice = completion.choices[0]
    equal(choice.finish_reason, "tool_calls", "finish_reason")
    equal(len(choice.message.tool_calls), 1, "tool calls")
    call = choice.message.tool_calls[0]
    equal((call.type, call.function.name), ("function", "weather"), "call")
    check(call.id, "the call has no id")
    equal(json.loads(call.function.arguments), ARGUMENTS, "arguments")
    check_usage(completion.usage)


@case("tools round trip")
def tools_round_trip() -> None:
    first = client().chat.completions.create(model=MODEL, messages=user(CALL_WEATHER), tools=[WEATHER])
    message = first.choices[0].message
    messages = [
        *user(CALL_WEATHER),
        message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": '{"sky":"clear"}'},
        *user("So?"),
    ]
    second = client().chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER])
    equal(second.choices[0].finish_reason, "stop", "finish_reason")
    check(second.choices[0].message.content, "there is no content")


@case("tools in parallel, the whole loop", "scripted", "gateway")
def tools_in_parallel() -> None:
    prompt = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]'
    message = client().chat.completions.create(model=MODEL, messages=user(prompt), tools=[WEATHER]).choices[0].message
    cities = [json.loads(call.function.arguments)["city"] for call in message.tool_calls]
    equal(cities, ["Paris", "Oslo"], "cities")
    check(message.tool_calls[0].id != message.tool_calls[1].id, "two calls have one id")
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": f"rain in {city}"}
        for call, city in zip(message.tool_calls, cities)
    ]
    answer = client().chat.completions.create(model=MODEL, messages=[*user(prompt), message, *results], tools=[WEATHER])
    equal(answer.choices[0].finish_reason, "stop", "finish_reason")
    equal(answer.choices[0].message.content, "rain in Oslo", "the echo of the last result")


@case("tools one at a time", "simulator")
def tools_one_at_a_time() -> None:
    prompt = '[[sim tool=weather:{"city":"Paris"} tool=weather:{"city":"Oslo"}]]'
    single = client().chat.completions.create(
        model=MODEL, messages=user(prompt), tools=[WEATHER], parallel_tool_calls=False
    )
    equal(len(single.choices[0].message.tool_calls), 1, "calls that are not parallel")


@case("image", "scripted", "gateway")
def image() -> None:
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
    ]
    completion = client().chat.completions.create(model=MODEL, messages=[{"role": "user", "content": parts}])
    equal(completion.choices[0].message.content, "What is it?", "content")
    check(completion.usage.prompt_tokens >= 3, f"prompt_tokens is {completion.usage.prompt_tokens}")


@case("structured parse")
def structured_parse() -> None:
    completion = client().chat.completions.parse(model=MODEL, messages=user("A thing."), response_format=Thing)
    check(isinstance(completion.choices[0].message.parsed, Thing), "nothing was parsed")


@case("structured json_schema")
def structured_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string"}, "sure": {"type": "boolean"}},
        "required": ["answer", "sure"],
        "additionalProperties": False,
    }
    completion = client().chat.completions.create(
        model=MODEL,
        messages=user("Answer."),
        response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}},
    )
    document = json.loads(completion.choices[0].message.content)
    equal(sorted(document), ["answer", "sure"], "members")
    equal((type(document["answer"]), type(document["sure"])), (str, bool), "types")


@case("structured json_object", "parameters")
def structured_object() -> None:
    completion = client().chat.completions.create(
        model=MODEL, messages=user("Answer with a JSON object."), response_format={"type": "json_object"}
    )
    check(isinstance(json.loads(completion.choices[0].message.content), dict), "the content is no object")


@case("n", "parameters")
def several_choices() -> None:
    one = client().chat.completions.create(model=MODEL, messages=user("Say something short."))
    two = client().chat.completions.create(model=MODEL, messages=user("Say something short."), n=2)
    equal([choice.index for choice in two.choices], [0, 1], "indexes")
    check(all(choice.message.content and choice.finish_reason for choice in two.choices), "a choice is empty")
    equal(two.usage.prompt_tokens, one.usage.prompt_tokens, "prompt_tokens of n=2")
    check(two.usage.completion_tokens > one.usage.completion_tokens, "completion_tokens of n=2")


@case("stop", "scripted", "parameters")
def stop() -> None:
    whole = client().chat.completions.create(model=MODEL, messages=user("one STOPHERE two"))
    check("STOPHERE" in whole.choices[0].message.content, "the echo lacks the word")
    for stops in ("STOPHERE", ["never", "STOPHERE"]):
        cut = client().chat.completions.create(model=MODEL, messages=user("one STOPHERE two"), stop=stops)
        check("STOPHERE" not in cut.choices[0].message.content, "the stop sequence is in the content")
        equal(cut.choices[0].finish_reason, "stop", "finish_reason")


@case("max tokens")
def max_tokens() -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        completion = client().chat.completions.create(
            model=MODEL, messages=user("[[sim tokens=50]] Count to a thousand."), **{name: 16}
        )
        equal(completion.choices[0].finish_reason, "length", f"finish_reason of {name}")
        check(completion.usage.completion_tokens <= 16, f"{completion.usage.completion_tokens} tokens of {name}=16")


@case("exact usage", "scripted")
def exact_usage() -> None:
    completion = client().chat.completions.create(model=MODEL, messages=user("[[sim tokens=20]]"))
    equal(completion.usage.completion_tokens, 20, "completion_tokens")


@case("logprobs or a clear no", "parameters")
def logprobs() -> None:
    try:
        completion = client().chat.completions.create(model=MODEL, messages=user("Hi."), logprobs=True, top_logprobs=2)
    except openai.BadRequestError as error:
        equal(error.code, "unsupported_parameter", "code")
        check(error.param in ("logprobs", "top_logprobs"), f"param is {error.param}")
        return
    content = completion.choices[0].logprobs.content
    check(content and all(entry.logprob <= 0 and len(entry.top_logprobs) <= 2 for entry in content), "logprobs")
    equal("".join(entry.token for entry in content), completion.choices[0].message.content, "tokens")


@case("refusal", "simulator")
def refusal() -> None:
    message = client().chat.completions.create(model=MODEL, messages=user("[[sim refuse]]")).choices[0].message
    check(message.refusal and not message.content, f"refusal {message.refusal!r}, content {message.content!r}")
    parsed = client().chat.completions.parse(model=MODEL, messages=user("[[sim refuse]]"), response_format=Thing)
    equal(parsed.choices[0].message.parsed, None, "parsed")


@case("reasoning", "scripted", "reasoning")
def reasoning() -> None:
    completion = client().chat.completions.create(model=MODEL, messages=user("[[sim tokens=5 reason=8]]"))
    check(completion.choices[0].message.model_extra.get("reasoning_content"), "there is no reasoning_content")
    equal(completion.usage.completion_tokens_details.reasoning_tokens, 8, "reasoning_tokens")
    equal(completion.usage.completion_tokens, 13, "completion_tokens")


@case("length error of parse", "simulator")
def length_error() -> None:
    raises(
        openai.LengthFinishReasonError,
        lambda: client().chat.completions.parse(
            model=MODEL, messages=user("[[sim tokens=50]]"), response_format=Thing, max_tokens=2
        ),
    )
