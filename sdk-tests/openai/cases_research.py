"""Research: reports as chat completions and as responses."""

from __future__ import annotations

import time

from client import client
from harness import case, check, equal

MODEL = "sim/research"
PATH = "/v1/research"
QUESTION = "How many passengers did Orsel Lines carry in 2019?"
ANSWER = "912,600"


def chat(**members):
    messages = [{"role": "user", "content": QUESTION}]
    return client().chat.completions.create(
        model=MODEL, messages=messages, reasoning_effort="minimal", **members
    )


def ask(**members):
    return client().responses.create(model=MODEL, input=QUESTION, reasoning={"effort": "minimal"}, **members)


def check_response(response) -> None:
    """Checks that the annotations of a report cover its citation marks."""
    equal((response.status, response.error), ("completed", None), "response")
    *searches, message = response.output
    check(searches and message.type == "message", f"output is {response.output}")
    for search in searches:
        equal((search.type, search.status, search.action.type), ("web_search_call", "completed", "search"), "search")
        equal(search.action.queries, [search.action.query], "queries")
        check(search.action.sources and search.action.sources[0].url, "there are no sources")
    report, annotations = response.output_text, message.content[0].annotations
    check(ANSWER in report and annotations, f"the report is {report}")
    for annotation in annotations:
        equal(annotation.type, "url_citation", "type")
        mark = report[annotation.start_index : annotation.end_index]
        check(mark[0] == "[" and mark[-1] == "]" and mark[1:-1].isdigit(), f"{mark} is no mark")
        check(annotation.url and annotation.title, f"{annotation}")
    equal(sum(len(annotation.url) > 0 for annotation in annotations), report.count("["), "marks")
    check(response.usage.output_tokens > 0, f"usage is {response.usage}")


@case("research as a chat completion", PATH, "simulator")
def whole() -> None:
    completion = chat(max_completion_tokens=2000)
    choice = completion.choices[0]
    equal((completion.object, choice.finish_reason), ("chat.completion", "stop"), "completion")
    report = choice.message.content
    check(ANSWER in report, f"the report is {report}")
    for annotation in choice.message.annotations:
        citation = annotation.url_citation
        mark = report[citation.start_index : citation.end_index]
        equal(citation.url, completion.citations[int(mark[1:-1]) - 1], "url")
    check(completion.search_results[0]["title"], "search_results")
    check(completion.usage.completion_tokens > 0, f"usage is {completion.usage}")
    check(completion.usage.num_search_queries > 0, f"usage is {completion.usage}")


@case("research as a streamed chat completion", PATH, "simulator")
def streamed() -> None:
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    *chunks, usage = chunks
    equal(usage.choices, [], "choices of the usage")
    check(usage.usage.completion_tokens > 0, f"usage is {usage.usage}")
    deltas = [chunk.choices[0].delta for chunk in chunks]
    report = "".join(delta.content or "" for delta in deltas)
    steps = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    check("Searched for" in steps and ANSWER in report, f"{steps} {report}")
    last = chunks[-1]
    equal((last.choices[0].finish_reason, last.status), ("stop", "COMPLETED"), "last chunk")
    check(last.citations and last.search_results, f"the last chunk is {last}")


@case("research as a response", PATH, "simulator")
def response() -> None:
    check_response(ask(tools=[{"type": "web_search_preview"}], max_tool_calls=6))


@case("research as a background response", PATH, "simulator")
def background() -> None:
    created = ask(background=True)
    equal(created.background, True, "background")
    end = time.monotonic() + 60
    while created.status in ("queued", "in_progress") and time.monotonic() < end:
        time.sleep(0.1)
        created = client().responses.retrieve(created.id)
    check_response(created)
    events = list(client().responses.retrieve(created.id, stream=True, starting_after=2))
    equal([event.sequence_number for event in events], list(range(3, 3 + len(events))), "sequence numbers")
    equal(events[-1].response, created, "response of the last event")


@case("research as a streamed response", PATH, "simulator")
def streamed_response() -> None:
    with client().responses.stream(model=MODEL, input=QUESTION, reasoning={"effort": "minimal"}) as events:
        kinds = [event.type for event in events]
        check_response(events.get_final_response())
    for kind in ("web_search_call.completed", "output_text.delta", "output_text.annotation.added", "completed"):
        check(f"response.{kind}" in kinds, f"{kind} in {kinds}")


@case("research cancelled", PATH, "simulator", "scripted")
def cancelled() -> None:
    calls = client()
    slow = f"[[sim delay=1000]] {QUESTION}"
    created = calls.responses.create(model=MODEL, input=slow, background=True, reasoning={"effort": "minimal"})
    equal(calls.responses.cancel(created.id).status, "cancelled", "status")
