"""The read cache: within its bound, shared by processes, and whole after a crash."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.base.errors import NotFound, StorageError, StorageFull
from windlass.core.data import ReadCache
from windlass.core.data._quota import PART, Cached, choose_evicted

MIB = 1024 * 1024

cached = st.builds(
    Cached,
    path=st.integers(0, 10**9).map(lambda number: Path(str(number))),
    size=st.integers(0, 50),
    used_ns=st.integers(0, 20),
    is_part=st.booleans(),
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "bucket" / "train"
    folder.mkdir(parents=True)
    for number in range(10):
        (folder / f"{number}.bin").write_bytes(bytes([number]) * 100)
    return tmp_path / "bucket"


def cache_of(source: Path, max_bytes: int = 10_000) -> ReadCache:
    return ReadCache(str(source), source.parent / "cache", max_bytes=max_bytes)


def used(cache: ReadCache) -> int:
    return sum(path.stat().st_size for path in cache.directory.iterdir() if path.name != "total")


def parts(cache: ReadCache) -> list[Path]:
    return list(cache.directory.glob(f"*{PART}"))


@given(files=st.lists(cached, max_size=20), wanted=st.integers(0, 60), most=st.integers(1, 400))
def test_the_least_recently_used_go_and_no_more_than_needed(
    files: list[Cached], wanted: int, most: int
) -> None:
    evicted = choose_evicted(files, wanted, most)
    assert not any(file.is_part for file in evicted)
    stay = [file for file in files if not file.is_part and file not in evicted]
    if evicted and stay:
        assert max(f.used_ns for f in evicted) <= min(f.used_ns for f in stay)
    total = sum(file.size for file in files) - sum(file.size for file in evicted)
    assert total + wanted <= max(most * 90 // 100, wanted) or not stay
    if evicted:
        assert total + evicted[-1].size + wanted > max(most * 90 // 100, wanted)


def test_a_file_is_fetched_once(source: Path) -> None:
    cache = cache_of(source)
    assert cache.read("train", "3.bin") == b"\3" * 100
    (source / "train" / "3.bin").unlink()
    assert cache.read("train", "3.bin") == b"\3" * 100
    assert cache_of(source).read("train", "3.bin") == b"\3" * 100
    assert parts(cache) == []


def test_it_stays_within_its_bound_and_keeps_what_was_read_last(source: Path) -> None:
    cache = cache_of(source, 450)
    for number in (0, 1, 2, 3):
        cache.read("train", f"{number}.bin")
    cache.read("train", "0.bin")
    with cache.open("train", "1.bin") as held:
        for number in (0, 4, 5, 6):
            cache.read("train", f"{number}.bin")
            assert used(cache) <= 450
        (source / "train").rename(source / "gone")
        assert cache.read("train", "0.bin") == b"\0" * 100
        with pytest.raises(NotFound):
            cache.read("train", "1.bin")
        assert held.read() == b"\1" * 100  # removed, and still whole for whoever has it open


def test_what_does_not_fit_is_named_and_leaves_nothing(source: Path) -> None:
    cache = cache_of(source, 250)
    (source / "train" / "large.bin").write_bytes(b"x" * 3 * MIB)
    with pytest.raises(StorageFull, match=r"train/large\.bin: cache .* limited to 250 bytes"):
        cache.read("train", "large.bin")
    assert used(cache) == 0
    assert cache.read("train", "1.bin") == b"\1" * 100
    assert cache.read("train", "2.bin") == b"\2" * 100
    assert used(cache) == 200


def test_a_missing_file_leaves_nothing(source: Path) -> None:
    cache = cache_of(source)
    with pytest.raises(NotFound):
        cache.read("train", "none.bin")
    assert used(cache) == 0


def test_what_a_dead_process_left_is_neither_read_nor_kept(source: Path) -> None:
    cache = cache_of(source, 450)
    cache.read("train", "0.bin")
    (kept,) = (path for path in cache.directory.iterdir() if path.name != "total")
    kept.rename(kept.with_name(kept.name + PART))
    os.truncate(kept.with_name(kept.name + PART), 30)
    assert cache.read("train", "0.bin") == b"\0" * 100

    abandoned = cache.directory / f"{'a' * 64}{PART}"
    abandoned.write_bytes(b"y" * 400)
    (cache.directory / "total").write_bytes(b"torn")
    assert cache.read("train", "1.bin") == b"\1" * 100
    assert not abandoned.exists()
    assert used(cache) == 200


def test_what_is_being_written_is_not_removed_and_counts(source: Path) -> None:
    cache = cache_of(source, 450)
    cache.read("train", "0.bin")
    part = cache.directory / f"{'a' * 64}{PART}"
    with part.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b"y" * 400)
        file.flush()
        (cache.directory / "total").unlink()
        with pytest.raises(StorageFull):
            cache.read("train", "1.bin")
        assert part.stat().st_size == 400
    assert cache.read("train", "1.bin") == b"\1" * 100
    assert not part.exists()


def test_a_directory_that_cannot_be_made_is_named(source: Path) -> None:
    blocked = source.parent / "file"
    blocked.write_bytes(b"")
    with pytest.raises(StorageError, match=f"{blocked}/cache.*: Not a directory"):
        ReadCache(str(source), blocked / "cache", max_bytes=100).read("train", "0.bin")


def _read_all(cache: ReadCache, offset: int) -> bool:
    """Every file five times, each process and thread in another order."""

    def one(number: int) -> bool:
        return cache.read("train", f"{number}.bin") == bytes([number]) * 100

    with ThreadPoolExecutor(4) as pool:
        return all(pool.map(one, [(offset * 3 + n * 7) % 10 for n in range(50)]))


def test_processes_and_threads_share_one_directory(source: Path) -> None:
    cache = cache_of(source, 1500)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(3, mp_context=context) as pool:
        assert all(pool.map(_read_all, [cache] * 3, range(3)))
    assert parts(cache) == []
    assert int((cache.directory / "total").read_bytes()) == used(cache) == 1000


def test_threads_that_evict_each_others_files(source: Path) -> None:
    cache = pickle.loads(pickle.dumps(cache_of(source, 700)))  # noqa: S301 - our own
    assert _read_all(cache, 0)
    assert parts(cache) == []
    assert used(cache) <= 700


def _problem_of_reading(cache: ReadCache) -> str:
    with pytest.raises(StorageError) as problem:
        cache.read("train", "0.bin")
    return str(problem.value)


def test_a_bucket_in_a_forked_process_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    cache = ReadCache("s3://bucket/data", tmp_path, max_bytes=100)
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(
        target=lambda: sender.send(_problem_of_reading(cache))
    )
    child.start()
    assert 'multiprocessing_context="forkserver"' in receiver.recv()
    child.join()


def test_a_bound_below_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_bytes must be 1 or more, not 0"):
        ReadCache(str(tmp_path), tmp_path, max_bytes=0)
