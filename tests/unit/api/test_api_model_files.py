"""Files of a model definition, one by one."""

from __future__ import annotations

import base64

import pytest

from master.store.context_files import MAX_LEVELS, content_type
from tests.fakes.api_world import ApiWorld, file

DIRECTORY = {**file("empty"), "type": 53}
FILES = [
    file("train.py", b"x = 1\n"),
    file("./data/sub/weights.bin", b"\0\1"),
    file("data/notes", "é".encode() * 300),
    file("data/image.png", b"\x89PNG\0"),
    DIRECTORY,
]


async def test_the_tree_has_directories_and_types(world: ApiWorld) -> None:
    id_ = await world.create(modelDefinition=FILES)
    files = (await world.ok("GET", f"/api/v1/experiments/{id_}/file_tree"))["files"]
    assert [(f["name"], f["path"], f["isDir"]) for f in files] == [
        ("data", "data", True),
        ("empty", "empty", True),
        ("train.py", "train.py", False),
    ]
    assert files[2]["contentLength"] == 6
    assert files[2]["contentType"] == "text/plain; charset=utf-8"
    assert files[2]["modifiedTime"] == "2025-03-20T10:00:00.000000Z"
    assert (files[1]["files"], files[1]["contentType"]) == ([], "")
    below = {f["path"]: f["contentType"] for f in files[0]["files"]}
    assert list(below) == ["data/sub", "data/image.png", "data/notes"]
    assert below["data/image.png"] == "image/png"
    (weights,) = files[0]["files"][0]["files"]
    assert (weights["path"], weights["contentLength"]) == ("data/sub/weights.bin", 2)


@pytest.mark.parametrize("path", ["data/sub/weights.bin", "./data//sub/weights.bin"])
async def test_a_file_is_read_as_it_was_sent(world: ApiWorld, path: str) -> None:
    id_ = await world.create(modelDefinition=FILES)
    found = await world.ok("POST", f"/api/v1/experiments/{id_}/file", {"path": path})
    assert base64.b64decode(found["file"]) == b"\0\1"


@pytest.mark.parametrize(
    ("status", "path", "message"),
    [
        (400, "../train.py", 'path: "../train.py" must stay inside the model definition'),
        (400, "data/../train.py", "must stay inside"),
        (400, "/etc/passwd", "must stay inside"),
        (400, "data", "is a directory"),
        (400, "empty", "is a directory"),
        (400, "", "is a directory"),
        (404, "train", "train"),
        (404, "train.py/x", "train.py/x"),
    ],
)
async def test_other_paths_are_refused(
    world: ApiWorld, status: int, path: str, message: str
) -> None:
    id_ = await world.create(modelDefinition=FILES)
    url = f"/api/v1/experiments/{id_}/file"
    assert message in await world.refused(status, "POST", url, {"path": path})


async def test_without_files_there_is_nothing(world: ApiWorld) -> None:
    id_ = await world.create()
    assert await world.ok("GET", f"/api/v1/experiments/{id_}/file_tree") == {"files": []}
    await world.refused(404, "POST", f"/api/v1/experiments/{id_}/file", {"path": "a"})
    await world.refused(404, "GET", "/api/v1/experiments/99/file_tree")
    await world.refused(404, "POST", "/api/v1/experiments/99/file", {"path": "a"})


async def test_deep_paths_are_shown(world: ApiWorld) -> None:
    path = "d/" * 1000 + "f"
    id_ = await world.create(modelDefinition=[file(path, b"deep")])
    files = (await world.ok("GET", f"/api/v1/experiments/{id_}/file_tree"))["files"]
    for _ in range(MAX_LEVELS):
        (files,) = (node["files"] for node in files)
    assert [node["path"] for node in files] == [path]
    found = await world.ok("POST", f"/api/v1/experiments/{id_}/file", {"path": path})
    assert base64.b64decode(found["file"]) == b"deep"


def test_text_may_be_cut_within_a_character() -> None:
    assert content_type("a.bin", "é".encode() * 256 + b"\xc3") == "text/plain; charset=utf-8"
    assert content_type("a", b"\xff\xfe\xfd\xfc") == "application/octet-stream"
