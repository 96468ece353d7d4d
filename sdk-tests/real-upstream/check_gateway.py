#!/usr/bin/env python3
"""Runs a gateway in front of a real llama.cpp server and checks that its charges match the server's
token counts.

Calls run one after the other through curl, plain HTTP and the OpenAI SDK, streamed and not. The
script reads the server's counters before and after each call. It compares three independent
numbers: the server's count, the usage in the answer, and the gateway's usage row and ledger.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import openai
from pydantic import BaseModel

from gateway import INPUT_PRICE, OUTPUT_PRICE, Gateway
from prompts import CALL_ONE_TOOL, MESSAGES, NEVER_END, TOOL
from wire import Answer, Facts, Tokens, call, counted, open_call

MODEL = "llama/tiny"

facts = Facts()


class House(BaseModel):
    """The requested schema of structured output."""

    open: bool
    light: bool


@dataclass(frozen=True)
class Seen:
    """The caller's view of a call: its request id, and the reported usage, if any."""

    request_id: str
    told: Tokens | None = None


@dataclass(frozen=True)
class Call(Seen):
    """A call: its request id, the reported usage, its name, and the server's token count."""

    name: str = ""
    counted: Tokens = Tokens(0, 0)


def body(**fields) -> dict:
    return {"model": MODEL, "messages": MESSAGES, "max_tokens": 24} | fields


def curl(gateway: Gateway, sent: dict) -> Answer:
    """Makes a call through curl and prints the exchange."""
    headers = ["-H", f"authorization: Bearer {gateway.key}", "-H", "content-type: application/json"]
    command = ["curl", "-sS", "-N", "-D", "/dev/stderr", f"{gateway.base_url}/chat/completions", *headers]
    done = subprocess.run([*command, "-d", json.dumps(sent)], capture_output=True, text=True, timeout=120, check=True)
    print(f"$ curl {gateway.base_url}/chat/completions -d '{json.dumps(sent)}'\n{done.stderr}{done.stdout}", flush=True)
    lines = [line.split(": ", 1) for line in done.stderr.splitlines() if ": " in line]
    headers = {name.lower(): value for name, value in lines}
    return Answer(int(done.stderr.split()[1]), headers, done.stdout)


def with_curl(gateway: Gateway) -> Seen:
    answer = curl(gateway, body())
    facts.check("curl: the answer names the model as it was asked for", answer.json.get("model") == MODEL, answer.text)
    facts.check("curl: the cost is in the answer", "x-tollgate-cost" in answer.headers, answer.headers)
    return Seen(answer.headers["x-request-id"], Tokens.reported(answer.json["usage"]))


def with_curl_streamed(gateway: Gateway) -> Seen:
    answer = curl(gateway, body(stream=True, max_tokens=6))
    facts.check("curl, streamed: it ends with [DONE]", answer.ended, answer.text)
    facts.check("curl, streamed: usage that was not asked for is hidden",
                not any(event.get("usage") for event in answer.events), answer.text)
    facts.check("curl, streamed: every event names the model as it was asked for",
                {event["model"] for event in answer.events} == {MODEL}, answer.text)
    return Seen(answer.headers["x-request-id"])


def with_curl_usage(gateway: Gateway) -> Seen:
    answer = curl(gateway, body(stream=True, max_tokens=6, stream_options={"include_usage": True}))
    usage = answer.events[-1].get("usage") or {}
    facts.check("curl, streamed with usage: the last event has usage and cost", "cost" in usage, answer.text)
    return Seen(answer.headers["x-request-id"], Tokens.reported(usage))


def client(gateway: Gateway) -> openai.OpenAI:
    return openai.OpenAI(base_url=gateway.base_url, api_key=gateway.key, max_retries=0, timeout=120)


def with_sdk(gateway: Gateway) -> Seen:
    answer = client(gateway).chat.completions.create(**body())
    facts.check("SDK: an answer with text", bool(answer.choices[0].message.content), answer)
    return Seen(answer._request_id, Tokens(answer.usage.prompt_tokens, answer.usage.completion_tokens))


def with_sdk_streamed(gateway: Gateway) -> Seen:
    sent = body(stream=True, stream_options={"include_usage": True})
    raw = client(gateway).chat.completions.with_raw_response.create(**sent)
    chunks = list(raw.parse())
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    usage = chunks[-1].usage
    facts.check("SDK, streamed: text and usage", bool(text) and usage is not None, chunks)
    return Seen(raw.headers["x-request-id"], Tokens(usage.prompt_tokens, usage.completion_tokens))


def with_sdk_tool(gateway: Gateway) -> Seen:
    sent = body(tools=[TOOL], tool_choice="required", parallel_tool_calls=False, logit_bias=CALL_ONE_TOOL)
    answer = client(gateway).chat.completions.create(**(sent | {"max_tokens": 300}))
    calls = answer.choices[0].message.tool_calls or []
    facts.check("SDK: a tool call", [call.function.name for call in calls] == ["get_number"], answer)
    return Seen(answer._request_id, Tokens(answer.usage.prompt_tokens, answer.usage.completion_tokens))


def with_sdk_structured(gateway: Gateway) -> Seen:
    sent = body(response_format=House, max_tokens=300)
    answer = client(gateway).chat.completions.parse(**sent)
    facts.check("SDK: structured output", isinstance(answer.choices[0].message.parsed, House), answer)
    return Seen(answer._request_id, Tokens(answer.usage.prompt_tokens, answer.usage.completion_tokens))


def with_caller_gone(gateway: Gateway) -> Seen:
    """The caller leaves after the first event. The gateway must read to the end to learn the
    usage."""
    sent = body(stream=True, max_tokens=3000, logit_bias=NEVER_END)
    connection, response = open_call(gateway.base_url, "/chat/completions", sent, gateway.key)
    response.readline()
    request_id = response.headers["x-request-id"]
    connection.close()
    response.close()
    return Seen(request_id)


def with_two_choices(gateway: Gateway) -> Seen | None:
    """The server reports the output of one choice only. The gateway must refuse the call or
    charge for both."""
    return if_served(gateway, "two choices", body(n=2, max_tokens=5, logit_bias=NEVER_END), 10)


def with_other_cap(gateway: Gateway) -> Seen | None:
    """`n_predict` is the server's own output cap. It would override the cap on which the hold is based."""
    return if_served(gateway, "the server's own cap", body(n_predict=200, max_tokens=5, logit_bias=NEVER_END), 5)


def if_served(gateway: Gateway, name: str, sent: dict, most: int) -> Seen | None:
    """Makes a call that the gateway may refuse. If it serves the call, the output has at most
    `most` tokens."""
    answer = call(gateway.base_url, "/chat/completions", sent, gateway.key)
    facts.check(f"{name}: answered, or refused as the caller's mistake", answer.status in (200, 400, 422), answer.text)
    if answer.status != 200:
        return None
    output = Tokens.reported(answer.json["usage"]).output
    facts.check(f"{name}: at most {most} tokens came out", output <= most, answer.text)
    return Seen(answer.headers["x-request-id"])


def check_refused(gateway: Gateway, status: int, code: str, sent: dict, key: str | None = None) -> None:
    """Checks that a call fails with this status and code, and costs nothing."""
    before = gateway.settled_balance()
    answer = call(gateway.base_url, "/chat/completions", sent, key or gateway.key)
    complete = set(answer.error) >= {"message", "type", "code", "param"}
    right = answer.status == status and answer.error.get("code") == code and complete
    facts.check(f"refused with {status} {code}", right, (answer.status, answer.text))
    facts.check(f"{status} {code} costs nothing", gateway.settled_balance() == before, before)


def make_calls(gateway: Gateway, upstream: str, makers: list[Callable[[Gateway], Seen | None]]) -> list[Call]:
    """Makes the calls one after the other, and reads the server's counters before and after
    each."""
    calls = []
    for make in makers:
        before = counted(upstream)
        seen = make(gateway)
        if seen is not None:
            calls.append(Call(seen.request_id, seen.told, make.__name__, counted(upstream) - before))
    return calls


def usage_rows(gateway: Gateway, calls: list[Call]) -> dict[str, dict]:
    """Returns the usage rows by request id. Waits until each call has a row, for at most a
    minute."""
    deadline = time.monotonic() + 60
    while True:
        answer = call(gateway.base_url, "/account/usage?limit=100", key=gateway.key)
        rows = {row["request_id"]: row for row in answer.json["data"]}
        if all(made.request_id in rows for made in calls) or time.monotonic() > deadline:
            return rows
        time.sleep(0.1)


def charged(row: dict) -> Tokens:
    """Returns the tokens of a usage row. Its token classes do not overlap."""
    classes = row["usage"]
    going_in = [name for name in classes if name.startswith(("input", "cache_"))]
    coming_out = [name for name in classes if name.startswith(("output", "reasoning"))]
    return Tokens(sum(classes[name] for name in going_in), sum(classes[name] for name in coming_out))


def check_books(gateway: Gateway, calls: list[Call], before: Decimal) -> None:
    """Checks that every call has a row with the server's numbers, and that the balance fell by
    exactly their cost."""
    rows = usage_rows(gateway, calls)
    for made in calls:
        row = rows.get(made.request_id)
        facts.check(f"{made.name}: has a usage row", row is not None, made)
        if row is None:
            continue
        cost = made.counted.input * INPUT_PRICE + made.counted.output * OUTPUT_PRICE
        facts.check(f"{made.name}: the row has what the server counted, {made.counted.input} in and "
                    f"{made.counted.output} out", charged(row) == made.counted, row)
        facts.check(f"{made.name}: it cost {cost:f}", Decimal(row["cost"]) == cost, row)
        if made.told is not None:
            facts.check(f"{made.name}: the caller received the same usage", made.told == made.counted, made)
    known = {made.request_id for made in calls}
    # A call that the upstream refused also has a row, and costs nothing.
    charged_rows = {request_id for request_id, row in rows.items() if Decimal(row["cost"]) > 0}
    facts.check("each call has one charge, and no other charge exists", charged_rows == known, charged_rows ^ known)
    total = sum((made.counted for made in calls), Tokens(0, 0))
    cost = total.input * INPUT_PRICE + total.output * OUTPUT_PRICE
    after, held = gateway.settled_balance()
    facts.check(f"the balance fell by {cost:f}", before - after == cost, (before, after))
    facts.check("no credits are held", held == 0, held)


def check_all(gateway: Gateway, upstream: str) -> None:
    gateway.start()
    models = [model.id for model in client(gateway).models.list()]
    facts.check("the model is in the catalog", MODEL in models, models)
    before, _ = gateway.settled_balance()
    makers = [with_curl, with_curl_streamed, with_curl_usage, with_sdk, with_sdk_streamed, with_sdk_tool,
              with_sdk_structured, with_caller_gone, with_two_choices, with_other_cap]
    calls = make_calls(gateway, upstream, makers)
    check_books(gateway, calls, before)

    long = [{"role": "user", "content": "river " * 9000}]
    check_refused(gateway, 400, "context_length_exceeded", body(messages=long))
    check_refused(gateway, 404, "model_not_found", body(model="llama/none"))
    check_refused(gateway, 401, "invalid_api_key", body(), key="sk-service-wrong")

    gateway.run("credits", "balance", gateway.account)
    facts.check("ledger check, while it runs", gateway.run("ledger", "check").returncode == 0)
    facts.check("it stops on SIGTERM", gateway.stop() == 0)
    facts.check("ledger check, after it stopped", gateway.run("ledger", "check", "--reprice").returncode == 0)


def main() -> int:
    upstream, binary, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    gateway = Gateway(binary, upstream, folder)
    try:
        check_all(gateway, upstream)
    finally:
        if gateway.process is not None:
            gateway.stop()
    return facts.exit_code()


if __name__ == "__main__":
    sys.exit(main())
