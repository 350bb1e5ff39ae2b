"""`det deploy`: its options, and where a cluster is deployed."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from windlass.cli.groups import AliasedGroup, LazyGroup

CLOUDS = ("aws", "gcp")
NO_WAIT = "windlass.deploy.no-wait"
"""In the context: whether `--no-wait-for-master` was given."""
NO_PREFLIGHT = "windlass.deploy.no-preflight"
"""Likewise `--no-preflight-checks`."""
ImagePrefixOption = Annotated[str | None, typer.Option("--image-repo-prefix", hidden=True)]


class DeployGroup(AliasedGroup):
    lazy: ClassVar[dict[str, LazyGroup]] = {
        "local": LazyGroup("deploy.local", "Manage a cluster on this machine."),
        "aws": LazyGroup("deploy.aws", "Manage a cluster on AWS, by Terraform."),
        "gcp": LazyGroup("deploy.gcp", "Manage a cluster on Google Cloud, by Terraform."),
    }


app = typer.Typer(cls=DeployGroup, no_args_is_help=True, add_completion=False)


@app.callback()
def deploy(
    ctx: typer.Context,
    no_preflight_checks: Annotated[
        bool,
        typer.Option(
            "--no-preflight-checks", help="In a cloud: do not look at quotas and names first."
        ),
    ] = False,
    no_wait_for_master: Annotated[
        bool,
        typer.Option(
            "--no-wait-for-master", help="In a cloud: do not wait until the master answers."
        ),
    ] = False,
    image_repo_prefix: ImagePrefixOption = None,
) -> None:
    """Each is for clusters of one kind; the others say that it has no effect."""
    given = {
        "--no-preflight-checks": no_preflight_checks,
        "--no-wait-for-master": no_wait_for_master,
        "--image-repo-prefix": image_repo_prefix,
    }
    if ctx.invoked_subcommand in CLOUDS:
        del given["--no-wait-for-master"], given["--no-preflight-checks"]
        ctx.meta[NO_WAIT] = no_wait_for_master
        ctx.meta[NO_PREFLIGHT] = no_preflight_checks
    from windlass.cli.deploy.local_output import warn
    from windlass.deploy.local.published import NO_EFFECT, NO_EFFECT_IN_CLOUDS

    warn(given, NO_EFFECT_IN_CLOUDS if ctx.invoked_subcommand in CLOUDS else NO_EFFECT)
