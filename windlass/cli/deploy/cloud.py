"""The verbs of `det deploy aws` and `det deploy gcp`, over what differs between them."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import typer

from windlass.base.errors import InvalidState, ProviderError, WindlassError
from windlass.base.formats.json_types import JsonObject
from windlass.base.formats.plurals import counted
from windlass.cli.deploy.commands import NO_PREFLIGHT, NO_WAIT
from windlass.cli.deploy.model_options import command_of
from windlass.cli.output.columns import Column, Table, TableOptions, print_rows
from windlass.cli.output.text import notice, print_json, print_yaml
from windlass.deploy.cloud.cluster import CloudCluster
from windlass.deploy.cloud.listing import FoundCluster, Tagged, merged, recorded
from windlass.deploy.cloud.machines import ClusterMachines
from windlass.deploy.cloud.options import CommonOptions
from windlass.deploy.cloud.parsing import parse, warnings
from windlass.deploy.cloud.plan import DeployPlan
from windlass.deploy.cloud.preflight import taken
from windlass.deploy.cloud.state_bucket import SharedRecords
from windlass.deploy.cloud.state_folder import StateFolder, folder_of, folders
from windlass.deploy.local.published import check_version

OptionsT = TypeVar("OptionsT", bound=CommonOptions)
Answer = TypeVar("Answer")
PATIENCE_S = 900.0
PAUSE_S = 5.0
"""Between looks at a new master."""


class CloudCommands(ABC, Generic[OptionsT]):
    """The verbs that begin with the options of `up`, and what they ask of one cloud."""

    name: ClassVar[str]
    bucket_option: ClassVar[str]
    model: type[OptionsT]

    @abstractmethod
    def plan_of(self, options: OptionsT) -> DeployPlan: ...

    @abstractmethod
    def policy_of(self, options: OptionsT) -> JsonObject: ...

    @abstractmethod
    def machines_of(self, options: OptionsT) -> ClusterMachines: ...

    @abstractmethod
    def records_of(self, options: OptionsT, bucket: str) -> SharedRecords | None:
        """`bucket`: of the last `up` from here, empty: none."""

    @abstractmethod
    def problems_of(self, options: OptionsT, *, is_new: bool) -> Sequence[str]:
        """What would fail. Raises WindlassError where the cloud cannot be asked."""

    @abstractmethod
    def place_of(self, options: OptionsT) -> str:
        """The region or project, for people."""

    @abstractmethod
    def secret_of(self, options: OptionsT) -> str:
        """The command that prints the cluster's secret."""

    def options(self, given: Mapping[str, Any], verb: str) -> OptionsT:
        """Says what has no effect. Raises InvalidConfig."""
        options = parse(self.model, given, f"options of det deploy {self.name} {verb}")
        check_version(options.det_version)
        for warning in warnings(options, given):
            notice(f"warning: {warning}")
        return options

    def before(self, options: OptionsT) -> None:
        """What `up` does once it is agreed to."""

    def add_to(self, app: typer.Typer, policy: str, policy_options: Collection[str]) -> None:
        made = "Make a cluster, change it, or go on with one that is half made."
        shown = "Show what up with the same options would do, and do nothing."
        app.command("up")(command_of(self.model, self._up, made))
        app.command("plan")(command_of(self.model, self._plan, shown))
        app.command("iam-policy")(command_of(self.model, self._policy, policy, policy_options))

    def _up(self, ctx: typer.Context, given: dict[str, Any]) -> None:
        options = self.options(given, "up")
        if options.only_shows:
            self._show(options)
            return
        folder = folder_of(self.name, options.cluster_id, options.local_state_path)
        records = self.records_of(options, folder.bucket)
        is_new = folder.record is None and (
            records is None or records.read(options.cluster_id) is None
        )
        if is_new:
            self._refuse_taken(ctx, options)
        _preflight(ctx, lambda: self.problems_of(options, is_new=is_new))
        if is_new:
            options = _with_password(options)
        plan = self.plan_of(options)
        cluster = _cluster_of(plan, records)
        outputs = cluster.up(
            plan,
            agree=lambda changes: options.yes or _agreed(cluster.folder, changes),
            before=lambda: self.before(options),
        )
        if outputs is None:
            raise typer.Exit(1)
        _tell_up(ctx, plan, cluster, outputs, self.secret_of(options))

    def _refuse_taken(self, ctx: typer.Context, options: OptionsT) -> None:
        """Raises InvalidState if the cluster runs already: its state is neither here nor in the bucket."""
        name, where = options.cluster_id, self.place_of(options)

        def problems() -> list[str]:
            machines = self.machines_of(options)
            return taken(name, machines, where=where, bucket_option=self.bucket_option)

        _preflight(ctx, problems, f"whether {name} runs already is")

    def _plan(self, _ctx: typer.Context, given: dict[str, Any]) -> None:
        self._show(self.options(given, "plan"))

    def _show(self, options: OptionsT) -> None:
        plan = self.plan_of(options)
        folder = folder_of(self.name, options.cluster_id, options.local_state_path)
        cluster = _cluster_of(plan, self.records_of(options, folder.bucket))
        print_rows(["Action", "Address"], cluster.look(plan))

    def _policy(self, _ctx: typer.Context, given: dict[str, Any]) -> None:
        print_json(self.policy_of(self.options(given, "iam-policy")))


def _is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _with_password(options: OptionsT) -> OptionsT:
    """Asks for the first password of a new cluster, twice, when somebody is there."""
    if options.initial_user_password or options.yes or not _is_interactive():
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


def _preflight(
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


def _cluster_of(plan: DeployPlan, records: SharedRecords | None) -> CloudCluster:
    folder = folder_of(plan.cloud, plan.cluster_id, plan.options.local_state_path)
    return CloudCluster(folder=folder, say=notice, records=records, environment=plan.environment)


def _tell_up(
    ctx: typer.Context,
    plan: DeployPlan,
    cluster: CloudCluster,
    outputs: JsonObject,
    where_secret: str,
) -> None:
    """Waits for the master first, unless nobody can reach it or nobody wants to wait."""
    options = plan.options
    url = f"{options.scheme}://{outputs['master_address']}:{options.master_port}"
    bastion = outputs.get("bastion_address")
    if not bastion and not ctx.meta.get(NO_WAIT):
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


def down(
    cluster: CloudCluster, machines: Callable[[], ClusterMachines], *, delete_data: bool, yes: bool
) -> None:
    name = cluster.folder.cluster_id
    loss = (
        "its machines and ALL DATA: experiments, checkpoints, users, files"
        if delete_data
        else "its machines; data stays (--delete-data removes it, too)"
    )
    if not yes:
        if not _is_interactive():
            raise InvalidState(f"Nobody is there to ask: --yes removes {name}, {loss}")
        typer.confirm(f"Remove the cluster {name}: {loss}?", abort=True, err=True)

    def end_others(masters: Sequence[str]) -> bool:
        where = f"A master of {name} that is not in this state runs ({', '.join(masters)})"
        if yes or not _is_interactive():
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
    Column("ClusterMachines", "machines"),
    Column("State is in", "place"),
)


def _from_bucket(records: SharedRecords | None) -> list[FoundCluster]:
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
    if not _is_interactive():
        raise InvalidState(
            f"This changes {counted(len(changes), 'thing')} of {folder.cluster_id}, and nobody is there to ask: "
            "give --yes"
        )
    return typer.confirm(f"Change the cluster {folder.cluster_id} so?", err=True)


def _down_command(plan: DeployPlan) -> str:
    place = plan.options.local_state_path
    where = "" if place is None else f" --local-state-path {place}"
    return f"det deploy {plan.cloud} down --cluster-id {plan.cluster_id}{where}"
