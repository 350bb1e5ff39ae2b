"""The plan of a cluster on AWS. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from windlass.base.formats.json_types import JsonObject
from windlass.base.permissions import Permission
from windlass.deploy.cloud.aws.options import AwsOptions
from windlass.deploy.cloud.aws.policy import aws_policy
from windlass.deploy.cloud.field_types import as_mapping
from windlass.deploy.cloud.master_boot import master_boot
from windlass.deploy.cloud.plan import DeployPlan
from windlass.deploy.cloud.rendering import (
    CERT,
    KEY,
    NFS_CLIENT,
    common_secrets,
    common_values,
    given_secrets,
    master_yaml,
    mount,
    nfs_mount,
    readable,
)
from windlass.deploy.cloud.tables import ALWAYS, needed
from windlass.deploy.cloud.template import from_terraform, list_from_terraform

CLOUD = "aws"
CLUSTER_TAG = "det-cluster"


def aws_plan(options: AwsOptions, permissions: Iterable[Permission]) -> DeployPlan:
    settings = {
        "DATA_DISK": f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{from_terraform('data_disk')}",
        "SECRET": from_terraform("secret"),
    }
    config = master_yaml(CLOUD, options, _values(options))
    secrets = _secrets(options)
    return DeployPlan(
        cloud=CLOUD,
        options=options,
        variables={
            **_variables(options),
            "master_boot": master_boot(CLOUD, options, config, settings),
            "master_policy": json.dumps(aws_iam_policy(options, permissions)),
        },
        secrets=secrets,
        given_secrets={**given_secrets(options), **secrets["files"]},
        state_bucket=options.tf_state_bucket,
    )


def aws_iam_policy(options: AwsOptions, permissions: Iterable[Permission]) -> JsonObject:
    return aws_policy(
        needed(permissions, ALWAYS),
        cluster_id=options.cluster_id,
        region=options.region,
        tag=machine_tag(options.cluster_id),
    )


def machine_tag(cluster_id: str) -> tuple[str, str]:
    """What every machine that the master launches carries, and the master itself does not."""
    return f"det-{cluster_id}", f"det-agent-{cluster_id}"


def tags_of(options: AwsOptions) -> dict[str, str]:
    """Of everything that Terraform makes, and of the machines of pools."""
    return {
        **as_mapping(options.add_tag),
        "managed-by": "determined",
        "deployment-type": options.deployment_type,
        CLUSTER_TAG: options.cluster_id,
    }


def _variables(options: AwsOptions) -> dict[str, Any]:
    return {
        "cluster_id": options.cluster_id,
        "region": options.region,
        "profile": options.profile,
        "tags": tags_of(options),
        "own_network": options.deployment_type in ("secure", "efs", "fsx"),
        "private": options.is_private,
        "files": options.deployment_type if _has_files(options) else "none",
        "files_id": options.efs_id or options.fsx_id,
        "files_mount_name": options.fsx_mount_name,
        "agent_subnet_ids": list(options.agent_subnet_id),
        "inbound_cidr": options.inbound_cidr,
        "ssh_cidr": options.ssh_cidr if options.keypair else "",
        "port": options.master_port,
        "keypair": options.keypair,
        "master_instance_type": options.master_instance_type,
        "database": options.database,
        "db_instance_type": options.db_instance_type,
        "db_size": options.db_size,
        "db_snapshot": options.db_snapshot,
    }


def _values(options: AwsOptions) -> dict[str, Any]:
    key, value = machine_tag(options.cluster_id)
    own_certificate = options.master_tls_cert is not None
    hooks = {"hooks": {"on_connection_lost": ["shutdown", "now"]}}
    return {
        **common_values(options, mounts_files=_has_files(options)),
        **({"tls": {"cert": CERT, "key": KEY}} if own_certificate else {}),
        "enable_cors": options.enable_cors or None,
        "notebook_timeout": options.notebook_timeout,
        "region": options.region,
        "master_cert_name": options.master_cert_name,
        "agent_instance_profile": from_terraform("agent_instance_profile"),
        "agent_security_group": from_terraform("agent_security_group"),
        "agent_subnets": list_from_terraform("agent_subnets"),
        "public_ip": not options.is_private,
        "agent_name": f"determined-agent-{options.cluster_id}",
        "tag_key": key,
        "tag_value": value,
        "custom_tags": [{"key": k, "value": v} for k, v in tags_of(options).items()],
        "keypair": options.keypair,
        "compute_agent_slots": options.compute_agent_slots,
        "spot": options.spot,
        "spot_max_price": options.spot_max_price,
        "startup_script": _startup_script(options) or None,
        "machine_script": _machine_script(options) or None,
        "agent_config": hooks if options.shut_down_agents_on_connection_loss else None,
    }


def _has_files(options: AwsOptions) -> bool:
    return options.deployment_type in ("efs", "fsx")


def _startup_script(options: AwsOptions) -> str:
    return {"efs": NFS_CLIENT, "fsx": _lustre_client()}.get(options.deployment_type, "")


def _machine_script(options: AwsOptions) -> str:
    host = from_terraform("files_host")
    if options.deployment_type == "efs":
        return nfs_mount(f"{host}:/")
    if options.deployment_type == "fsx":
        name = from_terraform("files_mount_name")
        return mount(f"-t lustre -o relatime,flock {host}@tcp:/{name}")
    return ""


def _lustre_client() -> str:
    """It is on no image of Ubuntu; Amazon has a repository for it."""
    repository = "https://fsx-lustre-client-repo.s3.amazonaws.com/ubuntu"
    public_key = (
        "https://fsx-lustre-client-repo-public-keys.s3.amazonaws.com/fsx-ubuntu-public-key.asc"
    )
    keyring = "/usr/share/keyrings/fsx-ubuntu-public-key.gpg"
    return "\n".join(
        [
            "set -e",
            "command -v mount.lustre >/dev/null && exit 0",
            f"curl -fsS {public_key} | gpg --dearmor >{keyring}",
            ". /etc/os-release",
            f'echo "deb [signed-by={keyring}] {repository} $VERSION_CODENAME main" \\',
            "  >/etc/apt/sources.list.d/fsxlustre.list",
            "apt-get update -q",
            "apt-get install -qy lustre-client-modules-$(uname -r)",
            "",
        ]
    )


def _secrets(options: AwsOptions) -> dict[str, Any]:
    config = common_secrets(options)
    if options.docker_user:
        login = {
            "serveraddress": "docker.io",
            "username": options.docker_user,
            "password": options.docker_pass,
        }
        config["task_container_defaults"] = {"registry_auth": login}
    cert, key = options.master_tls_cert, options.master_tls_key
    return {"config": config, "files": {**_file(CERT, cert, "cert"), **_file(KEY, key, "key")}}


def _file(place: str, path: Path | None, what: str) -> dict[str, str]:
    if path is None:
        return {}
    return {place.removeprefix("/etc/windlass/"): readable(path, f"--master-tls-{what}")}
