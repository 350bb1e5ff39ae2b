"""No secret in a command line, a log, or a file that others may read: looked for while a real cluster works."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from master.allocations.tokens import AllocationTokenMint
from master.auth.join_tokens import JoinTokenSigner, load_or_create
from tests.real_cluster import RealCluster, embedded_pool, eventually

PASSWORD = "correct horse battery"
TRAIN = """
import time
from windlass import core
with core.init() as context:
    print("training", flush=True)
    while not context.preempt.should_preempt():
        time.sleep(0.1)
"""
CANARIES = {
    "variable of a user": "canary-of-a-variable",
    "registry password of a user": "canary-of-a-registry",
    "variable of the master": "canary-of-the-masters-variable",
}
CONFIG = {
    "name": "secrets",
    "environment": {
        "environment_variables": [f"TOKEN={CANARIES['variable of a user']}"],
        "registry_auth": {"username": "me", "password": CANARIES["registry password of a user"]},
    },
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss"},
    "resources": {"resource_pool": "compute"},
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    config = {
        "resource_pools": [embedded_pool(max_instances=1)],
        "security": {"initial_user_password": PASSWORD},
        "log": {"level": "debug"},
        "task_container_defaults": {
            "environment_variables": [f"SITE_TOKEN={CANARIES['variable of the master']}"]
        },
    }
    with RealCluster(tmp_path, config) as cluster:
        yield cluster


def test_a_working_cluster_shows_no_secret(cluster: RealCluster, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "train.py").write_text(TRAIN)
    experiment = cluster.submit(CONFIG, model)
    trial = eventually("a trial exists", lambda: cluster.trials(experiment))[0]
    eventually("it trains", lambda: "training" in cluster.logs_of(int(trial["id"])))

    secrets = known_secrets(cluster, f"{trial['taskId']}.1")
    in_arguments = [
        (name, process.pid)
        for process in [*cluster.processes(), psutil.Process(cluster.master_pid)]
        for name, secret in {**secrets, **CANARIES}.items()
        if any(secret in word for word in process.cmdline())
    ]
    assert in_arguments == []
    assert found_in_files(tmp_path, secrets, skip=(cluster.config_file,)) == []
    logs = cluster.log() + cluster.logs_of(int(trial["id"]))
    logs += "".join(
        path.read_text(errors="replace") for path in tmp_path.rglob("*.log") if path.is_file()
    )
    assert "training" in logs
    hidden = {**secrets, **CANARIES}
    assert [name for name, secret in hidden.items() if secret in logs] == []
    # A user's own are in the database, which only the master reads; the master's are not.
    stored = b"".join(path.read_bytes() for path in cluster.data_dir.glob("windlass.db*"))
    assert CANARIES["variable of a user"].encode() in stored
    assert CANARIES["variable of the master"].encode() not in stored
    assert not any(
        others_may_read(path, tmp_path) for path in cluster.data_dir.glob("windlass.db*")
    )

    cluster.client.act(experiment, "kill")
    cluster.wait(experiment)


def known_secrets(cluster: RealCluster, allocation_id: str) -> dict[str, str]:
    secret = load_or_create(cluster.data_dir / "secret")
    (instance,) = (cluster.data_dir / "instances" / "compute").iterdir()
    return {
        "cluster secret": secret.hex(),
        "join token": JoinTokenSigner(secret).token("compute"),
        "launch token": json.loads((instance / "host.json").read_text())["agent"]["join_token"],
        "credential of the agent": (instance / "agent" / "credential").read_text().strip(),
        "allocation token": AllocationTokenMint(secret).token(allocation_id),
        "session token": str(cluster.client.session.token),
        "password": PASSWORD,
    }


def found_in_files(
    folder: Path, secrets: dict[str, str], skip: tuple[Path, ...]
) -> list[tuple[str, str]]:
    """(secret, path) of files that somebody else may read, and that hold one. Databases hold only hashes."""
    found = []
    for path in folder.rglob("*"):
        if path in skip or not path.is_file() or path.is_symlink():
            continue
        content = path.read_bytes()
        readable = others_may_read(path, folder)
        for name, secret in secrets.items():
            hashed_only = path.suffix in (".db", ".db-wal") or path.name.endswith(".log")
            if secret.encode() in content and (readable or hashed_only):
                found.append((name, str(path)))
    return found


def others_may_read(path: Path, top: Path) -> bool:
    """The file and every directory down to it are open to others. Above `top` the test's own folders close it."""
    if not path.stat().st_mode & (stat.S_IROTH | stat.S_IRGRP):
        return False
    parents = [p for p in path.parents if p.is_relative_to(top) and p != top]
    return all(p.stat().st_mode & (stat.S_IXOTH | stat.S_IXGRP) for p in parents)
