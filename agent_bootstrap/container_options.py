"""What a container runtime is told beyond what to run: filled by the master, applied as far as a runtime can.

The same models travel from the task's configuration through the resource manager to the node. No secret is in them.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from agent_bootstrap.bind_rules import HostPaths
from agent_bootstrap.privilege_rules import Privileges


class _Options(BaseModel):
    """Unknown keys are ignored, so that a newer master may say more."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class RegistryLogin(_Options):
    """Who logs in to the image's registry. The agent asks the master for the rest when it pulls."""

    reference: str
    """The task whose configuration has it."""
    server: str = ""
    """Empty: the registry that the image's name says."""


class Device(_Options):
    host_path: str
    container_path: str
    mode: str = "mrw"
    """What cgroups allow: m (make), r, w."""


class ProxyPort(_Options):
    """A port of the task that the master's proxy serves."""

    port: int
    tcp: bool = False
    """A plain stream, not HTTP."""
    unauthenticated: bool = False


class ContainerLimits(_Options):
    """None: no limit of its own."""

    cpus: float | None = Field(default=None, gt=0)
    memory_bytes: int | None = Field(default=None, gt=0)
    pids: int | None = Field(default=None, gt=0)


MAX_OS_ID = 2**31 - 2
"""Of a user or group. Some systems count them with a sign, and the number after it means none."""
OS_NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.@\\$-]{0,254}$"
"""Names go into a passwd file of the task: no colon, no space, no line end. Directories have names as DOMAIN\\ann."""
OsId: TypeAlias = Annotated[int, Field(ge=0, le=MAX_OS_ID)]
OsName: TypeAlias = Annotated[str, Field(pattern=OS_NAME_PATTERN)]


AGENT_USER = "$AGENT_USER"
"""In a working directory: the name of whom the task runs as."""


class OsUser(_Options):
    """Whom the task runs as on the node. The machine need not know the names."""

    uid: OsId = 0
    gid: OsId = 0
    user: OsName = "root"
    group: OsName = "root"


SHARED_MODE = 0o1777
"""Of a folder of checkpoints: anybody may add, nobody may remove what is another's; as /tmp."""


class CheckpointFolder(_Options):
    """Where a trial keeps its files on the machine: `below` (relative, or empty) in `host_path`, which is mounted."""

    host_path: str
    below: str = ""
    make: bool = True
    """Make it if it is missing."""
    experiment_id: int
    trial_id: int


class ContainerOptions(_Options):
    """One container's. Defaults: whatever the runtime does by itself."""

    image: str = ""
    """Of the kind of its slots. Empty: none."""
    image_is_default: bool = False
    """Nobody asked for it: it is what every configuration names that names none."""
    force_pull_image: bool = False
    registry_login: RegistryLogin | None = None
    shm_bytes: int | None = Field(default=None, gt=0)
    """The size of a private /dev/shm."""
    devices: tuple[Device, ...] = ()
    add_capabilities: tuple[str, ...] = ()
    drop_capabilities: tuple[str, ...] = ()
    network: str = ""
    """host, bridge, or a network that the node's operator made. Empty: the runtime's own choice."""
    ports: tuple[ProxyPort, ...] = ()
    """That the master's proxy reaches."""
    published_ports: dict[str, int] = Field(default_factory=dict)
    """By name: that other machines reach on the node, where the network is the container's own. Not proxied."""
    limits: ContainerLimits = ContainerLimits()
    os_user: OsUser | None = None
    """None: as the agent does by default."""
    python: str = ""
    """The Python of a process: the path of an interpreter or a virtualenv, or a name. Empty: as the agent does."""
    prologue: tuple[str, ...] = ()
    """Lines of shell before a process."""
    host_paths: HostPaths = HostPaths()
    """What of the machine the master lets it mount."""
    privileges: Privileges = Privileges()
    """Which capabilities and devices the master lets it have."""
    checkpoints: CheckpointFolder | None = None
    """None: none on the machine."""
