"""The messages between master and agent, and the Channel that carries them.

At-least-once both ways. The agent is truth for what runs on it: its `Hello` lists every container it knows, finished
ones included, and the master answers with `Welcome` (which of those it still wants) and re-sends what it wants started.
An exit is reported until the master forgets it (`ForgetContainer`), which it does after committing. Every message of
the master carries the epoch of its leader lease; an agent obeys no lower epoch than it has seen.

    agent                                   master
      Hello ──────────────────────────────────>
      <─────────────────────── Welcome | Refused
      <─────────── StartContainer / KillContainer
      ContainerReport ────────────────────────>   (commit)
      <────────────────────────── ForgetContainer   (after an EXITED report was committed)
      LogBatch ───────────────────────────────>
      <─────────────────────────────────── LogAck
      Heartbeat ──────────────────────────────>
      Leaving ────────────────────────────────>   (nothing more is placed there; its work is asked to leave)
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Protocol, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter

from agent_bootstrap.container_options import ContainerOptions

PROTOCOL_VERSION = 1
MAX_MESSAGE_BYTES = 128 * 1024 * 1024
"""A StartContainer with a large model definition is the biggest message."""
CREDENTIAL_HEADER = "X-Windlass-Agent-Credential"
"""Beside the join token (`Authorization: Bearer`): the agent's own credential, which it made itself. Its first hello
with a join token binds it to the agent's id, pool and instance; from then on no join token is needed."""
HEARTBEAT_S = 5.0
"""How often an agent says it is there. The master cordons after 30 s of silence."""


MAX_LABELS = 64
"""They are for people to read."""

LABEL_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:/=@+-]{0,127}$"
Label: TypeAlias = Annotated[str, Field(pattern=LABEL_PATTERN)]
"""A word, or key=value. No commas and no spaces: lists of labels are written with them."""


class Message(BaseModel):
    """Unknown keys are ignored, so that a newer peer may say more."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class SlotKind(StrEnum):
    CUDA = "cuda"
    ROCM = "rocm"
    CPU = "cpu"
    ARTIFICIAL = "artificial"


class Slot(Message):
    """One GPU, or one CPU unit."""

    id: int
    kind: SlotKind
    brand: str = ""
    uuid: str = ""


class IsolationKind(StrEnum):
    """How an agent keeps tasks apart from its machine and from each other, best first."""

    BUBBLEWRAP = "bubblewrap"
    """Namespaces, capabilities and system calls as bubblewrap takes them away."""
    NAMESPACES = "namespaces"
    """The same by our own means."""
    DIRECTORY = "directory"
    """A directory for each task, and nothing that keeps it there."""
    UNKNOWN = "unknown"
    """The agent does not say, or says a word of a later version."""

    @classmethod
    def _missing_(cls, value: object) -> IsolationKind:
        return cls.UNKNOWN


class ContainerState(StrEnum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    EXITED = "EXITED"


class ExitFailure(StrEnum):
    """Same meaning as `rm_backends.base.FailureKind`."""

    ABORTED = "aborted"
    TASK_ERROR = "task_error"
    AGENT_FAILED = "agent_failed"


class ExitRecord(Message):
    exit_code: int | None
    """Signals are 128 + n. None when nobody saw the exit."""
    failure: ExitFailure | None = None
    message: str = ""
    at: datetime


class ContainerReport(Message):
    """The state of one container. Sent on every change and inside `Hello`; repeated until acknowledged."""

    type: Literal["container_report"] = "container_report"
    container_id: str
    allocation_id: str
    state: ContainerState
    exit: ExitRecord | None = None


class Leaving(Message):
    """This machine goes at `at`: a spot notice, maintenance, the end of a batch job. It gets no more work.

    Said when it is known, and in the Hello of each later connection; a later one may bring the time forward.
    """

    type: Literal["leaving"] = "leaving"
    at: AwareDatetime
    reason: str


class Hello(Message):
    """The first message on every connection."""

    type: Literal["hello"] = "hello"
    protocol: int = PROTOCOL_VERSION
    version: str
    agent_id: str
    pool: str
    boot_id: str
    """Changes when the machine reboots: nothing of an earlier boot still runs."""
    hostname: str = ""
    address: str = ""
    """Where other nodes reach this one; empty: as the master sees the peer."""
    instance_id: str | None = None
    slots: tuple[Slot, ...] = ()
    containers: tuple[ContainerReport, ...] = ()
    highest_epoch: int = 0
    notes: tuple[str, ...] = ()
    """What an operator should know, e.g. that tasks run without namespaces here, and why."""
    labels: tuple[Label, ...] = Field(default=(), max_length=MAX_LABELS)
    """What whoever started the agent says of it, e.g. rack=a12. Shown, not interpreted."""
    ends_at: AwareDatetime | None = None
    """When the machine ends by what is known from the start: the walltime of its batch job, a capacity block."""
    leaving: Leaving | None = None
    isolation: IsolationKind = IsolationKind.UNKNOWN


class Heartbeat(Message):
    type: Literal["heartbeat"] = "heartbeat"
    disk_free_bytes: int | None = None
    notes: tuple[str, ...] = ()


class LogEntry(Message):
    """One line of output. `log` has no trailing newline."""

    timestamp: datetime
    stdtype: Literal["stdout", "stderr"]
    log: str
    level: str | None = None
    """DEBUG, INFO, WARNING, ERROR or CRITICAL when the line began with it."""
    rank_id: int | None = None


class LogBatch(Message):
    """Consecutive output of one container, from byte `first_offset` of its log file up to `next_offset`."""

    type: Literal["log_batch"] = "log_batch"
    container_id: str
    allocation_id: str
    task_id: str
    agent_id: str
    first_offset: int
    next_offset: int
    entries: tuple[LogEntry, ...]


class Welcome(Message):
    """Accepted. Containers of the agent that are not in `keep` are killed and forgotten."""

    type: Literal["welcome"] = "welcome"
    epoch: int
    master_id: str
    cluster_id: str
    cluster_name: str = ""
    keep: tuple[str, ...] = ()
    log_offsets: dict[str, int] = Field(default_factory=dict)
    """container id -> next byte offset of its log that the master wants."""


class Refused(Message):
    """Not accepted. `retry` false: the agent exits with the reason."""

    type: Literal["refused"] = "refused"
    reason: str
    retry: bool = False


class FileItem(Message):
    path: str
    content_b64: str
    mode: int = 0o600


class Bind(Message):
    source: str
    target: str
    read_only: bool = False


class ContainerSpec(Message):
    """Everything one container is given. The agent adds DET_MASTER*, DET_AGENT_ID, DET_CONTAINER_ID,
    DET_RESOURCES_ID, DET_SLOT_IDS, the device variables, and PATH so that `python3` is its own interpreter."""

    container_id: str
    allocation_id: str
    task_id: str
    task_type: str
    rank: int = 0
    slot_ids: tuple[int, ...] = ()
    entrypoint: tuple[str, ...]
    """`{python}` as the first word stands for the agent's own interpreter."""
    environment: dict[str, str]
    work_dir: str = "/run/determined/workdir"
    files: tuple[FileItem, ...] = ()
    binds: tuple[Bind, ...] = ()
    options: ContainerOptions = ContainerOptions()


class StartContainer(Message):
    """Start it, unless the agent knows a container of that id already (then it reports its state again)."""

    type: Literal["start_container"] = "start_container"
    epoch: int
    spec: ContainerSpec


class SignalContainer(Message):
    type: Literal["signal_container"] = "signal_container"
    epoch: int
    container_id: str
    signal: int


class KillContainer(Message):
    """SIGKILL to the whole tree. An unknown container is reported as EXITED/aborted."""

    type: Literal["kill_container"] = "kill_container"
    epoch: int
    container_id: str
    allocation_id: str


class ForgetContainer(Message):
    """Its exit is committed: its directory may go."""

    type: Literal["forget_container"] = "forget_container"
    epoch: int
    container_id: str


class LogAck(Message):
    type: Literal["log_ack"] = "log_ack"
    container_id: str
    next_offset: int


class Shutdown(Message):
    """End the agent process (its instance is about to go). Containers are killed first."""

    type: Literal["shutdown"] = "shutdown"
    epoch: int
    reason: str


FromAgent: TypeAlias = Annotated[
    Hello | ContainerReport | Heartbeat | LogBatch | Leaving, Field(discriminator="type")
]
FromMaster: TypeAlias = Annotated[
    Welcome
    | Refused
    | StartContainer
    | SignalContainer
    | KillContainer
    | ForgetContainer
    | LogAck
    | Shutdown,
    Field(discriminator="type"),
]
FROM_AGENT: TypeAdapter[FromAgent] = TypeAdapter(FromAgent)
FROM_MASTER: TypeAdapter[FromMaster] = TypeAdapter(FromMaster)


class ChannelClosed(Exception):
    """The peer is gone."""


class Channel(Protocol):
    """Carries messages of one connection in order. A WebSocket in production, a pair of queues in tests."""

    async def send(self, message: Message) -> None:
        """Raises ChannelClosed."""
        ...

    async def receive(self) -> Message:
        """The next message. Raises ChannelClosed."""
        ...

    async def close(self) -> None: ...
