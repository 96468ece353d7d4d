"""Plain HTTP calls, the server's token counters, and the printed list of checked facts."""

import http.client
import json
import time
import urllib.parse
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """A complete HTTP response."""

    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def json(self) -> dict:
        """The body as JSON; an empty object if it is not JSON."""
        try:
            return json.loads(self.text)
        except ValueError:
            return {}

    @property
    def error(self) -> dict:
        """The error object of the body; empty if it has none."""
        return self.json.get("error", {})

    @property
    def events(self) -> list[dict]:
        """The events of a stream, without the final `[DONE]`."""
        return events(self.text)

    @property
    def ended(self) -> bool:
        """Whether a stream ends with `[DONE]`."""
        return self.text.rstrip().endswith("data: [DONE]")


def events(text: str) -> list[dict]:
    """Returns the JSON events in the text of a stream."""
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in data if line != "[DONE]"]


def open_call(base_url: str, path: str, body: dict | bytes | None, key: str | None = None):
    """Sends a request (POST if it has a body) and returns the connection and the unread
    response."""
    url = urllib.parse.urlsplit(base_url)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=120)
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    content = json.dumps(body).encode() if isinstance(body, dict) else body
    connection.request("GET" if body is None else "POST", url.path + path, content, headers)
    return connection, connection.getresponse()


def call(base_url: str, path: str, body: dict | bytes | None = None, key: str | None = None) -> Answer:
    """Sends a request and returns the whole response."""
    connection, response = open_call(base_url, path, body, key)
    answer = Answer(response.status, response.headers, response.read().decode())
    connection.close()
    return answer


@dataclass(frozen=True)
class Tokens:
    """Input tokens (including cached ones) and output tokens."""

    input: int
    output: int

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.input + other.input, self.output + other.output)

    def __sub__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.input - other.input, self.output - other.output)

    @staticmethod
    def reported(usage: dict) -> "Tokens":
        """Returns the tokens of a `usage` object."""
        return Tokens(usage["prompt_tokens"], usage["completion_tokens"])


def counted(base_url: str) -> Tokens:
    """Returns the server's token counts since its start, read from its metrics once it is idle."""
    deadline = time.monotonic() + 60
    while True:
        lines = call(base_url.removesuffix("/v1"), "/metrics").text.splitlines()
        metrics = dict(line.removeprefix("llamacpp:").split() for line in lines if line.startswith("llamacpp:"))
        if metrics["requests_processing"] == "0":
            read, cached = metrics["prompt_tokens_total"], metrics["prompt_tokens_cached_total"]
            return Tokens(int(read) + int(cached), int(metrics["tokens_predicted_total"]))
        if time.monotonic() > deadline:
            raise TimeoutError("the server is still busy")
        time.sleep(0.05)


class Facts:
    """Prints each checked fact and counts the false ones."""

    def __init__(self) -> None:
        self.faults = 0

    def check(self, fact: str, holds: bool, seen: object = None) -> None:
        """Prints the fact, and the observed value if the fact is false."""
        self.faults += not holds
        print(f"{'ok   ' if holds else 'FAULT'} {fact}" + ("" if holds else f"\n      seen: {seen}"), flush=True)

    def exit_code(self) -> int:
        """Prints a summary. Returns 0 if every fact is true, else 3."""
        print(f"{self.faults} faults" if self.faults else "all facts hold", flush=True)
        return 3 if self.faults else 0
