"""No secret of a site leaves its place while machines of both clouds boot, work and end: user data, tags, requests,
logs, files that others may read, command lines and environments of every process."""

from __future__ import annotations

import json
import re
import stat
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy.engine import make_url

from master.auth.join_tokens import JoinTokenSigner, load_or_create
from master.wiring.gcp import ENDPOINT_VARIABLE
from tests.fakes.booting_machines import BootingMachines, both_clouds
from tests.fakes.ec2_server import REGION, UBUNTU_GPU, Ec2Server, ec2_server
from tests.fakes.gce import FakeGce, fake_gce
from tests.fakes.s3_server import s3_client, s3_server
from tests.real_cluster import RealCluster, eventually

TRAIN = """
from windlass import core
with core.init() as context:
    context.train.report_validation_metrics(1, {"loss": 1.0})
    with context.checkpoint.store_path({"steps_completed": 1}) as (path, _):
        (path / "state").write_text("1")
"""
SEARCH: dict[str, Any] = {
    "name": "secrets",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "random", "metric": "loss", "max_trials": 2},
    "hyperparameters": {"x": 1},
    "max_restarts": 0,
}
BROKEN = "broken"
SCRIPT_LOGS = ("startup_script.log", "machine_script.log")
"""Of the machine; only its root reads them."""


def canary(what: str) -> str:
    return f"canary-of-the-{what}-{uuid.uuid4().hex[:8]}"


CANARIES = {
    what: canary(what)
    for what in (
        *("initial-password", "database", "storage-key", "registry", "site-variable"),
        *("user-variable", "startup-script", "agent-file", "cloud-key"),
    )
}
OF_TASKS = {"storage-key", "registry", "site-variable", "user-variable", "agent-file"}
"""Every task is given these, the proxy of agent.yaml too: its own process may have them, and nobody else."""


@dataclass
class Processes:
    """Command lines and environments of all processes of this machine, looked at again and again."""

    command_lines: set[bytes] = field(default_factory=set)
    environments: set[bytes] = field(default_factory=set)

    def look(self) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                self.command_lines.add((process / "cmdline").read_bytes())
                self.environments.add((process / "environ").read_bytes())


@contextmanager
def watched() -> Iterator[Processes]:
    seen, stop = Processes(), threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            seen.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


@dataclass
class Site:
    cluster: RealCluster
    ec2: Ec2Server
    gce: FakeGce
    machines: BootingMachines
    processes: Processes


@pytest.fixture
def site(tmp_path: Path, postgres_url: str) -> Iterator[Site]:
    server = ec2_server()
    server.reset()
    with s3_server() as bucket_url, fake_gce() as gce, watched() as processes:
        s3_client(bucket_url).create_bucket(Bucket="checkpoints")
        cluster = RealCluster(tmp_path / "cluster", {})
        cluster.config_file.write_text(
            yaml.safe_dump(site_config(cluster, bucket_url, postgres_url))
        )
        cluster.config_file.chmod(0o600)
        with (
            BootingMachines(tmp_path / "machines", *both_clouds(server, gce)) as machines,
            master_of(cluster, server, gce),
        ):
            yield Site(cluster, server, gce, machines, processes)
    server.reset()


@contextmanager
def master_of(cluster: RealCluster, server: Ec2Server, gce: FakeGce) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as only_master:
        only_master.setenv("AWS_ENDPOINT_URL", server.url)
        only_master.setenv("AWS_ACCESS_KEY_ID", "AKEXAMPLE")
        only_master.setenv("AWS_SECRET_ACCESS_KEY", CANARIES["cloud-key"])
        only_master.setenv(ENDPOINT_VARIABLE, f"{gce.url}/compute/v1/")
        cluster.start_master()
    try:
        yield
    finally:
        cluster.__exit__(None)


def site_config(cluster: RealCluster, bucket_url: str, database: str) -> dict[str, Any]:
    common = {
        "master_url": cluster.url,
        "boot_time": "5s",
        "max_instances": 1,
        "max_idle_agent_period": "2s",
        "startup_script": f"#!/bin/sh\nLOGIN={CANARIES['startup-script']}\n",
        "agent_config_file_contents": {"http_proxy": f"http://me:{CANARIES['agent-file']}@proxy:1"},
    }
    ec2 = {"type": "aws", "region": REGION, "zones": [f"{REGION}a"], "image_id": UBUNTU_GPU}
    failing = f"{common['startup_script']}echo it is $LOGIN >&2\nexit 3\n"
    sections: dict[str, dict[str, Any]] = {
        "ec2": {**ec2, "instance_type": "g4dn.xlarge", "instance_slots": 2},
        "gce": {
            "type": "gcp",
            "project": "acme-ml-1",
            "zone": "us-central1-a",
            "instance_type": {"machine_type": "a2-highgpu-2g"},
        },
        BROKEN: {
            **ec2,
            "instance_type": "g4dn.2xlarge",
            "instance_slots": 2,
            "startup_script": failing,
        },
    }
    url = make_url(database).set(password=CANARIES["database"])
    return {
        "port": cluster.port,
        "db": {"url": url.render_as_string(hide_password=False)},
        "log": {"level": "debug"},
        "security": {"initial_user_password": CANARIES["initial-password"]},
        "checkpoint_storage": {
            "type": "s3",
            "bucket": "checkpoints",
            "endpoint_url": bucket_url,
            "access_key": "AKEXAMPLE",
            "secret_key": CANARIES["storage-key"],
        },
        "task_container_defaults": {
            "environment_variables": [f"SITE={CANARIES['site-variable']}"],
            "registry_auth": {
                "username": "site",
                "password": CANARIES["registry"],
                "serveraddress": "registry.example",
            },
        },
        "resource_pools": [
            {"pool_name": name, "provider": {**common, **section}}
            for name, section in sections.items()
        ],
    }


def submitted(site: Site, folder: Path, pool: str) -> int:
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "train.py").write_text(TRAIN)
    variables = [f"MINE={CANARIES['user-variable']}"]
    more = {
        "resources": {"resource_pool": pool},
        "environment": {"environment_variables": variables},
    }
    return site.cluster.submit({**SEARCH, **more}, model)


def launch_token(script: str) -> str:
    found = re.search(r"^TOKEN='?([^'\n]+)'?$", script, re.M)
    assert found is not None
    return found.group(1)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_secrets_stay_where_they_belong(site: Site, tmp_path: Path) -> None:
    cluster = site.cluster
    works = [submitted(site, tmp_path, pool) for pool in ("ec2", "gce")]
    broken = submitted(site, tmp_path, BROKEN)
    job = cluster.experiment(broken)["jobId"]
    why = eventually(
        "the boot that fails is told",
        lambda: _says(cluster, job, "startup_script ended with exit code 3"),
    )
    cluster.client.act(broken, "kill")
    credentials: dict[str, str] = {}

    def over(experiment: int) -> bool:
        for path in (tmp_path / "machines").glob("*/home/.local/state/windlass/agent/credential"):
            credentials[f"credential of {path.parts[-7]}"] = path.read_text().strip()
        return str(cluster.experiment(experiment)["state"]) == "STATE_COMPLETED"

    for experiment in works:
        eventually("its search completes", lambda one=experiment: over(one))  # type: ignore[misc]
    eventually("every machine has ended", lambda: not site.machines.running())
    assert len(credentials) >= 2

    secret = load_or_create(cluster.data_dir / "secret")
    scripts = site.machines.user_data
    launches = {f"launch token of {name}": launch_token(script) for name, script in scripts.items()}
    assert len(launches) >= 3
    others = {
        "cluster secret": secret.hex(),
        "session": str(cluster.client.session.token),
        **{f"join token of {pool}": JoinTokenSigner(secret).token(pool) for pool in ("ec2", "gce")},
    }
    secrets = {**CANARIES, **launches, **credentials, **others}

    assert found_in("\n".join(scripts.values()), without(secrets, launches)) == []
    asked = [json.dumps(without(call, {"UserData"})) for call in site.ec2.calls()]
    asked += [without_script(text) for text in site.gce.cloud.heard]
    assert any("windlass:cluster" in text for text in asked)
    assert any("windlass_cluster" in text for text in asked)
    assert found_in("\n".join(asked), secrets) == []
    assert found_in("\n".join(site.machines.consoles.values()) + why, secrets) == []
    trials = [trial for one in works for trial in cluster.trials(one)]
    logs = cluster.log() + "".join(cluster.logs_of(int(trial["id"])) for trial in trials)
    assert "startup_script ended with exit code 3" in logs
    assert found_in(logs, secrets) == []
    assert in_files(tmp_path, secrets, skip=cluster.config_file) == []

    lines = b"\n".join(site.processes.command_lines).decode(errors="replace")
    assert "train.py" in lines
    assert found_in(lines, secrets) == []
    environments = site.processes.environments
    assert any(CANARIES["user-variable"].encode() in one for one in environments), "no task seen"
    for environment in environments:
        found = set(found_in(environment.decode(errors="replace"), secrets))
        is_task = b"DET_ALLOCATION_ID=" in environment
        is_master = ENDPOINT_VARIABLE.encode() in environment
        assert found <= (OF_TASKS if is_task else {"cloud-key"} if is_master else set())


def _says(cluster: RealCluster, job: str, text: str) -> str:
    said = str(cluster.get(f"/api/v1/windlass/jobs/{job}/explain"))
    return said if text in said else ""


def found_in(text: str, secrets: Mapping[str, str]) -> list[str]:
    return [name for name, value in secrets.items() if value in text]


def in_files(folder: Path, secrets: Mapping[str, str], skip: Path) -> list[tuple[str, str]]:
    """(secret, path) of logs that hold one, and of other files that somebody else may read."""
    return [
        (name, str(path.relative_to(folder)))
        for path in folder.rglob("*")
        if path != skip and path.is_file() and not path.is_symlink()
        if others_may_read(path, folder) or (path.suffix == ".log" and path.name not in SCRIPT_LOGS)
        for name in found_in(path.read_bytes().decode(errors="replace"), secrets)
    ]


def others_may_read(path: Path, top: Path) -> bool:
    """The file, and every directory down to it from `top`, are open to others."""
    if not path.stat().st_mode & (stat.S_IROTH | stat.S_IRGRP):
        return False
    parents = [p for p in path.parents if p.is_relative_to(top) and p != top]
    return all(p.stat().st_mode & (stat.S_IXOTH | stat.S_IXGRP) for p in parents)


def without(values: Mapping[str, str], names: Any) -> dict[str, str]:
    return {name: value for name, value in values.items() if name not in names}


def without_script(text: str) -> str:
    """A request, less the user data in it."""
    path, _, body = text.partition("\n")
    found = json.loads(body)
    items = found.get("instanceProperties", {}).get("metadata", {}).get("items", [])
    for item in items:
        if item["key"] == "startup-script":
            item["value"] = ""
    return f"{path}\n{json.dumps(found)}"
