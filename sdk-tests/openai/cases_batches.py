"""Batches: create from a file, wait for the results, list and cancel."""

from __future__ import annotations

import json
import time

import openai

from client import client
from harness import MODEL, case, check, equal, raises

BATCHES = "/v1/batches"
CHAT = "/v1/chat/completions"


def batch(*texts: str, **more):
    lines = [
        {"custom_id": f"r{number}", "method": "POST", "url": CHAT,
         "body": {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": text}]} | more}
        for number, text in enumerate(texts)
    ]
    content = "\n".join(json.dumps(line) for line in lines).encode()
    file = client().files.create(file=("input.jsonl", content), purpose="batch")
    return client().batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata={"a": "b"})


def ended(batch):
    while batch.status in ("validating", "in_progress", "finalizing", "cancelling"):
        time.sleep(0.2)
        batch = client().batches.retrieve(batch.id)
    return batch


@case("batches", "scripted", "gateway", BATCHES)
def batches() -> None:
    done = ended(batch("hello", "goodbye", "[[sim error=upstream_error]]"))
    equal((done.status, done.object, done.metadata), ("completed", "batch", {"a": "b"}), "batch")
    equal((done.request_counts.total, done.request_counts.completed, done.request_counts.failed), (3, 2, 1), "counts")
    check(done.usage.total_tokens > 0 and done.completed_at >= done.created_at, "usage and times")
    lines = [json.loads(line) for line in client().files.content(done.output_file_id).text.splitlines()]
    said = {line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"] for line in lines}
    equal(said, {"r0": "hello", "r1": "goodbye"}, "answers")
    [failed] = client().files.content(done.error_file_id).text.splitlines()
    equal(json.loads(failed)["response"]["status_code"], 502, "what has failed")
    equal(next(iter(client().batches.list(limit=1))).id, done.id, "the newest")
    late = raises(openai.ConflictError, lambda: client().batches.cancel(done.id))
    equal(late.param, "batch_id", "too late to cancel")


@case("batches with faults", "gateway", BATCHES)
def batches_with_faults() -> None:
    failed = ended(batch("hello", stream=True))
    equal((failed.status, failed.errors.data[0].line), ("failed", 1), "status and line")
    raises(openai.NotFoundError, lambda: client().batches.retrieve("batch_none"))
