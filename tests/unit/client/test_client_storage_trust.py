"""A checkpoint's author chooses where its storage is; whoever downloads it does not log in there as himself."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from client_scripted_master import ScriptedMaster
from test_client_checkpoints import FILES, packed, there
from test_client_verbs import checkpoint, cluster, det, refused

from windlass.storage.buckets.trust import UntrustedAddress, is_amazon, is_azure, require_trusted

__all__ = ["cluster"]

IDENTITY = {
    "AWS_ACCESS_KEY_ID": "READERSKEY",
    "AWS_SECRET_ACCESS_KEY": "readers-secret",
    "AWS_SESSION_TOKEN": "readers-session",
    "AZURE_STORAGE_TOKEN": "readers-bearer",
}
IDENTITY_SENT = ("READERSKEY", "readers-session", "readers-bearer")


@dataclass
class Stranger:
    """A server of somebody else, and all that it was sent."""

    host: str = ""
    heard: list[str] = field(default_factory=list)

    def section(self, kind: str) -> dict[str, str]:
        if kind == "s3":
            return {"type": "s3", "bucket": "b", "endpoint_url": f"http://{self.host}"}
        return {"type": "azure", "container": "c", "account_url": f"http://{self.host}/account"}


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stranger]:
    found = Stranger()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.heard.append(f"{self.requestline}\n{self.headers}")
            self.send_error(403)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.host = f"127.0.0.1:{server.server_port}"
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def download(master: ScriptedMaster, section: Mapping[str, str], target: Path, *words: str) -> Any:
    master.on("GET", "/api/v1/checkpoints/c-1", checkpoint(dict(section)))
    return det(master, "checkpoint", "download", "c-1", "-o", str(target), *words)


@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_a_download_sends_nothing_to_an_address_that_the_author_chose(
    cluster: ScriptedMaster, stranger: Stranger, tmp_path: Path, kind: str
) -> None:
    section = stranger.section(kind)
    said = refused(download(cluster, section, tmp_path / "x", "--mode", "direct"))
    assert f"--trust-host {stranger.host}" in said
    cluster.on("GET", "/checkpoints/c-1", lambda _: (200, packed(FILES)))
    assert download(cluster, section, tmp_path / "x").exit_code == 0
    assert there(tmp_path / "x") == FILES, "through the master"
    assert stranger.heard == []


@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_a_host_that_the_reader_trusts_is_logged_in_to(
    cluster: ScriptedMaster, stranger: Stranger, tmp_path: Path, kind: str
) -> None:
    words = ("--mode", "direct", "--trust-host", stranger.host)
    refused(download(cluster, stranger.section(kind), tmp_path / "x", *words))
    assert any(secret in text for text in stranger.heard for secret in IDENTITY_SENT)


def test_the_storage_of_the_cluster_is_logged_in_to(
    cluster: ScriptedMaster, stranger: Stranger, tmp_path: Path
) -> None:
    reply = checkpoint(stranger.section("s3"), clusterStorage=True)
    cluster.on("GET", "/api/v1/checkpoints/c-1", reply)
    words = ("--mode", "direct", "-o", str(tmp_path / "x"))
    refused(det(cluster, "checkpoint", "download", "c-1", *words))
    assert any("READERSKEY" in text for text in stranger.heard)


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("s3", {"access_key": "theirs", "secret_key": "theirs"}),
        ("azure", {"credential": "dGhlaXJz"}),
        ("azure", {"credential": "sv=2021&sig=theirs"}),
        ("azure", {"credential": "********"}),
    ],
)
def test_keys_of_the_configuration_are_used_alone(
    cluster: ScriptedMaster,
    stranger: Stranger,
    tmp_path: Path,
    kind: str,
    keys: dict[str, str],
) -> None:
    refused(download(cluster, stranger.section(kind) | keys, tmp_path / "x", "--mode", "direct"))
    assert [text for text in stranger.heard for secret in IDENTITY_SENT if secret in text] == []


@pytest.mark.parametrize(
    "command",
    [("experiment", "download", "7"), ("trial", "download", "12", "--uuid", "c-1")],
)
def test_every_command_that_downloads_keeps_the_identity(
    cluster: ScriptedMaster, stranger: Stranger, tmp_path: Path, command: tuple[str, ...]
) -> None:
    reply = checkpoint(stranger.section("s3"))
    cluster.on("GET", "/api/v1/checkpoints/c-1", reply)
    page = {"checkpoints": [reply["checkpoint"]], "pagination": {"endIndex": 1, "total": 1}}
    cluster.on("GET", "/api/v1/experiments/7/checkpoints", page)
    said = refused(det(cluster, *command, "--mode", "direct", "-o", str(tmp_path / "x")))
    assert f"--trust-host {stranger.host}" in said
    assert stranger.heard == []


@pytest.mark.parametrize(
    "url",
    [
        "https://s3.amazonaws.com",
        "https://s3.eu-central-1.amazonaws.com/",
        "https://s3-us-west-2.amazonaws.com",
        "https://bucket.name.s3.us-gov-west-1.amazonaws.com",
        "https://s3.dualstack.us-east-1.amazonaws.com",
        "https://s3-fips.dualstack.us-east-1.amazonaws.com",
        "https://s3.cn-north-1.amazonaws.com.cn:443/",
        "https://S3.EUSC-de-east-1.amazonaws.eu",
    ],
)
def test_addresses_of_amazon(url: str) -> None:
    assert is_amazon(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://s3.amazonaws.com",  # readable on the way
        "https://s3.amazonaws.com.evil.example",
        "https://evil-s3.amazonaws.com",
        "https://s3-1234567890.us-east-1.elb.amazonaws.com",
        "https://s3.ec2-1-2-3-4.compute.amazonaws.com",
        "https://abc.execute-api.us-east-1.amazonaws.com/s3.amazonaws.com",
        "https://s3-website-us-east-1.amazonaws.com",
        "https://evil.example/s3.amazonaws.com",
        "https://evil.example#.s3.amazonaws.com",
        "https://evil.example\\.s3.amazonaws.com",
        "https://evil.example\\@s3.amazonaws.com",
        "https://s3.amazonaws.com@evil.example",
        "https://s3.amazonaws.com:8443",
        "https://s3.amazonaws.com\n",
        "https://s3.amazonaws.com?x",
        "",
    ],
)
def test_addresses_that_are_not_amazon(url: str) -> None:
    assert not is_amazon(url)


@pytest.mark.parametrize(
    ("url", "theirs"),
    [
        ("https://ours.blob.core.windows.net", True),
        ("https://ours.blob.core.usgovcloudapi.net/", True),
        ("https://ours.z12.blob.storage.azure.net", True),
        ("https://ours.azurewebsites.net", False),
        ("https://blob.core.windows.net.evil.example", False),
        ("https://x.blob.core.windows.net@evil.example", False),
        ("https://evil.example\\@x.blob.core.windows.net", False),
        ("http://ours.blob.core.windows.net", False),
    ],
)
def test_addresses_of_azure(url: str, theirs: bool) -> None:
    assert is_azure(url) == theirs


def test_an_address_of_ones_own_environment_is_trusted() -> None:
    section = {"type": "s3", "bucket": "b", "endpoint_url": "https://minio.lan:9000"}
    require_trusted(section, (), {"AWS_ENDPOINT_URL": "https://minio.lan:9000"})
    require_trusted(section, ["minio.lan:9000"], {})
    with pytest.raises(UntrustedAddress):
        require_trusted(section, ["minio.lan"], {"AWS_ENDPOINT_URL": "https://other.lan"})
