#!/usr/bin/env python3
"""Calls a llama.cpp server directly and checks the behaviour on which the gateway relies.

Each fact is one line of output, so changes in a newer server become visible here first.
"""

import sys

from prompts import CALL_ONE_TOOL, MESSAGES, NEVER_END, SCHEMA, TOOL
from wire import Answer, Facts, Tokens, call, counted, open_call

facts = Facts()


class Server:
    """The server under test."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def chat(self, **fields) -> Answer:
        """Makes a chat call with exactly eight output tokens, unless the fields override that."""
        return call(self.base_url, "/chat/completions", self.body(**fields))

    def body(self, **fields) -> dict:
        """Returns the body of such a call."""
        return {"model": "tiny", "messages": MESSAGES, "max_tokens": 8, "logit_bias": NEVER_END} | fields

    def chat_counted(self, **fields) -> tuple[Answer, Tokens]:
        """Makes a chat call; returns the answer and the server's token count."""
        before = counted(self.base_url)
        answer = self.chat(**fields)
        return answer, counted(self.base_url) - before


def check_models(server: Server) -> None:
    answer = call(server.base_url, "/models")
    ids = [model["id"] for model in answer.json["data"]]
    facts.check("GET /v1/models lists the model", answer.status == 200 and ids == ["tiny"], answer.text)
    context = answer.json["data"][0].get("meta", {}).get("n_ctx")
    facts.check("the model's record has its context in meta.n_ctx", isinstance(context, int), answer.text)
    answer = call(server.base_url, "/models/tiny")
    facts.check("GET /v1/models/{id} is not known: 404", answer.status == 404, answer.text)


def check_answer(server: Server) -> None:
    answer, tokens = server.chat_counted(model="some/other")
    body = answer.json
    facts.check("a chat call answers", answer.status == 200 and bool(body["choices"][0]["message"]["content"]), answer)
    facts.check("any model name is accepted; the answer has the server's own name", body["model"] == "tiny", body)
    facts.check("usage is what the metrics count", Tokens.reported(body["usage"]) == tokens, (body["usage"], tokens))
    again = server.chat().json["usage"]
    facts.check("a prompt seen before is reported in cached_tokens",
                0 < again["prompt_tokens_details"]["cached_tokens"] < again["prompt_tokens"], again)
    facts.check("the answer has the vendor's field `timings`", "timings" in body, body)


def check_stream(server: Server) -> None:
    plain = server.chat(stream=True)
    facts.check("a stream ends with [DONE]", plain.ended and len(plain.events) > 3, plain.text)
    facts.check("a stream has no usage unless requested", not any("usage" in event for event in plain.events), plain.text)
    first = plain.events[0]["choices"][0]["delta"]
    facts.check("the first delta has a role and a null content", first == {"role": "assistant", "content": None}, first)
    asked = server.chat(stream=True, stream_options={"include_usage": True})
    last = asked.events[-1]
    facts.check("include_usage adds a last event without choices",
                last["choices"] == [] and last["usage"]["completion_tokens"] == 8, last)
    facts.check("no other event names usage", not any("usage" in event for event in asked.events[:-1]), asked.text)


def check_leaving(server: Server) -> None:
    before = counted(server.base_url)
    body = server.body(stream=True, max_tokens=6000, stream_options={"include_usage": True})
    connection, response = open_call(server.base_url, "/chat/completions", body)
    response.readline()
    connection.close()
    response.close()
    output = (counted(server.base_url) - before).output
    facts.check("a caller that leaves a stream stops the work, and no usage is ever reported", output < 6000, output)


def check_caps(server: Server) -> None:
    def output(**fields) -> int:
        return server.chat_counted(**fields)[1].output

    facts.check("max_tokens caps the output", output(max_tokens=5) == 5)
    facts.check("max_completion_tokens caps it too, and wins", output(max_tokens=5, max_completion_tokens=3) == 3)
    facts.check("n_predict wins over both", output(max_completion_tokens=3, n_predict=12) == 12)
    facts.check("a cap of 0 still generates one token", output(max_tokens=0) == 1)


def check_choices(server: Server) -> None:
    answer, tokens = server.chat_counted(n=2)
    usage = answer.json["usage"]
    facts.check("n = 2 answers two choices", len(answer.json["choices"]) == 2, answer.text)
    facts.check("n = 2 reports the output of one choice only", (usage["completion_tokens"], tokens.output) == (8, 16),
                (usage, tokens))
    stream = server.chat(n=2, stream=True, stream_options={"include_usage": True})
    reports = [event["usage"] for event in stream.events if "usage" in event]
    facts.check("n = 2 in a stream reports usage once for each choice", len(reports) == 2, reports)
    answer = server.chat(n=3)
    facts.check("n above --parallel is 400", answer.status == 400, answer.text)


def check_tools(server: Server) -> None:
    answer = server.chat(
        tools=[TOOL], tool_choice="required", parallel_tool_calls=False, logit_bias=CALL_ONE_TOOL, max_tokens=300
    )
    choice = answer.json["choices"][0]
    calls = choice["message"].get("tool_calls", [])
    facts.check("a tool is called", choice["finish_reason"] == "tool_calls" and len(calls) == 1, answer.text)
    named = {"type": "function", "function": {"name": "get_number"}}
    answer = server.chat(tools=[TOOL], tool_choice=named)
    facts.check("tool_choice that names a function is silently ignored",
                answer.status == 200 and "tool_calls" not in answer.json["choices"][0]["message"], answer.text)
    form = {"type": "json_schema", "json_schema": {"name": "house", "strict": True, "schema": SCHEMA}}
    answer = server.chat(response_format=form, logit_bias={}, max_tokens=300)
    content = answer.json["choices"][0]["message"]["content"]
    facts.check("json_schema shapes the output", '"open"' in content and '"light"' in content, answer.text)


def check_errors(server: Server) -> None:
    answer = server.chat(temperature="hot")
    facts.check("a wrong type is 400 with an integer code and no param",
                answer.status == 400 and answer.error["code"] == 400 and "param" not in answer.error, answer.text)
    answer = server.chat(messages=[{"role": "user", "content": "river " * 9000}])
    facts.check("a prompt beyond the context is 400 exceed_context_size_error",
                answer.status == 400 and answer.error["type"] == "exceed_context_size_error", answer.text)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    answer = server.chat(messages=[{"role": "user", "content": [image]}])
    facts.check("an image for a text model is 500 (the caller's fault, not the server's)", answer.status == 500,
                answer.text)
    answer = call(server.base_url, "/chat/completions", b'{"messages": [{"role": "user", "content": "\\ud800"}]}')
    facts.check("a lone surrogate, like any malformed JSON, is 500", answer.status == 500, answer.text)
    answer = server.chat(temperature=9, some_unknown_field={"a": 1}, max_tokens=1)
    facts.check("unknown fields and a temperature of 9 are accepted", answer.status == 200, answer.text)
    answer = server.chat(messages=[])
    facts.check("an empty list of messages is accepted", answer.status == 200, answer.text)


def main() -> int:
    server = Server(sys.argv[1])
    check_models(server)
    check_answer(server)
    check_stream(server)
    check_leaving(server)
    check_caps(server)
    check_choices(server)
    check_tools(server)
    check_errors(server)
    return facts.exit_code()


if __name__ == "__main__":
    sys.exit(main())
