"""Completions of plain prompts (the legacy API)."""

from __future__ import annotations

import json

import openai

from client import client
from harness import BROKEN_STREAM, MODEL, case, check, equal, raises

PATH = "/v1/completions"


def ask(prompt="Say something short.", **members):
    return client().completions.create(**({"model": MODEL, "prompt": prompt} | members))


@case("completions", PATH)
def text() -> None:
    completion = ask()
    equal((completion.object, completion.model), ("text_completion", MODEL), "object and model")
    equal([choice.index for choice in completion.choices], [0], "indexes")
    check(completion.choices[0].text and completion.choices[0].finish_reason == "stop", "text and finish_reason")
    usage = completion.usage
    equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens, "total_tokens")


@case("completions several", PATH, "parameters")
def several() -> None:
    completion = ask(n=2)
    equal([choice.index for choice in completion.choices], [0, 1], "indexes")
    check(all(choice.text for choice in completion.choices), "a text is empty")


@case("completions stream", PATH)
def stream() -> None:
    chunks = list(ask(stream=True, stream_options={"include_usage": True}))
    pieces = [choice.text for chunk in chunks for choice in chunk.choices]
    check("".join(pieces), "there is no text")
    equal((chunks[-1].choices, chunks[-1].usage.prompt_tokens > 0), ([], True), "the usage chunk")
    equal({chunk.id for chunk in chunks}, {chunks[0].id}, "ids")


@case("completions structured", PATH, "parameters")
def structured() -> None:
    completion = ask("A JSON object.", max_tokens=500, extra_body={"response_format": {"type": "json_object"}})
    check(isinstance(json.loads(completion.choices[0].text), dict), "the text is no object")


@case("completions errors", PATH, "simulator", "gateway")
def errors() -> None:
    equal(raises(openai.NotFoundError, lambda: ask(model="nobody/knows-this")).code, "model_not_found", "code")
    error = raises(openai.BadRequestError, lambda: ask(temperature=9))
    equal((error.code, error.param), ("invalid_parameter", "temperature"), "code and param")
    raises(openai.RateLimitError, lambda: ask("[[sim error=rate_limit_exceeded]]"))
    raises(openai.APIError, lambda: list(ask(BROKEN_STREAM, stream=True)))
