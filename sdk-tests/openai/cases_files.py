"""Files: upload, list, download, use in a request and delete."""

from __future__ import annotations

import openai

from client import client
from harness import case, check, equal, raises

FILES = "/v1/files"


def upload(name: str = "notes.txt", content: bytes = b"plain words", purpose: str = "user_data", **more):
    return client().files.create(file=(name, content), purpose=purpose, **more)


@case("files", "gateway", FILES)
def files() -> None:
    file = upload(expires_after={"anchor": "created_at", "seconds": 3600})
    equal((file.object, file.filename, file.bytes, file.purpose), ("file", "notes.txt", 11, "user_data"), "file")
    equal((file.status, file.expires_at - file.created_at), ("processed", 3600), "status and end")
    equal(client().files.retrieve(file.id), file, "retrieved")
    equal(client().files.content(file.id).read(), b"plain words", "content")
    equal(client().files.wait_for_processing(file.id).id, file.id, "processed")
    gone = client().files.delete(file.id)
    equal((gone.id, gone.object, gone.deleted), (file.id, "file", True), "deleted")
    raises(openai.NotFoundError, lambda: client().files.retrieve(file.id))


@case("files list", "gateway", FILES)
def files_list() -> None:
    ids = [upload(f"{number}.jsonl", b"{}\n", "batch").id for number in range(3)]
    newest = [file.id for _, file in zip(range(3), client().files.list(purpose="batch", limit=2))]
    equal(newest, ids[::-1], "newest first, over two pages")
    oldest = client().files.list(purpose="batch", order="asc", after=ids[1]).data
    equal([file.id for file in oldest], ids[2:], "the oldest first, behind one")
    for id in ids:
        client().files.delete(id)


@case("files errors", "gateway", FILES)
def files_errors() -> None:
    empty = raises(openai.BadRequestError, lambda: upload(content=b""))
    equal((empty.code, empty.param), ("invalid_parameter", "file"), "an empty file")
    unknown = raises(openai.BadRequestError, lambda: upload(purpose="fun"))
    equal(unknown.param, "purpose", "an unknown purpose")
    missing = raises(openai.NotFoundError, lambda: client().files.content("file-none"))
    check((missing.request_id or "").startswith("req_"), "request id")
