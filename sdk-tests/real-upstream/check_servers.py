#!/usr/bin/env python3
"""Runs a gateway in front of several real model servers and calls it with the SDKs of OpenAI,
Anthropic and Google.

Arguments: the gateway's binary, a new folder, the folder of the model, and NAME=BASE_URL for
each running server: `vllm`, `llama`, `hf` (`transformers serve`) and `embed` (llama.cpp with
embeddings). If a server has token counters, the usage of all calls must add up to them.
Scenarios without their server are skipped, and the output names them.
"""

import sys
import time
from decimal import Decimal
from pathlib import Path

import anthropic
import openai
from google import genai
from google.genai import types

from gateway import Gateway
from wire import Facts, Tokens, call, counted, open_call

PRESETS = {"vllm": "vllm", "llama": "llama.cpp", "hf": "openai-compatible", "embed": "llama.cpp"}
ASKED = "What is the number of the house?"
# Output cap of streams that their callers leave: far more tokens than a caller has received by
# then.
LONG = 900
PICTURE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="

facts = Facts()


def block(name: str, base_url: str, model: str) -> str:
    """Returns the settings of a provider and its model."""
    kind = 'type = "embedding"\n' if name == "embed" else ""
    limits = "" if name == "embed" else "limits = {{ context_window = 1024, max_output_tokens = 1000 }}\n"
    prices = 'prices = {{ input = "0.10" }}' if name == "embed" else 'prices = {{ input = "0.10", output = "0.40" }}'
    return (
        f'[providers.{name}]\npreset = "{PRESETS[name]}"\nbase_url = "{base_url}"\n\n'
        f'[models."{name}/tiny"]\n{kind}targets = ["{name}/{model}"]\n{prices}\n{limits}\n'
    )


def model_of(name: str, base_url: str, folder: str) -> str:
    """Returns the model's name at the server. `transformers serve` does not list local folders;
    the name is the path."""
    if name == "hf":
        return folder
    return call(base_url, "/models").json["data"][0]["id"]


def counts(name: str, base_url: str) -> Tokens | None:
    """Returns the server's token counts since its start, once it is idle. None if it has no
    counters."""
    if name == "llama":
        return counted(base_url)
    if name != "vllm":
        return None
    deadline = time.monotonic() + 60
    while True:
        lines = call(base_url.removesuffix("/v1"), "/metrics").text.splitlines()
        sums: dict[str, float] = {}
        for line in lines:
            if line.startswith("vllm:"):
                key, value = line.rsplit(" ", 1)
                key = key.split("{", 1)[0]
                sums[key] = sums.get(key, 0) + float(value)
        if sums.get("vllm:num_requests_running", 0) == 0 or time.monotonic() > deadline:
            return Tokens(int(sums["vllm:prompt_tokens_total"]), int(sums["vllm:generation_tokens_total"]))
        time.sleep(0.05)


class Clients:
    """The three SDKs, configured for a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        root = gateway.base_url.removesuffix("/v1")
        self.openai = openai.OpenAI(base_url=gateway.base_url, api_key=gateway.key, max_retries=0, timeout=180)
        self.anthropic = anthropic.Anthropic(base_url=root, api_key=gateway.key, max_retries=0, timeout=180)
        options = types.HttpOptions(base_url=root, api_version="v1beta", timeout=180_000)
        self.google = genai.Client(api_key=gateway.key, http_options=options)


def chat(clients: Clients, model: str, stream: bool) -> Tokens:
    messages = [{"role": "user", "content": ASKED}]
    if not stream:
        usage = clients.openai.chat.completions.create(model=model, messages=messages, max_tokens=24).usage
    else:
        options = {"include_usage": True}
        chunks = list(clients.openai.chat.completions.create(
            model=model, messages=messages, max_tokens=24, stream=True, stream_options=options))
        usage = chunks[-1].usage
    return Tokens(usage.prompt_tokens, usage.completion_tokens)


def messages(clients: Clients, model: str, stream: bool) -> Tokens:
    asked = {"model": model, "max_tokens": 24, "messages": [{"role": "user", "content": ASKED}]}
    if not stream:
        usage = clients.anthropic.messages.create(**asked).usage
    else:
        with clients.anthropic.messages.stream(**asked) as events:
            usage = events.get_final_message().usage
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    return Tokens(usage.input_tokens + cached, usage.output_tokens)


def responses(clients: Clients, model: str, stream: bool) -> Tokens:
    asked = {"model": model, "max_output_tokens": 24, "input": ASKED}
    if not stream:
        usage = clients.openai.responses.create(**asked).usage
    else:
        events = list(clients.openai.responses.create(**asked, stream=True))
        usage = events[-1].response.usage
    return Tokens(usage.input_tokens, usage.output_tokens)


def generated(clients: Clients, model: str, stream: bool) -> Tokens:
    asked = {"model": model, "contents": ASKED, "config": types.GenerateContentConfig(max_output_tokens=24)}
    if not stream:
        usage = clients.google.models.generate_content(**asked).usage_metadata
    else:
        usage = list(clients.google.models.generate_content_stream(**asked))[-1].usage_metadata
    return Tokens(usage.prompt_token_count, usage.candidates_token_count)


def check_formats(gateway: Gateway, name: str, base_url: str) -> None:
    """Checks every format, whole and streamed: the reported usage equals the server's count."""
    clients, before, told = Clients(gateway), counts(name, base_url), Tokens(0, 0)
    for speak in (chat, messages, responses, generated):
        for stream in (False, True):
            usage = speak(clients, f"{name}/tiny", stream)
            told += usage
            facts.check(f"{name}: {speak.__name__}, {'streamed' if stream else 'whole'}, {usage.input} in and {usage.output} out",
                        usage.input > 0 and 0 < usage.output <= 24, usage)
    if before is None:
        print(f"skip  {name}: the server has no counters to compare with", flush=True)
        return
    server = counts(name, base_url) - before
    facts.check(f"{name}: the server counted {server.input} in and {server.output} out, and so did the gateway", told == server,
                (told, server))


def ask(gateway: Gateway, path: str, body: dict):
    return call(gateway.base_url, path, body, gateway.key)


def body(name: str, **fields) -> dict:
    return {"model": f"{name}/tiny", "messages": [{"role": "user", "content": ASKED}], "max_tokens": 24} | fields


def row_of(gateway: Gateway, request_id: str) -> dict:
    """Returns the usage row of a call. Waits at most two minutes for it; then returns an empty
    object."""
    deadline = time.monotonic() + 120
    while True:
        rows = call(gateway.base_url, f"/account/usage?request_id={request_id}", key=gateway.key).json["data"]
        if rows or time.monotonic() > deadline:
            return rows[0] if rows else {}
        time.sleep(0.1)


def check_several(gateway: Gateway, name: str) -> None:
    """Requests two answers. Both are delivered and charged, or refused, or one is sent and `n`
    reported as ignored."""
    for stream in (False, True):
        what = f"{name}: two answers, {'streamed' if stream else 'whole'}"
        sent = body(name, n=2, max_tokens=12, stream=stream)
        answer = ask(gateway, "/chat/completions", sent | ({"stream_options": {"include_usage": True}} if stream else {}))
        if answer.status != 200:
            facts.check(f"{what}: refused as the caller's mistake", answer.error.get("param") == "n", answer.text)
            continue
        events = answer.events if stream else [answer.json]
        choices = {choice["index"] for event in events for choice in event.get("choices", [])}
        ignored = "n" in (answer.headers.get("x-tollgate-ignored") or "").split(",")
        facts.check(f"{what}: both arrive, or `n` is reported as ignored", choices == {0, 1} or ignored, answer.text[-400:])
        facts.check(f"{what}: no error follows an answer", not any("error" in event for event in events), answer.text[-400:])
        row = row_of(gateway, answer.headers["x-request-id"])
        facts.check(f"{what}: the received answers are charged", row["usage"]["output_tokens"] > 12 * (len(choices) - 1), row)


def check_refusals(gateway: Gateway, name: str) -> None:
    """Checks the errors of invalid requests, and that the next call succeeds."""
    long = [{"role": "user", "content": "river " * 9000}]
    for path, sent in (("/chat/completions", body(name, messages=long)), ("/messages", body(name, messages=long))):
        answer = ask(gateway, path, sent)
        facts.check(f"{name}: a prompt that is too long, {path}", answer.error.get("code") == "context_length_exceeded",
                    answer.text[:300])
    part = {"type": "image_url", "image_url": {"url": PICTURE}}
    answer = ask(gateway, "/chat/completions", body(name, messages=[{"role": "user", "content": [part]}]))
    facts.check(f"{name}: an image for a text model is the caller's mistake", answer.status in (400, 422), answer.text[:300])
    answer = ask(gateway, "/chat/completions", body(name))
    facts.check(f"{name}: the next call is answered", answer.status == 200, answer.text[:300])


def check_leaving(gateway: Gateway, name: str, base_url: str) -> None:
    """A caller that leaves a stream stops the server, and pays for the received part."""
    before = counts(name, base_url)
    sent = body(name, stream=True, max_tokens=LONG, ignore_eos=True) if name != "hf" else body(name, stream=True, max_tokens=LONG)
    connection, response = open_call(gateway.base_url, "/chat/completions", sent, gateway.key)
    for _ in range(5):
        response.readline()
    request_id = response.headers["x-request-id"]
    connection.close()
    response.close()
    row = row_of(gateway, request_id)
    facts.check(f"{name}: leaving a stream is charged by estimate",
                row.get("outcome") == "client_gone" and row.get("estimated") and Decimal(row["cost"]) > 0, row)
    if before is not None:
        made = (counts(name, base_url) - before).output
        facts.check(f"{name}: the server stopped after {made} of {LONG} tokens", made < LONG, made)


def check_decisions(gateway: Gateway, name: str, sources: set[str]) -> None:
    """A yes/no decision returns probabilities or a refusal within a minute."""
    asked = {"model": f"{name}/tiny", "state": "The house is open.",
             "questions": {"open": {"type": "noul", "instructions": "Is the house open?"}}}
    started = time.monotonic()
    answer = ask(gateway, "/decisions", asked)
    took = time.monotonic() - started
    decided = answer.json.get("answers", {}).get("open", {})
    source = decided.get("method", {}).get("source")
    right = decided.get("type") == "refusal" or (decided.get("type") == "noul" and source in sources)
    facts.check(f"{name}: a decision ({decided.get('type')}, {source}) within a minute", answer.status == 200 and right and took < 60,
                (answer.text, took))


def check_embeddings(gateway: Gateway) -> None:
    asked = {"model": "embed/tiny", "input": ["one", "two"]}
    answer = ask(gateway, "/embeddings", asked)
    facts.check("embed: two vectors", len(answer.json.get("data", [])) == 2, answer.text[:300])
    answer = ask(gateway, "/embeddings", asked | {"dimensions": 16})
    facts.check("embed: `dimensions`, which the server ignores, is refused",
                answer.error.get("code") == "unsupported_parameter" and answer.error.get("param") == "dimensions", answer.text[:300])


def main() -> int:
    binary, folder, model_folder = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    folder.mkdir()
    servers = dict(argument.split("=", 1) for argument in sys.argv[4:])
    configuration = "[server]\ndiscover = false\n\n[limits]\nrpm = 6000\n\n"
    for name, base_url in servers.items():
        configuration += block(name, base_url, model_of(name, base_url, model_folder))
    gateway = Gateway(binary, "", folder, configuration)
    try:
        gateway.start()
        for name, sources in (("vllm", {"logits"}), ("llama", {"top_logprobs", "native"}), ("hf", {"sampled"})):
            if name not in servers:
                print(f"skip  {name}: its server is not running", flush=True)
                continue
            base_url = servers[name]
            check_formats(gateway, name, base_url)
            check_several(gateway, name)
            if name != "hf":
                check_refusals(gateway, name)
            check_leaving(gateway, name, base_url)
            check_decisions(gateway, name, sources)
        if "embed" in servers:
            check_embeddings(gateway)
        else:
            print("skip  embed: its server is not running", flush=True)
        facts.check("ledger check, while it runs", gateway.run("ledger", "check").returncode == 0)
        facts.check("it stops on SIGTERM", gateway.stop() == 0)
        facts.check("ledger check, after it stopped", gateway.run("ledger", "check", "--reprice").returncode == 0)
    finally:
        if gateway.process is not None:
            gateway.stop()
    return facts.exit_code()


if __name__ == "__main__":
    sys.exit(main())
