"""What buckets are opened with, and which files globs name."""

from __future__ import annotations

import glob
import hashlib
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from windlass.base.errors import InvalidArgument, InvalidConfig, StorageDenied
from windlass.storage import list_files, open_storage, progress_lines
from windlass.storage.buckets import object_transfers
from windlass.storage.buckets.azure_account import AzureAccount, account_of
from windlass.storage.buckets.object_transfers import MOST_PARTS, PART, part_size
from windlass.storage.buckets.objects import StoredObject
from windlass.storage.buckets.s3 import _credentials, _public_url
from windlass.storage.globs import matching

KEYS = {"access_key": "k", "secret_key": "s"}


@pytest.mark.parametrize(
    ("config", "environ", "source"),
    [
        (KEYS, {"AWS_SESSION_TOKEN": "of another key"}, "access_key and secret_key of"),
        ({}, {"AWS_ACCESS_KEY_ID": "k", "AWS_PROFILE": "p"}, "the environment"),
        ({}, {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}, "the environment"),
        ({}, {}, "the identity of the machine"),
        ({}, {"AWS_PROFILE": "work"}, "the AWS profile work"),
    ],
)
def test_keys_of_the_configuration_come_first_then_the_environment(
    config: dict[str, str],
    environ: dict[str, str],
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "credentials"
    if "AWS_PROFILE" in environ:
        file.write_text("[work]\naws_access_key_id = w\naws_secret_access_key = x\n")
    for variables in (monkeypatch.setenv, environ.__setitem__):
        variables("AWS_SHARED_CREDENTIALS_FILE", str(file))
        variables("AWS_CONFIG_FILE", str(tmp_path / "config"))
    said, provider, _ = _credentials(config, environ)
    assert said.startswith(source)
    if config:
        assert provider is not None
        assert provider() == {
            "access_key_id": "k",
            "secret_access_key": "s",
            "token": None,
            "expires_at": None,
        }


AZURE = "https://a.blob.core.windows.net"


@pytest.mark.parametrize(
    ("section", "account"),
    [
        ({"connection_string": "AccountName=a;AccountKey=aw=="}, AzureAccount(AZURE, "a", "aw==")),
        (
            {
                "connection_string": "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=k;"
                "BlobEndpoint=http://127.0.0.1:10000/a;"
            },
            AzureAccount("http://127.0.0.1:10000/a", "a", "k"),
        ),
        (
            {"connection_string": f"BlobEndpoint={AZURE}/;SharedAccessSignature=sv=1&sig=x%3D"},
            AzureAccount(AZURE, "a", signature="sv=1&sig=x%3D"),
        ),
        ({"account_url": f"{AZURE}/"}, AzureAccount(AZURE, "a")),
        ({"account_url": AZURE, "credential": "k"}, AzureAccount(AZURE, "a", "k")),
        (
            {"account_url": AZURE, "credential": "?sv=1&sig=x"},
            AzureAccount(AZURE, "a", "", "sv=1&sig=x"),
        ),
        ({"account_url": f"{AZURE}?sv=1&sig=x"}, AzureAccount(AZURE, "a", "", "sv=1&sig=x")),
    ],
)
def test_accounts_of_azure(section: dict[str, Any], account: AzureAccount) -> None:
    assert account_of(section) == account


def test_a_wrong_connection_string_is_not_repeated() -> None:
    with pytest.raises(InvalidConfig) as refused:
        account_of({"connection_string": "AccountKey=very-secret"})
    assert "very-secret" not in str(refused.value)
    assert "very-secret" not in repr(AzureAccount("u", "a", "very-secret"))


def test_where_it_is_hides_a_password() -> None:
    url = "https://me:hidden@minio.lan"
    storage = open_storage({"type": "s3", "bucket": "b", "endpoint_url": url, **KEYS})
    assert storage.where == "s3://b at https://minio.lan"


def test_without_obstore_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    with pytest.raises(Exception, match=r"needs the package obstore.*windlass-cluster\[storage\]"):
        open_storage({"type": "gcs", "bucket": "b"})


def test_a_profile_without_boto3_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(StorageDenied, match="profile work can be read only with the package boto3"):
        _credentials({}, {"AWS_PROFILE": "work"})


@pytest.mark.parametrize("size", [1, PART, PART * MOST_PARTS, PART * MOST_PARTS + 1, 5 * 10**12])
def test_a_file_never_has_too_many_parts(size: int) -> None:
    assert part_size(size) >= PART
    assert -(-size // part_size(size)) <= 10_000


_parts = st.sampled_from(["a", "b.pt", ".h", "ab", "A"])
_names = st.lists(st.lists(_parts, min_size=1, max_size=3).map("/".join), min_size=1, max_size=8)
_patterns = st.lists(
    st.lists(
        st.sampled_from(["*", "**", "a*", "?", "*.pt", "[ab]*", ".*", "a", "A"]),
        min_size=1,
        max_size=3,
    ).map("/".join),
    min_size=1,
    max_size=3,
)


@settings(max_examples=examples(150), deadline=None)
@given(names=_names, patterns=_patterns)
@example(names=["a", "b/a"], patterns=["*/**"])
def test_globs_name_what_pythons_do(
    names: list[str], patterns: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("globs")
    for name in names:
        path = root / name
        if not any(parent.is_file() for parent in path.parents) and not path.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    everything = list_files(root)
    named = {
        os.path.relpath(found, root)
        for pattern in patterns
        for found in glob.glob(f"{root}/{pattern}", recursive=True)  # noqa: PTH207 - the rule itself
    } - {"."}
    expected = {
        name
        for name in everything
        if any(name.rstrip("/") == found or name.startswith(f"{found}/") for found in named)
    }
    # `**` alone names the folder itself, too: then all of it goes, hidden files included.
    if any(set(pattern.split("/")) == {"**"} for pattern in patterns):
        assert expected <= matching(everything, patterns) | {
            n for n in everything if "/." in f"/{n}"
        }
    else:
        assert matching(everything, patterns) == expected


@pytest.mark.parametrize("bucket", ["127.0.0.1:8443/?", "me@internal/", "internal#"])
def test_the_name_of_a_bucket_is_no_host(bucket: str) -> None:
    assert urlsplit(_public_url(bucket, "us-east-1")).netloc == "s3.us-east-1.amazonaws.com"


def test_a_glob_of_many_stars_has_an_end() -> None:
    """It is matched beside the master: a few such must not keep all deletions from going on."""
    name = "/".join(["a"] * 40)
    assert matching([name], ["**/" * 30 + "b"]) == set()
    assert matching([name], ["**/a/" * 15 + "**/b"]) == set()
    assert matching([name], ["**/a/" * 15 + "a"]) == {name}


@pytest.mark.parametrize("pattern", ["../x", "/etc/*", "a/../b", "", "."])
def test_globs_stay_in_their_checkpoint(pattern: str) -> None:
    with pytest.raises(InvalidArgument, match="must be relative"):
        matching(["a"], [pattern])


def test_progress_is_told_now_and_then() -> None:
    now, lines = [0.0], list[str]()
    report = progress_lines(lines.append, "uploading x", clock=lambda: now[0])
    for second in range(25):
        now[0] = float(second)
        report(second * 10**8, 25 * 10**8)
    report(25 * 10**8, 25 * 10**8)
    assert lines == ["uploading x: 1.0 of 2.5 GB", "uploading x: 2.0 of 2.5 GB"]


@pytest.mark.parametrize("size", [0, 5, 2 * PART, 2 * PART + 5])
def test_a_file_that_another_tool_stored_as_one_part_is_compared_in_pieces(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(size)
    file = tmp_path / "weights"
    file.write_bytes(content)
    pieces: list[int] = []
    really = os.pread

    def pread(fd: int, count: int, offset: int) -> bytes:
        pieces.append(count)
        return really(fd, count, offset)

    monkeypatch.setattr(os, "pread", pread)
    tag = hashlib.md5(content, usedforsecurity=False).hexdigest()
    stored = StoredObject("key", size, f'"{tag}"', datetime.now(UTC))
    with file.open("rb") as opened:
        status = os.fstat(opened.fileno())
        assert object_transfers._is_same(opened.fileno(), status, stored)
        other = replace(stored, tag="0" * 32)
        assert not object_transfers._is_same(opened.fileno(), status, other)
    assert max(pieces, default=0) <= PART
