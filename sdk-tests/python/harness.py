"""What every case needs: the settings, a client, checks, and a runner that prints one JSON line for each case."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from typing import Any, Callable

import openai

BASE_URL = os.environ["SDK_BASE_URL"]
KEY = os.environ["SDK_KEY"]
MODEL = os.environ["SDK_MODEL"]

# Keys of accounts that the script made for the purpose; empty against a server that was running before.
BROKE_KEY = os.environ.get("SDK_BROKE_KEY", "")
LIMITED_KEY = os.environ.get("SDK_LIMITED_KEY", "")

# What the server can do: `simulator` is the grammar [[sim …]] in prompts, `gateway` is the contract of Tollgate
# (its error codes and headers).
ABILITIES = set(filter(None, os.environ.get("SDK_ABILITIES", "").split(",")))

CLIENT = f"openai-python {openai.__version__}"

# A case that takes longer than this hangs.
CASE_SECONDS = 90

# The prompt that breaks a stream off after some content.
BROKEN_STREAM = os.environ.get("SDK_BROKEN_STREAM", "[[sim tokens=20 cut=5]]")

Case = tuple[str, set[str], Callable[[], None]]
CASES: list[Case] = []


def case(name: str, *needs: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Registers a case. `needs` names abilities, or settings that must not be empty."""

    def register(function: Callable[[], None]) -> Callable[[], None]:
        CASES.append((name, set(needs), function))
        return function

    return register


def client(**settings: Any) -> openai.OpenAI:
    return openai.OpenAI(**({"base_url": BASE_URL, "api_key": KEY, "max_retries": 0, "timeout": 60} | settings))


def async_client(**settings: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(**({"base_url": BASE_URL, "api_key": KEY, "max_retries": 0, "timeout": 60} | settings))


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def check(condition: Any, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def equal(actual: Any, expected: Any, what: str) -> None:
    check(actual == expected, f"{what}: {actual!r}, expected {expected!r}")


def raises(kind: type[BaseException], call: Callable[[], Any]) -> Any:
    """The error that the call raises, which must be of this class."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"nothing was raised, expected {kind.__name__}")


def missing(needs: set[str]) -> list[str]:
    there = ABILITIES | {name for name in ("BROKE_KEY", "LIMITED_KEY") if globals()[name]}
    return sorted(needs - there)


def run(pattern: str) -> int:
    """Runs the cases whose name has the pattern in it; the result is the number of failures."""
    failures = 0
    for name, needs, function in CASES:
        if pattern not in name:
            continue
        lacking = missing(needs)
        if lacking:
            report(name, "skip", "needs " + ", ".join(lacking))
            continue
        signal.signal(signal.SIGALRM, hang)
        signal.alarm(CASE_SECONDS)
        try:
            function()
        except Exception as error:
            failures += 1
            report(name, "fail", f"{type(error).__name__}: {error} ({place(error)})")
            if os.environ.get("SDK_TRACE"):
                traceback.print_exc()
        else:
            report(name, "pass", "")
        finally:
            signal.alarm(0)
    return failures


def place(error: BaseException) -> str:
    """The last line of a case that the error went through."""
    frames = traceback.extract_tb(error.__traceback__)
    cases = [frame for frame in frames if os.path.basename(frame.filename).startswith("cases_")]
    return ", ".join(f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in cases[-1:])


def hang(_signal: int, _frame: Any) -> None:
    raise TimeoutError(f"no end after {CASE_SECONDS} s")


def report(name: str, result: str, detail: str) -> None:
    print(json.dumps({"client": CLIENT, "case": name, "result": result, "detail": detail}), flush=True)
    if result == "fail":
        print(f"{CLIENT}: {name}: {detail}", file=sys.stderr, flush=True)
