"""The plan of a cluster on Google Cloud. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from windlass.base.formats.durations import format_duration
from windlass.base.formats.json_types import JsonObject
from windlass.base.permissions import Permission, Reach
from windlass.deploy.cloud.field_types import as_mapping
from windlass.deploy.cloud.gcp.options import GcpOptions
from windlass.deploy.cloud.master_boot import master_boot
from windlass.deploy.cloud.plan import DeployPlan
from windlass.deploy.cloud.rendering import (
    NFS_CLIENT,
    common_secrets,
    common_values,
    given_secrets,
    master_yaml,
    nfs_mount,
)
from windlass.deploy.cloud.tables import ALWAYS, needed
from windlass.deploy.cloud.template import from_terraform

CLOUD = "gcp"
CLUSTER_LABEL = "det-cluster"


def gcp_plan(options: GcpOptions, permissions: Iterable[Permission]) -> DeployPlan:
    settings = {"DATA_DISK": "/dev/disk/by-id/google-data", "SECRET": from_terraform("secret")}
    config = master_yaml(CLOUD, options, _values(options))
    keys = (
        {}
        if options.keypath is None
        else {"GOOGLE_APPLICATION_CREDENTIALS": str(options.keypath.absolute())}
    )
    return DeployPlan(
        cloud=CLOUD,
        options=options,
        variables={
            **_variables(options),
            "master_boot": master_boot(CLOUD, options, config, settings),
            "master_permissions": gcp_iam_role(options, permissions)["includedPermissions"],
        },
        secrets={"config": common_secrets(options), "files": {}},
        given_secrets=given_secrets(options),
        environment=keys,
        state_bucket=options.tf_state_gcs_bucket_name,
    )


def gcp_iam_role(options: GcpOptions, permissions: Iterable[Permission]) -> JsonObject:
    return gcp_role(needed(permissions, ALWAYS), cluster_id=options.cluster_id)


def gcp_role(permissions: Iterable[Permission], *, cluster_id: str) -> JsonObject:
    """A custom role, as `gcloud iam roles create --file` takes it; `actAs` is granted on the agents' account only."""
    return {
        "title": f"Windlass master {cluster_id}",
        "description": "What the master needs to launch, list and end machines",
        "stage": "GA",
        "includedPermissions": sorted(
            each.action for each in permissions if each.reach is not Reach.AGENT_ROLE
        ),
    }


def machine_label(cluster_id: str) -> tuple[str, str]:
    """What every machine that the master launches carries, and the master itself does not."""
    return "managed-by", f"det-master-{cluster_id}"


def labels_of(options: GcpOptions) -> dict[str, str]:
    """Of everything that Terraform makes, and of the machines of pools."""
    return {**as_mapping(options.add_label), CLUSTER_LABEL: options.cluster_id}


def _variables(options: GcpOptions) -> dict[str, Any]:
    return {
        "cluster_id": options.cluster_id,
        "project_id": options.project_id,
        "region": options.region,
        "zone": options.effective_zone,
        "labels": labels_of(options),
        "network": options.network,
        "filestore": not options.no_filestore and not options.filestore_address,
        "inbound_cidr": options.inbound_cidr,
        "ssh_cidr": options.ssh_cidr,
        "port": options.master_port,
        "master_instance_type": options.master_instance_type,
        "min_cpu_platform_master": options.min_cpu_platform_master,
        "database": options.database,
    }


def _values(options: GcpOptions) -> dict[str, Any]:
    key, value = machine_label(options.cluster_id)
    address = options.filestore_address or f"{from_terraform('files_host')}:/share"
    mounts = not options.no_filestore
    return {
        **common_values(options, mounts_files=mounts),
        "project_id": options.project_id,
        "zone": options.effective_zone,
        "operation_timeout_period": format_duration(options.operation_timeout_period),
        "disk_size": options.disk_size,
        "disk_type": options.disk_type,
        "environment_image": options.environment_image or None,
        "labels": labels_of(options),
        "label_key": key,
        "label_value": value,
        "agent_name_prefix": f"det-agent-{options.cluster_id}"[:29].rstrip("-") + "-",
        "network": from_terraform("network"),
        "subnetwork": from_terraform("subnetwork"),
        "network_tags": [f"det-agent-{options.cluster_id}"],
        "agent_service_account": from_terraform("agent_service_account"),
        "min_cpu_platform_agent": options.min_cpu_platform_agent,
        "gpu_type": options.gpu_type,
        "gpu_num": options.gpu_num,
        "preemptible": options.preemptible,
        "startup_script": NFS_CLIENT if mounts else None,
        "machine_script": nfs_mount(address) if mounts else None,
    }
