"""The lock of an image cache that machines share, with and without `flock`."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from agent_bootstrap.agent.containers.directory import ContainerDirs
from agent_bootstrap.agent.runtimes.commands import cache_lock
from agent_bootstrap.agent.runtimes.commands.cache_lock import STALE_S, try_lock


@pytest.fixture(params=[None, errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def file_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With locks, and without."""
    if request.param is not None:

        def flock(descriptor: int, operation: int) -> None:
            raise OSError(request.param, os.strerror(request.param))

        monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.usefixtures("file_system")
def test_one_has_it_until_it_closes_it(tmp_path: Path) -> None:
    path = tmp_path / "net.sif.lock"
    held = try_lock(path)
    assert held is not None
    assert try_lock(path) is None
    held.freshen()
    held.close()
    again = try_lock(path)
    assert again is not None
    again.close()
    assert [file.name for file in tmp_path.iterdir()] == ["net.sif.lock"]


@pytest.mark.parametrize("file_system", [errno.ENOSYS], indirect=True)
def test_what_a_crash_left_is_taken_over_once_it_is_stale(
    file_system: None, tmp_path: Path
) -> None:
    path = tmp_path / "net.sif.lock"
    crashed = try_lock(path)
    assert crashed is not None
    assert crashed.mark is not None
    for age_s, free in ((STALE_S / 2, False), (STALE_S + 60, True)):
        at = crashed.mark.stat().st_mtime - age_s
        os.utime(crashed.mark, (at, at))
        held = try_lock(path)
        assert (held is not None) is free
        if held is not None:
            assert try_lock(path) is None
            held.close()


@pytest.mark.parametrize("file_system", [errno.ENOSYS], indirect=True)
def test_of_two_that_see_a_stale_one_only_the_first_takes_it_over(
    file_system: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.sif.lock"
    crashed = try_lock(path)
    assert crashed is not None
    assert crashed.mark is not None
    os.utime(crashed.mark, (0, 0))
    is_stale, firsts = cache_lock._is_stale, []

    def and_another_is_faster(mark: Path) -> bool:
        told = is_stale(mark)
        monkeypatch.setattr(cache_lock, "_is_stale", is_stale)
        firsts.append(try_lock(path))
        return told

    monkeypatch.setattr(cache_lock, "_is_stale", and_another_is_faster)
    assert try_lock(path) is None
    (first,) = firsts
    assert first is not None
    crashed.close()
    assert try_lock(path) is None, "whose lock was taken over does not end the new one"
    first.close()
    assert [file.name for file in tmp_path.iterdir()] == ["net.sif.lock"]


def test_other_troubles_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="broken"):
        try_lock(tmp_path / "lock")
    with pytest.raises(OSError, match="broken"), ContainerDirs(tmp_path).locked():
        pass


@pytest.mark.parametrize("file_system", [errno.ENOSYS, errno.ENOTSUP], indirect=True)
def test_an_agent_works_where_nothing_can_be_locked(file_system: None, tmp_path: Path) -> None:
    dirs = ContainerDirs(tmp_path)
    with dirs.locked():
        assert dirs.load() == []
