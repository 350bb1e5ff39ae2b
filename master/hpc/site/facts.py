"""What is found out about a cluster before anything is decided. Plain values: decisions are made from them alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from provisioner.batch.base import SiteFacts

NETWORK = frozenset(
    {
        "nfs",
        "nfs4",
        "lustre",
        "gpfs",
        "beegfs",
        "ceph",
        "panfs",
        "afs",
        "cifs",
        "smb3",
        "9p",
        "pvfs2",
        "orangefs",
        "wekafs",
        "quobyte",
        "glusterfs",
        "fuse.glusterfs",
        "fuse.sshfs",
        "fuse.juicefs",
        "fuse.moosefs",
        "fhgfs",
        "stornext",
    }
)
"""Types of file systems that several machines may see."""
MEMORY = frozenset({"tmpfs", "ramfs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A directory that may hold something of ours, as it was tried."""

    path: str
    origin: str
    """Where it was found: `--dir`, `$HOME`, ..."""
    file_system: str = ""
    """Its type, as the kernel names it."""
    problem: str = ""
    """Why nothing can be written there."""
    has_locks: bool = True
    """Locks work there, between all machines that see it."""
    free_bytes: int | None = None
    other_owner: bool = False
    """It is there already, and belongs to another user, or others may write to it."""
    others_enter: bool = False
    """It is there already, and others may look into it."""

    @property
    def is_usable(self) -> bool:
        return not self.problem and not self.other_owner

    @property
    def is_network(self) -> bool:
        return self.file_system in NETWORK

    @property
    def is_memory(self) -> bool:
        return self.file_system in MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """An account that may pay for our jobs. `partition`: only there; empty: everywhere."""

    name: str
    partition: str = ""
    qos: tuple[str, ...] = ()
    max_submit: int | None = None
    """Jobs that may wait and run at the same time."""
    limits: tuple[str, ...] = ()
    """In words, with that one."""
    is_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    user: str
    host: str
    """This machine, as others of the site call it."""
    system: str = ""
    """slurm or pbs; empty: neither was found."""
    system_problem: str = ""
    """Why it cannot be used."""
    site: SiteFacts = field(default_factory=SiteFacts)
    closed_to_us: Mapping[str, str] = field(default_factory=dict)
    """Queues in which we may not submit, and why."""
    accounts: tuple[Association, ...] = ()
    qos_limits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of each QOS that has some, in words."""
    shared: tuple[Folder, ...] = ()
    """Where nodes may see our files; the first that can be used is taken."""
    local: tuple[Folder, ...] = ()
    """Where the database may be; likewise."""
    is_only_machine: bool = False
    """All nodes are this machine: everything is shared."""
    address: str = ""
    """Of the interface by which nodes reach this machine."""
    address_problem: str = ""
    python: str = ""
    python_folder: Folder | None = None
    """Where its environment is."""
    runtimes: Mapping[str, str] = field(default_factory=dict)
    """Container runtimes on this machine, and their versions or paths."""
    isolation: str = ""
    """How tasks can be contained here: bubblewrap, namespaces; empty: not at all."""
    isolation_problem: str = ""
    kernel: str = ""
    ends_processes: str = ""
    """Why long processes of ours would be ended on this machine; empty: nothing says so."""
    own_job: str = ""
    """The batch job in which we run."""
