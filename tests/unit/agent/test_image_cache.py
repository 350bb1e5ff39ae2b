"""Images that were made for tasks: who shares one, and which are removed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agent_bootstrap.agent.runtimes.commands.cache import LEFT_AFTER_S, ImageCache, size_of
from agent_bootstrap.protocol import RegistryCredentials
from windlass.base.formats.image_reference import ImageReference, parse_image

NET, OTHER = parse_image("r.example/team/net:1"), parse_image("r.example/team/other:1")
ME, YOU = (
    RegistryCredentials(username="me", password="a"),
    RegistryCredentials(username="you", password="a"),
)


def cache(folder: Path, **options: object) -> ImageCache:
    return ImageCache(folder=folder, suffix=".sif", agent_id="a", **options)  # type: ignore[arg-type]


def make(images: ImageCache, place: Path, size: int = 4096, used: float = 0.0) -> Path:
    scratch = images.scratch()
    made = scratch / "image.sif"
    made.write_bytes(b"x" * size)
    images.put(made, place)
    scratch.rmdir()
    os.utime(place, (used, place.stat().st_mtime))
    return place


def test_an_image_has_one_readable_place_that_only_its_logins_share(tmp_path: Path) -> None:
    images = cache(tmp_path)
    place = images.place_of(NET, None)
    assert place.name.startswith("net_1-")
    assert place.suffix == ".sif"
    assert images.place_of(parse_image("docker://r.example/team/net:1"), None) == place
    places = {images.place_of(NET, login) for login in (None, ME, YOU)}
    assert len(places) == 3
    assert images.place_of(parse_image("r.example/x/net:1"), None) != place
    long = parse_image("r.example/" + "a" * 200)
    assert len(images.place_of(long, None).name) < 120
    for path in ("/images/--rc", "/images/-._"):
        name = images.place_of(parse_image(path), None).name
        assert name[0] not in "-.", "programs would take it for an option"


def test_what_is_made_is_taken_by_whoever_asks_next(tmp_path: Path) -> None:
    images = cache(tmp_path)
    place = images.place_of(NET, None)
    held = images.lock(place)
    assert held is not None
    assert images.lock(place) is None, "another one waits"
    assert not images.take(place, "c1")
    make(images, place)
    assert images.take(place, "c1")
    held.close()
    again = images.lock(place)
    assert again is not None
    assert not images.take(place, "c2", not_before=time.time() + 1), "a newer one is wanted"
    again.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs tasks of other users")
def test_an_image_that_root_made_is_read_by_tasks_of_other_users(tmp_path: Path) -> None:
    images = cache(tmp_path / "images")
    before = os.umask(0o077)
    try:
        held = images.lock(images.place_of(NET, None))
        assert held is not None
        place = make(images, images.place_of(NET, None))
        held.close()
    finally:
        os.umask(before)
    assert place.stat().st_mode & 0o777 == 0o644
    assert place.parent.stat().st_mode & 0o077 == 0, "only through a mount of the agent's"


def test_what_was_not_used_for_longest_goes_first_and_never_what_is_in_use(tmp_path: Path) -> None:
    images = cache(tmp_path, limit_bytes=2 * 4096)
    oldest = make(images, images.place_of(NET, None), used=1.0)
    old = make(images, images.place_of(OTHER, None), used=2.0)
    newer = make(images, images.place_of(NET, ME), used=3.0)
    assert images.take(oldest, "c1")
    os.utime(oldest, (1.0, 1.0))
    images.trim()
    assert (oldest.exists(), old.exists(), newer.exists()) == (True, False, True)
    images.release("c1")
    make(images, images.place_of(NET, YOU), used=4.0)
    images.trim()
    assert (oldest.exists(), newer.exists()) == (False, True)


def test_what_is_being_taken_stays(tmp_path: Path) -> None:
    images = cache(tmp_path, limit_bytes=0)
    place = make(images, images.place_of(NET, None))
    held = images.lock(place)
    images.trim()
    assert place.exists()
    assert held is not None
    held.close()
    images.trim()
    assert not place.exists()


def test_without_a_bound_all_stay(tmp_path: Path) -> None:
    images = cache(tmp_path)
    place = make(images, images.place_of(NET, None))
    images.trim()
    assert place.exists()


def test_what_a_crash_left_goes_at_the_next_start(tmp_path: Path) -> None:
    images = cache(tmp_path, limit_bytes=0)
    place = make(images, images.place_of(NET, None))
    other = ImageCache(folder=tmp_path, suffix=".sif", agent_id="b")
    assert images.take(place, "gone")
    assert images.take(place, "known")
    assert other.take(place, "of-another-agent")
    old, new = images.scratch(), images.scratch()
    long_ago = time.time() - LEFT_AFTER_S - 1
    os.utime(old, (long_ago, long_ago))
    images.sweep(frozenset({"known"}))
    assert (old.exists(), new.exists()) == (False, True)
    users = sorted(path.name.rpartition(".of-")[2] for path in tmp_path.glob("*.of-*"))
    assert users == ["a-known", "b-of-another-agent"]


def test_a_folder_counts_with_all_that_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x" * 8192)
    assert size_of(tmp_path / "a") == 8192


def test_sweeping_before_there_is_anything(tmp_path: Path) -> None:
    cache(tmp_path / "none").sweep(frozenset())


@pytest.mark.parametrize("name", ["../../etc/passwd", "/images/../x"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    images = cache(tmp_path)
    reference = ImageReference(registry="r", repository=name, tag="1")
    assert images.place_of(reference, None).parent == tmp_path
