#!/usr/bin/env python3
"""Records the sample responses of the API reference.

Starts the gateway in a temporary folder with the simulator's models, calls each operation that the
simulator can answer, and writes crates/server/assets/documentation/samples.json. Ids, times,
signatures and durations become placeholders, and long values are shortened, so that a second
recording changes only what the gateway changed. Needs Python 3.11, ffmpeg and espeak-ng.

    scripts/record-samples.py [BINARY]      default: target/debug/tollgate
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "crates/server/assets/documentation/samples.json"
BINARY = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug/tollgate").resolve()

# The classifier of moderations are the rules of the policy.
SETTINGS = """
[limits]
rpm = 10000
[policy.rules.weapons]
apply = "both"
words = ["thermite"]
"""

# Time that the recording seems to begin at.
EPOCH = datetime(2026, 12, 1, 12, 0, tzinfo=timezone.utc)
ORIGIN = "http://127.0.0.1:8080"
SHOWN_HEADERS = ["x-request-id", "x-tollgate-cost"]
MAX_OBJECTS = 3
MAX_VALUES = 8
MAX_TEXT = 160
MAX_EVENTS = 8
RECENT_SECONDS = 60 * 86400
JOB_TIMEOUT_SECONDS = 120

TEXT = "Say hello."
CHAT = {"model": "sim/chat", "messages": [{"role": "user", "content": TEXT}]}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": TEXT}]}]}
DOCUMENTED = json.loads((ROOT / "docs/openapi.json").read_text())


def operations():
    """Returns (method, path, body example, path example) by operation id."""
    found = {}
    for path, item in DOCUMENTED["paths"].items():
        for method, operation in item.items():
            content = operation.get("requestBody", {}).get("content", {})
            example = content.get("application/json", {}).get("example")
            found[operation["operationId"]] = (method.upper(), path, example)
    return found


OPERATIONS = operations()


class Recorder:
    def __init__(self, origin, key):
        self.origin = origin
        self.key = key
        self.samples = {}
        self.started = datetime.now(timezone.utc)
        self.ids = {}

    def call(self, operation, title="Example", *, path=None, query=None, body=None, form=None, headers=None, record=True):
        """Calls an operation and returns the body: JSON, text or bytes. Records it unless told otherwise."""
        method, template, _ = OPERATIONS[operation]
        filled = template
        for name, value in (path or {}).items():
            filled = filled.replace("{%s}" % name, urllib.parse.quote(value))
        url = self.origin + filled + ("?" + urllib.parse.urlencode(query) if query else "")
        sent = {"authorization": f"Bearer {self.key}", **(headers or {})}
        data = None
        if body is not None:
            data, sent["content-type"] = json.dumps(body).encode(), "application/json"
        if form is not None:
            data, sent["content-type"] = multipart(form)
        request = urllib.request.Request(url, data=data, headers=sent, method=method)
        try:
            response = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            raw = response.read()
        kind = response.headers.get("content-type", "").split(";")[0]
        content = json.loads(raw) if kind == "application/json" else raw
        if response.status >= 300:
            raise SystemExit(f"{operation}, {title}: {response.status} {raw[:400]!r}")
        if kind.startswith("text/") or "jsonl" in kind:
            content = raw.decode()
        if record:
            sample = {"title": title}
            for name, value in (("path", path), ("query", query), ("headers", headers), ("body", body)):
                if value:
                    sample[name] = self.placeholders(value, is_short=False)
            if form:
                sample["form"] = {
                    name: f"@{value[0]}" if isinstance(value, tuple) else self.placeholders(value)
                    for name, value in form.items()
                }
            sample |= {"status": response.status, "content_type": kind}
            shown = {name: self.text(name, response.headers[name]) for name in SHOWN_HEADERS if response.headers.get(name)}
            sample["response_headers"] = shown
            if isinstance(content, str):
                sample["response"] = self.stream(content)
            elif not isinstance(content, bytes):
                sample["response"] = self.placeholders(content)
            self.samples.setdefault(operation, []).append(sample)
        return content

    def stream(self, text):
        """Replaces ids and times in events or lines of JSON, and omits events in the middle."""
        divider = "\n\n" if "\n\n" in text else "\n"
        parts = [part for part in text.split(divider) if part]
        if len(parts) > MAX_EVENTS:
            parts = parts[: MAX_EVENTS - 3] + ["…"] + parts[-2:]
        lines = []
        for line in divider.join(parts).split("\n"):
            prefix = "data: " if line.startswith("data: ") else ""
            try:
                value = json.loads(line[len(prefix):])
                line = prefix + json.dumps(self.placeholders(value), ensure_ascii=False, separators=(",", ":"))
            except ValueError:
                line = self.text("", line)
            lines.append(line)
        return "\n".join(lines)

    def placeholders(self, value, name="", is_short=True):
        """Replaces ids and times, and shortens long lists unless `is_short` is false."""
        if isinstance(value, dict):
            return {key: self.placeholders(one, key, is_short) for key, one in value.items()}
        if isinstance(value, list) and not is_short:
            return [self.placeholders(one, name, is_short) for one in value]
        if isinstance(value, list):
            limit = MAX_OBJECTS if value and isinstance(value[0], (dict, list)) else MAX_VALUES
            shown = [self.placeholders(one, name) for one in value[:limit]]
            return shown + ["…"] if len(value) > limit else shown
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, (int, float)):
            if name.endswith("_ms") and "limit" not in name:
                return 40
            if isinstance(value, int) and abs(value - self.started.timestamp()) < RECENT_SECONDS:
                return int(self.moved(datetime.fromtimestamp(value, timezone.utc)).timestamp())
            # The time of the simulator's answers is constant.
            return int(EPOCH.timestamp()) if name == "created" and value else value
        return self.text(name, value)

    def moved(self, moment):
        """Moves a time, so that the recording begins at EPOCH; differences are whole minutes."""
        minutes = round((moment - self.started).total_seconds() / 60)
        return EPOCH + timedelta(minutes=minutes)

    def text(self, name, value):
        value = value.replace(self.origin, ORIGIN)
        value = re.sub(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])", lambda match: self.id(match[0], 32), value)
        uuid = r"(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])"
        value = re.sub(uuid, lambda match: self.id(match[0], 36), value)
        value = re.sub(r"\b(sig|kid|exp)=[^&\s\"]+", lambda match: f"{match[1]}=…", value)
        time_pattern = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"
        value = re.sub(time_pattern, lambda match: self.time(match[0]), value)
        if name in ("exp", "kid", "sig", "encrypted_content"):
            return "…"
        if name == "secret":
            return "whsec_…"
        if len(value) > MAX_TEXT and " " not in value and not value.startswith("http"):
            value = value[:48] + "…"
        return value

    def time(self, text):
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        if abs((moment - self.started).total_seconds()) > RECENT_SECONDS:
            return text
        return self.moved(moment).strftime("%Y-%m-%dT%H:%M:%SZ")

    def id(self, found, length):
        """Returns the placeholder of an id: the same one each time."""
        if found not in self.ids:
            digest = hashlib.sha256(b"%d" % len(self.ids)).hexdigest()
            parts = digest[:8], digest[8:12], "7" + digest[13:16], "a" + digest[17:20], digest[20:32]
            self.ids[found] = ("-" if length == 36 else "").join(parts)
        return self.ids[found]

    def wait(self, operation, names, is_done):
        """Polls an operation until it is done. Returns the last body."""
        end = time.monotonic() + JOB_TIMEOUT_SECONDS
        while True:
            body = self.call(operation, path=names, record=False)
            if is_done(body):
                return body
            if time.monotonic() > end:
                raise SystemExit(f"{operation}: {body} takes too long")
            time.sleep(0.2)


def multipart(form):
    """Encodes the fields of a form; a file is a tuple of name, type and content."""
    boundary = "sample-boundary"
    parts = []
    for name, value in form.items():
        head = f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"'
        if isinstance(value, tuple):
            head += f'; filename="{value[0]}"\r\ncontent-type: {value[1]}'
        content = value[2] if isinstance(value, tuple) else value.encode()
        parts.append(head.encode() + b"\r\n\r\n" + content + b"\r\n")
    data = b"".join(parts) + f"--{boundary}--\r\n".encode()
    return data, f"multipart/form-data; boundary={boundary}"


def is_ended(job):
    return job["status"] in ("completed", "failed", "cancelled", "ended")


def example(operation):
    return OPERATIONS[operation][2]


def record_text(recorder):
    call = recorder.call
    chat = example("create_chat_completion")
    call("create_chat_completion", "Answer", body=chat)
    call("create_chat_completion", "Stream", body={**chat, "stream": True, "stream_options": {"include_usage": True}})
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "mild": {"type": "boolean"}},
        "required": ["city", "mild"],
        "additionalProperties": False,
    }
    structured = {"type": "json_schema", "json_schema": {"name": "weather", "strict": True, "schema": schema}}
    call("create_chat_completion", "Schema", body={**chat, "response_format": structured})
    call("create_completion", "Answer", body=example("create_completion"))
    call("create_completion", "Stream", body={**example("create_completion"), "stream": True})
    message = example("create_message")
    call("create_message", "Answer", body=message)
    call("create_message", "Stream", body={**message, "stream": True})
    call("count_message_tokens", body=example("count_message_tokens"))
    response = example("create_response")
    stored = call("create_response", "Answer", body=response)
    call("create_response", "Stream", body={**response, "stream": True})
    call("get_response", path={"id": stored["id"]})
    call("list_response_input_items", path={"id": stored["id"]})
    call("delete_response", path={"id": stored["id"]})
    slow = {**response, "input": "[[sim tokens=400 pace=20]]", "background": True}
    background = call("create_response", "Background", body=slow)
    call("cancel_response", path={"id": background["id"]})
    call("compact_response", body=example("compact_response"))
    call("count_response_input_tokens", body=example("count_response_input_tokens"))
    model = {"model": "sim/chat"}
    call("generate_content", path=model, body=example("generate_content"))
    call("stream_generate_content", path=model, query={"alt": "sse"}, body=example("stream_generate_content"))
    call("count_content_tokens", path=model, body=example("count_content_tokens"))
    vectors = {"model": "sim/embeddings"}
    call("embed_content", path=vectors, body=example("embed_content"))
    short = {**example("batch_embed_contents")["requests"][0], "outputDimensionality": 4}
    call("batch_embed_contents", path=vectors, body={"requests": [short]})
    call("create_embeddings", body=example("create_embeddings"))
    call("create_moderation", body=example("create_moderation"))
    call("create_quote", "Text", body=example("create_quote"))
    call("create_quote", "Images", body={"endpoint": "/v1/images/generations", "request": example("generate_images")})


def record_decisions(recorder):
    call = recorder.call
    call("create_decisions", body=example("create_decisions"))
    created = call("create_calibration", body=example("create_calibration"))
    names = {"calibration_id": created["id"]}
    call("list_calibrations")
    call("get_calibration", path=names)
    call("choose_calibration", path=names, body=example("choose_calibration"))
    call("delete_calibration", path=names)


def record_audio(recorder):
    call = recorder.call
    speech = call("create_speech", body=example("create_speech"))
    recording = ("morning.mp3", "audio/mpeg", speech)
    call("create_transcription", "JSON", form={"model": "sim/transcribe", "file": recording})
    call("create_transcription", "Text", form={"model": "sim/transcribe", "response_format": "text", "file": recording})
    call("create_translation", form={"model": "sim/transcribe", "file": recording})


def record_realtime(recorder):
    for operation in ("create_client_secret", "create_realtime_session", "create_transcription_session"):
        recorder.call(operation, body=example(operation))


def record_media(recorder):
    call = recorder.call
    job = call("generate_images", "Job", body=example("generate_images"))
    done = recorder.wait("get_job", {"job_id": job["job_id"]}, is_ended)
    call("generate_images", "Images", body={**example("generate_images"), "num_images": 1, "sync": True})
    names = {"job_id": job["job_id"]}
    call("get_job", path=names)
    call("follow_job", path=names)
    call("list_jobs", query={"limit": "2"})
    address = urllib.parse.urlsplit(done["result"]["data"][0]["url"])
    media = dict(urllib.parse.parse_qsl(address.query))
    image = call("get_media", path={"media_id": address.path.rsplit("/", 1)[1]}, query=media)
    drawing = ("lighthouse.png", "image/png", image)
    call("edit_images", form={"prompt": "The same lighthouse at night.", "image": drawing})
    call("vary_image", form={"image": drawing})
    call("list_templates")
    call("list_image_templates")
    call("list_video_templates")
    call("get_template_preview", path={"slug": "product-on-white"})
    call("generate_video", body=example("generate_video"))
    call("compose_video", body=example("compose_video"))
    call("list_compose_recipes")
    running = call("generate_images", body=example("generate_images"), record=False)
    call("cancel_job", path={"job_id": running["job_id"]})
    video = call("create_video", body=example("create_video"))
    names = {"video_id": video["id"]}
    recorder.wait("get_video", names, is_ended)
    call("get_video", path=names)
    call("list_videos", query={"limit": "2"})
    call("get_video_content", path=names)
    remix = call("remix_video", path=names, body=example("remix_video"))
    recorder.wait("get_video", {"video_id": remix["id"]}, is_ended)
    call("delete_video", path={"video_id": remix["id"]})


def record_research(recorder):
    question = {
        "model": "sim/research",
        "query": "How many passengers did Orsel Lines carry in 2019?",
        "reasoning_effort": "minimal",
    }
    job = recorder.call("create_research", "Job", body=question)
    recorder.wait("get_job", {"job_id": job["job_id"]}, is_ended)
    report = recorder.call("create_research", "Report", body={**question, "sync": True})
    citation = report["citations"][0]
    names = {"job_id": report["job_id"], "source_id": citation["source_id"]}
    recorder.call("get_source_text", path=names, query={name: str(citation[name]) for name in ("start", "end")})
    created = recorder.call("create_async_chat_completion", body=example("create_async_chat_completion"))
    names = {"id": created["id"]}
    recorder.wait("get_async_chat_completion", names, lambda found: found["status"] == "COMPLETED")
    recorder.call("get_async_chat_completion", path=names)
    recorder.call("list_async_chat_completions", query={"limit": "2"})


def record_files(recorder):
    call = recorder.call
    line = {"custom_id": "first", "method": "POST", "url": "/v1/chat/completions", "body": CHAT}
    requests = ("requests.jsonl", "application/jsonl", (json.dumps(line) + "\n").encode())
    file = call("create_file", form={"purpose": "batch", "file": requests})
    names = {"file_id": file["id"]}
    call("get_file", path=names)
    call("list_files", query={"limit": "2"})
    batch = call("create_batch", body={**example("create_batch"), "input_file_id": file["id"]})
    batch_names = {"batch_id": batch["id"]}
    recorder.wait("get_batch", batch_names, is_ended)
    done = call("get_batch", path=batch_names)
    call("list_batches", query={"limit": "2"})
    call("get_file_content", path={"file_id": done["output_file_id"]})
    other = call("create_file", form={"purpose": "batch", "file": requests}, record=False)
    call("delete_file", path={"file_id": other["id"]})
    slow = {**line, "body": {**CHAT, "messages": [{"role": "user", "content": "[[sim tokens=400 pace=20]]"}]}}
    slow_file = ("slow.jsonl", "application/jsonl", (json.dumps(slow) + "\n").encode())
    input_file = call("create_file", form={"purpose": "batch", "file": slow_file}, record=False)
    running = call("create_batch", body={**example("create_batch"), "input_file_id": input_file["id"]}, record=False)
    call("cancel_batch", path={"batch_id": running["id"]})
    version = {"anthropic-version": "2023-06-01"}
    messages = call("create_message_batch", body=example("create_message_batch"), headers=version)
    message_names = {"message_batch_id": messages["id"]}
    recorder.wait("get_message_batch", message_names, lambda one: one["processing_status"] == "ended")
    call("get_message_batch", path=message_names)
    call("list_message_batches", query={"limit": "2"})
    call("get_message_batch_results", path=message_names)
    call("delete_message_batch", path=message_names)
    slow_message = {"model": "sim/chat", "max_tokens": 400, "messages": slow["body"]["messages"]}
    slow_batch = {"requests": [{"custom_id": "slow", "params": slow_message}]}
    running = call("create_message_batch", body=slow_batch, record=False)
    call("cancel_message_batch", path={"message_batch_id": running["id"]})


def record_account(recorder):
    call = recorder.call
    call("list_models")
    call("get_model", path={"model": "sim/chat"})
    call("list_content_models", query={"pageSize": "2"})
    call("get_content_model", path={"model": "sim/chat"})
    call("get_account_usage", query={"limit": "1"})
    call("get_webhook_secret")
    call("rotate_webhook_secret")


class Person:
    """A person who is signed in to the console, which saves the chats that keys can read."""

    def __init__(self, origin, token):
        self.origin, self.headers = origin, {"x-tollgate-account": "-"}
        signed_in = self.send("POST", "/console/api/v1/sign-in/link", {"token": token})
        self.headers["x-tollgate-account"] = signed_in["session"]["accounts"][0]["id"]

    def send(self, method, path, body):
        headers = {**self.headers, "content-type": "application/json", "sec-fetch-site": "same-origin"}
        request = urllib.request.Request(self.origin + path, data=json.dumps(body).encode(), headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            if cookie := response.headers["set-cookie"]:
                self.headers["cookie"] = cookie.split(";")[0]
            return json.load(response)


def record_conversations(recorder, person):
    call = recorder.call
    completion = call("create_chat_completion", body=CHAT, record=False)
    answer = {
        "model": completion["model"],
        "content": completion["choices"][0]["message"]["content"],
        "status": "completed",
        "usage": {name: completion["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")},
    }
    chat = f"chat_{uuid.uuid4().hex[:12]}7{uuid.uuid4().hex[:3]}a{uuid.uuid4().hex[:15]}"
    turns = [{"input": {"role": "user", "content": TEXT}, "answers": [answer]}]
    saved = {"base_revision": 0, "from": 0, "turns": turns, "kind": "chat", "title": "Greeting", "settings": {}}
    person.send("PUT", f"/console/api/v1/chats/{chat}", saved)
    call("list_conversations", query={"limit": "2"})
    call("get_conversation", path={"id": chat})


def main():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "tollgate.toml").write_text(SETTINGS)
        listeners = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", str(Path(folder, "data"))]
        server = subprocess.Popen(
            [BINARY, "serve", *listeners],
            cwd=folder,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "TOLLGATE_LOG": "error", "HOME": folder},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            origin = key = token = None
            for line in server.stdout:
                origin = origin or (match := re.search(r"listens on (http\S+)", line)) and match[1]
                token = token or (match := re.search(r"sign-in#(\S+)", line)) and match[1]
                if match := re.search(r"first key\s+(\S+)", line):
                    key = match[1]
                    break
            recorder = Recorder(origin, key)
            for record in (
                record_text,
                record_account,
                record_decisions,
                record_audio,
                record_media,
                record_research,
                record_files,
            ):
                record(recorder)
            record_conversations(recorder, Person(origin, token))
            record_realtime(recorder)
        finally:
            server.terminate()
            server.wait()
    ordered = {operation: recorder.samples[operation] for operation in OPERATIONS if operation in recorder.samples}
    lines = [f" {json.dumps(name)}: {json.dumps(samples, ensure_ascii=False)}" for name, samples in ordered.items()]
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    left = [name for name in OPERATIONS if name not in ordered and "_v1beta" not in name and "_systemone" not in name]
    print(f"{len(ordered)} operations, {OUT.stat().st_size} bytes; without a sample: {', '.join(left)}")


main()
