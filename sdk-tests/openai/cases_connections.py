"""Timeouts, streams that the caller leaves, and concurrent calls: the client must stay usable."""

from __future__ import annotations

import asyncio

import openai

from client import async_client, client, user
from harness import BROKE_KEY, MODEL, case, check, equal, raises

SLOW_STREAM = "[[sim tokens=200 pace=20]]"


def short_answer(calls: openai.OpenAI) -> None:
    completion = calls.chat.completions.create(model=MODEL, messages=user("Hi."))
    check(completion.choices[0].message.content, "there is no content")


@case("cancel a stream", "scripted")
def cancel() -> None:
    calls = client()
    for _ in range(5):
        stream = calls.chat.completions.create(model=MODEL, messages=user(SLOW_STREAM), stream=True)
        for count, _chunk in enumerate(stream):
            if count == 3:
                break
        stream.close()
        short_answer(calls)


@case("cancel an async stream", "scripted")
def cancel_async() -> None:
    async def leave(calls: openai.AsyncOpenAI) -> None:
        stream = await calls.chat.completions.create(model=MODEL, messages=user(SLOW_STREAM), stream=True)
        async with stream:
            async for _chunk in stream:
                return

    async def all_of_them() -> None:
        async with async_client() as calls:
            await asyncio.gather(*(leave(calls) for _ in range(10)))
            completion = await calls.chat.completions.create(model=MODEL, messages=user("Hi."))
            check(completion.choices[0].message.content, "there is no content")

    asyncio.run(all_of_them())


@case("20 async streams")
def async_streams() -> None:
    async def one(calls: openai.AsyncOpenAI, number: int) -> str:
        stream = await calls.chat.completions.create(
            model=MODEL,
            messages=user(f"[[sim pace=5]] Say number {number}."),
            stream=True,
            stream_options={"include_usage": True},
        )
        text, finished, usage = "", False, None
        async for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finished = finished or choice.finish_reason is not None
            usage = chunk.usage or usage
        check(text and finished and usage, f"stream {number}: {text!r}, finished {finished}, usage {usage}")
        return chunk.id

    async def all_of_them() -> None:
        async with async_client() as calls:
            ids = await asyncio.gather(*(one(calls, number) for number in range(20)))
        equal(len(set(ids)), 20, "different ids")

    asyncio.run(all_of_them())


@case("20 async calls")
def async_calls() -> None:
    async def all_of_them() -> None:
        async with async_client() as calls:
            completions = await asyncio.gather(
                *(calls.chat.completions.create(model=MODEL, messages=user("Hi.")) for _ in range(20))
            )
        check(all(completion.choices[0].message.content for completion in completions), "an answer is empty")

    asyncio.run(all_of_them())


@case("time-out", "scripted")
def time_out() -> None:
    calls = client(timeout=0.5)
    for parameters in ({}, {"stream": True}):
        raises(
            openai.APITimeoutError,
            lambda: calls.chat.completions.create(model=MODEL, messages=user("[[sim delay=5000]]"), **parameters),
        )
    short_answer(calls.with_options(timeout=60))


@case("retries after a time-out", "scripted")
def retries() -> None:
    calls = client(timeout=0.5, max_retries=1)
    raises(
        openai.APITimeoutError,
        lambda: calls.chat.completions.create(model=MODEL, messages=user("[[sim delay=5000]]")),
    )
    raw = client(max_retries=2).chat.completions.with_raw_response.create(model=MODEL, messages=user("Hi."))
    equal(raw.retries_taken, 0, "retries taken by a call that succeeds")


@case("no retry of what cannot help", "BROKE_KEY")
def no_retry() -> None:
    # The server's response says that a retry is useless, so the client must give up after one
    # attempt.
    error = raises(
        openai.APIStatusError,
        lambda: client(api_key=BROKE_KEY, max_retries=5).chat.completions.create(model=MODEL, messages=user("Hi.")),
    )
    equal(error.response.request.headers["x-stainless-retry-count"], "0", "retries")
