"""Storages that fail: what is said, what is tried again, and what is not left behind."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.fakes import azurite
from tests.fakes.faulty_proxy import Fault, FaultyProxy, faulty_proxy
from tests.fakes.refusing_tls import refusing_tls
from tests.fakes.s3_server import ACCESS_KEY, SECRET_KEY, keys, s3_client, s3_server
from windlass.base.errors import (
    StorageDenied,
    StorageError,
    StorageFull,
    StorageMissing,
    StorageUnreachable,
)
from windlass.storage import (
    CHECKS,
    TRANSFERS,
    LocalStorage,
    Patience,
    Storage,
    open_storage,
    require_usable,
)
from windlass.storage.buckets.object_transfers import PART, RANGE

BUCKET = "bucket"
LARGE = 2 * PART + 5


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    with s3_server() as url:
        s3_client(url).create_bucket(Bucket=BUCKET)
        yield url


@pytest.fixture
def proxy(s3_url: str) -> Iterator[FaultyProxy]:
    with faulty_proxy(s3_url) as proxy:
        yield proxy


def s3(url: str, patience: Patience = CHECKS, **changes: Any) -> Storage:
    section = {
        "type": "s3",
        "bucket": BUCKET,
        "prefix": f"test-{os.urandom(4).hex()}",
        "endpoint_url": url,
        "access_key": ACCESS_KEY,
        "secret_key": SECRET_KEY,
    }
    return open_storage(section | changes, patience=patience)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    source = tmp_path / "model"
    source.mkdir()
    (source / "large").write_bytes(os.urandom(LARGE))
    for number in range(20):
        (source / f"small-{number}").write_bytes(os.urandom(50))
    return source


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (Fault(404, "NoSuchBucket"), StorageMissing, "there is no such bucket: create it"),
        (Fault(403, "InvalidAccessKeyId"), StorageDenied, "the credentials are wrong: correct"),
        (Fault(403, "SignatureDoesNotMatch"), StorageDenied, "the credentials are wrong: correct"),
        (Fault(400, "ExpiredToken"), StorageDenied, "credentials expired: renew them"),
        (Fault(403, "AccessDenied"), StorageDenied, "access denied: give the credentials in use"),
        (Fault(403, "RequestTimeTooSkewed"), StorageDenied, "the clock of this machine"),
        (Fault(301, "PermanentRedirect"), StorageError, "another region: set AWS_REGION"),
        (Fault(507, "XMinioStorageFull"), StorageFull, "no space: free some"),
        (Fault(503, "SlowDown"), StorageUnreachable, "asks to send less at a time"),
        (Fault(500, "InternalError"), StorageUnreachable, "no answer: is its address right"),
        (Fault(401), StorageDenied, "access denied"),
    ],
)
def test_a_bucket_that_refuses_says_so_in_words(
    proxy: FaultyProxy, model: Path, tmp_path: Path, fault: Fault, kind: type, said: str
) -> None:
    storage = s3(proxy.url)
    proxy.fault = lambda method, path: fault
    calls = [
        lambda: storage.upload(model, "u"),
        lambda: storage.download("u", tmp_path / "copy"),
        lambda: storage.files("u"),
        lambda: storage.delete("u"),
        lambda: list(storage.read("u", "x")),
        lambda: storage.write("u", "x", b""),
    ]
    for call in calls if fault.status != 503 else calls[:1]:
        with pytest.raises(kind, match=said) as raised:
            call()
        assert type(raised.value) is kind
        assert SECRET_KEY not in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_server_that_is_away(tmp_path: Path) -> None:
    with pytest.raises(StorageUnreachable, match="no answer: is its address right"):
        s3("http://127.0.0.1:1").files("u")


@pytest.mark.parametrize("failing", ["PUT", "GET", "POST"])
def test_a_check_that_got_no_answer_leaves_nothing_behind(
    proxy: FaultyProxy, s3_url: str, failing: str
) -> None:
    storage = s3(proxy.url, prefix="checked")
    proxy.times(2, Fault(500, "InternalError", done=True), failing)
    with suppress(StorageUnreachable):
        require_usable(storage)
    assert proxy.fault(failing, "") is None, "it was not asked for"
    assert [key for key in keys(s3_client(s3_url), BUCKET) if "checked" in key] == []


@pytest.mark.slow
def test_what_fails_for_a_moment_is_tried_again(
    proxy: FaultyProxy, model: Path, tmp_path: Path
) -> None:
    storage = s3(proxy.url, TRANSFERS)
    for method in ("PUT", "POST", "GET"):
        proxy.times(2, Fault(503, "SlowDown"), method)
        storage.upload(model, "u")
        storage.download("u", tmp_path / method)
        assert (tmp_path / method / "large").read_bytes() == (model / "large").read_bytes()
        storage.delete("u")


@pytest.mark.slow
def test_an_upload_that_failed_sends_only_what_is_missing(proxy: FaultyProxy, model: Path) -> None:
    storage = s3(proxy.url)
    proxy.fault = lambda method, path: (
        Fault(403, "AccessDenied") if method == "PUT" and "small-7" in path else None
    )
    with pytest.raises(StorageDenied):
        storage.upload(model, "u")
    stored = set(storage.files("u"))
    assert "small-0" in stored
    assert "small-7" not in stored
    proxy.fault = lambda method, path: None
    proxy.seen.clear()
    storage.upload(model, "u")
    sent = {
        path.rpartition("/")[2].partition("?")[0] for method, path in proxy.seen if method == "PUT"
    }
    assert sent == {path.name for path in model.iterdir()} - stored


@pytest.mark.slow
def test_a_file_of_the_same_size_that_changed_is_sent_again(
    proxy: FaultyProxy, model: Path
) -> None:
    storage = s3(proxy.url)
    storage.upload(model, "u")
    for name, size in (("small-3", 50), ("large", LARGE)):
        status = (model / name).stat()
        (model / name).write_bytes(os.urandom(size))
        os.utime(model / name, ns=(status.st_atime_ns, status.st_mtime_ns))
    proxy.seen.clear()
    storage.upload(model, "u")
    sent = {
        path.rpartition("/")[2].partition("?")[0] for method, path in proxy.seen if method == "PUT"
    }
    assert sent == {"small-3", "large"}
    assert b"".join(storage.read("u", "large")) == (model / "large").read_bytes()


@pytest.mark.slow
def test_a_download_that_was_cut_goes_on_where_it_stopped(
    proxy: FaultyProxy, model: Path, tmp_path: Path
) -> None:
    storage, target = s3(proxy.url), tmp_path / "copy"
    storage.upload(model, "u", ["large"])
    proxy.fault_from = lambda start: Fault(403, "AccessDenied") if start >= 2 * RANGE else None
    with pytest.raises(StorageDenied):
        storage.download("u", target)
    (part,) = target.iterdir()
    assert part.name.startswith(".")
    assert part.stat().st_size == 2 * RANGE
    proxy.fault_from = lambda start: None
    proxy.seen.clear()
    storage.download("u", target)
    assert [path.name for path in target.iterdir()] == ["large"]
    assert (target / "large").read_bytes() == (model / "large").read_bytes()
    asked = [path for method, path in proxy.seen if method == "GET" and path.endswith("/large")]
    assert len(asked) == -(-LARGE // RANGE) - 2


def test_an_answer_that_is_cut_is_no_file(proxy: FaultyProxy, model: Path, tmp_path: Path) -> None:
    storage = s3(proxy.url)
    storage.upload(model, "u", ["small-0"])
    proxy.fault = lambda method, path: (
        Fault(0) if method == "GET" and path.endswith("/small-0") else None
    )
    with pytest.raises(StorageUnreachable):
        storage.download("u", tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []


@pytest.mark.slow
def test_an_answer_that_is_cut_once_is_asked_for_again(
    proxy: FaultyProxy, model: Path, tmp_path: Path
) -> None:
    storage = s3(proxy.url)
    storage.upload(model, "u", ["large"])
    cut = [True]
    proxy.fault = lambda method, path: (
        Fault(0) if method == "GET" and path.endswith("/large") and cut and cut.pop() else None
    )
    storage.download("u", tmp_path / "copy")
    assert (tmp_path / "copy" / "large").read_bytes() == (model / "large").read_bytes()
    assert not cut


@pytest.mark.slow
def test_an_object_that_is_replaced_while_it_is_read_is_no_mixture(
    proxy: FaultyProxy, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.storage.buckets.object_transfers.RANGE", 256 * 1024)
    storage = s3(proxy.url)
    storage.upload(model, "u", ["large"])
    pieces = storage.read("u", "large")
    next(pieces)
    (model / "large").write_bytes(os.urandom(LARGE))
    storage.upload(model, "u", ["large"])
    with pytest.raises(StorageError, match="large"):
        list(pieces)


@pytest.mark.slow
def test_wrong_credentials_of_azure(tmp_path: Path) -> None:
    if azurite.MISSING:
        pytest.skip(azurite.MISSING)
    with azurite.azurite(tmp_path) as url:
        azurite.create_container(url, "container")
        wrong = {
            "type": "azure",
            "container": "container",
            "account_url": url,
            "credential": "d3Jvbmc=",
        }
        with pytest.raises(StorageDenied, match=r"container: .*credentials"):
            open_storage(wrong, patience=CHECKS).files("u")
        missing = wrong | {"container": "nowhere", "credential": azurite.KEY}
        with pytest.raises(StorageMissing, match="there is no such container: create it"):
            open_storage(missing, patience=CHECKS).files("u")


_FRAME = (
    "<AuthenticationErrorDetail>Signature not valid in the specified time frame: Start [{} GMT] - Expiry [{} GMT] - "
    "Current [Sun, 22 Nov 2026 10:00:00 GMT]</AuthenticationErrorDetail>"
)
_BEFORE, _AFTER = "Sun, 22 Nov 2026 09:59:59", "Fri, 01 Jan 2027 00:00:00"
_TOKEN = "<AuthenticationErrorDetail>Lifetime validation failed. The token is expired.</AuthenticationErrorDetail>"


@pytest.mark.parametrize(
    ("code", "detail", "said"),
    [
        ("AuthenticationFailed", _FRAME.format(_BEFORE, _BEFORE), "credentials expired: renew"),
        ("InvalidAuthenticationInfo", _TOKEN, "credentials expired: renew"),
        ("AuthenticationFailed", _FRAME.format(_AFTER, _AFTER), "the credentials are wrong"),
        ("AuthenticationFailed", "", "the credentials are wrong"),
    ],
)
def test_expired_credentials_of_azure_are_told_from_wrong_ones(
    proxy: FaultyProxy, code: str, detail: str, said: str
) -> None:
    """The proxy answers for the storage: no emulator looks at the time."""
    proxy.fault = lambda method, path: Fault(403, code, more=detail)
    section = {
        "type": "azure",
        "container": "container",
        "account_url": f"{proxy.url}/account",
        "credential": "sv=2021-08-06&se=2026-11-22T09%3A59%3A59Z&sr=c&sp=racwdl&sig=U0VDUkVU",
    }
    storage = open_storage(section, patience=CHECKS)
    for call in (lambda: storage.files("u"), lambda: storage.write("u", "x", b"")):
        with pytest.raises(StorageDenied, match=rf"/container: {said}.*\({code}\)$") as raised:
            call()
        assert "U0VDUkVU" not in str(raised.value)


def test_an_expired_login_of_google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real client asks for a token at accounts.google.com, which is the proxy."""
    authority = Authority(tmp_path)
    login = {"type": "authorized_user", "client_id": "c", "client_secret": "s3cret"}
    (tmp_path / "adc.json").write_text(json.dumps(login | {"refresh_token": "s3cret"}))
    body = {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}
    issued = authority.issue(hosts=("accounts.google.com", "oauth2.googleapis.com"))
    with refusing_tls(issued, "400 Bad Request", json.dumps(body, indent=2).encode()) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.root))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "adc.json"))
        storage = open_storage({"type": "gcs", "bucket": "b"}, patience=CHECKS)
        said = r"gs://b: credentials expired: renew them .*\(invalid_grant\)$"
        with pytest.raises(StorageDenied, match=said) as raised:
            storage.files("u")
    assert "s3cret" not in str(raised.value)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_full_file_system(small_disk: Path, model: Path, s3_url: str) -> None:
    (model / "large").write_bytes(os.urandom(9 * 1024 * 1024))
    stored = LocalStorage(small_disk / "stored")
    with pytest.raises(StorageFull, match=f"{small_disk}.*: No space left on device: free space"):
        stored.upload(model, "u")
    assert stored.delete("u") == {}
    bucket = s3(s3_url)
    bucket.upload(model, "u", ["large"])
    with pytest.raises(StorageFull, match=f"{small_disk}/copy"):
        bucket.download("u", small_disk / "copy")
    assert list((small_disk / "copy").iterdir()) == [], "the space is free again"


def test_links_lead_nowhere(tmp_path: Path) -> None:
    """Neither up nor down, and not when something is deleted."""
    secret = tmp_path / "secret"
    (secret / "below").mkdir(parents=True)
    (secret / "key").write_text("secret")
    storage = LocalStorage(tmp_path / "stored")
    folder = storage.prepare("u")
    (folder / "file").write_text("inside")
    (folder / "inner").symlink_to("file")
    (folder / "outer").symlink_to(secret / "key")
    (folder / "up").symlink_to("../../secret/key")
    (folder / "directory").symlink_to(secret)
    os.mkfifo(folder / "pipe")
    assert storage.files("u") == {"file": 6, "inner": 6}
    storage.download("u", tmp_path / "copy")
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["file", "inner"]
    assert not (tmp_path / "copy" / "inner").is_symlink()
    for name in ("outer", "up", "directory/key", "pipe"):
        with pytest.raises(StorageError):
            list(storage.read("u", name))
        with pytest.raises(StorageError, match="cannot be stored"):
            storage.upload(folder, "again", [name])
    with pytest.raises(StorageError, match="leads out of"):
        storage.upload(folder, "again")
    storage.delete("u", ["directory", "outer", "directory/*"])
    storage.delete("u")
    (tmp_path / "stored" / "linked").symlink_to(secret)
    for call in (storage.files, storage.delete, lambda f: storage.write(f, "x", b"")):
        with pytest.raises(StorageError):
            call("linked")
    assert (secret / "key").read_text() == "secret"
    assert sorted(path.name for path in secret.iterdir()) == ["below", "key"]


def test_a_directory_that_is_not_mounted_is_not_an_empty_one(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "nowhere")
    for call in (storage.files, storage.delete):
        with pytest.raises(StorageMissing, match="is it mounted on this machine"):
            call("u")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageDenied, match="give this user the right"):
        LocalStorage(tmp_path / "x").write("u", "x", b"")
