"""On both clouds, by machines that run their own user data: images are made, and boots that fail are told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from master.wiring.gcp import ENDPOINT_VARIABLE
from tests.fakes.booting_machines import BootingMachines, both_clouds
from tests.fakes.ec2_server import KEYS, REGION, UBUNTU_GPU, Ec2Server, ec2_server
from tests.fakes.gce import FakeGce, fake_gce
from tests.real_cluster import RealCluster, eventually
from windlass.base.errors import Conflict
from windlass.sdk.client import Client

MODEL = Path(__file__).parents[1] / "crash" / "model"
EC2 = {
    "type": "aws",
    "region": REGION,
    "zones": [f"{REGION}a"],
    "image_id": UBUNTU_GPU,
    "instance_type": "g4dn.xlarge",
    "boot_time": "5s",
    "startup_script": "true\n",
}
GCE = {
    "type": "gcp",
    "project": "acme-ml-1",
    "zone": "us-central1-a",
    "boot_time": "5s",
    "instance_type": {"machine_type": "a2-highgpu-2g"},
    "startup_script": "true\n",
}
FAILS = "#!/bin/sh\nprintf '\\377\\000 broken'\nexit 3\n"
DIES = "#!/bin/sh\nkill -9 $PPID\n"
"""The boot ends in the middle: the machine runs on, and nobody hears of it again."""
POOLS = {
    "ec2": EC2,
    "gce": GCE,
    "ec2-bad": {**EC2, "instance_type": "g4dn.2xlarge", "startup_script": FAILS},
    "gce-bad": {
        **GCE,
        "instance_type": {"machine_type": "a2-highgpu-1g"},
        "startup_script": FAILS,
    },
    "ec2-dead": {**EC2, "instance_type": "g4dn.4xlarge", "startup_script": DIES},
    "gce-dead": {
        **GCE,
        "instance_type": {"machine_type": "g2-standard-4"},
        "startup_script": DIES,
    },
}
WORK: dict[str, Any] = {
    "name": "waits for a machine",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 1}},
    "hyperparameters": {"x": 1.0},
    "max_restarts": 0,
}
WHY = "startup_script ended with exit code 3"
NEVER = "no agent connected within"


class Site:
    def __init__(
        self, cluster: RealCluster, machines: BootingMachines, ec2: Ec2Server, gce: FakeGce
    ) -> None:
        self.cluster, self.machines, self.ec2, self.gce = cluster, machines, ec2, gce
        session = cluster.session()
        session.login("admin", cluster.password)
        self.admin = Client(session)

    def images(self) -> set[str]:
        client = self.ec2.client()
        made = {x["Name"] for x in client.describe_images(Owners=["self"])["Images"]}
        with self.gce.cloud.lock:
            return made | set(self.gce.cloud.images)

    def living(self) -> list[str]:
        groups = self.ec2.client().describe_instances()["Reservations"]
        machines = [x for group in groups for x in group["Instances"]]
        on_ec2 = [x["InstanceId"] for x in machines if x["State"]["Name"] != "terminated"]
        with self.gce.cloud.lock:
            return [*on_ec2, *(machine.name for machine in self.gce.cloud.machines.values())]

    def bake(self, bake_id: str) -> dict[str, Any]:
        with suppress(Exception):  # while the master is being restarted
            return next(x for x in self.admin.bakes() if x["id"] == bake_id)
        return {"state": "unknown"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    server = ec2_server()
    server.reset()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["aws_access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["aws_secret_access_key"])
    with fake_gce() as gce:
        monkeypatch.setenv(ENDPOINT_VARIABLE, f"{gce.url}/compute/v1/")
        common = {"max_instances": 3, "max_idle_agent_period": "2s"}
        never = {"max_agent_starting_period": "40s"}
        pools = [
            {"pool_name": n, **common, **(never if "dead" in n else {}), "provider": p}
            for n, p in POOLS.items()
        ]
        folder = tmp_path / "machines"
        with (
            RealCluster(tmp_path / "cluster", {"resource_pools": pools}) as cluster,
            BootingMachines(folder, *both_clouds(server, gce)) as machines,
        ):
            site = Site(cluster, machines, server, gce)
            yield site
            site.admin.session.close()
    server.reset()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_images_are_made_though_the_master_is_killed_and_nothing_else_stays(site: Site) -> None:
    client = site.admin
    site.ec2.images_are("pending")
    site.gce.cloud.images_are = "PENDING"
    begun = {
        pool: eventually(f"pool {pool} can be baked", lambda pool=pool: begin(site, pool))  # type: ignore[misc]
        for pool in ("ec2", "gce")
    }
    failing = client.begin_bake("ec2-bad")
    eventually("both images are begun", lambda: len(site.images()) == 2)
    site.cluster.kill_master()
    site.ec2.images_are("available")
    site.gce.cloud.images_are = "READY"
    for image in site.gce.cloud.images.values():
        image["status"] = "READY"
    site.cluster.start_master()
    ready = {
        pool: eventually(f"the image of {pool} is ready", lambda id_=id_: over(site, id_))  # type: ignore[misc]
        for pool, id_ in begun.items()
    }
    assert ready["ec2"]["setting"].startswith("image_id: ami-")
    assert ready["gce"]["setting"].startswith(
        "boot_disk_source_image: projects/acme-ml-1/global/images/windlass-gce-"
    )
    failed = eventually("the other has failed", lambda: over(site, failing["id"]))
    assert failed["state"] == "failed"
    assert WHY in failed["error"]
    assert site.images() == {bake["imageName"] for bake in ready.values()}
    eventually("no machine stays", lambda: not site.living())
    assert not client.agents(), "none of them ever was an agent"


def begin(site: Site, pool: str) -> str:
    """Once it is known what the cloud sells."""
    try:
        return str(site.admin.begin_bake(pool)["id"])
    except Conflict:  # it is not known yet what the cloud sells
        return ""


def over(site: Site, bake_id: str) -> dict[str, Any] | None:
    bake = site.bake(bake_id)
    return bake if bake["state"] in ("ready", "failed") else None


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_after_three_boots_that_fail_or_never_end_nothing_more_is_bought_and_the_job_says_why(
    site: Site,
) -> None:
    waiting = {pool: [submitted(site, pool)] for pool in ("ec2-bad", "gce-bad")}
    waiting |= {
        pool: [submitted(site, pool) for _ in range(3)] for pool in ("ec2-dead", "gce-dead")
    }
    eventually("their boots die", lambda: len(publish(site)) >= 6)
    for pool, experiments in waiting.items():
        job = str(site.cluster.experiment(experiments[0])["jobId"])
        last = f"the last it said: running the startup_script of pool {pool}; its console ends with: windlass: "
        why = (NEVER, last) if "dead" in pool else (WHY,)
        eventually(
            f"the job in {pool} says why",
            lambda job=job, why=why: says(site.cluster, job, *why),  # type: ignore[misc]
        )
    eventually(
        "all four types rest",
        lambda: (
            {x["pool"] for x in site.cluster.client.fleet_offers()["offers"] if refused(x)}
            == set(waiting)
        ),
    )
    launches = site.ec2.calls("RunInstances")
    assert len([call for call in launches if call["InstanceType"] == "g4dn.2xlarge"]) == 3
    eventually("every machine has ended", lambda: not site.living())


def submitted(site: Site, pool: str) -> int:
    return site.cluster.submit({**WORK, "resources": {"resource_pool": pool}}, MODEL)


def publish(site: Site) -> list[str]:
    """The machines whose boot died; their clouds show their consoles from now on."""
    words = re.compile("running the startup_script of pool (ec2|gce)-dead")
    consoles = {name: said for name, said in site.machines.consoles.items() if words.search(said)}
    for name, said in consoles.items():
        if name.startswith("i-"):
            site.ec2.console(name, said)
        else:
            with suppress(StopIteration):  # it has been ended
                site.gce.cloud.named(name).console = said
    return list(consoles)


def refused(offer: dict[str, Any]) -> bool:
    return offer["state"] == "refused" and (NEVER in offer["reason"] or WHY in offer["reason"])


def says(cluster: RealCluster, job: str, *words: str) -> bool:
    text = json.dumps(cluster.client.session.get(f"/api/v1/windlass/jobs/{job}/explain"))
    return all(each in text for each in words)
