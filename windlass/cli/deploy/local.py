"""`det deploy local`: a cluster on this machine."""

from __future__ import annotations

import shlex
import socket
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from windlass.base.errors import InvalidArgument
from windlass.base.formats.plurals import counted
from windlass.base.option_groups import with_groups
from windlass.cli.deploy.commands import ImagePrefixOption
from windlass.cli.deploy.local_options import (
    HERE,
    AutorestartOption,
    BeginOptions,
    DeleteDbOption,
    EnterpriseOption,
    GpuOption,
    LocalMasterOptions,
    MasterNameOption,
    PlaceOptions,
    PoolOption,
    PortOption,
    SlotsOption,
    VersionOption,
)
from windlass.cli.deploy.local_output import (
    described,
    steps,
    tell_ended,
    tell_kept,
    tell_up,
    warn,
)
from windlass.cli.groups import command_group
from windlass.cli.output.columns import JsonOption, print_rows
from windlass.cli.output.text import notice, print_json, say
from windlass.deploy.local import DEFAULT_PORT, MANY_AGENTS
from windlass.deploy.local.published import check_version

if TYPE_CHECKING:
    from windlass.deploy.local.cluster import LocalCluster
    from windlass.deploy.local.options import Options

app = command_group()


@app.command("cluster-up")
@with_groups
def cluster_up(
    *,
    agents: Annotated[
        int | None,
        typer.Option(
            min=0, max=MANY_AGENTS, help="Start this many agents. Default: 1.", show_default=False
        ),
    ] = None,
    slots: SlotsOption = None,
    gpu: GpuOption = None,
    pool: PoolOption = None,
    master: LocalMasterOptions,
    begin: BeginOptions,
    place: PlaceOptions,
) -> None:
    """Start a master and agents, wait until they answer, and log in.

    Also after a reboot or an upgrade: with --restart what was there comes back as it was.
    """
    given = _options(master, place, agents=agents, slots=slots, gpu=gpu, pool=pool)
    _start(given, begin, place)


@app.command("master-up")
@with_groups
def master_up(
    master: LocalMasterOptions,
    begin: BeginOptions,
    place: PlaceOptions,
    master_name: MasterNameOption = None,
    image_repo_prefix: ImagePrefixOption = None,
) -> None:
    """Start the master of a cluster alone, and log in."""
    warn({"--master-name": master_name, "--image-repo-prefix": image_repo_prefix})
    _start(_options(master, place), begin, place, with_agents=False)


def _start(
    given: Options, begin: BeginOptions, place: PlaceOptions, *, with_agents: bool = True
) -> None:
    from windlass.deploy.local.cluster import LocalCluster, StartOptions

    check_version(begin.det_version)
    warn({"--db-password": begin.db_password, "--enterprise-edition": begin.enterprise_edition})
    start = StartOptions(
        restart=begin.restart,
        delete_db=begin.delete_db,
        initial_user_password=begin.initial_user_password,
    )
    cluster, where = _cluster(place)
    with steps() as step:
        started = LocalCluster(cluster.folder, step).up(given, start, with_agents=with_agents)
    tell_up(cluster, started, where)


@app.command("agent-up")
@with_groups
def agent_up(
    master_host: Annotated[
        str | None,
        typer.Argument(
            metavar="HOST",
            help="Host or URL of the master. Default: that of this cluster.",
            show_default=False,
        ),
    ] = None,
    port: PortOption = None,
    agent_config_path: Annotated[
        Path | None,
        typer.Option("--agent-config", "--agent-config-path", help="Use this agent.yaml."),
    ] = None,
    agent_name: Annotated[
        str | None, typer.Option(help="Id of the agent. Default: the host name.")
    ] = None,
    pool: PoolOption = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--agent-label", help="Show this label of the agent. May be repeated."),
    ] = None,
    slots: SlotsOption = None,
    gpu: GpuOption = None,
    join_token_file: Annotated[
        Path | None,
        typer.Option(help="Join with the token in this file. Needed for a master elsewhere."),
    ] = None,
    cert_fingerprint: Annotated[
        str | None,
        typer.Option(help="Trust only the certificate with this fingerprint (sha256:...)."),
    ] = None,
    autorestart: AutorestartOption = None,
    place: PlaceOptions = HERE,
    image_repo_prefix: ImagePrefixOption = None,
    det_version: VersionOption = None,
    enterprise_edition: EnterpriseOption = False,
) -> None:
    """Start an agent, for the master of this cluster or one on another machine."""
    from windlass.deploy.local.cluster import AgentSpec, LocalCluster

    check_version(det_version)
    warn({"--image-repo-prefix": image_repo_prefix, "--enterprise-edition": enterprise_edition})
    cluster, _ = _cluster(place)
    url = _master_of(cluster, master_host, port)
    agent = AgentSpec(
        name=_agent_name(agent_name, agent_config_path),
        url=url,
        pool=pool,
        labels=label or (),
        slots=slots,
        gpu=gpu,
        config_file=_existing("--agent-config", agent_config_path),
        join_token_file=_existing("--join-token-file", join_token_file),
        cert_fingerprint=cert_fingerprint,
        autorestart=autorestart is not False,
    )
    with steps() as step:
        joined = LocalCluster(cluster.folder, step).agent_up(agent)
    if agent.name in joined:
        typer.echo(f"{agent.name} has joined {url} with {counted(joined[agent.name], 'slot')}")
    else:
        log = cluster.folder.log(agent.name)
        typer.echo(f"{agent.name} is started for {url}; det agent list shows it. Its log: {log}")


@app.command("cluster-down")
@with_groups
def cluster_down(
    delete_db: DeleteDbOption = False,
    place: PlaceOptions = HERE,
) -> None:
    """Stop the master, its agents and their tasks. Data is kept."""
    cluster, _ = _cluster(place)
    with steps() as step:
        step("Stopping")
        ended, moved = cluster.down(delete_db=delete_db)
    tell_ended(ended, f"No cluster was running in {cluster.folder.path}")
    tell_kept(cluster, moved)


@app.command("master-down")
@with_groups
def master_down(
    delete_db: DeleteDbOption = False,
    place: PlaceOptions = HERE,
    master_name: MasterNameOption = None,
) -> None:
    """Stop the master alone: agents and their tasks go on, and look for it."""
    warn({"--master-name": master_name})
    cluster, _ = _cluster(place)
    ended, moved = cluster.master_down(delete_db=delete_db)
    tell_ended(ended, f"No master was running in {cluster.folder.path}")
    tell_kept(cluster, moved)


@app.command("agent-down")
@with_groups
def agent_down(
    agent_name: Annotated[
        str | None, typer.Option(help="Id of the agent. Default: the host name.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Stop all agents of the cluster.")] = False,
    place: PlaceOptions = HERE,
) -> None:
    """Stop an agent and its tasks: trials go on elsewhere, from their newest checkpoint."""
    from windlass.deploy.local.services import MASTER

    cluster, _ = _cluster(place)
    name = agent_name or socket.gethostname()
    there = [s.name for s in cluster.services.all() if s.name != MASTER]
    ended = cluster.agents_down(None if all_ else {name})
    if not (all_ or ended or name in there):
        known = f"there are {', '.join(there)}" if there else "there are none"
        raise InvalidArgument(f"No agent {name} in {cluster.folder.path}: {known}")
    none = "No agent was running" if all_ else f"Agent {name} was not running"
    tell_ended(ended, f"{none} in {cluster.folder.path}")


@app.command()
@with_groups
def logs(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="master, agent-0, ... Default: all.", show_default=False
        ),
    ] = None,
    no_follow: Annotated[
        bool, typer.Option("--no-follow", help="Print what is there, and end.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(min=0, help="Begin with this many last lines of each.")
    ] = None,
    place: PlaceOptions = HERE,
) -> None:
    """Show what the master and the agents print, and follow it."""
    from windlass.deploy.local.logs import lines_of

    cluster, _ = _cluster(place)
    files = {path.stem: path for path in sorted((cluster.folder.path / "logs").glob("*.log"))}
    unknown = [name for name in names or () if name not in files]
    if unknown or not files:
        known = f"there are {', '.join(files)}" if files else "no cluster was started there"
        raise InvalidArgument(f"No log of {', '.join(unknown) or 'a cluster'}: {known}")
    with suppress(KeyboardInterrupt):
        shown = {name: files[name] for name in names or files}
        for line in lines_of(shown, follow=not no_follow, tail=tail):
            say(line)


@app.command()
@with_groups
def status(place: PlaceOptions = HERE, as_json: JsonOption = False) -> None:
    """Show the processes of the cluster. The exit code is 0 if all are running."""
    from windlass.deploy.local.processes import supervisors_below
    from windlass.deploy.local.services import Condition

    cluster, _ = _cluster(place)
    folder, services = cluster.folder, cluster.services.all()
    url, tasks = cluster.remembered.url, len(supervisors_below(folder.path))
    if as_json:
        processes = [described(service, str(folder.log(service.name))) for service in services]
        print_json({"url": url, "tasks": tasks, "processes": processes})
    elif services:
        typer.echo(f"{url}  {counted(tasks, 'task')} running here")
        rows = [list(described(s, str(folder.log(s.name))).values()) for s in services]
        print_rows(["Process", "State", "PID", "Restarts", "Last end", "Log"], rows)
    else:
        notice(f"No cluster in {folder.path}")
    if not services or any(s.condition is not Condition.RUNNING for s in services):
        raise typer.Exit(1)


def _options(master: LocalMasterOptions, place: PlaceOptions, **agents: Any) -> Options:
    """Of what was given. Paths are made absolute: services do not share our current folder."""
    from windlass.deploy.local.options import Options

    given = {**asdict(master), "cluster_name": place.cluster_name, **agents}
    if given.get("master_config") is not None and given.get("storage_host_path") is not None:
        raise InvalidArgument(
            "--master-config and --storage-host-path exclude each other: write checkpoint_storage into the file"
        )
    _existing("--master-config", given.get("master_config"))
    absolute = {k: v.absolute() if isinstance(v, Path) else v for k, v in given.items()}
    return Options.model_validate({k: v for k, v in absolute.items() if v is not None})


def _existing(option: str, path: Path | None) -> Path | None:
    if path is not None and not path.is_file():
        raise InvalidArgument(f"{option} {path}: no such file")
    return None if path is None else path.absolute()


def _cluster(place: PlaceOptions) -> tuple[LocalCluster, str]:
    """The cluster, and the options by which the next command finds it."""
    from windlass.deploy.local.cluster import LocalCluster
    from windlass.deploy.local.folder import folder_of

    name, data_dir = place.cluster_name, place.data_dir
    words = [] if name is None else ["--cluster-name", name]
    words += [] if data_dir is None else ["--data-dir", str(data_dir)]
    return LocalCluster(folder_of(name, data_dir)), "".join(f" {shlex.quote(w)}" for w in words)


def _master_of(cluster: LocalCluster, host: str | None, port: int | None) -> str:
    """The URL of the master that `agent-up` is told, as the agent reaches it."""
    known = cluster.remembered.url
    if host is None:
        if not known:
            raise InvalidArgument(
                f"There is no cluster in {cluster.folder.path}: name the host of a master"
            )
        return known
    parts = urlsplit(host if "://" in host else f"//{host}")
    if not parts.hostname or parts.scheme not in ("", "http", "https"):
        raise InvalidArgument(f'"{host}" is not a host: write HOST, or http://HOST:PORT')
    shown = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    ours = urlsplit(known)
    url = f"{parts.scheme or 'http'}://{shown}:{parts.port or port or DEFAULT_PORT}"
    # Our own master goes by several names; the one it was started by is the one to compare.
    local_names = ("localhost", "127.0.0.1", "::1", socket.gethostname())
    is_ours = bool(known) and parts.hostname in (*local_names, ours.hostname)
    is_ours &= parts.scheme in ("", ours.scheme)
    return known if is_ours and urlsplit(url).port == ours.port else url


def _agent_name(given: str | None, config: Path | None) -> str:
    from windlass.deploy.local.services import MASTER

    if given is None and config is not None and config.is_file():
        import yaml

        with suppress(yaml.YAMLError, AttributeError):
            given = yaml.safe_load(config.read_text()).get("agent_id")
    name = given or socket.gethostname()
    if (
        name == MASTER
        or name.startswith(".")
        or not name.replace("-", "a").replace(".", "a").replace("_", "a").isalnum()
    ):
        raise InvalidArgument(
            f'--agent-name "{name}": use letters, digits and . _ -, and not the word {MASTER}'
        )
    return name
