"""`det deploy gcp`: a cluster on Google Cloud."""

from __future__ import annotations

from typing import Any

import typer

from windlass.cli.deploy_cloud import cloud_group, options_from
from windlass.cli.model_options import command_of
from windlass.cli.output import print_json
from windlass.deploy.cloud.gcp_options import GcpOptions
from windlass.deploy.cloud.gcp_plan import gcp_iam_role
from windlass.deploy.cloud.policy import declared
from windlass.deploy.cloud.rendering import template_of

gcp = cloud_group("gcp", "Manage a cluster on Google Cloud, by Terraform.")


@gcp.command("dump-master-config-template")
def dump_master_config_template() -> None:
    """Print the template of master.yaml, for --master-config-template-path."""
    typer.echo(template_of("gcp"), nl=False)


def _iam_policy(given: dict[str, Any]) -> None:
    options = options_from(GcpOptions, given, "gcp iam-policy")
    print_json(gcp_iam_role(options, declared("gcp")))


gcp.command("iam-policy")(
    command_of(
        GcpOptions,
        _iam_policy,
        "Print the least that the master's account needs, as a custom role.",
        only=("cluster_id", "project_id"),
    )
)
