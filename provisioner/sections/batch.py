"""`provider: {type: slurm}` or `pbs`: pools whose work becomes jobs of a batch system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, field_validator, model_validator

from master.core.expconf.models.durations import PositiveDuration
from master.core.expconf.models.schema import Items, Number, Positive, Section
from provisioner.batch.base import Queue
from provisioner.batch.dialects import DIALECTS, Dialect
from provisioner.batch.slurm.rest.submission import problems as rest_problems
from provisioner.sections.slurm_api import SlurmApiSection, require_many_users, require_slurm
from windlass.base.errors import InvalidArgument
from windlass.base.formats.duration_field import Duration
from windlass.base.formats.durations import format_duration
from windlass.base.formats.sizes import Size
from windlass.install.hosts import parse_host


def _a_minute_at_least(value: timedelta) -> timedelta:
    if value < timedelta(minutes=1):
        raise ValueError(
            f"must be >= 1m but found {format_duration(value)}: batch systems look at times now and then"
        )
    return value


def _minutes_at_least(values: tuple[timedelta, ...]) -> tuple[timedelta, ...]:
    return tuple(map(_a_minute_at_least, values))


def _not_ours(dialect: Dialect) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    def check(arguments: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := dialect.problems(arguments):
            raise ValueError("; ".join(wrong))
        return arguments

    return check


def _absolute(path: str | None) -> str | None:
    if path is not None and not path.startswith("/"):
        raise ValueError(f'"{path}" is not an absolute path')
    return path


class SshSection(Section):
    """The batch system's commands run on a login node, and the directories of jobs are written there over SFTP.

    Its host key must be in known_hosts. What ~/.ssh/config says of it holds; keys of an SSH agent are tried.
    """

    host: str
    """The login node: a name or an address, with `:port` if it is not 22."""
    user: str = ""
    """Who logs in, and whose the jobs are. Empty: as ~/.ssh/config says, or the master's own user."""
    key_file: Annotated[str | None, AfterValidator(_absolute)] = None
    """The private key. None: those of ~/.ssh and of an SSH agent."""
    jump: str = ""
    """`user@host:port` through which the login node is reached."""
    known_hosts: Annotated[str | None, AfterValidator(_absolute)] = None
    """Where its host key is. None: ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts."""

    @field_validator("host", "jump")
    @classmethod
    def _is_host(cls, value: str) -> str:
        if value:
            try:
                parse_host(value)
            except InvalidArgument as error:
                raise ValueError(error.message) from None
        return value

    @property
    def spec(self) -> str:
        """`user@host:port`."""
        return f"{self.user}@{self.host}" if self.user else self.host


def _absolutes(paths: str) -> str:
    for path in filter(None, paths.split(":")):
        _absolute(path)
    return paths


ContainerRuntime: TypeAlias = Literal[
    "auto", "process", "docker", "podman", "apptainer", "singularity", "enroot"
]


def project_source(value: str) -> str:
    if value not in ("", "project", "workspace", "label") and not value.startswith("label:"):
        raise ValueError(f'"{value}" is none of project, workspace, label and label:PREFIX')
    return value


class SiteKeys(Section):
    """What pools of one site usually have in common; `resource_manager` of type slurm or pbs gives it to all."""

    ssh: SshSection | None = None
    """The login node, if the master does not run on one. The same in all pools."""
    api: SlurmApiSection | None = None
    """How Slurm is asked, if not by its commands. The same in all pools."""

    slot_type: Literal["cuda", "rocm", "cpu"] | None = None
    """What a slot is. None: a CUDA GPU if the nodes of the queue have GPUs, else a CPU."""
    slots_per_node: Positive | None = None
    """How many slots a node gives to one task. None: the GPUs that most nodes of the queue have; 1 CPU."""
    cpus_per_slot: Positive | None = None
    """CPUs for each slot. None: as the site gives; where slots are CPUs, 1."""
    memory_per_slot: Size | None = None
    """Memory for each slot: 16GiB. None: as the site gives."""
    walltime: Annotated[Duration, AfterValidator(_a_minute_at_least)] | None = None
    """The time limit of each job. Work that can make checkpoints goes on in another job. None: as the site gives."""
    account: str = ""
    """Which account pays: `--account` of Slurm, `-A` of PBS."""
    job_project_source: Annotated[str, AfterValidator(project_source)] = ""
    """What jobs are booked on, as a wckey of Slurm (where the site has those) or a project of PBS: the `project` or
    `workspace` of an experiment, its labels (`label`), or those that begin so, without that (`label:PREFIX`). Empty:
    nothing."""
    max_queued: Positive = 100
    """How many jobs of this pool (nodes, of pilots) may wait at the site; further tasks wait here."""
    impersonate: Literal["sudo"] | None = None
    """sudo: each task is a job of the user of the operating system that its owner is linked to (`det user
    link-with-agent-user`), by `sudo -n -u USER`; sudoers says who that may be, and root never is. Who is linked to
    nobody is refused. Needs job_storage_root. None: all jobs are of the master's own user. The same in all pools."""
    job_storage_root: Annotated[str | None, AfterValidator(_absolute)] = None
    """Where the directories of jobs are made: on a file system that the master and all nodes share, private to the
    master's user. None: `jobs` in the data folder. With impersonate a folder in which all users may make one of
    their own (mode 1777)."""
    python: str = ""
    """The Python that runs our agents on the nodes: it has windlass, and is seen there. Empty: the master's own."""
    prologue: Items[str] = ()
    """Lines of shell before every task, such as `module load cuda`."""
    job_prologue: Items[str] = ()
    """Lines of shell (bash) in every job, on each of its nodes before our agent starts: `module load apptainer`, a
    profile of the site. Programs that they put on PATH are found there, and tasks have that PATH. If they fail, so does
    the job."""
    master_url: str = ""
    """Where nodes reach the master, if not where agents of other pools do."""
    channels: Items[Literal["direct", "relay", "ssh", "srun", "files"]] | None = None
    """How nodes reach the master, tried in this order: direct (the network), relay (the master keeps one on the login
    node, which lets in the nodes of its jobs alone), ssh (from the node to the login node), srun (Slurm's own pipe into
    the job), files (in the directory of the job: slow); the relay serves these two. None: all of them if the master has
    TLS, else direct, which is the only one without."""
    login_host: Annotated[
        str, Field(pattern=r"^([A-Za-z0-9_.-]+@)?[A-Za-z0-9_.-]+(:\d{1,5})?$|^$")
    ] = ""
    """The login node as nodes call it (`user@host:port`), for relay and ssh. Empty: all of its addresses; where
    the job was submitted."""
    relay_port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Where the relay listens on the login node. 0: at a port that is free."""
    path: Annotated[str, AfterValidator(_absolutes)] = ""
    """Folders where the batch system's commands are, with colons, before the usual ones; jobs have them in their PATH,
    too. The same in all pools."""
    ld_library_path: Annotated[str, AfterValidator(_absolutes)] = ""
    """LD_LIBRARY_PATH of these commands, and of jobs before what they have. The same in all pools."""
    gres_supported: bool = True
    """false: Slurm or PBS does not know the GPUs of its nodes (no gres/gpu, no ngpus), and they are not asked for. Jobs
    have slots_per_node GPUs of each node (None: 1), from GPU 0 on; give whole nodes, or no other job uses them."""
    visible_gpus: str = ""
    """Which GPUs of a node its agent offers: as agent.yaml has it. Needed where a PBS has no hook that sets
    CUDA_VISIBLE_DEVICES: "all", with `-l place=exclhost` among the arguments, so that no other job uses them."""
    rendezvous_network_interface: str = ""
    """The network by which the nodes of one task reach each other: `ib0`, or a pattern, `eth*`. Empty: the address from
    which the master sees them."""
    container_runtime: ContainerRuntime | None = None
    """What runs tasks on the nodes. None: what works there, for tasks that name an image; processes for others."""
    image_root: Annotated[str | None, AfterValidator(_absolute)] = None
    """A folder with images for Apptainer, Singularity, Enroot and Podman, as nodes see it."""
    scratch: Annotated[str, Field(pattern=r"^([/$].*)?$")] = ""
    """Where the /tmp of tasks is made, on a disk of each node: a path, which may have variables of the job:
    $SLURM_TMPDIR, /scratch/$USER. Empty: $SLURM_TMPDIR, $TMPDIR or /tmp, the first that can be written."""

    @model_validator(mode="after")
    def _says_where(self) -> Self:
        """Nothing on this machine tells what is there."""
        if self.ssh is not None:
            for key in ("job_storage_root", "python"):
                if not getattr(self, key):
                    raise ValueError(f"{key} is required with ssh: a path on the login node")
            if self.api is not None and (self.api.is_unix or self.api.is_pyslurm):
                raise ValueError(
                    f"api.url: {self.api.url} is not of the login node, which has ssh: use inetd:, or http"
                )
        if self.impersonate is not None:
            if self.ssh is not None:
                raise ValueError(
                    "impersonate does not take ssh: it runs the commands of a login node by sudo"
                )
            require_many_users(self.api)
            if not self.job_storage_root:
                raise ValueError(
                    "job_storage_root is required with impersonate: a shared folder of mode 1777"
                )
        return self

    @property
    def is_rest(self) -> bool:
        """slurmrestd takes its jobs."""
        return self.api is not None and not self.api.is_pyslurm

    def also_refused(self, arguments: Sequence[str]) -> Sequence[str]:
        """Why arguments of users are not taken, beside what never is."""
        return rest_problems(arguments) if self.is_rest else ()

    @property
    def as_users(self) -> bool:
        """Each job is of the user of the operating system that its owner is linked to."""
        return self.impersonate is not None

    @property
    def memory_mib_per_slot(self) -> int | None:
        return None if self.memory_per_slot is None else -(-self.memory_per_slot // 1024**2)

    def slot_type_in(self, queue: Queue | None) -> str:
        """cuda, rocm or cpu. Without a queue, the site being unknown so far, its nodes count as having GPUs."""
        return self.slot_type or ("cuda" if queue is None or queue.gpus_per_node else "cpu")


class BatchKeys(SiteKeys):
    """What both kinds of batch system have."""

    mode: Literal["dispatch", "pilot", "auto"] = "dispatch"
    """dispatch: each task is a job of its own. pilot: the pool is elastic, its machines are jobs, and many tasks run on
    each; other providers may stand beside it. auto: one of these for each request, by its size, its run time and how
    many of its kind wait; its pilots are a pool of their own, called as this one with `-pilots`."""
    walltimes: Annotated[Items[Duration], AfterValidator(_minutes_at_least)] = ()
    """Of pilots: the time limits to ask for, the first first; the next when that queues for `on_demand_after`. None:
    what the queue gives, 4 hours at the most."""
    queue_deadline: PositiveDuration | None = None
    """Of pilots: one that has not started after so long is given up. None: never."""
    usd_per_slot_hour: Annotated[Number, Field(ge=0)] = 0
    """Of pilots: what an hour of one slot costs."""

    @property
    def is_pilot(self) -> bool:
        return self.mode == "pilot"

    @property
    def is_auto(self) -> bool:
        return self.mode == "auto"

    @model_validator(mode="after")
    def _of_its_mode(self) -> BatchKeys:
        if self.mode != "dispatch" and self.impersonate is not None:
            raise ValueError("impersonate is of mode dispatch: a pilot runs the work of many users")
        if self.is_auto:
            return self
        if not self.is_pilot:
            for key in ("walltimes", "queue_deadline", "usd_per_slot_hour"):
                if getattr(self, key):
                    raise ValueError(f"{key} is of pilots: set mode: pilot or auto, or remove it")
        elif self.walltime is not None:
            raise ValueError("walltime is of mode dispatch: give walltimes, such as [4h, 1h]")
        return self

    def _no_time_limit(self, dialect: Dialect, arguments: tuple[str, ...]) -> None:
        """Pilots have those of `walltimes`, which the planner knows."""
        for one in () if self.mode == "dispatch" else arguments:
            if dialect.wanted_walltime_s([one]) is not None:
                raise ValueError(f'"{one}" sets a time limit: give walltimes instead')


class SlurmSection(BatchKeys):
    """Tasks as Slurm jobs: each one of its own, made to measure, or many on each pilot. Our agents run on their nodes.

    Jobs are submitted by the master's own user, with the commands of Slurm on the master's machine.
    """

    type: Literal["slurm"]
    """Others are refused."""
    partition: str = ""
    """Where jobs go. Empty: the site's default partition."""
    gpu_type: str = ""
    """Which GPUs, as Slurm names them in --gres=gpu:TYPE:N."""
    qos: str = ""
    """--qos."""
    constraint: str = ""
    """--constraint."""
    reservation: str = ""
    """--reservation."""
    sbatch_args: Annotated[Items[str], AfterValidator(_not_ours(DIALECTS["slurm"]))] = ()
    """Further arguments of sbatch, before those of users."""

    @model_validator(mode="after")
    def _no_time(self) -> SlurmSection:
        self._no_time_limit(DIALECTS["slurm"], self.sbatch_args)
        if self.is_rest and (wrong := rest_problems(self.sbatch_args)):
            raise ValueError(f"sbatch_args: {'; '.join(wrong)}")
        return self

    @property
    def where(self) -> str:
        """Its queue."""
        return self.partition

    @property
    def all_arguments(self) -> tuple[str, ...]:
        """Those of the keys first."""
        named = {
            "account": self.account,
            "qos": self.qos,
            "constraint": self.constraint,
            "reservation": self.reservation,
        }
        given = tuple(f"--{key}={value}" for key, value in named.items() if value)
        return (*given, *self.sbatch_args)


class PbsSection(BatchKeys):
    """Tasks as PBS jobs: each one of its own, made to measure, or many on each pilot. Our agents run on their nodes.

    Jobs are submitted by the master's own user, with the commands of OpenPBS or PBS Pro on the master's machine.
    """

    gpu_type: ClassVar[str] = ""
    type: Literal["pbs"]
    """Others are refused."""
    queue: str = ""
    """Where jobs go. Empty: the site's default queue."""
    project: str = ""
    """-P."""
    group: str = ""
    """-W group_list."""
    pbsbatch_args: Annotated[Items[str], AfterValidator(_not_ours(DIALECTS["pbs"]))] = ()
    """Further arguments of qsub, before those of users, one option each: `-l walltime=1:00:00`."""

    @model_validator(mode="after")
    def _no_time(self) -> PbsSection:
        self._no_time_limit(DIALECTS["pbs"], self.pbsbatch_args)
        require_slurm(self.api)
        return self

    @property
    def where(self) -> str:
        """Its queue."""
        return self.queue

    @property
    def all_arguments(self) -> tuple[str, ...]:
        """Those of the keys first."""
        named = {"-A ": self.account, "-P ": self.project, "-W group_list=": self.group}
        given = tuple(f"{key}{value}" for key, value in named.items() if value)
        return (*given, *self.pbsbatch_args)


BatchSection: TypeAlias = SlurmSection | PbsSection


def pool_section(site: SiteKeys, kind: Literal["slurm", "pbs"], queue: str) -> BatchSection:
    """The provider of a queue that has the keys of its site."""
    keys = {key: getattr(site, key) for key in SiteKeys.model_fields}
    if kind == "slurm":
        return SlurmSection(type="slurm", partition=queue, **keys)
    return PbsSection(type="pbs", queue=queue, **keys)


class HpcSection(Section):
    """A partition or queue of the `resource_manager`, which must be of type slurm or pbs; the rest is as there."""

    type: Literal["hpc"]
    """Others are refused."""
    partition: str = ""
    """Where jobs go: a partition of Slurm, a queue of PBS. Empty: the site's default."""
