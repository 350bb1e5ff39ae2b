"""What tasks have of the metadata service: all of it, credentials for storage from the agent, or nothing."""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from agent_bootstrap.agent.containers.environment import RUN_DIR
from agent_bootstrap.agent.identity import own_identity, task_identity
from agent_bootstrap.agent.metadata.broker import AWS_PATH, Broker, TaskTokens
from agent_bootstrap.agent.metadata.closing import (
    BRIDGE_ADDRESS,
    CannotClose,
    MetadataRules,
    closable_address,
)
from agent_bootstrap.agent.metadata.credentials import AwsRole, GoogleAccount
from agent_bootstrap.agent.metadata.kinds import Cloud, TaskMetadata
from agent_bootstrap.agent.metadata.server import LocalServer
from agent_bootstrap.agent.metadata.services import Ec2Service, GceService
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.privilege_rules import plain
from agent_bootstrap.protocol import ContainerSpec, ExitFailure, FileItem
from windlass.base.clock import Clock
from windlass.base.files import write_atomic

LOOPBACK = "127.0.0.1"
TOKEN_FILE = f"{RUN_DIR}/storage-token"
PORT_FILE = "storage-port"
PORTS = range(1023, 899, -1)
"""Of root: no task can take the place of an agent that restarts."""
NETWORK_CAPABILITIES = frozenset(
    {"ALL", "NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW", "SYS_ADMIN", "SYS_MODULE", "BPF"}
)
"""With these a task on the machine's network gets around any rule."""
WAY_OUT = "set task_metadata: direct in the pool to let tasks ask it"

log = logging.getLogger(__name__)


class MetadataOfTasks:
    """`open` before the first task, `run` from then on, `close` when the agent ends."""

    def __init__(
        self,
        access: TaskMetadata,
        cloud: Cloud,
        url: str,
        *,
        work_dir: Path,
        secret: str,
        clock: Clock,
        proxies: Mapping[str, str],
    ) -> None:
        """`url`: of the metadata service; empty: there is none. `proxies`: that tasks are given."""
        self._access = access if url else TaskMetadata.DIRECT
        self._cloud = cloud
        self._url = url
        self._work_dir = work_dir
        self._tokens = TaskTokens(secret)
        self._clock = clock
        self._proxies = proxies
        self._server: LocalServer | None = None
        self._port = 0
        self._has_bridge = False
        self._closing: MetadataRules | None = None
        self._problem = ""

    def notes(self) -> tuple[str, ...]:
        """What an operator should know."""
        return (self._problem,) if self._problem else ()

    async def open(self, is_running: Callable[[str], bool]) -> None:
        if self._access is TaskMetadata.DIRECT:
            return
        address = closable_address(self._url)
        if address is not None:
            self._closing = MetadataRules(address)
            try:
                await self._closing.close()
            except CannotClose as error:
                self._problem = self._not_closed(error)
        if self._access is TaskMetadata.STORAGE:
            await self._serve(is_running)

    async def run(self) -> None:
        """Close to running tasks the devices that come up, too: between two tasks nobody else would."""
        if self._closing is None:
            return
        async for _ in self._closing.changes():
            try:
                await self._closing.require(root=False)
            except CannotClose as error:
                problem = self._not_closed(error)
                if problem != self._problem:
                    log.error("%s", problem)
                self._problem = problem
            else:
                self._problem = ""

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()

    async def admit(self, spec: ContainerSpec) -> None:
        """Right before it is started. Raises StartRefused where the task would reach the service."""
        if self._closing is None:
            return
        added = NETWORK_CAPABILITIES & set(map(plain, spec.options.add_capabilities))
        if added and not _is_bridged(spec):
            raise StartRefused(
                ExitFailure.TASK_ERROR,
                f"add_capabilities: with {min(added)} a task on the machine's network reaches the metadata service, "
                f"which is closed to tasks: use the network bridge, or {WAY_OUT}",
            )
        who = task_identity(spec.options.os_user, own_identity())
        try:
            await self._closing.require(root=who.uid == 0)
        except CannotClose as error:
            self._problem = self._not_closed(error)
            raise StartRefused(ExitFailure.ABORTED, self._problem) from None
        self._problem = ""

    def given_to(self, spec: ContainerSpec) -> ContainerSpec:
        """With what the SDKs of its cloud look for. What the task itself sets stays."""
        if self._server is None:
            return spec
        token = self._tokens.of(spec.container_id)
        is_far = self._has_bridge and _is_bridged(spec)
        where = f"{BRIDGE_ADDRESS if is_far else LOOPBACK}:{self._port}"
        files = spec.files
        if self._cloud is Cloud.AWS:
            ours = {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://{where}{AWS_PATH}",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN": token,
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": TOKEN_FILE,
                "AWS_EC2_METADATA_DISABLED": "true",
            }
            content = base64.b64encode(token.encode()).decode()
            files = (*files, FileItem(path=TOKEN_FILE, content_b64=content))
        else:
            host = f"{where}/{token}"
            ours = {
                "GCE_METADATA_HOST": host,
                "GCE_METADATA_ROOT": host,
                "GCE_METADATA_IP": where,
            }
        if any(name in spec.environment for name in ours):
            return spec
        environment = {**ours, **spec.environment, **self._no_proxy(spec.environment)}
        return spec.model_copy(update={"environment": environment, "files": files})

    def _no_proxy(self, given: Mapping[str, str]) -> dict[str, str]:
        """Ours are not asked through a proxy."""
        known = {**self._proxies, **given}
        if not any(name.upper() in ("HTTP_PROXY", "ALL_PROXY") for name in known):
            return {}
        name = "no_proxy" if "no_proxy" in known else "NO_PROXY"
        return {name: ",".join(filter(None, (known.get(name), LOOPBACK, BRIDGE_ADDRESS)))}

    async def _serve(self, is_running: Callable[[str], bool]) -> None:
        role = (
            AwsRole(Ec2Service(self._url), self._clock)
            if self._cloud is Cloud.AWS
            else GoogleAccount(GceService(self._url), self._clock)
        )
        try:
            if not await role.exists():
                log.info("this machine has no role: tasks get no credentials for storage")
                return
        except OSError as error:
            log.warning("the metadata service %s does not answer: %s", self._url, error)
        server = LocalServer(Broker(role, self._tokens, is_running, self._clock).answer)
        self._has_bridge = self._closing is not None and not self._problem
        addresses = (LOOPBACK, BRIDGE_ADDRESS) if self._has_bridge else (LOOPBACK,)
        for port in self._ports():
            try:
                self._port = await server.open(addresses, port)
            except OSError:
                continue
            self._server = server
            write_atomic(self._work_dir / PORT_FILE, str(self._port).encode())
            return
        self._problem = "tasks get no credentials for storage: no port is free for them"
        log.error("%s", self._problem)

    def _ports(self) -> Iterator[int]:
        """That of the agent before us first: its tasks know it."""
        with suppress(OSError, ValueError):
            yield int((self._work_dir / PORT_FILE).read_text())
        yield from PORTS if os.geteuid() == 0 else (0,)

    def _not_closed(self, error: CannotClose) -> str:
        return f"this machine cannot keep tasks from the metadata service {self._url}: {error}; {WAY_OUT}"


def _is_bridged(spec: ContainerSpec) -> bool:
    """In a container with a network of its own."""
    return spec.options.network not in ("", "host")
