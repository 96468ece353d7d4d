"""Common code of all cases: settings, checks, and a runner that prints one JSON line for each case.

All settings are environment variables. Required: SDK_BASE_URL (ends in /v1), SDK_KEY, SDK_MODEL.
Optional: SDK_ABILITIES, SDK_BROKE_KEY, SDK_LIMITED_KEY, SDK_LENIENT_KEY, SDK_TLS_URL and
SDK_TLS_CERTIFICATE, which some cases need. SDK_TRACE=1 prints the stack trace of each failed case.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import traceback
import urllib.request
from typing import Any, Callable

BASE_URL = os.environ["SDK_BASE_URL"]
# Base URL without the version, which clients other than OpenAI's add themselves.
ROOT_URL = BASE_URL.removesuffix("/v1")
KEY = os.environ["SDK_KEY"]
MODEL = os.environ["SDK_MODEL"]
VECTORS = os.environ.get("SDK_EMBEDDINGS_MODEL", "sim/embeddings")
# The models of voice sessions and of live transcription.
VOICE = os.environ.get("SDK_VOICE_MODEL", "sim/voice")
LIVE = os.environ.get("SDK_LIVE_MODEL", "sim/transcribe")

# Keys of special accounts that run.sh creates; empty if run.sh did not start the server.
BROKE_KEY = os.environ.get("SDK_BROKE_KEY", "")
LIMITED_KEY = os.environ.get("SDK_LIMITED_KEY", "")
LENIENT_KEY = os.environ.get("SDK_LENIENT_KEY", "")

# Base URL over TLS, for clients that refuse WebSockets without it, and its certificate.
TLS_URL = os.environ.get("SDK_TLS_URL", "")
TLS_CERTIFICATE = os.environ.get("SDK_TLS_CERTIFICATE") or None

# Abilities of the server; `../run.sh --help` documents them.
ABILITIES = set(filter(None, os.environ.get("SDK_ABILITIES", "").split(",")))
ABILITIES |= {name for name in ("BROKE_KEY", "LIMITED_KEY", "LENIENT_KEY", "TLS_URL") if globals()[name]}

# Standard output for the results, even if a client redirects its own output.
RESULTS = os.fdopen(os.dup(1), "w")

# Timeout of one case, in seconds.
CASE_SECONDS = int(os.environ.get("SDK_CASE_SECONDS", "90"))

# A prompt whose stream breaks off after some content.
BROKEN_STREAM = os.environ.get("SDK_BROKEN_STREAM", "[[sim tokens=20 cut=5]]")

# A PNG image of one pixel, as base64.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="

Case = tuple[str, list[str], Callable[[], None]]
CASES: list[Case] = []


def case(name: str, *needs: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Registers a case. `needs` names abilities, non-empty settings, or paths of the server's
    OpenAPI document, with {} for path parameters."""

    def register(function: Callable[[], None]) -> Callable[[], None]:
        CASES.append((name, list(needs), function))
        return function

    return register


def check(condition: Any, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def equal(actual: Any, expected: Any, what: str) -> None:
    check(actual == expected, f"{what}: {actual!r}, expected {expected!r}")


def raises(kind: type[BaseException], call: Callable[[], Any]) -> Any:
    """Returns the error that the call raises. Fails unless it is of this class."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"nothing was raised, expected {kind.__name__}")


def served_paths() -> set[str]:
    """Returns the paths of the server's OpenAPI document, with {} for path parameters; none if
    it has no document."""
    try:
        with urllib.request.urlopen(f"{ROOT_URL}/openapi.json", timeout=30) as document:
            return {re.sub(r"{[^}]*}", "{}", path) for path in json.load(document)["paths"]}
    except (OSError, ValueError):
        return set()


def run(client: str, version: str, pattern: str) -> int:
    """Runs the cases whose name contains the pattern, and returns the number of failures."""
    there = ABILITIES | served_paths()
    failures = 0
    for name, needs, function in CASES:
        if pattern not in name:
            continue
        lacking = [need for need in needs if need not in there]
        result, detail = "pass", ""
        if lacking:
            result, detail = "skip", "the server lacks " + ", ".join(lacking)
        else:
            signal.signal(signal.SIGALRM, hang)
            signal.alarm(CASE_SECONDS)
            try:
                function()
            except Exception as error:  # noqa: BLE001 - any error fails the case
                failures += 1
                result, detail = "fail", f"{type(error).__name__}: {error} ({place(error)})"
                print(f"{client} {version}: {name}: {detail}", file=sys.stderr, flush=True)
                if os.environ.get("SDK_TRACE"):
                    traceback.print_exc()
            finally:
                signal.alarm(0)
        line = {"client": f"{client} {version}", "case": name, "result": result, "detail": detail}
        print(json.dumps(line), file=RESULTS, flush=True)
    return failures


def main(client: str, version: str) -> None:
    """Runs the registered cases whose name contains the only argument, and exits the process."""
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    sys.exit(1 if run(client, version, pattern) else 0)


def place(error: BaseException) -> str:
    """Returns the file and line of the case in the error's traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    cases = [frame for frame in frames if os.path.dirname(frame.filename) == sys.path[0]]
    return ", ".join(f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in cases[-1:])


def hang(_signal: int, _frame: Any) -> None:
    raise TimeoutError(f"no end after {CASE_SECONDS} s")
