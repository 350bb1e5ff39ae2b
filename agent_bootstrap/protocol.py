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
      <──────────────────────────────────── Stay
      Staying ────────────────────────────────>   (it gets work again)
      LoginRequest ───────────────────────────>   (it pulls an image)
      <─────────────────────────────── LoginReply
      <────────────────────────────── OpenStreams   (it answers by a second connection, which carries bytes only)
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from agent_bootstrap.bounds import (
    MAX_BATCH_BYTES,
    MAX_BATCH_LINES,
    MAX_CONTAINERS,
    MAX_EPOCH,
    MAX_LABELS,
    MAX_LINE_CHARS,
    MAX_NOTES,
    MAX_OFFSET,
    MAX_SLOT_ID,
    MAX_SLOTS,
    MIN_RECORD_BYTES,
    Id,
    Moment,
    Name,
    Text,
)
from agent_bootstrap.container_options import ContainerOptions, OsId

PROTOCOL_VERSION = 1
MAX_MESSAGE_BYTES = 128 * 1024 * 1024
"""Of the master: a StartContainer with a large model definition is the biggest. Those of agents: see `frames`."""
CREDENTIAL_HEADER = "X-Windlass-Agent-Credential"
"""Beside the join token (`Authorization: Bearer`): the agent's own credential, which it made itself. Its first hello
with a join token binds it to the agent's id, pool and instance; from then on no join token is needed."""
HEARTBEAT_S = 5.0
"""How often an agent says it is there. The master cordons after 30 s of silence."""

LABEL_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:/=@+-]{0,127}$"
Label: TypeAlias = Annotated[str, Field(pattern=LABEL_PATTERN)]
"""A word, or key=value. No commas and no spaces: lists of labels are written with them."""


class Message(BaseModel):
    """Unknown keys are ignored, so that a newer peer may say more."""

    model_config = ConfigDict(frozen=True, extra="ignore")


MAX_MEMORY_MIB = 2**30


class SlotKind(StrEnum):
    CUDA = "cuda"
    ROCM = "rocm"
    CPU = "cpu"
    ARTIFICIAL = "artificial"


class Slot(Message):
    """One GPU, or one CPU unit."""

    id: int = Field(ge=0, le=MAX_SLOT_ID)
    kind: SlotKind
    brand: Name = ""
    uuid: Name = ""
    memory_mib: int | None = Field(default=None, ge=0, le=MAX_MEMORY_MIB)
    """Of a GPU; None: unknown."""


class IsolationKind(StrEnum):
    """How an agent keeps tasks apart from its machine and from each other, best first."""

    BUBBLEWRAP = "bubblewrap"
    """Namespaces, capabilities and system calls as bubblewrap takes them away."""
    NAMESPACES = "namespaces"
    """The same by our own means."""
    CONTAINERS = "containers"
    """All tasks run in containers of an engine."""
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
    exit_code: int | None = Field(ge=-(2**31), lt=2**31)
    """Signals are 128 + n. None when nobody saw the exit."""
    failure: ExitFailure | None = None
    message: Text = ""
    at: Moment


class ContainerReport(Message):
    """The state of one container. Sent on every change and inside `Hello`; repeated until acknowledged."""

    type: Literal["container_report"] = "container_report"
    container_id: Id
    allocation_id: Id
    state: ContainerState
    pulling: bool = False
    """STARTING, and waiting for its image. No state of its own: masters of 0.1 would not understand it."""
    exit: ExitRecord | None = None


class Leaving(Message):
    """This machine goes at `at`: a spot notice, maintenance, the end of a batch job. It gets no more work.

    Said when it is known, and in the Hello of each later connection; a later one may bring the time forward.
    """

    type: Literal["leaving"] = "leaving"
    at: Moment
    reason: Text
    taken_back: bool = False
    """Its provider says so: a spot interruption, maintenance. Not an operator, nor the batch system of its job."""
    waits: bool = False
    """It goes when its tasks have left, each within its usual time. `at` is then when this was said."""

    def is_before(self, other: Leaving) -> bool:
        """A time at which everything ends comes before none."""
        return (self.waits, self.at) < (other.waits, other.at)

    @property
    def when(self) -> str:
        """As in "the agent goes ..."."""
        return "now" if self.waits else f"at {self.at.isoformat(timespec='seconds')}"


class Staying(Message):
    """The machine does not go after all: what was said by `Leaving` does not count any more."""

    type: Literal["staying"] = "staying"


class Hello(Message):
    """The first message on every connection."""

    type: Literal["hello"] = "hello"
    protocol: int = PROTOCOL_VERSION
    version: Name
    agent_id: Id
    pool: Id
    boot_id: Id
    """Changes when the machine reboots: nothing of an earlier boot still runs."""
    hostname: Name = ""
    site_node: Name = ""
    """In a batch job: what the site calls this node. The agent of a later job there has another id."""
    address: Name = ""
    """Where other nodes reach this one; empty: as the master sees the peer."""
    own_address: Name = ""
    """Of its end of this connection. Behind NAT the master sees another. Empty: nobody else can use it."""
    instance_id: Id | None = None
    slots: tuple[Slot, ...] = Field(default=(), max_length=MAX_SLOTS)
    containers: tuple[ContainerReport, ...] = Field(default=(), max_length=MAX_CONTAINERS)
    highest_epoch: int = Field(default=0, ge=0, le=MAX_EPOCH)
    notes: tuple[Text, ...] = Field(default=(), max_length=MAX_NOTES)
    """What an operator should know, e.g. that tasks run without namespaces here, and why."""
    labels: tuple[Label, ...] = Field(default=(), max_length=MAX_LABELS)
    """What whoever started the agent says of it, e.g. rack=a12. Shown, not interpreted."""
    ends_at: Moment | None = None
    """When the machine ends by what is known from the start: the walltime of its batch job, a capacity block."""
    leaving: Leaving | None = None
    takes_work: bool = True
    """False: it only tells how tasks ended on a machine that is gone."""
    isolation: IsolationKind = IsolationKind.UNKNOWN
    container_runtime: Name = ""
    """What runs its tasks, e.g. `process, podman 5.4.0`."""
    runs_trial_classes: bool | None = None
    """Whether its own Python has the published package, for tasks that run as processes. None: it does not say."""
    uid: OsId | None = None
    """Whom the agent runs as: only root can run each task as its own user. None: it does not say."""
    carries_streams: bool = False
    """It understands OpenStreams; agents of 0.1 do not."""
    process_user: Name = ""
    """Whom tasks without an image run as that the master asks nobody for. Empty: none run here, or it does not say."""


class Heartbeat(Message):
    type: Literal["heartbeat"] = "heartbeat"
    disk_free_bytes: int | None = Field(default=None, ge=0, lt=2**63)
    notes: tuple[Text, ...] = Field(default=(), max_length=MAX_NOTES)


LogLevel: TypeAlias = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


class LogEntry(Message):
    """One line of output. `log` has no trailing newline."""

    timestamp: Moment
    stdtype: Literal["stdout", "stderr"]
    log: str = Field(max_length=MAX_LINE_CHARS)
    level: LogLevel | None = None
    """When the line began with it."""
    rank_id: int | None = Field(default=None, ge=0, lt=10**9)


class LogBatch(Message):
    """Consecutive output of one container, from byte `first_offset` of its log file up to `next_offset`."""

    type: Literal["log_batch"] = "log_batch"
    container_id: Id
    allocation_id: Id
    task_id: Id
    agent_id: Id
    first_offset: int = Field(ge=0, le=MAX_OFFSET)
    next_offset: int
    entries: tuple[LogEntry, ...] = Field(max_length=MAX_BATCH_LINES)

    @model_validator(mode="after")
    def _holds_its_bytes(self) -> LogBatch:
        """Fewer lines than bytes there may be: a full disk tears lines apart. More text than bytes, never."""
        length = self.next_offset - self.first_offset
        if not 0 < length <= MAX_BATCH_BYTES:
            raise ValueError(f"{length} bytes of a log: a batch has 1 to {MAX_BATCH_BYTES}")
        if (least := sum(len(entry.log) + MIN_RECORD_BYTES for entry in self.entries)) > length:
            raise ValueError(f"{length} bytes of a log cannot hold lines of {least}")
        return self


class RegistryLoginRequest(Message):
    """The agent is about to pull the image of a container that it was given, and whose options say there is a login."""

    type: Literal["login_request"] = "login_request"
    container_id: Id
    allocation_id: Id


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
    answers_logins: bool = False
    """It understands LoginRequest; masters of 0.1 would end the connection."""
    certificates: str = ""
    """What tasks trust besides public authorities when they call the master, in PEM form."""


class JoinRefused(Message):
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


class RegistryCredentials(Message):
    """Credentials of an image registry. Never stored by the agent but in the private folder of the container."""

    server: str = ""
    """Empty: the registry that the image's name says."""
    username: str = ""
    password: str = Field(default="", repr=False)
    identity_token: str = Field(default="", repr=False)
    """Instead of a password."""
    registry_token: str = Field(default="", repr=False)
    """Instead of a password."""


class RegistryLoginReply(Message):
    """Answers LoginRequest. None: its task has none, or is over."""

    type: Literal["login_reply"] = "login_reply"
    container_id: str
    login: RegistryCredentials | None = None


class Stay(Message):
    """An operator takes back that the machine goes: the agent forgets what was said on it, and answers `Staying`."""

    type: Literal["stay"] = "stay"
    epoch: int


class OpenStreams(Message):
    """Somebody wants to reach a port of a task: the agent opens its connection for streams, if it has none.

    That is a WebSocket whose binary frames carry a `channels.mux.Mux`; the master opens a stream for each connection.
    """

    type: Literal["open_streams"] = "open_streams"
    epoch: int


class StreamTarget(Message):
    """Where a stream goes: a port of a container of the agent's. JSON in the frame that opens it."""

    container_id: Id
    port: int = Field(ge=1, le=65535)


class AgentShutdown(Message):
    """End the agent process (its instance is about to go). Containers are killed first."""

    type: Literal["shutdown"] = "shutdown"
    epoch: int
    reason: str


FromAgent: TypeAlias = Annotated[
    Hello | ContainerReport | Heartbeat | LogBatch | Leaving | Staying | RegistryLoginRequest,
    Field(discriminator="type"),
]
FromMaster: TypeAlias = Annotated[
    Welcome
    | JoinRefused
    | StartContainer
    | SignalContainer
    | KillContainer
    | ForgetContainer
    | LogAck
    | RegistryLoginReply
    | Stay
    | OpenStreams
    | AgentShutdown,
    Field(discriminator="type"),
]
FROM_AGENT: TypeAdapter[FromAgent] = TypeAdapter(FromAgent)
FROM_MASTER: TypeAdapter[FromMaster] = TypeAdapter(FromMaster)


class ChannelClosed(Exception):
    """The peer is gone."""


class BadMessage(Exception):
    """The peer sent what nobody may send. Says what, in words that can be shown."""


class Channel(Protocol):
    """Carries messages of one connection in order. A WebSocket in production, a pair of queues in tests."""

    async def send(self, message: Message) -> None:
        """Raises ChannelClosed."""
        ...

    async def receive(self) -> Message:
        """The next message. Raises ChannelClosed, BadMessage."""
        ...

    async def close(self, reason: str = "") -> None:
        """With a reason: the peer did something wrong, and is told."""
        ...


class AgentChannel(Channel, Protocol):
    """The agent's end of one."""

    @property
    def own_address(self) -> str:
        """As `Hello.own_address`."""
        ...
