"""Videos: create in the background, poll, download, list and delete."""

from __future__ import annotations

import base64

import openai

from client import client
from harness import PNG, case, check, equal, raises

FILMS = "/v1/videos"
MODEL = "sim/video"


def video_request(**more):
    return {"model": MODEL, "prompt": "a fox in the snow", "seconds": "1", "size": "320x180"} | more


def made(**more):
    video = client().videos.create_and_poll(**video_request(**more), poll_interval_ms=200)
    equal(video.status, "completed", f"status, error {video.error}")
    return video


@case("videos", "simulator", "gateway", FILMS)
def videos() -> None:
    video = made()
    equal(video.object, "video", "object")
    equal(video.model, MODEL, "model")
    equal((video.size, video.seconds, video.progress), ("320x180", "1", 100), "size, seconds, progress")
    equal(video.prompt, "a fox in the snow", "prompt")
    check(video.completed_at >= video.created_at, "completed_at")
    equal(client().videos.retrieve(video.id), video, "retrieved")
    content = client().videos.download_content(video.id).read()
    equal(content[4:8], b"ftyp", "the video")
    for variant in ("thumbnail", "spritesheet"):
        image = client().videos.download_content(video.id, variant=variant).read()
        equal(image[:3], b"\xff\xd8\xff", variant)
    client().videos.delete(video.id)


@case("videos reference", "simulator", "gateway", FILMS)
def videos_reference() -> None:
    image = base64.b64decode(PNG)
    made(input_reference=("first.png", image, "image/png"))


@case("videos remix", "simulator", "gateway", FILMS)
def videos_remix() -> None:
    video = made()
    again = client().videos.remix(video.id, prompt="the same in the rain")
    again = client().videos.poll(again.id, poll_interval_ms=200)
    equal(again.status, "completed", "status")
    equal((again.remixed_from_video_id, again.size), (video.id, video.size), "what it was made from")


@case("videos list and delete", "simulator", "gateway", FILMS)
def videos_list_and_delete() -> None:
    slow = video_request(prompt="[[sim delay=60000]] a fox")
    ids = [client().videos.create(**slow).id for _ in range(3)]
    newest = [video.id for _, video in zip(range(3), client().videos.list(limit=2))]
    equal(newest, ids[::-1], "newest first, over two pages")
    for id in ids:
        gone = client().videos.delete(id)
        equal((gone.id, gone.object, gone.deleted), (id, "video.deleted", True), "deleted")
        raises(openai.NotFoundError, lambda: client().videos.retrieve(id))


@case("videos errors", "simulator", "gateway", FILMS)
def videos_errors() -> None:
    failed = client().videos.create_and_poll(**video_request(prompt="[[sim refuse]] a fox"), poll_interval_ms=200)
    equal((failed.status, failed.error.code), ("failed", "output_blocked"), "a blocked video")
    refused = raises(openai.UnprocessableEntityError, lambda: client().videos.create(**video_request(seconds="7")))
    equal(refused.param, "seconds", "param")
    unfinished = client().videos.create(**video_request(prompt="[[sim delay=60000]] a fox"))
    raises(openai.ConflictError, lambda: client().videos.download_content(unfinished.id))
    client().videos.delete(unfinished.id)
