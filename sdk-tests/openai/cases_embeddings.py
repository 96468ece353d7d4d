"""Embeddings. By default, the client requests base64 and decodes it."""

from __future__ import annotations

import base64
import math
import struct

import openai

from client import client
from harness import MODEL, VECTORS, case, check, equal, raises


def check_list(answer, count: int, dimensions: int) -> None:
    equal(answer.object, "list", "object")
    equal(answer.model, VECTORS, "model")
    equal([item.index for item in answer.data], list(range(count)), "indexes")
    for item in answer.data:
        equal(item.object, "embedding", "object of an item")
        equal(len(item.embedding), dimensions, "dimensions")
        length = math.sqrt(sum(value * value for value in item.embedding))
        check(abs(length - 1) < 1e-4, f"a vector of length {length}")
    check(answer.usage.prompt_tokens > 0, "prompt_tokens")
    equal(answer.usage.total_tokens, answer.usage.prompt_tokens, "total_tokens")


@case("embeddings", "simulator", "gateway")
def embeddings() -> None:
    check_list(client().embeddings.create(model=VECTORS, input="Hello"), 1, 1536)


@case("embeddings inputs", "simulator", "gateway")
def embeddings_inputs() -> None:
    for given, count in [(["a", "b", "ä 🌍"], 3), ([1, 2, 3], 1), ([[1, 2], [3]], 2), (["x"] * 2048, 2048)]:
        check_list(client().embeddings.create(model=VECTORS, input=given, dimensions=8), count, 8)


@case("embeddings encodings", "simulator", "gateway")
def embeddings_encodings() -> None:
    def ask(encoding):
        return client().embeddings.create(model=VECTORS, input="Hello", dimensions=16, encoding_format=encoding)

    usual = client().embeddings.create(model=VECTORS, input="Hello", dimensions=16).data[0].embedding
    packed = base64.b64decode(ask("base64").data[0].embedding)
    equal(list(struct.unpack("<16f", packed)), [struct.unpack("<f", struct.pack("<f", v))[0] for v in usual], "base64")
    plain = [struct.unpack("<f", struct.pack("<f", value))[0] for value in ask("float").data[0].embedding]
    equal(list(struct.unpack("<16f", packed)), plain, "float")


@case("embeddings cost", "simulator", "gateway")
def embeddings_cost() -> None:
    raw = client().embeddings.with_raw_response.create(model=VECTORS, input=["one two", "three"])
    usage = raw.parse().usage
    equal(usage.prompt_tokens, 3, "prompt_tokens")
    equal(usage.model_extra["cost"], raw.headers["x-tollgate-cost"], "usage.cost")
    equal(usage.model_extra["cost"], "0.00000006", "cost")


@case("embeddings errors", "simulator", "gateway")
def embeddings_errors() -> None:
    def failing(code: str, kind: type[openai.APIStatusError], param, **request) -> None:
        error = raises(kind, lambda: client().embeddings.create(**({"model": VECTORS, "input": "a"} | request)))
        equal((error.code, error.param), (code, param), f"{request}"[:80])

    failing("invalid_parameter", openai.BadRequestError, "input", input="")
    failing("invalid_parameter", openai.BadRequestError, "input", input=["x"] * 2049)
    failing("invalid_parameter", openai.BadRequestError, "input[1]", input=["a", ""])
    failing("parameter_out_of_range", openai.UnprocessableEntityError, "dimensions", dimensions=1537)
    failing("unsupported_endpoint", openai.BadRequestError, "model", model=MODEL)
    failing("model_not_found", openai.NotFoundError, "model", model="sim/none")
    failing("rate_limit_exceeded", openai.RateLimitError, None, input="[[sim error=rate_limit_exceeded]]")
    failing("overloaded", openai.InternalServerError, None, input="[[sim error=overloaded]]")
