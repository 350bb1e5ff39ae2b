"""`det deploy aws`: a cluster on AWS."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.base.formats.json_types import JsonObject
from windlass.base.option_groups import with_groups
from windlass.cli.deploy.cloud import CloudCommands, down, listed
from windlass.cli.groups import command_group
from windlass.cli.output.columns import TableOptions
from windlass.cli.output.text import notice
from windlass.deploy.cloud.aws.bucket import AwsBucket
from windlass.deploy.cloud.aws.machines import AwsMachines, aws_tagged
from windlass.deploy.cloud.aws.options import AwsOptions
from windlass.deploy.cloud.aws.plan import CLOUD, aws_iam_policy, aws_plan
from windlass.deploy.cloud.aws.preflight import aws_problems, checked_types, with_mount_name
from windlass.deploy.cloud.aws.session import region_of
from windlass.deploy.cloud.cluster import CloudCluster
from windlass.deploy.cloud.listing import Tagged
from windlass.deploy.cloud.machines import ClusterMachines, end_all
from windlass.deploy.cloud.plan import DeployPlan
from windlass.deploy.cloud.rendering import template_of
from windlass.deploy.cloud.state_bucket import SharedRecords
from windlass.deploy.cloud.state_folder import folder_of
from windlass.deploy.cloud.tables import declared

app = command_group()

ClusterIdOption = Annotated[str, typer.Option("--cluster-id", help="Name of the cluster.")]
RegionOption = Annotated[str | None, typer.Option(help="Region of the cluster.", hidden=True)]
ProfileOption = Annotated[str | None, typer.Option(help="Profile of AWS's shared files.")]
StateOption = Annotated[
    Path | None,
    typer.Option("--local-state-path", help="Where up keeps the files of clusters."),
]
BucketOption = Annotated[
    str, typer.Option("--tf-state-bucket", help="Bucket that up kept the state in.")
]
YesOption = Annotated[bool, typer.Option("--yes", "--no-prompt", help="Do not ask.")]
DeleteDataOption = Annotated[
    bool, typer.Option("--delete-data", help="Delete experiments, checkpoints and files, too.")
]


class Aws(CloudCommands[AwsOptions]):
    name = CLOUD
    bucket_option = "--tf-state-bucket"
    model = AwsOptions

    def options(self, given: Mapping[str, Any], verb: str) -> AwsOptions:
        place = given.get("region") or region_of(given.get("profile"))
        options = super().options({**given, "region": place}, verb)
        return options if verb == "iam-policy" else with_mount_name(checked_types(options))

    def plan_of(self, options: AwsOptions) -> DeployPlan:
        return aws_plan(options, declared(CLOUD))

    def policy_of(self, options: AwsOptions) -> JsonObject:
        return aws_iam_policy(options, declared(CLOUD))

    def machines_of(self, options: AwsOptions) -> ClusterMachines:
        return AwsMachines(options.cluster_id, region=options.region, profile=options.profile)

    def records_of(self, options: AwsOptions, bucket: str) -> SharedRecords | None:
        return _records(options.tf_state_bucket or bucket, options.region, options.profile)

    def problems_of(self, options: AwsOptions, *, is_new: bool) -> list[str]:
        return aws_problems(options)

    def place_of(self, options: AwsOptions) -> str:
        return options.region

    def secret_of(self, options: AwsOptions) -> str:
        return (
            f"aws secretsmanager get-secret-value --secret-id det-{options.cluster_id} "
            f"--region {options.region} --query SecretString --output text"
        )

    def before(self, options: AwsOptions) -> None:
        if options.update_terminate_agents:
            end_all(self.machines_of(options), notice)


Aws().add_to(
    app,
    "Print the least that the master's role needs to launch and end machines.",
    ("cluster_id", "region", "profile"),
)


def _records(bucket: str, region: str | None, profile: str | None) -> SharedRecords | None:
    """Of the bucket of that name; empty: the state is in a folder."""
    if not bucket:
        return None
    return SharedRecords(AwsBucket(bucket, region=region or "", profile=profile or ""), CLOUD)


@app.command("down")
def down_(
    cluster_id: ClusterIdOption,
    region: RegionOption = None,
    profile: ProfileOption = None,
    yes: YesOption = False,
    delete_data: DeleteDataOption = False,
    local_state_path: StateOption = None,
    tf_state_bucket: BucketOption = "",
) -> None:
    """Remove a cluster: its master, then the machines of pools, then the rest. Data stays, unless you say so."""
    folder = folder_of(CLOUD, cluster_id, local_state_path)
    login = profile or str(folder.variables.get("profile") or "")
    place = region or str(folder.variables.get("region") or "") or region_of(login)
    records = _records(tf_state_bucket or folder.bucket, place, login)
    cluster = CloudCluster(folder=folder, say=notice, records=records)
    known = cluster.known()

    def machines() -> ClusterMachines:
        named = login or str(known.get("profile") or "")
        return AwsMachines(cluster_id, region=str(known["region"]), profile=named)

    down(cluster, machines, delete_data=delete_data, yes=yes)


@app.command("list")
@with_groups
def list_(
    *,
    region: Annotated[str | None, typer.Option(help="Look for clusters in this region.")] = None,
    profile: ProfileOption = None,
    local_state_path: StateOption = None,
    tf_state_bucket: BucketOption = "",
    out: TableOptions,
) -> None:
    """List clusters: those made from here, those in the bucket of states, and those with our tag in the region."""
    place = region or region_of(profile)

    def tagged() -> list[Tagged] | None:
        if place is None:
            notice("warning: only what was made from here is shown: name a --region to ask AWS")
            return None
        return aws_tagged(region=place, profile=profile or "")

    def records() -> SharedRecords | None:
        return _records(tf_state_bucket, place, profile)

    listed(CLOUD, local_state_path, records, tagged, out)


@app.command("dump-master-config-template")
def dump_master_config_template(
    deployment_type: Annotated[
        str, typer.Option(hidden=True, help="There is one template for all.")
    ] = "simple-rds",
) -> None:
    """Print the template of master.yaml, for --master-config-template-path."""
    typer.echo(template_of(CLOUD), nl=False)
