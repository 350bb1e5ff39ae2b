"""Bringing a local cluster up and down: which processes, in which order, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from windlass.base.errors import Conflict, InvalidArgument
from windlass.base.files import write_atomic
from windlass.deploy.local import waiting
from windlass.deploy.local.certificate import certificate_of, store, without_trust
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.login import log_in
from windlass.deploy.local.master_yaml import agents_pool, config_file, make_folders, with_tls
from windlass.deploy.local.options import ClusterRecord, Options
from windlass.deploy.local.processes import KILL_TREE, end, supervisors_below
from windlass.deploy.local.records import ServiceSpec
from windlass.deploy.local.services import (
    MASTER,
    LocalService,
    LocalServices,
    StartFailed,
    clean_environment,
)

COMMAND: tuple[str, ...] = (sys.executable, "-P", "-m", "windlass")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """What `cluster-up` and `master-up` are told besides the options that are remembered."""

    restart: bool = False
    """Of what runs, with the options of its last start under those given now. Tasks go on."""
    delete_db: bool = False
    initial_user_password: str | None = None
    """Of admin and determined, at the first start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    options: Options
    logged_in: bool
    slots: Mapping[str, int]
    """Of each agent that has joined."""
    set_aside: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """What `agent-up` starts."""

    name: str
    url: str
    pool: str | None = None
    labels: Sequence[str] = ()
    slots: int | None = None
    gpu: bool | None = None
    config_file: Path | None = None
    join_token_file: Path | None = None
    cert_fingerprint: str | None = None
    autorestart: bool = True


class LocalCluster:
    """The cluster of one folder. `say` hears of each step."""

    def __init__(self, folder: ClusterFolder, say: Say = lambda _: None) -> None:
        self._folder = folder
        self._say = say

    @property
    def folder(self) -> ClusterFolder:
        return self._folder

    @property
    def remembered(self) -> ClusterRecord:
        return ClusterRecord.read(self._folder)

    @property
    def services(self) -> LocalServices:
        return LocalServices(self._folder, self.remembered.older_processes)

    # --- up -------------------------------------------------------------------------------------------------------

    def up(self, given: Options, start: StartOptions, *, with_agents: bool = True) -> Started:
        """Start it and wait until it answers. On a failure what was started is ended again."""
        with self._folder.locked():
            known, services = self.remembered, self.services
            mine = services.all() if with_agents else [services.of(MASTER)]
            running = [service for service in mine if service.is_alive]
            if running and not start.restart:
                raise Conflict(_already(known.url, running, len(mine)))
            keep = start.restart or (not with_agents and bool(services.alive()))
            options = with_tls(given.over(known.options) if keep else given)
            if not (running and urlsplit(options.url).netloc == urlsplit(known.url).netloc):
                waiting.require_free(options.host, options.port, options.url, self._folder)
            self._check(options, start, running)
            services.stop([service.name for service in mine])
            moved = self._set_aside_data() if start.delete_db else None
            self._give_password(start.initial_user_password)
            ClusterRecord(url=options.url, options=options).write(self._folder)
            return self._start(options, services, known.url, moved, with_agents=with_agents)

    def _check(
        self, options: Options, start: StartOptions, running: Collection[LocalService]
    ) -> None:
        """Everything that can be refused before something is stopped."""
        if start.delete_db and (running or self.services.alive()):
            raise InvalidArgument("--delete-db: the cluster is running, stop it first")
        has_users = self._folder.master.exists() and not start.delete_db
        if start.initial_user_password is not None and has_users:
            raise Conflict(
                f"--initial-user-password is for the first start, and {self._folder.path} holds a cluster "
                "already: leave the option out, and change the password with `det user change-password`"
            )
        make_folders(options)
        if words := self._config_words(options):
            self._run("master", "config", *words, what=f"{words[-1]} is refused")

    def _start(
        self,
        options: Options,
        services: LocalServices,
        old_url: str,
        moved: Path | None,
        *,
        with_agents: bool,
    ) -> Started:
        agents = self._agents_of(options) if with_agents else []
        others = self._others(services, agents) if with_agents else []
        started: list[str] = []
        names = [MASTER, *(agent.name for agent in agents), *(spec.name for spec in others)]
        sizes = waiting.log_sizes(self._folder, names)
        try:
            self._say(f"Starting a master at {options.url}")
            started.append(MASTER)
            services.start(self._master_spec(options), clean_environment())
            waiting.await_master(options.url, services, self._folder, sizes)
            if options.tls:
                self._store_certificate(options)
            self._end_tasks_of_others(names)
            token = self._join_token(agents[0].pool or "", options) if agents else None
            for agent in agents:
                self._say(f"Starting {agent.name} ({len(started)} of {len(names) - 1})")
                started.append(agent.name)
                self._start_agent(replace(agent, join_token_file=token), options, services)
            for spec in others:
                started.append(spec.name)
                services.start(self._moved(spec, old_url, options), clean_environment())
            logged_in = log_in(self._folder, options)
            if len(started) > 1:
                self._say("Waiting for agents to join")
            slots = (
                waiting.await_agents(
                    options.url, names[1:], services, self._folder, sizes, own=options
                )
                if logged_in
                else {}
            )
            if options.gpu:
                waiting.require_gpus({a.name: slots[a.name] for a in agents if a.name in slots})
        except BaseException:
            services.stop(started)
            services.forget(started)
            raise
        return Started(options=options, logged_in=logged_in, slots=slots, set_aside=moved)

    def _agents_of(self, options: Options) -> list[AgentSpec]:
        pool = agents_pool(options) if options.agents else None
        return [
            AgentSpec(
                name=f"agent-{number}",
                url=options.url,
                pool=pool,
                slots=options.slots,
                gpu=options.gpu,
                autorestart=options.autorestart,
            )
            for number in range(options.agents)
        ]

    def _others(self, services: LocalServices, agents: Collection[AgentSpec]) -> list[ServiceSpec]:
        """Agents of `agent-up`, as they were; of earlier `cluster-up`s nothing stays."""
        own = {agent.name for agent in agents}
        others = []
        for spec in services.specs():
            if spec.by_agent_up and spec.name not in own:
                others.append(spec)
            elif spec.name not in own and spec.name != MASTER:
                services.forget([spec.name])
        return others

    def _moved(self, spec: ServiceSpec, old_url: str, options: Options) -> ServiceSpec:
        """An agent of `agent-up`, for our master as it is now; that of another master as it was."""
        words = list(spec.command)
        if old_url not in words:
            return spec
        words[words.index(old_url)] = options.url
        certificate = certificate_of(options, self._folder)
        trusted = certificate.agent_words if certificate is not None else []
        return replace(spec, command=[*without_trust(words), *trusted])

    def _master_spec(self, options: Options) -> ServiceSpec:
        words = ["master", "run", "--host", options.host, "--port", str(options.port)]
        words += ["--data-dir", str(self._folder.master)]
        words += ["--backup-before-upgrade", str(self._folder.backups)]
        words += self._config_words(options)
        return ServiceSpec(
            name=MASTER,
            command=[*COMMAND, *words],
            log=self._folder.log(MASTER),
            autorestart=options.autorestart,
        )

    # --- agents ---------------------------------------------------------------------------------------------------

    def agent_up(self, agent: AgentSpec) -> Mapping[str, int]:
        """One more, for the master of this folder or another one. Its slots, if we are logged in there."""
        with self._folder.locked():
            known, services = self.remembered, self.services
            if services.of(agent.name).is_alive:
                raise Conflict(
                    f"{agent.name} is already running: stop it with `det deploy local agent-down "
                    f"--agent-name {agent.name}`, or give another --agent-name"
                )
            self._say(f"Looking for the master at {agent.url}")
            waiting.await_elsewhere(agent.url)
            sizes = waiting.log_sizes(self._folder, [agent.name])
            if not known.url:
                known.at(agent.url).write(self._folder)
            try:
                self._say(f"Starting {agent.name}")
                own = known.options if agent.url == known.url else None
                self._start_agent(agent, own, services, by_agent_up=True)
                slots = waiting.await_agents(
                    agent.url, [agent.name], services, self._folder, sizes, own=own
                )
                if agent.gpu:
                    waiting.require_gpus(slots)
                return slots
            except BaseException:
                services.stop([agent.name])
                services.forget([agent.name])
                raise

    def _start_agent(
        self,
        agent: AgentSpec,
        own: Options | None,
        services: LocalServices,
        *,
        by_agent_up: bool = False,
    ) -> None:
        """`own`: options of the master in this folder, if it is that one's."""
        work_dir = self._folder.agent(agent.name)
        token = agent.join_token_file
        if token is None and own is not None and self._folder.has_master:
            token = self._join_token(agent.pool or agents_pool(own), own)
        elif token is None and agent.config_file is None and not (work_dir / "credential").exists():
            pool = agent.pool or "POOL"
            raise InvalidArgument(
                f"the master at {agent.url} is not of this folder: make a token there with `windlass master "
                f"join-token create {pool} --token-only`, and give it with --join-token-file"
            )
        work_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        certificate = certificate_of(own, self._folder) if own is not None else None
        trusted = certificate.agent_words if certificate is not None else []
        spec = ServiceSpec(
            name=agent.name,
            command=[*COMMAND, *_agent_words(agent, work_dir, token, own), *trusted],
            log=self._folder.log(agent.name),
            environ=_agent_settings(agent),
            autorestart=agent.autorestart,
            by_agent_up=by_agent_up,
        )
        services.start(spec, clean_environment())

    def _store_certificate(self, options: Options) -> None:
        """What the master serves, by its own word."""
        words = ["master", "certificate", "--data-dir", str(self._folder.master)]
        words += self._config_words(options)
        what = "Cannot read the certificate of the master"
        said = self._run(*words, what=what).stderr
        names = next((line for line in said.splitlines() if line.startswith("names: ")), "")
        pem = self._run(*words, "--pem", what=what).stdout
        store(options, self._folder, pem, names.removeprefix("names: ").split(", "))

    def _config_words(self, options: Options) -> list[str]:
        config = config_file(options, self._folder)
        return [] if config is None else ["--config", str(config)]

    def _join_token(self, pool: str, options: Options) -> Path:
        words = ["master", "pool-token", pool, "--data-dir", str(self._folder.master)]
        words += self._config_words(options)
        what = f"Cannot create a join token for pool {pool}"
        token = self._run(*words, what=what).stdout.strip()
        if not token:
            raise StartFailed(f"{what}: no token was printed")
        path = self._folder.join_token(pool)
        path.parent.mkdir(exist_ok=True, mode=0o700)
        write_atomic(path, token.encode() + b"\n")
        return path

    # --- down -----------------------------------------------------------------------------------------------------

    def down(self, *, delete_db: bool = False) -> tuple[list[str], Path | None]:
        """End the processes of this folder and their tasks: the names of what ran, and where its data went."""
        with self._folder.locked():
            services = self.services
            every = [service.name for service in services.all()]
            # Agents first: while one lives it could start another task.
            ended = services.stop([name for name in every if name != MASTER])
            ended += _end_tasks(self._folder.path)
            ended += services.stop([MASTER])
            ended += self._end_instances()
            ended += _end_tasks(self._folder.path)
            services.forget(every)
            known = self.remembered
            if known.older_processes:
                ClusterRecord(url=known.url, options=known.options).write(self._folder)
            return ended, self._set_aside_data() if delete_db else None

    def master_down(self, *, delete_db: bool = False) -> tuple[list[str], Path | None]:
        """The master alone; agents keep their tasks, and look for it."""
        with self._folder.locked():
            services = self.services
            others = [s.name for s in services.alive() if s.name != MASTER]
            if delete_db and others:
                raise Conflict(
                    f"--delete-db: {', '.join(others)} would have a master that does not know them; "
                    "use `det deploy local cluster-down --delete-db`"
                )
            ended = services.stop([MASTER])
            services.forget([MASTER])
            return ended, self._set_aside_data() if delete_db else None

    def agents_down(self, names: Collection[str] | None) -> list[str]:
        """Those agents, or all, and their tasks."""
        with self._folder.locked():
            services = self.services
            there = [service.name for service in services.all() if service.name != MASTER]
            chosen = there if names is None else [name for name in there if name in names]
            ended = services.stop(chosen)
            for name in chosen:
                ended += _end_tasks(self._folder.agent(name))
            services.forget(chosen)
            return ended

    # --- parts ----------------------------------------------------------------------------------------------------

    def _end_tasks_of_others(self, names: Collection[str]) -> None:
        """Tasks of agents that an earlier start had and this one has not would never be looked after."""
        if self._folder.agents.is_dir():
            for work_dir in self._folder.agents.iterdir():
                if work_dir.name not in names:
                    _end_tasks(work_dir)

    def _end_instances(self) -> list[str]:
        """Of elastic pools: machines that the master itself had started here."""
        if not any((self._folder.master / "instances").glob("*/*/host.state")):
            return []
        words = ("master", "end-instances", "--data-dir", str(self._folder.master))
        said = self._run(*words, what="Cannot end the instances of elastic pools").stdout
        return [said.strip().removeprefix("ended ")]

    def _set_aside_data(self) -> Path | None:
        """What --delete-db takes away is kept beside, until its owner removes it."""
        there = [p for p in (self._folder.master, self._folder.agents) if p.exists()]
        if not there:
            return None
        target = self._folder.deleted / datetime.now().astimezone().strftime("%Y-%m-%dT%H-%M-%S.%f")
        target.mkdir(parents=True, mode=0o700)
        for path in there:
            path.rename(target / path.name)
        return target

    def _give_password(self, password: str | None) -> None:
        if password is not None:
            self._folder.master.mkdir(mode=0o700)
            write_atomic(self._folder.password_file, password.encode() + b"\n")

    def _run(self, *words: str, what: str) -> subprocess.CompletedProcess[str]:
        """A command of ours. Raises StartFailed, which begins with `what`."""
        done = subprocess.run(
            [*COMMAND, *words],
            capture_output=True,
            text=True,
            check=False,
            env=clean_environment(),
        )
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            problems = "; ".join(line.removeprefix("error: ") for line in lines)
            raise StartFailed(f"{what}: {problems or done.stderr.strip() or 'see its log'}")
        return done


def _already(url: str, running: Sequence[LocalService], known: int) -> str:
    names = ", ".join(service.name for service in running)
    ways = "`cluster-up --restart` {} (its tasks go on), `cluster-down` ends {}"
    if len(running) < known or any(s.condition != "running" for s in running):
        return f"A cluster runs only in part at {url} ({names}): {ways.format('mends it', 'what is left')}"
    return f"A cluster is already running at {url} ({names}): {ways.format('restarts it', 'it')}"


def _agent_words(
    agent: AgentSpec, work_dir: Path, token: Path | None, own: Options | None
) -> list[str]:
    words = ["agent", "run", "--master", agent.url, "--agent-id", agent.name]
    words += ["--work-dir", str(work_dir)]
    pool = agent.pool or (agents_pool(own) if own is not None else None)
    optional: Mapping[str, Any] = {
        "--pool": pool,
        "--join-token-file": token,
        "--config-file": agent.config_file,
        "--cert-fingerprint": agent.cert_fingerprint,
    }
    for option, value in optional.items():
        if value is not None:
            words += [option, str(value)]
    for label in agent.labels:
        words += ["--label", label]
    return words


def _agent_settings(agent: AgentSpec) -> dict[str, str]:
    settings = {}
    if agent.slots is not None:
        settings["DET_ARTIFICIAL_SLOTS"] = str(agent.slots)
    if agent.gpu is not None:
        settings["DET_SLOT_TYPE"] = "cuda" if agent.gpu else "cpu"
    return settings


def _end_tasks(below: Path) -> list[str]:
    tasks = supervisors_below(below)
    end(tasks, KILL_TREE)
    return [f"task {record.name}" for record in tasks]
