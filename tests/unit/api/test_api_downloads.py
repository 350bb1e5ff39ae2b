"""Checkpoints through the master: archives by a real worker process."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.api_world import PASSWORD, ApiWorld

CONTENT = {"weights.bin": os.urandom(3_000_000), "log.txt": b"text\n" * 50_000, "code/a ü.py": b""}
UUID = "0a1b2c3d-0000-4000-8000-000000000001"


def written(storage: Path) -> Path:
    storage.chmod(0o1777)
    for name, content in {**CONTENT, "metadata.json": b"{}"}.items():
        (storage / UUID / name).parent.mkdir(parents=True, exist_ok=True)
        (storage / UUID / name).write_bytes(content)
    return storage / UUID


@pytest.fixture
async def saved(world: ApiWorld, tmp_path: Path) -> Path:
    """A checkpoint of a trial of `admin`, and the folder with its files."""
    await world.add_agent()
    run = await world.run_of(await world.create())
    folder = written(tmp_path)
    await world.checkpoint(run, UUID, 1)
    return folder


def members(archive: tarfile.TarFile) -> dict[str, bytes]:
    found = {}
    for member in archive:
        file = archive.extractfile(member)
        if file is not None:
            found[member.name] = file.read()
    return found


EXPECTED = {**CONTENT, "metadata.json": b"{}"}


@pytest.mark.slow
async def test_the_three_formats_hold_all_files(world: ApiWorld, saved: Path) -> None:
    async def get(accept: str | None) -> bytes:
        headers = {} if accept is None else {"Accept": accept}
        answer = await world.call("GET", f"/checkpoints/{UUID}", headers=headers)
        assert answer.status_code == 200, answer.text
        assert "content-encoding" not in answer.headers
        assert UUID in answer.headers["content-disposition"]
        return answer.content

    for accept in ("application/x-tar", "*/*"):
        with tarfile.open(fileobj=io.BytesIO(await get(accept)), mode="r|") as archive:
            assert members(archive) == EXPECTED
    packed = await get("application/gzip")
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r|gz") as archive:
        assert members(archive) == EXPECTED
    assert len(packed) < sum(map(len, EXPECTED.values())), "text is compressed"
    assert gzip.decompress(packed)
    with zipfile.ZipFile(io.BytesIO(await get("application/zip"))) as zipped:
        assert zipped.testzip() is None
        files = {n: zipped.read(n) for n in zipped.namelist() if not n.endswith("/")}
        assert files == EXPECTED
    assert "text/plain" in await world.refused(
        415, "GET", f"/checkpoints/{UUID}", headers={"Accept": "text/plain"}
    )
    page = await world.call("GET", f"/checkpoints/{UUID}", headers={"Accept": "text/html"})
    assert page.status_code == 415
    assert page.headers["content-type"].startswith("text/html")
    assert "application/zip" in page.text, "a browser is told what it could ask for"


def private(path: Path, uid: int) -> None:
    os.chown(path, uid, uid)
    path.chmod(0o600)


def link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def moved(folder: Path) -> Path:
    return folder.rename(folder.with_name("moved"))


async def test_what_is_not_there_is_refused_in_words(world: ApiWorld, saved: Path) -> None:
    other = UUID.replace("0001", "0002")
    assert "not found" in await world.refused(404, "GET", f"/checkpoints/{other}")
    assert "not a UUID" in await world.refused(400, "GET", "/checkpoints/x")
    moved(saved)
    assert "--mode direct" in await world.refused(409, "GET", f"/checkpoints/{UUID}")


@pytest.mark.slow
async def test_links_are_not_followed(world: ApiWorld, saved: Path, tmp_path: Path) -> None:
    link(saved / "link", Path("/etc/passwd"))
    link(saved / "code" / "up", tmp_path)
    os.mkfifo(saved / "pipe")
    answer = await world.call("GET", f"/checkpoints/{UUID}")
    assert answer.status_code == 200, answer.text
    with tarfile.open(fileobj=io.BytesIO(answer.content), mode="r|") as archive:
        assert members(archive) == EXPECTED
    link(saved, moved(saved))
    await world.refused(409, "GET", f"/checkpoints/{UUID}")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read what others may not")
async def test_what_its_owner_keeps_private_others_are_not_given(
    world: ApiWorld, saved: Path
) -> None:
    private(saved / "log.txt", 41001)
    await world.login("determined", PASSWORD)
    assert "log.txt" in await world.refused(409, "GET", f"/checkpoints/{UUID}")
    await world.login()
    assert "log.txt" in await world.refused(409, "GET", f"/checkpoints/{UUID}")
    private(saved / "log.txt", 65530)
    assert (await world.call("GET", f"/checkpoints/{UUID}")).status_code == 200


async def test_there_is_a_bound_on_downloads_at_once(world: ApiWorld, saved: Path) -> None:
    world.services.downloads._running[99] = 8
    assert "--mode direct" in await world.refused(429, "GET", f"/checkpoints/{UUID}")
    world.services.downloads._running.clear()
    assert (await world.call("GET", f"/checkpoints/{UUID}")).status_code == 200
    assert world.services.downloads._running.total() == 0


async def test_a_client_that_goes_away_ends_the_work(
    world: ApiWorld, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No worker is left, and its place is free again."""
    downloads, begun = world.services.downloads, asyncio.Event()
    workers: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def noted(*words: str, **options: Any) -> asyncio.subprocess.Process:
        workers.append(await start(*words, **options))
        return workers[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    sent: list[Any] = []

    async def receive() -> Any:
        if not sent:
            sent.append("request")
            return {"type": "http.request", "body": b"", "more_body": False}
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if message.get("body"):
            begun.set()
            await asyncio.Event().wait()  # nobody reads on

    headers = [(b"authorization", f"Bearer {world.token}".encode()), (b"host", b"master")]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": f"/checkpoints/{UUID}",
        "raw_path": f"/checkpoints/{UUID}".encode(),
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("master", 80),
    }
    await world.app(scope, receive, send)
    assert begun.is_set()
    assert all(message.get("more_body", True) for message in sent[1:] if isinstance(message, dict))
    assert [worker.returncode is not None for worker in workers] == [True]
    assert downloads._running.total() == 0


NOT_UTF8 = os.fsdecode(b"latin-\xe4 50%.bin")


@pytest.mark.slow
async def test_names_that_are_not_utf8_arrive(world: ApiWorld, saved: Path) -> None:
    (saved / NOT_UTF8).write_bytes(b"content")
    url, expected = f"/checkpoints/{UUID}", {**EXPECTED, NOT_UTF8: b"content"}
    for accept, mode in (("application/x-tar", "r|"), ("application/gzip", "r|gz")):
        answer = await world.call("GET", url, headers={"Accept": accept})
        with tarfile.open(fileobj=io.BytesIO(answer.content), mode=mode) as archive:  # type: ignore[call-overload]
            assert members(archive) == expected
    zip_ = {"Accept": "application/zip"}
    answer = await world.call("GET", url, headers=zip_)
    with zipfile.ZipFile(io.BytesIO(answer.content)) as zipped:
        assert zipped.testzip() is None
        assert zipped.read("latin-%E4 50%.bin") == b"content"
        assert set(EXPECTED) < set(zipped.namelist())
    (saved / "latin-%E4 50%.bin").write_bytes(b"other")
    said = await world.refused(409, "GET", url, headers=zip_)
    assert "would both be latin-%E4 50%.bin" in said
