"""`det deploy gcp`: a cluster on Google Cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.deploy.aws import ClusterIdOption, DeleteDataOption, StateOption, YesOption
from windlass.cli.deploy.cloud import (
    check_new,
    cluster_of,
    down,
    is_new,
    listed,
    options_from,
    preflight,
    show_plan,
    up,
    with_password,
)
from windlass.cli.deploy.commands import NO_WAIT
from windlass.cli.deploy.model_options import command_of
from windlass.cli.groups import command_group
from windlass.cli.output.columns import TableOptions
from windlass.cli.output.text import notice, print_json
from windlass.deploy.cloud.cluster import CloudCluster
from windlass.deploy.cloud.gcp.bucket import GcpBucket
from windlass.deploy.cloud.gcp.machines import GcpMachines, gcp_tagged
from windlass.deploy.cloud.gcp.options import GcpOptions
from windlass.deploy.cloud.gcp.plan import CLOUD, gcp_iam_role, gcp_plan
from windlass.deploy.cloud.gcp.preflight import gcp_problems
from windlass.deploy.cloud.listing import Tagged
from windlass.deploy.cloud.machines import Machines
from windlass.deploy.cloud.rendering import template_of
from windlass.deploy.cloud.state_bucket import SharedRecords
from windlass.deploy.cloud.state_folder import folder_of
from windlass.deploy.cloud.tables import declared

app = command_group()

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
        _show_plan(options)
        return
    records = _records_of(options)

    def machines() -> Machines:
        return GcpMachines(options.cluster_id, project=options.project_id, keypath=options.keypath)

    where, bucket = f"project {options.project_id}", "--tf-state-gcs-bucket-name"
    check_new(ctx, options, records, machines, where=where, bucket_option=bucket)
    preflight(ctx, lambda: gcp_problems(options, is_new=is_new(options, records)))
    plan = gcp_plan(with_password(options, records), declared(CLOUD))
    secret = (
        f"gcloud secrets versions access latest --secret det-{options.cluster_id} "
        f"--project {options.project_id}"
    )
    wait = not ctx.meta.get(NO_WAIT)
    up(plan, cluster_of(plan, records), secret, wait=wait, before=None)


def _plan(_ctx: typer.Context, given: dict[str, Any]) -> None:
    _show_plan(options_from(GcpOptions, given, "gcp plan"))


def _show_plan(options: GcpOptions) -> None:
    plan = gcp_plan(options, declared(CLOUD))
    show_plan(plan, cluster_of(plan, _records_of(options)))


def _iam_policy(_ctx: typer.Context, given: dict[str, Any]) -> None:
    options = options_from(GcpOptions, given, "gcp iam-policy")
    print_json(gcp_iam_role(options, declared(CLOUD)))


def _records_of(options: GcpOptions) -> SharedRecords | None:
    folder = folder_of(CLOUD, options.cluster_id, options.local_state_path)
    bucket = options.tf_state_gcs_bucket_name or folder.bucket
    return _records(bucket, options.project_id, options.region, options.keypath)


def _records(
    bucket: str, project: str | None, region: str, keypath: Path | None
) -> SharedRecords | None:
    """Of the bucket of that name; empty: the state is in a folder."""
    if not bucket:
        return None
    made = GcpBucket(bucket, project=project or "", region=region, keypath=keypath)
    return SharedRecords(made, CLOUD)


app.command("up")(
    command_of(GcpOptions, _up, "Make a cluster, change it, or go on with one that is half made.")
)
app.command("plan")(
    command_of(GcpOptions, _plan, "Show what up with the same options would do, and do nothing.")
)
app.command("iam-policy")(
    command_of(
        GcpOptions,
        _iam_policy,
        "Print the least that the master's account needs, as a custom role.",
        only=("cluster_id", "project_id"),
    )
)


@app.command("down")
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
    records = _records(tf_state_gcs_bucket_name or folder.bucket, project_id, "", keypath)
    cluster = CloudCluster(folder=folder, say=notice, records=records, environment=login)
    known = cluster.known()

    def machines() -> Machines:
        return GcpMachines(cluster_id, project=str(known["project_id"]), keypath=keypath)

    down(cluster, machines, delete_data=delete_data, yes=yes)


@app.command("list")
@with_groups
def list_(
    *,
    project_id: ProjectOption = None,
    keypath: KeypathOption = None,
    local_state_path: StateOption = None,
    tf_state_gcs_bucket_name: BucketOption = "",
    as_yaml: Annotated[bool, typer.Option("--yaml", help="Print YAML.")] = False,
    out: TableOptions,
) -> None:
    """List clusters: those made from here, those in the bucket of states, and those with our label in the project."""

    def tagged() -> list[Tagged] | None:
        if project_id is None:
            notice(
                "warning: only what was made from here is shown: name a --project-id to ask Google"
            )
            return None
        return gcp_tagged(project=project_id, keypath=keypath)

    def records() -> SharedRecords | None:
        return _records(tf_state_gcs_bucket_name, project_id, "", keypath)

    listed(CLOUD, local_state_path, records, tagged, out, as_yaml=as_yaml)


@app.command("dump-master-config-template")
def dump_master_config_template() -> None:
    """Print the template of master.yaml, for --master-config-template-path."""
    typer.echo(template_of(CLOUD), nl=False)
