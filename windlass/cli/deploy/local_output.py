"""What `det deploy local` says: its steps, and how it went."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from windlass.base.formats.plurals import counted
from windlass.cli.output.text import notice
from windlass.deploy.local import DEFAULT_PORT
from windlass.deploy.local.published import NO_EFFECT, warnings_for

if TYPE_CHECKING:
    from windlass.deploy.local.cluster import LocalCluster, Say, Started
    from windlass.deploy.local.services import LocalService


def tell_up(cluster: LocalCluster, started: Started, where: str) -> None:
    from windlass.deploy.local.certificate import certificate_of
    from windlass.sdk.credentials import DEFAULT_USER

    options, url, file = started.options, started.options.url, cluster.folder.password_file
    certificate = certificate_of(options, cluster.folder)
    trusted = certificate.variables if certificate is not None else {}
    variables = "".join(f"{name}={shlex.quote(value)} " for name, value in trusted.items())
    if started.set_aside is not None:
        tell_kept(cluster, started.set_aside)
    if not started.logged_in:
        typer.echo(f"The cluster is up at {url}. Log in: det -m {url} user login {DEFAULT_USER}")
    else:
        typer.echo(f"The cluster is up at {url}, and you are logged in as {DEFAULT_USER}.")
        if file.exists():
            quoted = shlex.quote(str(file))
            typer.echo(f"Password of admin and {DEFAULT_USER}, unless changed: {quoted}")
            typer.echo(
                f"Published client: export DET_MASTER={url} {variables}DET_USER={DEFAULT_USER} "
                f'DET_PASS="$(cat {quoted})"'
            )
        if certificate is not None:
            typer.echo(f"For agents elsewhere: --cert-fingerprint {certificate.fingerprint}")
    master = "" if options.port == DEFAULT_PORT and not options.tls else f"-m {url} "
    typer.echo(f"Try: det {master}agent list    Stop it: det deploy local cluster-down{where}")


def tell_ended(ended: list[str], none: str) -> None:
    """Tasks by their number: their ids are those of containers, which nobody knows."""
    named = [one for one in ended if not one.startswith("task ")]
    tasks = len(ended) - len(named)
    if ended:
        typer.echo(f"Stopped: {', '.join([*named, *([counted(tasks, 'task')] if tasks else [])])}")
    else:
        notice(none)


def tell_kept(cluster: LocalCluster, moved: Path | None) -> None:
    if moved is not None:
        quoted = shlex.quote(str(moved))
        typer.echo(f"The data was moved to {quoted}; to remove it for good: rm -r {quoted}")
    elif cluster.folder.master.exists():
        typer.echo(
            f"Kept in {cluster.folder.path}: experiments, checkpoints, logs. "
            "The next cluster-up goes on with them."
        )


def warn(given: Mapping[str, object], why: Mapping[str, str] = NO_EFFECT) -> None:
    for warning in warnings_for(given, why):
        notice(f"warning: {warning}")


@contextmanager
def steps() -> Iterator[Say]:
    """Says each step: in place on a terminal, else a line for each."""
    if not sys.stderr.isatty():
        yield notice
        return
    from rich.console import Console

    with Console(stderr=True).status("Looking") as spinner:
        yield spinner.update


def described(service: LocalService, log: str) -> dict[str, Any]:
    return {
        "name": service.name,
        "state": service.condition.value,
        "pid": service.process.pid if service.process and service.is_alive else None,
        "restarts": service.restarts,
        "lastEnd": service.ended or None,
        "log": log,
    }
