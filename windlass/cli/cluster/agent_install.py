"""`windlass agent install`, `uninstall` and `wheels`."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.base.errors import InvalidArgument, WindlassError
from windlass.base.option_groups import with_groups
from windlass.cli.cluster.join_token import url_for_agents
from windlass.cli.connect import ask_password, client_for, for_administrators
from windlass.cli.groups import MissingExtra
from windlass.cli.output.columns import Column, JsonOption, Table
from windlass.cli.output.text import notice, print_json
from windlass.sdk.client import Client

if TYPE_CHECKING:
    from windlass.install.fleet import Work
    from windlass.install.hosts import SshHost
    from windlass.install.ssh import Access

TOKEN_VARIABLE = "WINDLASS_JOIN_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_LIFE_S = 3600.0
"""For each round of machines that are worked on at once."""
TOKEN_LIFE_MOST_S = 366 * 86_400.0
"""The master gives no longer ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMachines:
    """Which ones, and how to get there."""

    hosts: Annotated[
        list[str] | None, typer.Argument(metavar="[USER@]HOST[:PORT]", help="Machines.")
    ] = None
    hosts_file: Annotated[
        Path | None,
        typer.Option(
            help="Read machines from this file, one in a line, each with key=value words for its agent.yaml.",
            show_default=False,
        ),
    ] = None
    identity: Annotated[
        Path | None,
        typer.Option("--identity", "-i", help="Log in with this private key.", show_default=False),
    ] = None
    jump: Annotated[
        str | None,
        typer.Option("--jump", "-J", help="Connect by way of this machine.", show_default=False),
    ] = None
    known_hosts: Annotated[
        Path | None,
        typer.Option(help="Know machines by this file. Default: as ssh does.", show_default=False),
    ] = None
    ask_sudo_pass: Annotated[
        bool,
        typer.Option("--ask-sudo-pass", help="Ask once for the password that sudo wants there."),
    ] = False
    user: Annotated[
        bool,
        typer.Option("--user", help="Install for the login user alone, without root or sudo."),
    ] = False
    prefix: Annotated[
        str | None,
        typer.Option(
            help="Install below this directory. Default: /opt/windlass; with --user "
            "~/.local/share/windlass/agent.",
            show_default=False,
        ),
    ] = None
    parallel: Annotated[
        int, typer.Option(min=1, max=100, help="Work on this many machines at once.")
    ] = 10


@with_groups
def install(
    ctx: typer.Context,
    machines: TargetMachines,
    url: Annotated[
        str | None,
        typer.Option(
            help="URL by which the machines reach the master. Default: as you reach it.",
            show_default=False,
        ),
    ] = None,
    pool: Annotated[str, typer.Option(help="Join this resource pool.")] = "",
    token_file: Annotated[
        Path | None,
        typer.Option(
            help=f"Read a join token from this file. Or set {TOKEN_VARIABLE}. Without one, a token for these "
            "machines is made and revoked at the end, for which you log in as an administrator.",
            show_default=False,
        ),
    ] = None,
    cert_fingerprint: Annotated[
        str | None,
        typer.Option(
            help="Let agents trust only the certificate with this fingerprint (sha256:...).",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Write this to agent.yaml. May be repeated."
        ),
    ] = None,
    wheels: Annotated[
        Path | None,
        typer.Option(
            help="Install from the wheels in this folder alone, where machines have no package index.",
            show_default=False,
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(help="Use this Python there. Default: the newest.", show_default=False),
    ] = None,
    no_service: Annotated[
        bool, typer.Option("--no-service", help="Install and join, but start no agent.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Install agents on machines over SSH, and join them: many at once, each on its own.

    This very version is copied there, into an environment of its own. Repeat it to go on after a failure, to upgrade,
    or to change settings. The exit code is 1 if a machine failed.
    """
    with _needs_ssh():
        from windlass.install.hosts import read_hosts
        from windlass.install.steps import InstallPlan
        from windlass.install.steps import install as install_one
        from windlass.install.wheels import own_wheel, wheels_in

    chosen = read_hosts(machines.hosts or [], machines.hosts_file)
    access = _access(machines)
    others = wheels_in(wheels) if wheels is not None else ()
    with _join_token(ctx, token_file, url, pool, len(chosen), machines.parallel) as ticket:
        options = {
            "--pool": pool,
            "--cert-fingerprint": cert_fingerprint or ticket["fingerprint"],
        }
        words = [word for key, value in options.items() if value for word in (key, value)]
        words += [word for setting in settings or [] for word in ("--set", setting)]
        plan = InstallPlan(
            url=ticket["url"],
            token=ticket["token"],
            wheel=own_wheel(),
            others=others,
            join=[*words, *(["--no-service"] if no_service else [])],
            user=machines.user,
            prefix=machines.prefix,
            python=python,
        )
        _on_all(machines, chosen, lambda host, tell: install_one(host, access, plan, tell), as_json)


@with_groups
def uninstall(
    machines: TargetMachines,
    grace: Annotated[
        str, typer.Option(help="Let tasks leave for this long: trials make a checkpoint.")
    ] = "5m",
    force: Annotated[
        bool, typer.Option("--force", help="Kill the tasks that still run after that.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Let agents not tell the master: it is gone.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Let agents on machines leave the cluster, and remove them there."""
    with _needs_ssh():
        from windlass.install.hosts import read_hosts
        from windlass.install.steps import Removal
        from windlass.install.steps import uninstall as uninstall_one

    chosen = read_hosts(machines.hosts or [], machines.hosts_file)
    if not yes:
        typer.confirm(f"Remove the agents of {len(chosen)} machines?", abort=True, err=True)
    access = _access(machines)
    flags = {"--force": force, "--offline": offline}
    options = ["--grace", grace, *(flag for flag, given in flags.items() if given)]
    removal = Removal(options=options, user=machines.user, prefix=machines.prefix)
    _on_all(
        machines, chosen, lambda host, tell: uninstall_one(host, access, removal, tell), as_json
    )


def wheels(
    folder: Annotated[Path, typer.Argument(help="Write them here.", show_default=False)],
) -> None:
    """Write the wheels that agents need, out of what is installed here, for `windlass agent install --wheels`.

    They fit machines with the same Python version and processor as this one.
    """
    with _needs_ssh():
        from windlass.install.wheels import wheels_of_agents

        folder.mkdir(parents=True, exist_ok=True)
        count = 0
        for wheel in wheels_of_agents():
            (folder / wheel.name).write_bytes(wheel.content)
            count += 1
    notice(f"Wrote {count} wheels to {folder}")


@contextmanager
def _needs_ssh() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        from windlass.base.packages import DISTRIBUTION

        raise MissingExtra(
            f"`windlass agent install` needs more packages: pip install '{DISTRIBUTION}[ssh]' "
            f"({missing.name} is missing)"
        ) from None


def _on_all(machines: TargetMachines, hosts: Sequence[SshHost], work: Work, as_json: bool) -> None:
    """Shows how far each machine is, and what came of it. Exits with 1 if one failed."""
    from windlass.install.fleet import run_on_all, shown_progress

    with shown_progress(hosts) as progress:
        outcomes = run_on_all(hosts, work, progress, parallel=machines.parallel)
    rows = [
        {"host": each.host, "result": each.result, "step": each.step, "error": each.error}
        | dict(each.agent)
        for each in outcomes
    ]
    if as_json:
        print_json(rows)
    else:
        OUTCOMES.print(rows)
    if failed := sum(outcome.result == "failed" for outcome in outcomes):
        notice(f"{failed} of {len(outcomes)} machines failed; call again to go on with them")
        raise typer.Exit(1)


def _access(machines: TargetMachines) -> Access:
    from windlass.install.ssh import Access

    identity, known_hosts = machines.identity, machines.known_hosts
    for option, path in (("--identity", identity), ("--known-hosts", known_hosts)):
        if path is not None and not path.is_file():
            raise InvalidArgument(f"{option} {path}: there is no such file")
    ask = machines.ask_sudo_pass and not machines.user
    password = ask_password("Password for sudo on the machines") if ask else None
    return Access(
        identity=identity, known_hosts=known_hosts, jump=machines.jump, sudo_password=password
    )


@contextmanager
def _join_token(
    ctx: typer.Context,
    file: Path | None,
    url: str | None,
    pool: str,
    machines: int,
    parallel: int,
) -> Iterator[dict[str, str]]:
    """What machines join with: a token that is given, or one that outlasts this command."""
    given = os.environ.get(TOKEN_VARIABLE, "").strip()
    if file is not None:
        try:
            given = file.read_text().strip()
        except OSError as error:
            raise InvalidArgument(f"--token-file {file}: {error.strerror}") from None
    if given and url:
        yield {"token": given, "url": url, "fingerprint": ""}
        return
    if given:
        raise InvalidArgument("give --url too: where do the machines reach the master?")
    client = client_for(ctx)
    wanted = {
        "pool": pool or "default",
        "uses": machines,
        "validS": min(TOKEN_LIFE_S * math.ceil(machines / parallel), TOKEN_LIFE_MOST_S),
        "description": f"windlass agent install on {machines} machines",
    }
    with for_administrators():
        made = client.create_join_token(wanted)
    try:
        yield {
            "token": str(made["token"]),
            "url": url or url_for_agents(client.session.url, str(made.get("masterUrl") or "")),
            "fingerprint": str(made.get("certFingerprint") or ""),
        }
    finally:
        _revoke(client, str(made["joinToken"]["id"]))


def _revoke(client: Client, token_id: str) -> None:
    """A failure must not hide what became of the machines."""
    try:
        client.revoke_join_token(token_id)
    except WindlassError as error:
        notice(
            f"The join token {token_id} is not revoked, and lasts until it expires: {error.message}. "
            f"To end it: windlass master join-token revoke {token_id}"
        )


OUTCOMES = Table(
    Column("Machine", "host"),
    Column("Result", "result"),
    Column("Agent", "agent_id"),
    Column("Pool", "pool"),
    Column("Slots", "slots"),
    Column("Error", lambda row: f"{row['step']}: {row['error']}" if row["error"] else ""),
)
