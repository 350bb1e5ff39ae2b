"""Ranks that really talk over TCP; each is a thread here."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from client_scripted_master import WAIT_S, free_port

from windlass import core
from windlass.core._checkpoint import LocalReporter
from windlass.core._star import Chief, Worker
from windlass.storage import LocalStorage

T = TypeVar("T")


def run_ranks(
    program: Callable[[core.DistributedContext], T], *, machines: int = 1, per_machine: int = 3
) -> list[T]:
    """Run `program` on every rank; its results in rank order."""
    port, size = free_port(), machines * per_machine

    def one(rank: int) -> T:
        dist = core.DistributedContext(
            rank=rank,
            size=size,
            local_rank=rank % per_machine,
            local_size=per_machine,
            cross_rank=rank // per_machine,
            cross_size=machines,
            chief_ip="127.0.0.1",
            pub_port=port,
        )
        try:
            return program(dist)
        finally:
            dist.close()

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(one, rank) for rank in range(size)]
        return [future.result(WAIT_S) for future in futures]


@pytest.mark.parametrize(("machines", "per_machine"), [(1, 3), (2, 2), (3, 1)])
def test_collectives(machines: int, per_machine: int) -> None:
    def program(dist: core.DistributedContext) -> tuple[object, ...]:
        return (
            dist.gather(dist.rank),
            dist.allgather(dist.rank * 10),
            dist.broadcast({"from": dist.rank}),
            dist.gather_local(dist.rank),
            dist.allgather_local(dist.rank),
            dist.broadcast_local(dist.rank),
        )

    size = machines * per_machine
    for rank, result in enumerate(run_ranks(program, machines=machines, per_machine=per_machine)):
        first = rank - rank % per_machine
        local = list(range(first, first + per_machine))
        assert result == (
            list(range(size)) if rank == 0 else None,
            [r * 10 for r in range(size)],
            {"from": 0},
            local if rank == first else None,
            local,
            first,
        )


def test_large_values_pass() -> None:
    big = b"x" * (3 << 20)
    assert run_ranks(lambda dist: len(dist.broadcast(big))) == [len(big)] * 3


def test_a_rank_of_one_needs_nobody() -> None:
    dist = core.DummyDistributedContext()
    assert (dist.gather(1), dist.allgather(2), dist.broadcast(3)) == ([1], [2], 3)
    dist.close()


def test_several_machines_need_the_chiefs_address() -> None:
    with pytest.raises(ValueError, match="chief_ip"):
        core.DistributedContext(
            rank=0, size=2, local_rank=0, local_size=1, cross_rank=0, cross_size=2
        )


def test_strangers_are_turned_away_and_do_not_count() -> None:
    chief = Chief("127.0.0.1", 0, 2, b"k" * 32)

    def stranger() -> None:
        with pytest.raises(PermissionError):
            Worker("127.0.0.1", chief.port, 1, b"wrong" * 8, timeout_s=WAIT_S)

    def nonsense() -> None:
        with socket.create_connection(("127.0.0.1", chief.port)) as sock:
            sock.sendall(struct.pack("!I", 1) + b"n" * 200)
            with contextlib.suppress(OSError):
                while sock.recv(100):
                    pass

    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(chief.accept_all, WAIT_S)
        stranger()
        nonsense()
        worker = Worker("127.0.0.1", chief.port, 1, b"k" * 32, timeout_s=WAIT_S)
        accepting.result(WAIT_S)
    worker.send("hello")
    assert chief.gather() == ["hello"]
    worker.close()
    chief.close()


def test_a_changed_message_is_refused() -> None:
    chief = Chief("127.0.0.1", 0, 2, b"k" * 32)
    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(chief.accept_all, WAIT_S)
        worker = Worker("127.0.0.1", chief.port, 1, b"k" * 32, timeout_s=WAIT_S)
        accepting.result(WAIT_S)
    worker._line.sock.sendall(struct.pack("!Q", 4) + b"\0" * 32 + b"evil")
    with pytest.raises(PermissionError, match="changed"):
        chief.gather()
    worker.close()
    chief.close()


def test_a_rank_that_goes_is_noticed() -> None:
    def program(dist: core.DistributedContext) -> str:
        if dist.rank == 1:
            return "left"
        try:
            dist.allgather(None)
        except ConnectionError as lost:
            return str(lost)
        return "went on"

    assert "rank 1" in run_ranks(program, per_machine=2)[0]


def _context(dist: core.DistributedContext, base: Path) -> core.CheckpointContext:
    storage = LocalStorage(base)
    return core.CheckpointContext(dist, storage, LocalReporter(storage))


def test_a_sharded_store_has_every_ranks_files(tmp_path: Path) -> None:
    def program(dist: core.DistributedContext) -> str:
        checkpoint = _context(dist, tmp_path)
        metadata = {"steps_completed": 3, "ranks": {str(dist.rank): True}}
        with checkpoint.store_path(metadata, shard=True) as (path, uuid):
            (path / f"shard{dist.rank}").write_text(str(dist.rank))
        with checkpoint.restore_path(uuid) as restored:
            assert (restored / "shard0").exists()
        return uuid

    uuids = run_ranks(program)
    assert len(set(uuids)) == 1
    names = {p.name for p in (tmp_path / uuids[0]).iterdir()}
    assert names == {"shard0", "shard1", "shard2", "metadata.json"}
    metadata = LocalReporter(LocalStorage(tmp_path)).metadata(uuids[0])
    assert metadata == {"steps_completed": 3, "ranks": {"0": True, "1": True, "2": True}}


def test_one_failing_rank_fails_the_sharded_store_everywhere(tmp_path: Path) -> None:
    def save(dist: core.DistributedContext) -> None:
        with _context(dist, tmp_path).store_path({"steps_completed": 1}, shard=True):
            if dist.rank == 1:
                raise ZeroDivisionError("disk full")

    def program(dist: core.DistributedContext) -> str:
        try:
            save(dist)
        except (ZeroDivisionError, RuntimeError) as error:
            return str(error)
        return "stored"

    first, failing, third = run_ranks(program)
    assert failing == "disk full"
    assert first == third
    assert "rank 1: ZeroDivisionError: disk full" in first


def test_a_sharded_upload_is_the_union_and_refuses_conflicts(tmp_path: Path) -> None:
    def program(dist: core.DistributedContext) -> str:
        checkpoint = _context(dist, tmp_path / "storage")
        source = tmp_path / f"rank{dist.rank}"
        source.mkdir()
        (source / f"own{dist.rank}").write_text(str(dist.rank))
        (source / "same").write_text("same")
        uuid = checkpoint.upload(source, {"steps_completed": 1}, shard=True)
        (source / "same").write_text(str(dist.rank))
        with pytest.raises(RuntimeError, match="same"):
            checkpoint.upload(source, {"steps_completed": 2}, shard=True)
        return uuid

    uuid = run_ranks(program)[0]
    stored = {p.name: p.read_text() for p in (tmp_path / "storage" / uuid).iterdir()}
    assert {"own0", "own1", "own2", "same", "metadata.json"} == set(stored)
    assert stored["same"] == "same"


def test_ranks_of_one_machine_share_a_download(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "storage")
    for name in ("a", "b", "c"):
        (storage.prepare("u") / name).write_text(name)

    def program(dist: core.DistributedContext) -> set[str]:
        checkpoint = _context(dist, storage.base)
        target = tmp_path / "target"
        checkpoint.download("u", target, selector=lambda name: name == "ab"[dist.rank])
        return {p.name for p in target.iterdir()}

    assert run_ranks(program, per_machine=2) == [{"a", "b"}] * 2


def test_without_a_token_the_key_is_a_private_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from windlass.core._star import job_key

    key = job_key()
    assert key == job_key()
    path = home / ".config" / "windlass" / "ipc.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["ipc.key"]
    monkeypatch.setenv("DET_SESSION_TOKEN", "secret")
    assert job_key() != key
