"""Runs a gateway process and its commands. By default its only provider is the server of run.sh."""

import json
import os
import re
import signal
import subprocess
import time
from decimal import Decimal
from pathlib import Path

CONFIGURATION = """
[providers.llama]
preset = "llama.cpp"
base_url = "{upstream}"
# The checks compare every call with the server's count, also that of a caller that leaves.
on_disconnect = "drain"

[models."llama/tiny"]
targets = ["llama/tiny"]
prices = {{ input = "0.10", output = "0.40" }}
"""

# Credits per token; the prices above are per million tokens.
INPUT_PRICE, OUTPUT_PRICE = Decimal("0.10") / 1_000_000, Decimal("0.40") / 1_000_000


class Gateway:
    """A gateway on a free loopback port with a separate data directory, and one account with
    credits and a key."""

    def __init__(self, binary: str, upstream: str, folder: Path, configuration: str = CONFIGURATION) -> None:
        self.binary = os.path.abspath(binary)
        self.folder = folder.resolve()
        self.data = self.folder / "data"
        self.config = self.folder / "tollgate.toml"
        self.config.write_text(configuration.format(upstream=upstream))
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        """Starts the gateway, waits until it is ready, and creates the account."""
        stdout = self.folder / "gateway.stdout"
        with stdout.open("w") as out, (self.folder / "gateway.stderr").open("w") as err:
            ports = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
            self.process = subprocess.Popen(
                self.command("serve", *ports), stdout=out, stderr=err, env=self.environment(), cwd=self.folder
            )
        address = self.wait_for_address(stdout)
        self.base_url = f"http://{address}/v1"
        self.account = self.cli("accounts", "create", "real-upstream", json_output=True)["id"]
        self.cli("credits", "grant", self.account, "1")
        created = self.cli("keys", "create", "--account", self.account, "--name", "check", json_output=True)
        self.key = created["key"]

    def wait_for_address(self, stdout: Path) -> str:
        """Returns the bound address, from the first line of the output."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            first, newline, _ = stdout.read_text().partition("\n")
            found = re.search(r"127\.0\.0\.1:\d+", first)
            if newline and found:
                return found.group()
            time.sleep(0.05)
        raise RuntimeError("the gateway did not start:\n" + (self.folder / "gateway.stderr").read_text()[-4000:])

    def stop(self) -> int:
        """Sends SIGTERM and returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()

    def command(self, *words: str) -> list[str]:
        """Returns the command line of a tollgate command with this configuration and data."""
        return [self.binary, *words, "--config", str(self.config), "--data", str(self.data)]

    def environment(self) -> dict[str, str]:
        """Returns a minimal environment: a provider's key in the environment would enable that
        provider."""
        return {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}

    def run(self, *words: str) -> subprocess.CompletedProcess:
        """Runs a command and prints it with its output."""
        command = self.command(*words)
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=120)
        print(f"$ tollgate {' '.join(words)}\n{done.stdout}{done.stderr}".rstrip(), flush=True)
        return done

    def cli(self, *words: str, json_output: bool = False):
        """Runs a command silently and returns its output, as text or parsed JSON. Raises if it
        fails."""
        command = self.command(*words, *(["--json"] if json_output else []))
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise RuntimeError(f"tollgate {' '.join(words)} failed: {done.stdout}{done.stderr}")
        return json.loads(done.stdout) if json_output else done.stdout

    def settled_balance(self) -> tuple[Decimal, Decimal]:
        """Returns the credits and the held credits. Waits at most a minute until none are held."""
        deadline = time.monotonic() + 60
        while True:
            shown = self.cli("credits", "balance", self.account, json_output=True)
            held = Decimal(str(shown["held"]))
            if held == 0 or time.monotonic() > deadline:
                return Decimal(str(shown["credits"])), held
            time.sleep(0.1)
