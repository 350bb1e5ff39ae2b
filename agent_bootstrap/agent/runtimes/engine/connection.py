"""The engine of this machine: where its socket is, what it is, and how it is called."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agent_bootstrap.container_options import OsUser
from windlass.base.errors import InvalidConfig

if TYPE_CHECKING:
    from docker import APIClient

Kind = Literal["docker", "podman"]
CALL_LIMIT_S = 60
LOOK_LIMIT_S = 10
PODMAN_WITH_DEVICE_REQUESTS = (5, 4)
"""Earlier ones ignore them in silence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What was found behind a socket."""

    kind: Kind
    version: str
    api_version: str
    socket: str
    rootless: bool = False
    """Root in its containers is the agent's user on the machine."""
    selinux: bool = False
    runtimes: frozenset[str] = frozenset()

    @property
    def shown(self) -> str:
        return f"{self.kind} {self.version}" + (" (rootless)" if self.rootless else "")

    @property
    def takes_device_requests(self) -> bool:
        return self.kind == "docker" or _numbers(self.version) >= PODMAN_WITH_DEVICE_REQUESTS

    @contextmanager
    def client(self, limit_s: float = CALL_LIMIT_S) -> Iterator[APIClient]:
        """For one thread. Raises docker.errors.DockerException and requests' exceptions."""
        from docker import APIClient

        client = APIClient(f"unix://{self.socket}", version=self.api_version, timeout=int(limit_s))
        try:
            yield client
        finally:
            client.close()


def candidates(kind: Kind, environ: Mapping[str, str], uid: int) -> list[str]:
    """Where sockets of that kind are, the likeliest first. Pure."""
    own = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    told = environ.get("DOCKER_HOST" if kind == "docker" else "CONTAINER_HOST", "")
    found = [told.removeprefix("unix://")] if told.startswith("unix://") else []
    if kind == "docker":
        places = ["/var/run/docker.sock", f"{own}/docker.sock"]
    else:
        places = ["/run/podman/podman.sock", f"{own}/podman/podman.sock"]
    if uid != 0:  # its own engine before that of the machine
        places.reverse()
    return list(dict.fromkeys([*found, *places]))


def find_engine(kind: Kind, wanted: str, environ: Mapping[str, str] = os.environ) -> Engine:
    """The first that answers. `wanted`: a socket that is named. Blocks. Raises InvalidConfig."""
    reasons = []
    for path in [wanted] if wanted else candidates(kind, environ, os.geteuid()):
        try:
            engine = look(path)
        except OSError as error:
            reasons.append(f"{path}: {error.strerror or error}")
            continue
        if engine.kind == kind:
            return engine
        reasons.append(f"{path}: this is {engine.shown}")
    raise InvalidConfig(
        [f"container_runtime: {kind} does not answer on this machine ({'; '.join(reasons)})"],
        what="agent options",
    )


def look(path: str) -> Engine:
    """Ask it what it is. Raises OSError."""
    if not os.access(path, os.R_OK | os.W_OK):
        raise OSError(0, "permission denied" if os.path.lexists(path) else "is not there")
    from docker import APIClient
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        client = APIClient(f"unix://{path}", version="auto", timeout=LOOK_LIMIT_S)
        try:
            version, info = client.version(), client.info()
        finally:
            client.close()
    except (DockerException, RequestException) as error:
        raise OSError(0, f"no answer: {error}") from error
    names = {str(part.get("Name", "")) for part in version.get("Components") or ()}
    is_podman = any("podman" in name.lower() for name in names)
    security = {str(option) for option in info.get("SecurityOptions") or ()}
    return Engine(
        kind="podman" if is_podman else "docker",
        version=str(version.get("Version", "")),
        api_version=str(client.api_version),
        socket=path,
        rootless=any(option.startswith("name=rootless") for option in security),
        selinux=any(option.startswith("name=selinux") for option in security),
        runtimes=frozenset(info.get("Runtimes") or ()),
    )


def identity_inside(engine: Engine, who: OsUser) -> OsUser:
    """Whom a container runs as for somebody of the machine.

    A rootless Docker has only one user of the machine to give, and that is its containers' root. Podman shows the
    agent's user under its own number (keep-id).
    """
    if engine.rootless and engine.kind == "docker":
        return OsUser(uid=0, gid=0, user="root", group="root")
    return who


def _numbers(version: str) -> tuple[int, ...]:
    found = []
    for part in version.split("-")[0].split("."):
        if not part.isdigit():
            break
        found.append(int(part))
    return tuple(found)
