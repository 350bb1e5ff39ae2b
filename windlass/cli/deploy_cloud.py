"""What the verbs of `det deploy aws` and `det deploy gcp` share."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TypeVar

import typer

from windlass.cli.output import notice
from windlass.deploy.cloud.options import CommonOptions
from windlass.deploy.cloud.parsing import parse, warnings
from windlass.deploy.local.published import check_version

CLOUDS = ("aws", "gcp")
NO_WAIT = "windlass.deploy.no-wait"
"""In the context: whether `--no-wait-for-master` was given."""

OptionsT = TypeVar("OptionsT", bound=CommonOptions)


def options_from(model: type[OptionsT], given: Mapping[str, Any], what: str) -> OptionsT:
    """Says what has no effect. Raises InvalidConfig."""
    options = parse(model, given, f"options of det deploy {what}")
    check_version(options.det_version)
    for warning in warnings(options, given):
        notice(f"warning: {warning}")
    return options


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def cloud_group(cloud: str, help_: str) -> typer.Typer:
    from windlass.cli.groups import AliasedGroup

    return typer.Typer(name=cloud, cls=AliasedGroup, no_args_is_help=True, help=help_)
