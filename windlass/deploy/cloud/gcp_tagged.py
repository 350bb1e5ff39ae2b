"""The clusters of one project of Google Cloud, by the label that everything of them carries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from windlass.deploy.cloud.gcp_machines import address_of, in_zones, is_of_pool
from windlass.deploy.cloud.gcp_plan import CLUSTER_LABEL
from windlass.deploy.cloud.gcp_session import GcpSession
from windlass.deploy.cloud.listing import Tagged


def gcp_tagged(
    *, project: str, keypath: Path | None = None, instances: Any = None, disks: Any = None
) -> list[Tagged]:
    """Raises ProviderError. Of a cluster that is down the master's disk is left. The clients: for tests."""
    google = GcpSession(keypath=keypath)
    compute, wanted = google.compute, f"labels.{CLUSTER_LABEL}:*"
    found: dict[tuple[str, str], Tagged] = {}

    def of(zone: str, thing: Any) -> Tagged:
        name, region = thing.labels[CLUSTER_LABEL], zone.rpartition("-")[0]
        return found.get((name, region), Tagged(cluster_id=name, region=region))

    def note(one: Tagged) -> None:
        found[(one.cluster_id, one.region)] = one

    with google.doing(f"list clusters in project {project}"):
        asked = compute.AggregatedListDisksRequest(project=project, filter=wanted)
        pages = (disks or google.disks()).aggregated_list(request=asked)
        for zone, disk in in_zones(pages, "disks"):
            note(of(zone, disk))
        asked = compute.AggregatedListInstancesRequest(project=project, filter=wanted)
        pages = (instances or google.instances()).aggregated_list(request=asked)
        for zone, machine in in_zones(pages, "instances"):
            one = of(zone, machine)
            if is_of_pool(machine, one.cluster_id):
                note(replace(one, machines=one.machines + 1))
            else:
                note(replace(one, master=address_of(machine)))
    return list(found.values())
