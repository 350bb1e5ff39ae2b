"""`det deploy gcp`: a cluster on Google Cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windlass.base.formats.json_types import JsonObject
from windlass.base.option_groups import with_groups
from windlass.cli.deploy.aws import ClusterIdOption, DeleteDataOption, StateOption, YesOption
from windlass.cli.deploy.cloud import CloudCommands, down, listed
from windlass.cli.groups import command_group
from windlass.cli.output.columns import TableOptions
from windlass.cli.output.text import notice
from windlass.deploy.cloud.cluster import CloudCluster
from windlass.deploy.cloud.gcp.bucket import GcpBucket
from windlass.deploy.cloud.gcp.machines import GcpMachines, gcp_tagged
from windlass.deploy.cloud.gcp.options import GcpOptions
from windlass.deploy.cloud.gcp.plan import CLOUD, gcp_iam_role, gcp_plan
from windlass.deploy.cloud.gcp.preflight import gcp_problems
from windlass.deploy.cloud.listing import Tagged
from windlass.deploy.cloud.machines import ClusterMachines
from windlass.deploy.cloud.plan import DeployPlan
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


class Gcp(CloudCommands[GcpOptions]):
    name = CLOUD
    bucket_option = "--tf-state-gcs-bucket-name"
    model = GcpOptions

    def plan_of(self, options: GcpOptions) -> DeployPlan:
        return gcp_plan(options, declared(CLOUD))

    def policy_of(self, options: GcpOptions) -> JsonObject:
        return gcp_iam_role(options, declared(CLOUD))

    def machines_of(self, options: GcpOptions) -> ClusterMachines:
        return GcpMachines(options.cluster_id, project=options.project_id, keypath=options.keypath)

    def records_of(self, options: GcpOptions, bucket: str) -> SharedRecords | None:
        name = options.tf_state_gcs_bucket_name or bucket
        return _records(name, options.project_id, options.region, options.keypath)

    def problems_of(self, options: GcpOptions, *, is_new: bool) -> list[str]:
        return gcp_problems(options, is_new=is_new)

    def place_of(self, options: GcpOptions) -> str:
        return f"project {options.project_id}"

    def secret_of(self, options: GcpOptions) -> str:
        return (
            f"gcloud secrets versions access latest --secret det-{options.cluster_id} "
            f"--project {options.project_id}"
        )


Gcp().add_to(
    app,
    "Print the least that the master's account needs, as a custom role.",
    ("cluster_id", "project_id"),
)


def _records(
    bucket: str, project: str | None, region: str, keypath: Path | None
) -> SharedRecords | None:
    """Of the bucket of that name; empty: the state is in a folder."""
    if not bucket:
        return None
    made = GcpBucket(bucket, project=project or "", region=region, keypath=keypath)
    return SharedRecords(made, CLOUD)


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

    def machines() -> ClusterMachines:
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
