"""Containers of an engine as a way of setting tasks up: pull, lay out, create; the supervisor starts and watches them.

The container's output goes to its supervisor by named pipes in the task's own folder, not through the engine: so it is
complete and in order whatever engine and agent do meanwhile (docs/decisions/0043).
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import RequestException

from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.containers.mounts import user_error
from agent_bootstrap.agent.identity import own_identity, task_identity
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.engine.connection import Engine, identity_inside
from agent_bootstrap.agent.runtimes.engine.creation import (
    LABEL,
    Labels,
    container_name,
    creation,
    own_limits,
    published,
)
from agent_bootstrap.agent.runtimes.engine.images import Images, LocalImage, explanation
from agent_bootstrap.agent.runtimes.image_task import make_pipes, prepare_image_task, start_folder
from agent_bootstrap.agent.runtimes.setup import NO_IMAGE, ContainerStart, LoginOf, unless_killed
from agent_bootstrap.agent.runtimes.task_lines import lines_of
from agent_bootstrap.bind_rules import HostPaths
from agent_bootstrap.container_options import OsUser
from agent_bootstrap.privilege_rules import Privileges
from agent_bootstrap.protocol import ContainerSpec, ExitFailure, IsolationKind
from windlass.base.files import write_atomic

CALLS_AT_ONCE = 8
CONFLICT = 409
T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineGround:
    """What is the same for every task of this agent."""

    engine: Engine
    images: Images
    agent_id: str
    rules: HostPaths
    privileges: Privileges
    login_of: LoginOf


class EngineSetup:
    """See `runtimes.setup.Setup`."""

    notes: tuple[str, ...] = ()
    isolation: IsolationKind = IsolationKind.CONTAINERS

    def __init__(self, ground: EngineGround) -> None:
        self._ground = ground
        self._engine = ground.engine
        self._images = ground.images
        self._ports: dict[str, Mapping[int, int] | None] = {}
        """Name of a container -> what `published` says of it."""
        self._calls = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="engine")

    @property
    def name(self) -> str:
        return self._engine.shown

    async def prepare(
        self, place: ContainerDir, spec: ContainerSpec, node: NodeFacts, start: ContainerStart
    ) -> None:
        name = spec.options.image
        if not name:
            raise user_error(NO_IMAGE)
        who = self._who(spec)
        with_words = self._in_words
        here = await self._call(with_words, self._images.is_here, name)
        if spec.options.force_pull_image or not here:
            with start.pulling():
                await self._pull(place, spec, start.killed)
        image = await self._call(with_words, self._images.take, name, self._own_labels)
        await self._call(with_words, self._create, place, spec, node, image, who)

    def for_trial(self, image: str, layer: bytes) -> EngineSetup:
        self._in_words(self._images.add, image, layer)
        return EngineSetup(replace(self._ground, rules=HostPaths(file="agent.yaml")))

    def node_port(self, place: ContainerDir, port: int) -> int:
        """The engine chose it when it started the container; it stays."""
        if not start_folder(place).exists():  # a process
            return port
        name = container_name(place.path.name)
        if name not in self._ports:
            try:
                with self._engine.client() as client:
                    found = published(client.inspect_container(name))
            except (DockerException, RequestException) as error:
                raise ConnectionError(explanation(error)) from error
            if found == {}:
                raise ConnectionError("the container publishes no port yet")
            self._ports[name] = found
        ports = self._ports[name]
        if ports is None:
            return port
        if port not in ports:
            raise ConnectionError(f"the container publishes no port {port}")
        return ports[port]

    def clear(self, place: ContainerDir) -> None:
        self._ports.pop(container_name(place.path.name), None)
        if start_folder(place).exists():
            self._remove(container_name(place.path.name))

    def sweep(self, known: frozenset[str]) -> None:
        """An engine that does not answer now is left alone: nothing new can be started by it either."""
        filters = {"label": [f"{key}={value}" for key, value in self._own_labels.items()]}
        try:
            with self._engine.client() as client:
                found = client.containers(all=True, filters=filters)
            for container in found:
                container_id = (container.get("Labels") or {}).get(f"{LABEL}.container", "")
                if container_id not in known:
                    log.warning("removed a leftover container: %s", container_id)
                    self._remove(str(container["Id"]))
            self._images.trim()
        except (DockerException, RequestException, OSError) as error:
            log.warning("leftovers of %s cannot be looked for: %s", self.name, error)

    @property
    def _own_labels(self) -> dict[str, str]:
        return Labels(cluster="", agent=self._ground.agent_id).own

    def _who(self, spec: ContainerSpec) -> OsUser:
        """Inside the container. Raises StartRefused."""
        wanted = spec.options.os_user
        if self._engine.rootless and wanted is not None and wanted.uid == 0:
            return wanted
        return identity_inside(self._engine, task_identity(wanted, own_identity()))

    async def _pull(self, place: ContainerDir, spec: ContainerSpec, killed: asyncio.Event) -> None:
        login = await unless_killed(killed, self._ground.login_of(spec))
        given_up = threading.Event()
        loop = asyncio.get_running_loop()
        pulled: asyncio.Future[None] = loop.create_future()

        def run() -> None:
            problem: Exception | None = None
            try:
                self._in_words(
                    self._images.pull, spec.options.image, login, lines_of(place), given_up
                )
                self._in_words(self._images.trim)
            except Exception as error:  # noqa: BLE001  (told to whoever waits)
                problem = error
            loop.call_soon_threadsafe(_settle, pulled, problem)

        # Not of a pool: a pull may hang, and nobody is to wait for it.
        threading.Thread(target=run, name=f"pull {spec.container_id}", daemon=True).start()
        try:
            await unless_killed(killed, pulled)
        finally:
            given_up.set()

    def _create(
        self,
        place: ContainerDir,
        spec: ContainerSpec,
        node: NodeFacts,
        image: LocalImage,
        who: OsUser,
    ) -> None:
        task = prepare_image_task(
            place,
            spec,
            node,
            self._ground.rules,
            who=who,
            accounts=image.accounts,
            privileges=self._ground.privileges,
        )
        make_pipes(place, who)
        labels = Labels(cluster=node.cluster_id, agent=self._ground.agent_id).of(spec)
        body = creation(
            task,
            self._engine,
            node,
            image_id=image.id,
            entrypoint=image.entrypoint,
            labels=labels,
            ulimits=own_limits(),
        )
        name = container_name(spec.container_id)
        with self._engine.client() as client:
            untyped: Any = client
            try:
                untyped.create_container_from_config(body, name)
            except APIError as error:
                if error.status_code != CONFLICT:
                    raise
                client.remove_container(name, force=True, v=True)
                untyped.create_container_from_config(body, name)
        document = {
            "way": "engine",
            "dir": str(place.path),
            "pipes": str(start_folder(place)),
            "socket": self._engine.socket,
            "container": name,
            "memory_bytes": spec.options.limits.memory_bytes or 0,
            "limits": {},
            "user": None,
        }
        write_atomic(place.spec, json.dumps(document).encode())

    def _remove(self, name: str) -> None:
        try:
            with self._engine.client() as client:
                client.remove_container(name, force=True, v=True)
        except NotFound:
            return
        except (DockerException, RequestException) as error:
            raise OSError(0, explanation(error), name) from error

    async def _call(self, function: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._calls, function, *arguments)

    def _in_words(self, function: Callable[..., T], *arguments: object) -> T:
        try:
            return function(*arguments)
        except APIError as error:
            raise user_error(f"cannot create the container: {explanation(error)}") from error
        except (DockerException, RequestException) as error:
            raise StartRefused(ExitFailure.ABORTED, explanation(error)) from error


def _settle(future: asyncio.Future[None], problem: Exception | None) -> None:
    if future.done():
        return
    if problem is None:
        future.set_result(None)
    else:
        future.set_exception(problem)
