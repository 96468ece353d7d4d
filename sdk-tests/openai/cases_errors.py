"""Errors: each has the expected class and code, so that programs can handle it."""

from __future__ import annotations

import openai

from client import client, user
from harness import BROKE_KEY, BROKEN_STREAM, KEY, LIMITED_KEY, MODEL, case, check, equal, raises

# Error codes for the simulator, with the expected status and class.
CONTRACT = [
    ("invalid_json", 400, openai.BadRequestError),
    ("missing_required_parameter", 400, openai.BadRequestError),
    ("invalid_parameter", 400, openai.BadRequestError),
    ("unsupported_parameter", 400, openai.BadRequestError),
    ("content_policy_violation", 400, openai.BadRequestError),
    ("context_length_exceeded", 400, openai.BadRequestError),
    ("invalid_api_key", 401, openai.AuthenticationError),
    ("insufficient_credits", 402, openai.APIStatusError),
    ("permission_denied", 403, openai.PermissionDeniedError),
    ("model_not_found", 404, openai.NotFoundError),
    ("conflict", 409, openai.ConflictError),
    ("parameter_out_of_range", 422, openai.UnprocessableEntityError),
    ("rate_limit_exceeded", 429, openai.RateLimitError),
    ("internal_error", 500, openai.InternalServerError),
    ("upstream_error", 502, openai.InternalServerError),
    ("model_unavailable", 503, openai.InternalServerError),
    ("overloaded", 503, openai.InternalServerError),
    ("upstream_timeout", 504, openai.InternalServerError),
]


def ask(text: str = "Hi.", key: str = KEY, **parameters):
    return client(api_key=key).chat.completions.create(**({"model": MODEL, "messages": user(text)} | parameters))


def check_error(error, status: int, code: str, param: str | None = None) -> None:
    equal((error.status_code, error.code, error.param), (status, code, param), "status, code, param")
    check(error.request_id, "there is no request id")
    check(isinstance(error.type, str) and error.message, "type and message")


@case("error wrong key", "gateway")
def wrong_key() -> None:
    for key in ("sk-service-wrong", "nonsense"):
        check_error(raises(openai.AuthenticationError, lambda: ask(key=key)), 401, "invalid_api_key")
    raises(openai.AuthenticationError, lambda: client(api_key="sk-service-wrong").models.list())


@case("error unknown model", "gateway")
def unknown_model() -> None:
    error = raises(openai.NotFoundError, lambda: ask(model="nobody/knows-this"))
    equal((error.status_code, error.code), (404, "model_not_found"), "status and code")
    raises(openai.NotFoundError, lambda: ask(model="nobody/knows-this", stream=True))
    error = raises(openai.NotFoundError, lambda: client().models.retrieve("nobody/knows-this"))
    equal(error.code, "model_not_found", "code")


@case("error parameters", "gateway")
def bad_parameters() -> None:
    cases = [
        ({"temperature": 9}, "invalid_parameter", "temperature"),
        ({"top_p": -1}, "invalid_parameter", "top_p"),
        ({"n": 0}, "invalid_parameter", "n"),
        ({"messages": []}, "invalid_parameter", "messages"),
        ({"extra_body": {"no_such_field": 1}}, "unknown_parameter", "no_such_field"),
    ]
    for parameters, code, param in cases:
        error = raises(openai.BadRequestError, lambda: ask(**parameters))
        check_error(error, 400, code, param)
        error = raises(openai.BadRequestError, lambda: ask(stream=True, **parameters))
        check_error(error, 400, code, param)


@case("error contract codes", "simulator")
def contract_codes() -> None:
    for code, status, kind in CONTRACT:
        for parameters in ({}, {"stream": True}):
            error = raises(kind, lambda: ask(f"[[sim error={code}]]", **parameters))
            equal((error.status_code, error.code), (status, code), "status and code")


@case("error rate limit", "simulator")
def rate_limit() -> None:
    error = raises(openai.RateLimitError, lambda: ask("[[sim error=rate_limit_exceeded]]"))
    equal((error.status_code, error.code), (429, "rate_limit_exceeded"), "status and code")


@case("error rate limit of an account", "LIMITED_KEY")
def rate_limit_of_account() -> None:
    def ask_often() -> None:
        # The account's limit is two requests a minute.
        for _ in range(3):
            ask(key=LIMITED_KEY)

    error = raises(openai.RateLimitError, ask_often)
    check_error(error, 429, "rate_limit_exceeded")
    check(int(error.response.headers["retry-after"]) >= 1, "retry-after")
    check(int(error.response.headers["retry-after-ms"]) >= 1, "retry-after-ms")
    equal(error.response.headers["x-ratelimit-remaining-requests"], "0", "x-ratelimit-remaining-requests")


@case("error no credits", "BROKE_KEY")
def no_credits() -> None:
    for parameters in ({}, {"stream": True}):
        error = raises(openai.APIStatusError, lambda: ask(key=BROKE_KEY, **parameters))
        check_error(error, 402, "insufficient_credits")
        equal(error.response.headers.get("x-should-retry"), "false", "x-should-retry")


@case("error in a stream", "scripted")
def error_in_stream() -> None:
    seen = []

    def read() -> None:
        for chunk in ask(BROKEN_STREAM, stream=True):
            seen.append(chunk)

    error = raises(openai.APIError, read)
    check(any(chunk.choices and chunk.choices[0].delta.content for chunk in seen), "no content came before the error")
    check(not any(chunk.choices and chunk.choices[0].finish_reason for chunk in seen), "a finish reason came")
    check(error.code and error.type, f"code {error.code!r}, type {error.type!r}")


@case("error names no provider", "scripted")
def no_provider_named() -> None:
    error = raises(openai.InternalServerError, lambda: ask("[[sim error=upstream_error]]"))
    words = ("openai.com", "anthropic", "127.0.0.1", "traceback", "panicked")
    check(not any(word in error.message.lower() for word in words), error.message)
