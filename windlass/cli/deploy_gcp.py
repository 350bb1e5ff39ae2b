"""`det deploy gcp`: a cluster on Google Cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.cli.deploy_aws import ClusterIdOption, DeleteDataOption, StateOption, YesOption
from windlass.cli.deploy_cloud import (
    NO_WAIT,
    cloud_group,
    down,
    listed,
    options_from,
    show_plan,
    up,
    with_password,
)
from windlass.cli.model_options import command_of
from windlass.cli.output import JsonOption, notice, print_json
from windlass.deploy.cloud.cluster import CloudCluster
from windlass.deploy.cloud.gcp_machines import GcpMachines
from windlass.deploy.cloud.gcp_options import GcpOptions
from windlass.deploy.cloud.gcp_plan import CLOUD, gcp_iam_role, gcp_plan
from windlass.deploy.cloud.machines import Machines
from windlass.deploy.cloud.policy import declared
from windlass.deploy.cloud.rendering import template_of
from windlass.deploy.cloud.state_folder import folder_of

gcp = cloud_group(CLOUD, "Manage a cluster on Google Cloud, by Terraform.")

ProjectOption = Annotated[str | None, typer.Option("--project-id", help="Project of the cluster.")]
KeypathOption = Annotated[
    Path | None, typer.Option("--keypath", help="Key file of a service account.", exists=True)
]
BucketOption = Annotated[
    str, typer.Option("--tf-state-gcs-bucket-name", help="Bucket that up kept the state in.")
]


def _up(ctx: typer.Context, given: dict[str, Any]) -> None:
    options = options_from(GcpOptions, given, "gcp up")
    if options.dry_run:
        show_plan(gcp_plan(options, declared(CLOUD)))
        return
    plan = gcp_plan(with_password(options), declared(CLOUD))
    secret = (
        f"gcloud secrets versions access latest --secret det-{options.cluster_id} "
        f"--project {options.project_id}"
    )
    up(plan, secret, wait=not ctx.meta.get(NO_WAIT), before=None)


def _plan(_ctx: typer.Context, given: dict[str, Any]) -> None:
    show_plan(gcp_plan(options_from(GcpOptions, given, "gcp plan"), declared(CLOUD)))


def _iam_policy(_ctx: typer.Context, given: dict[str, Any]) -> None:
    options = options_from(GcpOptions, given, "gcp iam-policy")
    print_json(gcp_iam_role(options, declared(CLOUD)))


gcp.command("up")(
    command_of(GcpOptions, _up, "Make a cluster, change it, or go on with one that is half made.")
)
gcp.command("plan")(
    command_of(GcpOptions, _plan, "Show what up with the same options would do, and do nothing.")
)
gcp.command("iam-policy")(
    command_of(
        GcpOptions,
        _iam_policy,
        "Print the least that the master's account needs, as a custom role.",
        only=("cluster_id", "project_id"),
    )
)


@gcp.command("down")
def down_(
    cluster_id: ClusterIdOption,
    project_id: ProjectOption = None,
    keypath: KeypathOption = None,
    yes: YesOption = False,
    delete_data: DeleteDataOption = False,
    local_state_path: StateOption = None,
    tf_state_gcs_bucket_name: BucketOption = "",
) -> None:
    """Remove a cluster: its master, then the machines of pools, then the rest. Data stays, unless you say so."""
    folder = folder_of(CLOUD, cluster_id, local_state_path)
    login = {} if keypath is None else {"GOOGLE_APPLICATION_CREDENTIALS": str(keypath.absolute())}
    cluster = CloudCluster(folder=folder, say=notice, environment=login)
    known = cluster.known(tf_state_gcs_bucket_name, region="", profile="")

    def machines() -> Machines:
        return GcpMachines(cluster_id, project=str(known["project_id"]), keypath=keypath)

    down(cluster, machines, delete_data=delete_data, yes=yes)


@gcp.command("list")
def list_(
    project_id: ProjectOption = None,
    local_state_path: StateOption = None,
    as_json: JsonOption = False,
    as_yaml: Annotated[bool, typer.Option("--yaml", help="Print YAML.")] = False,
) -> None:
    """List the clusters that were made from here."""
    listed(CLOUD, local_state_path, as_json=as_json, as_yaml=as_yaml)


@gcp.command("dump-master-config-template")
def dump_master_config_template() -> None:
    """Print the template of master.yaml, for --master-config-template-path."""
    typer.echo(template_of(CLOUD), nl=False)
