"""Mistakes in what a task is to have: refused before anything runs, with field, value and way out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.integration.cli.shell import Shell
from tests.real_cluster import free_port

ALLOWED = "/srv/windlass-test"
NOBODY = "http://127.0.0.1:1"
STORAGE = {
    "type": "s3",
    "bucket": "models",
    "endpoint_url": NOBODY,
    "access_key": "a",
    "secret_key": "s3cret",
}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("user"), free_port())
    config = {"allowed_host_paths": [ALLOWED], "checkpoint_storage": STORAGE}
    (shell.home / "master.yaml").write_text(yaml.safe_dump(config))
    up = ("--slots", "1", "--no-gpu", "--master-config", "master.yaml", "--port", str(shell.port))
    shell.ok("deploy", "local", "cluster-up", *up, "--data-dir", str(shell.data))
    yield shell
    shell.ok("deploy", "local", "cluster-down", "--data-dir", str(shell.data))
    assert shell.processes() == []


def mount(host_path: str) -> str:
    return f'bind_mounts=[{{"host_path": "{host_path}", "container_path": "x"}}]'


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "environment.image=Not A Name",
            ("<config>.environment.image", '"Not A Name"', 'write a name such as "python:3.11"'),
        ),
        (
            "environment.image=team//net:1",
            ("<config>.environment.image", '"team//net:1"', "write a name such as"),
        ),
        (
            mount("/etc"),
            (
                "<config>.bind_mounts[0].host_path",
                "/etc",
                f"allowed_host_paths of master.yaml: {ALLOWED}",
            ),
        ),
        (mount("etc"), ("<config>.bind_mounts[0].host_path", "must be an absolute path")),
        (mount("/"), ("<config>.bind_mounts[0].host_path", "/ ", "mount only what the task needs")),
    ],
)
@pytest.mark.parametrize("verb", ["experiment create", "cmd run"])
def test_it_is_refused_at_submission(
    verb: str, change: str, said: tuple[str, ...], shell: Shell
) -> None:
    if verb == "cmd run":
        words: tuple[str, ...] = ("cmd", "run", "--config", change, "true")
    else:
        words = ("experiment", "create", shell.config(), "model", "--config", change)
    refused = shell.wrong(*words)
    for part in said:
        assert part in refused
    assert shell.json("experiment", "list") == []
    assert shell.json("job", "list") == []


def test_storage_that_cannot_be_reached_is_refused_at_submission(shell: Shell) -> None:
    refused = shell.wrong("experiment", "create", shell.config(), "model")
    assert "<config>.checkpoint_storage.endpoint_url" in refused
    assert f"s3://models at {NOBODY}" in refused
    assert "can this machine reach it?" in refused
    assert "s3cret" not in refused
    assert shell.json("experiment", "list") == []


def test_a_mount_that_its_node_lacks_is_told_with_the_way_out(shell: Shell) -> None:
    """Only the node knows."""
    done = shell.run("cmd", "run", "--config", mount(f"{ALLOWED}/none"), "true")
    assert done.returncode == 1
    assert f"bind mount {ALLOWED}/none" in done.stderr + done.stdout
    assert "does not exist on this machine: make it there, or correct bind_mounts" in (
        done.stderr + done.stdout
    )


@pytest.mark.parametrize(
    ("uid", "said"),
    [
        ("4294967295", "less than or equal to 2147483646"),
        ("-5", "greater than or equal to 0"),
    ],
)
def test_a_uid_that_cannot_be_is_refused(uid: str, said: str, shell: Shell) -> None:
    """One that no account of a node has is fine: tasks see a name for it."""
    link = ("--agent-user", "x", "--agent-gid", "1", "--agent-group", "g")
    words = ("-u", "admin", "user", "link-with-agent-user", "determined", "--agent-uid", uid, *link)
    refused = shell.wrong(*words)
    assert "agentUserGroup.agentUid" in refused
    assert said in refused


@pytest.mark.parametrize(
    ("tls", "said"),
    [
        ({"cert": "/x/c.pem"}, ("security.tls", '"/x/c.pem"', "key is missing: name both files")),
        ({"key": "/x/k.pem"}, ("security.tls", '"/x/k.pem"', "cert is missing: name both files")),
        (
            {"cert": "/x/c.pem", "key": "/x/k.pem"},
            ("security.tls.cert", "/x/c.pem", "the master's user must be able to read it"),
        ),
    ],
)
def test_a_certificate_without_its_key_starts_nothing(
    tls: dict[str, str], said: tuple[str, ...], tmp_path: Path
) -> None:
    shell = Shell(tmp_path, free_port())
    (tmp_path / "master.yaml").write_text(yaml.safe_dump({"security": {"tls": tls}}))
    up = (
        "--master-config",
        "master.yaml",
        "--port",
        str(shell.port),
        "--data-dir",
        str(shell.data),
    )
    refused = shell.wrong("deploy", "local", "cluster-up", *up)
    for part in said:
        assert part in refused
    assert shell.processes() == []
