"""Lines of a model definition that contain a text."""

from __future__ import annotations

from typing import Any

from master.store.context_search import MOST_HITS
from tests.fakes.api_world import ApiWorld, file

HOSTILE = "<img src=x onerror=alert(1)>.py"
FILES = [
    file("train.py", b"import torch\nlr = 0.1\nmodel.fit(LR=lr)\n"),
    file(f"lib/{HOSTILE}", b"# lr of <script>\r\n"),
    file("weights.bin", b"lr\0lr\n"),
    file("latin.txt", b"lr \xe9\n"),
]


async def find(world: ApiWorld, experiment: int, **query: Any) -> Any:
    url = f"/api/v1/windlass/experiments/{experiment}/code/find"
    return await world.ok("GET", url, params=query)


async def test_hits_are_lines_of_text_files_by_path_and_number(world: ApiWorld) -> None:
    id_ = await world.create(modelDefinition=FILES)
    found = await find(world, id_, text="lr")
    assert [(one["path"], one["line"], one["text"]) for one in found["hits"]] == [
        ("latin.txt", 1, "lr \ufffd"),
        (f"lib/{HOSTILE}", 1, "# lr of <script>"),
        ("train.py", 2, "lr = 0.1"),
        ("train.py", 3, "model.fit(LR=lr)"),
    ]
    assert (found["total"], found["files"]) == (4, 3), "bytes that are no text are not read"
    (upper,) = (await find(world, id_, text="LR"))["hits"]
    assert upper["line"] == 3
    assert (await find(world, id_, text="LR", ignoreCase=True))["total"] == 4


async def test_long_lines_and_many_hits_are_cut_and_counted(world: ApiWorld) -> None:
    many = b"needle\n" * (MOST_HITS + 7)
    long = b"x" * 100_000 + b"thread" + b"y" * 100_000
    id_ = await world.create(modelDefinition=[file("many", many), file("long", long)])
    found = await find(world, id_, text="needle")
    assert (len(found["hits"]), found["total"]) == (MOST_HITS, MOST_HITS + 7)
    (hit,) = (await find(world, id_, text="thread"))["hits"]
    assert hit["text"].startswith("…x")
    assert hit["text"].endswith("y…")
    assert "thread" in hit["text"]
    assert len(hit["text"]) < 400


async def test_nothing_is_found_where_nothing_is(world: ApiWorld) -> None:
    id_ = await world.create()
    assert await find(world, id_, text="x") == {"hits": [], "total": 0, "files": 0}
    url = f"/api/v1/windlass/experiments/{id_}/code/find"
    assert "text" in await world.refused(400, "GET", url)
    assert "text" in await world.refused(400, "GET", url, params={"text": ""})
    missing = "/api/v1/windlass/experiments/99/code/find?text=x"
    await world.refused(404, "GET", missing)
