"""Where checkpoints go, and how parts of several ranks are put together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.base.errors import InvalidConfig, StorageError
from windlass.core._sharding import merge_files, merge_metadata
from windlass.core._storage import build_storage
from windlass.storage import LocalStorage, require_usable

ROOT = {"type": "shared_fs", "host_path": "/srv/shared"}


@pytest.mark.parametrize(
    ("config", "on_cluster", "environ", "expected"),
    [
        (ROOT, True, {}, "/determined_shared_fs"),
        (ROOT | {"storage_path": "a/b"}, True, {}, "/determined_shared_fs/a/b"),
        (ROOT | {"storage_path": "/srv/shared/a"}, True, {}, "/determined_shared_fs/a"),
        (ROOT | {"storage_path": "a"}, True, {"WINDLASS_SHARED_FS": "/mnt/x"}, "/mnt/x/a"),
        (ROOT | {"storage_path": "a", "save_trial_best": 1}, False, {}, "/srv/shared/a"),
        ({"type": "directory", "container_path": "/ckpt"}, True, {}, "/ckpt"),
        ("/plain/dir", True, {}, "/plain/dir"),
        ("file:///plain/dir", True, {}, "/plain/dir"),
    ],
)
def test_the_base_directory(
    config: dict[str, Any] | str, on_cluster: bool, environ: dict[str, str], expected: str
) -> None:
    storage = build_storage(config, on_cluster=on_cluster, environ=environ)
    assert storage.local_path("u") == Path(expected, "u")


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (ROOT | {"storage_path": "../other"}, "not below host_path"),
        (ROOT | {"storage_path": "/srv/shared2"}, "not below host_path"),
        ({"type": "shared_fs", "host_path": "relative"}, "absolute"),
        ({"type": "shared_fs"}, "absolute"),
        ({"type": "directory"}, "container_path"),
        ({"type": "hdfs"}, "'hdfs' is none of shared_fs, directory, s3"),
        ({"type": "s3"}, "bucket: is required"),
        ({"type": "s3", "bucket": "b", "access_key": "a"}, "belong together"),
        ({"type": "s3", "bucket": "b", "endpoint_url": "minio:9000"}, "endpoint_url"),
        ({"type": "gcs", "bucket": "b", "prefix": "a/../b"}, "prefix"),
        ({"type": "azure", "container": "c"}, "exactly one of connection_string"),
        ({"type": "azure", "container": "c", "connection_string": "AccountName=a"}, "AccountKey"),
        ("https://bucket/x", "https is none of"),
        ("file://host/x", "names a machine"),
    ],
)
def test_storage_that_cannot_be_is_refused(config: dict[str, Any] | str, problem: str) -> None:
    with pytest.raises(InvalidConfig, match=problem):
        build_storage(config, on_cluster=True, environ={})


@pytest.mark.parametrize("name", ["", ".", "..", "a//b", "/etc", "a/../b"])
def test_a_folder_is_a_plain_relative_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not the name of a checkpoint"):
        LocalStorage(tmp_path).local_path(name)


def test_the_check_leaves_nothing_behind(tmp_path: Path) -> None:
    require_usable(LocalStorage(tmp_path / "new"))
    assert list((tmp_path / "new").iterdir()) == []


def test_the_check_fails_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        require_usable(LocalStorage(tmp_path / "file"))


_values = st.recursive(
    st.integers(0, 3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
_metadata = st.dictionaries(st.sampled_from("abc"), _values, max_size=3)


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {path: value}
    found: dict[str, Any] = {}
    for key, inner in value.items():
        found |= _leaves(inner, f"{path}/{key}")
    return found


@given(st.lists(_metadata, min_size=1, max_size=4))
def test_merged_metadata_has_every_rank_or_says_who_disagrees(parts: list[dict[str, Any]]) -> None:
    before = [dict(part) for part in parts]
    merged, conflicts = merge_metadata(parts)
    assert parts == before
    everything = _leaves(merged)
    for rank, part in enumerate(parts):
        for path, value in _leaves(part).items():
            agrees = everything.get(path) == value
            blamed = any(path.startswith(f"/{c}") and rank in who for c, who in conflicts.items())
            assert agrees or blamed
    if all(part == parts[0] for part in parts):
        assert (merged, conflicts) == (parts[0], {})


_files = st.dictionaries(st.sampled_from(["a", "a/", "b", "d/", "d/x"]), st.integers(0, 9))


@given(st.lists(_files, min_size=1, max_size=4))
def test_a_file_of_several_ranks_is_named_with_all_of_them(parts: list[dict[str, int]]) -> None:
    merged, shared = merge_files(parts)
    assert set(merged) == {name for part in parts for name in part}
    for name, ranks in shared.items():
        assert len(ranks) > 1
        assert any(name in part for part in parts)
    for name in merged:
        owners = [rank for rank, part in enumerate(parts) if name in part]
        if not name.endswith("/") and len(owners) > 1:
            assert set(owners) <= set(shared[name])
