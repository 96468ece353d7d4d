"""Runs the cases of research with the official Perplexity client. Settings: see
../harness/harness.py."""

from __future__ import annotations

import time

import harness
import perplexity
from harness import BASE_URL, BROKE_KEY, KEY, case, check, equal, raises

MODEL = "sim/research"
PATH = "/v1/async/chat/completions"
QUESTION = "How many passengers did Orsel Lines carry in 2019?"
ANSWER = "912,600"
MESSAGES = [{"role": "user", "content": QUESTION}]


def client(**settings) -> perplexity.Perplexity:
    return perplexity.Perplexity(**({"base_url": BASE_URL, "api_key": KEY, "max_retries": 0, "timeout": 60} | settings))


def request(**members) -> dict:
    return {"model": MODEL, "messages": MESSAGES, "reasoning_effort": "minimal", **members}


def ended(calls: perplexity.Perplexity, created):
    """Polls until the request has ended."""
    end = time.monotonic() + 60
    while created.status in ("CREATED", "IN_PROGRESS") and time.monotonic() < end:
        time.sleep(0.1)
        created = calls.async_.chat.completions.get(created.id)
    return created


@case("asynchronous research", PATH, "simulator")
def asynchronous() -> None:
    calls = client()
    created = calls.async_.chat.completions.create(request=request())
    check(created.status in ("CREATED", "IN_PROGRESS"), f"status is {created.status}")
    check(created.created_at > 1_000_000_000, f"created_at is {created.created_at}")
    done = ended(calls, created)
    equal((done.id, done.status, done.error_message), (created.id, "COMPLETED", None), "record")
    check(done.completed_at >= done.started_at >= done.created_at, f"the times of {done}")
    response = done.response
    check(ANSWER in response.choices[0].message.content, "the report has no answer")
    check(response.citations and response.search_results, "there are no sources")
    result = response.search_results[0]
    check(result.title and result.url and result.source, f"search result {result}")
    usage = response.usage
    check(usage.num_search_queries > 0 and usage.total_tokens > 0, f"usage is {usage}")
    cost = usage.cost
    parts = (cost.input_tokens_cost, cost.output_tokens_cost, cost.reasoning_tokens_cost, cost.search_queries_cost)
    check(cost.total_cost > 0 and abs(sum(parts) - cost.total_cost) < 1e-7, f"cost is {cost}")


@case("asynchronous research, listed", PATH, "simulator")
def listed() -> None:
    calls = client()
    created = calls.async_.chat.completions.create(request=request())
    page = calls.async_.chat.completions.list()
    equal(page.requests[0].id, created.id, "the newest request")
    equal(page.requests[0].model, MODEL, "model")
    ended(calls, created)


@case("asynchronous research, repeated", PATH, "simulator")
def repeated() -> None:
    calls = client()
    key = f"key-{time.time_ns()}"
    first = calls.async_.chat.completions.create(request=request(), idempotency_key=key)
    second = calls.async_.chat.completions.create(request=request(), idempotency_key=key)
    equal(second.id, first.id, "id")
    ended(calls, first)


@case("asynchronous research, failed", PATH, "simulator", "scripted")
def failed() -> None:
    calls = client()
    messages = [{"role": "user", "content": "[[sim error=upstream_error]] What is new?"}]
    done = ended(calls, calls.async_.chat.completions.create(request=request(messages=messages)))
    equal((done.status, done.response), ("FAILED", None), "record")
    check(done.error_message and done.failed_at, f"{done}")


@case("research as a chat completion", PATH, "simulator")
def whole() -> None:
    completion = client().chat.completions.create(**request())
    check(ANSWER in completion.choices[0].message.content, "the report has no answer")
    check(completion.citations and completion.search_results, "there are no sources")
    check(completion.usage.num_search_queries > 0, f"usage is {completion.usage}")


@case("research as a streamed chat completion", PATH, "simulator")
def streamed() -> None:
    chunks = list(client().chat.completions.create(**request(stream=True)))
    kinds = [chunk.type for chunk in chunks if chunk.type]
    equal((kinds[0], kinds[-1]), ("info", "end_of_stream"), "types")
    found = [result for chunk in chunks if chunk.type == "info" for result in chunk.search_results or []]
    check(found and found[0].url, "there are no search results")
    report = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.type == "message")
    check(ANSWER in report, f"the report is {report}")
    last = chunks[-1]
    equal((last.status, last.choices[0].finish_reason), ("COMPLETED", "stop"), "last chunk")
    check(last.citations and last.usage.num_search_queries > 0, f"the last chunk is {last}")


@case("errors", PATH, "gateway", "BROKE_KEY")
def errors() -> None:
    refused = raises(
        perplexity.BadRequestError,
        lambda: client().async_.chat.completions.create(request=request(model="sim/chat")),
    )
    equal(refused.status_code, 400, "status")
    raises(
        perplexity.NotFoundError,
        lambda: client().async_.chat.completions.get("job_00000000000000000000000000000000"),
    )
    broke = raises(
        perplexity.APIStatusError,
        lambda: client(api_key=BROKE_KEY).async_.chat.completions.create(request=request()),
    )
    equal(broke.status_code, 402, "status")


if __name__ == "__main__":
    harness.main("perplexity-python", perplexity.__version__)
