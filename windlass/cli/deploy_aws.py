"""`det deploy aws`: a cluster on AWS."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from windlass.cli.deploy_cloud import cloud_group, options_from
from windlass.cli.model_options import command_of
from windlass.cli.output import print_json
from windlass.deploy.cloud.aws_options import AwsOptions
from windlass.deploy.cloud.aws_plan import aws_iam_policy
from windlass.deploy.cloud.aws_region import region_of
from windlass.deploy.cloud.policy import declared
from windlass.deploy.cloud.rendering import template_of

aws = cloud_group("aws", "Manage a cluster on AWS, by Terraform.")


@aws.command("dump-master-config-template")
def dump_master_config_template(
    deployment_type: Annotated[
        str, typer.Option(hidden=True, help="There is one template for all.")
    ] = "simple-rds",
) -> None:
    """Print the template of master.yaml, for --master-config-template-path."""
    typer.echo(template_of("aws"), nl=False)


def _iam_policy(given: dict[str, Any]) -> None:
    options = _options(given, "iam-policy")
    print_json(aws_iam_policy(options, declared("aws")))


def _options(given: dict[str, Any], verb: str) -> AwsOptions:
    given = {**given, "region": given.get("region") or region_of(given.get("profile"))}
    return options_from(AwsOptions, given, f"aws {verb}")


aws.command("iam-policy")(
    command_of(
        AwsOptions,
        _iam_policy,
        "Print the least that the master's role needs to launch and end machines.",
        only=("cluster_id", "region", "profile"),
    )
)
