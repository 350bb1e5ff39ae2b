"""What the verbs of `det deploy aws` and `det deploy gcp` share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import typer

from windlass.base.errors import InvalidState, ProviderError, WindlassError
from windlass.base.plurals import counted
from windlass.cli.deploy.commands import NO_PREFLIGHT
from windlass.cli.output.columns import Column, Table, TableOptions, print_rows
from windlass.cli.output.text import notice, print_yaml
from windlass.deploy.cloud.cluster import CloudCluster
from windlass.deploy.cloud.listing import Found, Tagged, merged, recorded
from windlass.deploy.cloud.machines import Machines
from windlass.deploy.cloud.options import CommonOptions
from windlass.deploy.cloud.parsing import parse, warnings
from windlass.deploy.cloud.plan import Plan
from windlass.deploy.cloud.preflight import taken
from windlass.deploy.cloud.state_bucket import SharedRecords
from windlass.deploy.cloud.state_folder import StateFolder, folder_of, folders
from windlass.deploy.local.published import check_version

OptionsT = TypeVar("OptionsT", bound=CommonOptions)
Answer = TypeVar("Answer")
PATIENCE_S = 900.0
PAUSE_S = 5.0
"""Between looks at a new master."""


def options_from(model: type[OptionsT], given: Mapping[str, Any], what: str) -> OptionsT:
    """Says what has no effect. Raises InvalidConfig."""
    options = parse(model, given, f"options of det deploy {what}")
    check_version(options.det_version)
    for warning in warnings(options, given):
        notice(f"warning: {warning}")
    return options


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def is_new(options: CommonOptions, records: SharedRecords | None) -> bool:
    name = options.cluster_id
    here = folder_of(_cloud(options), name, options.local_state_path).record
    return here is None and (records is None or records.read(name) is None)


def with_password(options: OptionsT, records: SharedRecords | None) -> OptionsT:
    """Asks for the first password, twice, when the cluster is new and somebody is there."""
    new = is_new(options, records)
    if options.initial_user_password or options.yes or not new or not is_interactive():
        return options
    typed = typer.prompt(
        "Password of admin and determined (empty: a random one)",
        hide_input=True,
        confirmation_prompt=True,
        default="",
        show_default=False,
        err=True,
    )
    return options.model_copy(update={"initial_user_password": typed})


def preflight(
    ctx: typer.Context, problems_of: Callable[[], Sequence[str]], unasked: str = "quotas are"
) -> None:
    """Before anything is made. Raises InvalidState with what would fail; what cannot be asked is a warning."""
    if ctx.meta.get(NO_PREFLIGHT):
        return
    try:
        problems = problems_of()
    except WindlassError as error:
        notice(f"warning: {unasked} not checked: {error.message}")
        return
    if problems:
        raise InvalidState(
            f"Nothing was made: {'; '.join(problems)}; det deploy --no-preflight-checks does not look"
        )


def check_new(
    ctx: typer.Context,
    options: CommonOptions,
    records: SharedRecords | None,
    machines: Callable[[], Machines],
    *,
    where: str,
    bucket_option: str,
) -> None:
    """Raises InvalidState if the cluster runs already, and its state is neither here nor in the bucket."""
    if not is_new(options, records):
        return
    name = options.cluster_id

    def problems() -> list[str]:
        return taken(name, machines(), where=where, bucket_option=bucket_option)

    preflight(ctx, problems, f"whether {name} runs already is")


def cluster_of(plan: Plan, records: SharedRecords | None) -> CloudCluster:
    return CloudCluster(
        folder=_folder(plan), say=notice, records=records, environment=plan.environment
    )


def up(
    plan: Plan,
    cluster: CloudCluster,
    where_secret: str,
    *,
    wait: bool,
    before: Callable[[], None] | None,
) -> None:
    options = plan.options

    def agree(changes: Sequence[tuple[str, str]]) -> bool:
        return options.yes or _agreed(cluster.folder, changes)

    outputs = cluster.up(plan, agree=agree, before=before)
    if outputs is None:
        raise typer.Exit(1)
    url = f"{options.scheme}://{outputs['master_address']}:{options.master_port}"
    bastion = outputs.get("bastion_address")
    if wait and not bastion:
        notice(f"Waiting for the master at {url}")
        _wait_for_master(url)
    typer.echo(f"The cluster {options.cluster_id} is up. Master: {url}")
    if bastion:
        port = options.master_port
        tunnel = f"ssh -N -L {port}:{outputs['master_address']}:{port} ubuntu@{bastion}"
        typer.echo(f"Reach it through the bastion: {tunnel}")
        url = f"{options.scheme}://localhost:{port}"
    if not options.initial_user_password:
        typer.echo(f"Password of admin and determined, at the first start: {where_secret}")
    typer.echo(f"Log in: det -m {url} user login determined")
    typer.echo(f"State: {_place(cluster.folder)}. Remove it: {_down_command(plan)}")


def _wait_for_master(url: str) -> None:
    """Its certificate is not looked at: nothing is sent and nothing of the answer is used."""
    import httpx2

    until = time.monotonic() + PATIENCE_S
    with httpx2.Client(verify=False, timeout=10, trust_env=False) as client:
        while time.monotonic() < until:
            with suppress(httpx2.HTTPError):
                if client.get(f"{url}/api/v1/master").is_success:
                    return
            time.sleep(PAUSE_S)
    raise ProviderError(
        f"Cannot connect to master at {url} after {PATIENCE_S:.0f} s: look at the console output of its machine "
        "(docs: deploy), or run up again; --no-wait-for-master does not wait"
    )


def show_plan(plan: Plan, cluster: CloudCluster) -> None:
    print_rows(["Action", "Address"], cluster.look(plan))


def down(
    cluster: CloudCluster, machines: Callable[[], Machines], *, delete_data: bool, yes: bool
) -> None:
    name = cluster.folder.cluster_id
    loss = (
        "its machines and ALL DATA: experiments, checkpoints, users, files"
        if delete_data
        else "its machines; data stays (--delete-data removes it, too)"
    )
    if not yes:
        if not is_interactive():
            raise InvalidState(f"Nobody is there to ask: --yes removes {name}, {loss}")
        typer.confirm(f"Remove the cluster {name}: {loss}?", abort=True, err=True)

    def end_others(masters: Sequence[str]) -> bool:
        where = f"A master of {name} that is not in this state runs ({', '.join(masters)})"
        if yes or not is_interactive():
            notice(
                f"warning: {where}: machines of pools may be its, and are kept. Run down with its state, or end that "
                "master by hand and run down again"
            )
            return False
        return typer.confirm(f"{where}: machines of pools may be its. End them, too?", err=True)

    left = cluster.down(machines(), delete_data=delete_data, end_others=end_others)
    if not left:
        typer.echo(f"Nothing of {name} is left.")
        return
    typer.echo(f"{name} is down. What stays, and may cost money:")
    for address in left:
        typer.echo(f"  {address}")
    typer.echo("Start it again with up and the same options; remove it with down --delete-data.")


def listed(
    cloud: str,
    root: Path | None,
    records: Callable[[], SharedRecords | None],
    tagged: Callable[[], Sequence[Tagged] | None],
    out: TableOptions,
    *,
    as_yaml: bool = False,
) -> None:
    """`records`, `tagged`: ask the cloud; where it does not answer, what is known here is shown all the same."""
    known = _from_bucket(_or_warn(records)) + [
        recorded(each.cluster_id, record, each.variables, _place(each))
        for each in folders(cloud, root)
        if (record := each.record) is not None
    ]
    found = merged(known, _or_warn(tagged))
    documents = [one.document() for one in found]
    if as_yaml and not out.as_json:
        print_yaml(documents)
    elif found or out.as_json:
        out.show(CLUSTERS, documents)
    else:
        notice(f"No cluster of det deploy {cloud} was found")


CLUSTERS = Table(
    Column("Cluster", "clusterId"),
    Column("Region", "region"),
    Column("State", "state"),
    Column("Master", "master"),
    Column("Machines", "machines"),
    Column("State is in", "place"),
)


def _from_bucket(records: SharedRecords | None) -> list[Found]:
    if records is None:
        return []
    place = f"bucket {records.bucket.name}"
    read = ((name, records.read(name)) for name in records.clusters())
    return [recorded(name, *found, place) for name, found in read if found is not None]


def _place(folder: StateFolder) -> str:
    return f"bucket {folder.bucket}" if folder.bucket else str(folder.path)


def _or_warn(ask: Callable[[], Answer | None]) -> Answer | None:
    try:
        return ask()
    except WindlassError as error:
        notice(f"warning: {error.message}")
        return None


def _agreed(folder: StateFolder, changes: Sequence[tuple[str, str]]) -> bool:
    """A first `up` was asked for by itself; a change is shown."""
    if folder.record is None or not changes:
        return True
    for action, address in changes:
        notice(f"{action} {address}")
    if not is_interactive():
        raise InvalidState(
            f"This changes {counted(len(changes), 'thing')} of {folder.cluster_id}, and nobody is there to ask: "
            "give --yes"
        )
    return typer.confirm(f"Change the cluster {folder.cluster_id} so?", err=True)


def _folder(plan: Plan) -> StateFolder:
    return folder_of(plan.cloud, plan.cluster_id, plan.options.local_state_path)


def _cloud(options: CommonOptions) -> str:
    return type(options).__name__.removesuffix("Options").lower()


def _down_command(plan: Plan) -> str:
    place = plan.options.local_state_path
    where = "" if place is None else f" --local-state-path {place}"
    return f"det deploy {plan.cloud} down --cluster-id {plan.cluster_id}{where}"
