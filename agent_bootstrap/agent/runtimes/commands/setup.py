"""Images by command line as a way of setting tasks up: get the image, lay out, write the command for the supervisor.

The command stands where bubblewrap stands for processes: below the supervisor, which ends with it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import DEFAULT_PATH, NodeFacts
from agent_bootstrap.agent.containers.mounts import run_as, user_error
from agent_bootstrap.agent.identity import own_identity, shown, task_identity
from agent_bootstrap.agent.runtimes.accounts import GROUP, PASSWD, write_accounts
from agent_bootstrap.agent.runtimes.bubblewrap import STAGE
from agent_bootstrap.agent.runtimes.cgroups import Cgroups, limited
from agent_bootstrap.agent.runtimes.commands.cache import ImageCache
from agent_bootstrap.agent.runtimes.commands.pulling import Pulling
from agent_bootstrap.agent.runtimes.commands.tool import Gpus, Tool, run_quietly
from agent_bootstrap.agent.runtimes.devices import task_gpus
from agent_bootstrap.agent.runtimes.image_task import (
    ImageTask,
    make_pipes,
    prepare_image_task,
    start_folder,
)
from agent_bootstrap.agent.runtimes.mount_list import is_in
from agent_bootstrap.agent.runtimes.pulls import login_for
from agent_bootstrap.agent.runtimes.setup import NO_IMAGE, ContainerStart, LoginOf
from agent_bootstrap.agent.runtimes.task_lines import Say, lines_of
from agent_bootstrap.bind_rules import HostPaths, problem_of, resolved
from agent_bootstrap.privilege_rules import Privileges
from agent_bootstrap.protocol import ContainerSpec, IsolationKind, RegistryCredentials, SlotKind
from windlass.base.files import write_atomic
from windlass.base.formats.image_reference import (
    EXAMPLES,
    BadImageName,
    ImageReference,
    parse_image,
)

MAX_ACCOUNTS_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandGround:
    """What is the same for every task of this agent."""

    tool: Tool
    cache: ImageCache
    rules: HostPaths
    login_of: LoginOf
    privileges: Privileges | None = None
    image_root: Path | None = None
    cgroups: Cgroups = field(default_factory=Cgroups)


class CommandSetup:
    """See `runtimes.setup.Setup`."""

    notes: tuple[str, ...] = ()
    isolation: IsolationKind = IsolationKind.CONTAINERS

    def __init__(self, ground: CommandGround) -> None:
        self._ground = ground
        self._tool = ground.tool
        self._pulling = Pulling(ground.tool, ground.cache)

    @property
    def name(self) -> str:
        return self._tool.shown

    async def prepare(
        self, place: ContainerDir, spec: ContainerSpec, node: NodeFacts, start: ContainerStart
    ) -> None:
        say = lines_of(place)
        _require_devices(spec)
        for line in _without_effect(spec, self._tool):
            say(line, "WARNING")
        wanted = await asyncio.to_thread(self._found, spec)
        path = Path(wanted.path)
        is_ready = wanted.transport == "path" and self._tool.runs(path)
        if not is_ready:
            login = await self._login(spec, wanted, say)
            path = await self._pulling.image(
                *(wanted, login, spec.container_id),
                force=spec.options.force_pull_image and not wanted.is_file,
                say=say,
                start=start,
            )
        await asyncio.to_thread(self._write, place, spec, node, path, made=not is_ready)

    def for_trial(self, image: str, layer: bytes) -> CommandSetup:
        """Unpacked, which each of these programs runs: no squashfs is made for it."""
        self._ground.cache.add(parse_image(image), layer)
        return CommandSetup(replace(self._ground, rules=HostPaths(file="agent.yaml")))

    def node_port(self, place: ContainerDir, port: int) -> int:
        """Tasks have the network of the node."""
        return port

    def clear(self, place: ContainerDir) -> None:
        self._ground.cache.release(place.path.name)
        self._ground.cgroups.end(place.path.name)
        if (command := self._tool.clear(place.path.name)) is not None:
            run_quietly(command)

    def sweep(self, known: frozenset[str]) -> None:
        """Containers end with their supervisors; images stay, within their bound."""
        self._ground.cache.sweep(known)

    def _found(self, spec: ContainerSpec) -> ImageReference:
        """What the name means, and whether the machine has it as a file. Raises StartRefused. Blocks."""
        name = spec.options.image
        if not name:
            raise user_error(NO_IMAGE)
        try:
            wanted = parse_image(name)
        except BadImageName as error:
            raise user_error(f'environment.image: "{name}" {error}: {EXAMPLES}') from None
        if wanted.is_file:
            self._require_file(wanted.path, wanted.transport, spec)
            return wanted
        return self._of_root(name.removeprefix("docker://")) or wanted

    def _of_root(self, name: str) -> ImageReference | None:
        root = self._ground.image_root
        if root is None:
            return None
        paths = (root / below for below in self._tool.names(name))
        found = next((path for path in paths if path.exists()), None)
        return None if found is None else ImageReference(transport="path", path=str(found))

    def _require_file(self, path: str, transport: str, spec: ContainerSpec) -> None:
        """Its content is the task's to read: the rules for mounts count. Raises StartRefused."""
        agent = own_identity()
        who = task_identity(spec.options.os_user, agent)
        own = self._ground.rules
        master = spec.options.host_paths
        rules = master.model_copy(update={"forbidden": (*master.forbidden, *own.forbidden)})
        for side in (rules,) if own.allowed is None else (rules, own):
            if problem := problem_of(path, side, as_root=who.uid == 0):
                raise user_error(f"environment.image: {path} {problem}")
        if not Path(path).exists():
            raise user_error(f"environment.image: {path} does not exist on this machine")
        if agent.uid == 0 and transport != "path":
            # What is checked here with the rights of the task's user would be opened with those of root.
            raise user_error(
                f"environment.image: the agent is root, and makes no image of a file of yours: convert it "
                f"({self._tool.program} build net.sif {transport}:{path}) and name the .sif file"
            )
        reads = run_as(who, ["test", "-r", path]).returncode == 0 if agent.uid == 0 else True
        if not reads:
            raise user_error(
                f"environment.image: {path} is not readable for {shown(who)}, whom the task runs as"
            )

    async def _login(
        self, spec: ContainerSpec, wanted: ImageReference, say: Say
    ) -> RegistryCredentials | None:
        given = None if wanted.is_file else await self._ground.login_of(spec)
        login = login_for(wanted.registry, given, say)
        if login is None:
            return None
        if not (login.username and login.password):
            say(
                f"registry_auth: {self._tool.shown} logs in with username and password only: not used",
                "WARNING",
            )
            return None
        return login

    def _write(
        self, place: ContainerDir, spec: ContainerSpec, node: NodeFacts, image: Path, *, made: bool
    ) -> None:
        """`made`: the image is in our cache, which other users may not reach."""
        agent = own_identity()
        who = task_identity(spec.options.os_user, agent)
        gpus = _gpus(spec, node)
        task = prepare_image_task(
            *(place, spec, node, self._ground.rules),
            who=who,
            accounts={} if self._tool.adds_user else _accounts(image),
            shares_gpus=True,
            privileges=self._ground.privileges,
        )
        if self._tool.adds_user:
            kept = (mount for mount in task.mounts if mount.target not in (PASSWD, GROUP))
            task = replace(task, mounts=tuple(kept))
        make_pipes(place, who)
        scratch = place.path / "scratch"
        scratch.mkdir(mode=0o700)
        staging = _Staging(active=agent.uid == 0)
        sources = list(_sources(task, place, staging))
        shown_image = staging.private(str(image)) if made else str(image)
        document: dict[str, Any] = {
            "way": "command",
            "dir": str(place.path),
            "pipes": str(start_folder(place)),
            "command": self._tool.run(task, shown_image, sources, gpus),
            "command_env": {
                "PATH": os.environ.get("PATH", DEFAULT_PATH),
                "HOME": str(Path.home()) if agent.uid == who.uid else "/",
                "LANG": "C.UTF-8",
                "DET_CONTAINER_ID": spec.container_id,
                **self._tool.environment(task, str(image), gpus, scratch),
            },
            **limited(place, spec.options.limits, self._ground.cgroups, own_user=False),
            "user": None,
            "scratch": str(place.scratch or ""),
        }
        if agent.uid == 0:
            # These programs want an account of whoever runs them.
            names = write_accounts(place.path / "names", who, task.home)
            for copy, _ in names:
                copy.chmod(0o644)
            document |= {
                "user": {"uid": who.uid, "gid": who.gid, "groups": list(task.groups)},
                "stage": STAGE,
                "staged": staging.sources,
                "replaced": [(str(copy), target) for copy, target in names],
            }
        write_atomic(place.spec, json.dumps(document).encode())


class _Staging:
    """Sources that the task's user cannot reach are put where he can, numbered; see `launch`."""

    def __init__(self, *, active: bool) -> None:
        self._active = active
        self.sources: list[tuple[str, bool]] = []

    def private(self, source: str, *, exact: bool = False) -> str:
        """What it is called then."""
        if not self._active:
            return source
        self.sources.append((source, exact))
        return f"{STAGE}/{len(self.sources) - 1}"


def _sources(task: ImageTask, place: ContainerDir, staging: _Staging) -> Iterator[str]:
    empty = place.path / "empty"
    for mount in task.mounts:
        if mount.kind == "hide":
            if mount.source != "folder":
                yield "/dev/null"
                continue
            if not empty.exists():
                empty.mkdir(mode=0o555)
            yield staging.private(str(empty))
        elif mount.private:
            yield staging.private(mount.source, exact=mount.exact)
        else:
            yield mount.source


def _accounts(image: Path) -> dict[str, str]:
    """Of an unpacked image, as far as it has them; whatever else it has in their place is not followed."""
    found = {}
    for path in (PASSWD, GROUP):
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(image / path.lstrip("/"), flags)
            with os.fdopen(descriptor, errors="surrogateescape") as file:
                found[path] = file.read(MAX_ACCOUNTS_BYTES)
    return found


def _gpus(spec: ContainerSpec, node: NodeFacts) -> Gpus:
    mine = task_gpus(spec, node)
    return Gpus(
        nvidia=tuple(gpu.uuid for gpu in mine if gpu.kind is SlotKind.CUDA),
        amd=tuple(gpu.uuid for gpu in mine if gpu.kind is SlotKind.ROCM),
    )


def _require_devices(spec: ContainerSpec) -> None:
    """These programs mount whatever they are told: devices must not be a way around the rules for mounts."""
    for device in spec.options.devices:
        found = resolved(device.host_path)
        if not is_in(found, "/dev") or found == "/dev":
            raise user_error(
                f"resources.devices: {device.host_path} is not in /dev: mount files and folders by bind_mounts"
            )


def _without_effect(spec: ContainerSpec, tool: Tool) -> Iterator[str]:
    options = spec.options
    if options.add_capabilities:
        yield f"environment.add_capabilities has no effect with {tool.shown}: tasks have no capabilities"
    if options.network not in ("", "host", "bridge"):
        yield f"network {options.network} has no effect with {tool.shown}: tasks have the network of the node"
