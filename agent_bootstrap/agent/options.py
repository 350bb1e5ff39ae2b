"""What an agent is told at its start. `option_layers` says from where."""

from __future__ import annotations

import difflib
import os
import re
import socket
import stat
from collections.abc import Mapping, Sequence
from datetime import timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import platformdirs
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from agent_bootstrap.agent.metadata.kinds import Cloud, TaskMetadata
from agent_bootstrap.bind_rules import HostPaths
from agent_bootstrap.bounds import MAX_LABELS, MAX_SLOTS, Id, Moment, Name
from agent_bootstrap.privilege_rules import Privileges
from agent_bootstrap.protocol import LABEL_PATTERN
from windlass.base.errors import InvalidArgument, InvalidConfig
from windlass.base.formats.duration_field import Duration
from windlass.base.formats.python_name import python_name
from windlass.base.formats.sizes import Size
from windlass.base.no_effect import NoEffect
from windlass.base.tls.fingerprints import parse_fingerprint

_NO_API = "the agent has no API of its own"
_TRIES = "the agent tries to connect for as long as it runs"
IGNORED_KEYS: Mapping[str, str] = {
    "agent_reconnect_attempts": _TRIES,
    "agent_reconnect_backoff": _TRIES,
    "api_enabled": _NO_API,
    "bind_ip": _NO_API,
    "bind_port": _NO_API,
    "config_file": "the file is named by --config-file",
    "container_auto_remove_disabled": "containers are removed when their task has ended",
    "debug": "log.level says what is logged",
    "fluent": "the agent sends logs itself",
    "hooks": f"{_TRIES}; alone_ttl and alone_ends_machine end a machine that has lost its master",
    "tls": _NO_API,
    "tls_cert": _NO_API,
    "tls_key": _NO_API,
}
"""Keys of other agents' files that have no effect here, and why: accepted with a warning, so that those files load."""


def _comma_list(value: object) -> object:
    """A text, as in a variable, is a list with commas."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    return value


def _fingerprints(words: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(map(parse_fingerprint, words))
    except InvalidArgument as error:
        raise ValueError(error.message) from None


LEAST_TASK_LOG_GIB = 1 / 64
SHORTEST_ORPHAN_TTL = timedelta(minutes=1)


class TlsOptions(BaseModel):
    """How the agent checks the master."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = False
    """Speak TLS; an https URL says so too."""
    skip_verify: bool = False
    """Accept any certificate."""
    master_cert: Path | None = None
    """A file with the certificates to trust, and no others: of authorities, or the master's own. Read again at each
    connection. None: the authorities of the machine."""
    master_cert_name: str = ""
    """The name in the master's certificate. Empty: its host."""
    cert_fingerprint: Annotated[
        tuple[str, ...], BeforeValidator(_comma_list), AfterValidator(_fingerprints)
    ] = ()
    """Our own key: trust only the certificate, the master's own or one that signs it, that has this fingerprint
    (sha256:...), as `windlass master certificate` prints it. Several, with commas, while one replaces another."""
    client_cert: Annotated[str, NoEffect("agents prove themselves by their credential")] = ""
    """A certificate of the agent's own."""
    client_key: Annotated[str, NoEffect("agents prove themselves by their credential")] = ""
    """Its key."""


class SecurityOptions(BaseModel):
    """How the agent checks the master."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tls: TlsOptions = TlsOptions()
    """How the agent checks the master."""


class LogOptions(BaseModel):
    """The agent's own log, on stderr."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: Literal["trace", "debug", "info", "warning", "error"] = "info"
    """The least important level that is written."""
    color: bool = True
    """Colours where stderr is a terminal; JSON lines elsewhere, always."""


class DefaultLimits(BaseModel):
    """Of each task whose `resources.limits` does not say otherwise. None: no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpus: float | None = Field(default=None, gt=0)
    """Processors, in parts too: 1.5."""
    memory: Size | None = None
    """Bytes, or a size such as "64GiB". A task that needs more is killed."""
    pids: int | None = Field(default=None, gt=0)
    """Processes and threads."""


ChannelName = Literal["direct", "relay", "ssh", "srun", "files"]
_OF_JOBS = ("relay", "srun", "files")


def _each_once(names: tuple[ChannelName, ...]) -> tuple[ChannelName, ...]:
    return tuple(dict.fromkeys(names))


def default_work_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/windlass/agent")
    return platformdirs.user_state_path("windlass") / "agent"


def _gpu_alias(value: object) -> object:
    return "cuda" if value == "gpu" else value


def _labels(words: tuple[str, ...]) -> tuple[str, ...]:
    """What is said twice counts once."""
    for word in words:
        if re.fullmatch(LABEL_PATTERN, word) is None:
            raise ValueError(
                f'"{word}" is not a label: write a word or key=value, at most 128 letters, digits and . _ : / = @ + -'
            )
    return tuple(dict.fromkeys(words))


def _long_enough(value: timedelta) -> timedelta:
    if value < SHORTEST_ORPHAN_TTL:
        raise ValueError("must be 1m or more: the agent speaks to its master every few seconds")
    return value


class AgentOptions(BaseModel):
    """One agent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    master_url: str = ""
    """http(s)://host:port of the master. Or `master_host` and `master_port`."""
    master_host: str = ""
    """The master's host, instead of `master_url`."""
    master_port: int | None = Field(default=None, ge=1, le=65535)
    """The master's port. None: 443 with TLS, else 80."""
    channels: Annotated[
        tuple[ChannelName, ...], BeforeValidator(_comma_list), AfterValidator(_each_once)
    ] = Field(default=("direct",), min_length=1)
    """Ways to the master, tried in this order: direct (the network), relay (one of the master's on the login node), ssh
    (from this node to the login node), srun (Slurm's own pipe into the job, by the relay), files (in the directory of
    the job, read by the relay: slow). All but direct need a master with TLS."""
    ssh_login: Annotated[
        str, Field(pattern=r"^([A-Za-z0-9_.-]+@)?[A-Za-z0-9_.-]+(:\d{1,5})?$|^$")
    ] = ""
    """user@host:port of the login node, for the way `ssh`. Empty: where the batch job of this node was submitted."""
    job_folder: Path | None = None
    """In a batch job of the master: the folder of this node in the directory of the job."""
    agent_id: str = Field(default_factory=socket.gethostname, pattern=r"^[A-Za-z0-9._-]{1,200}$")
    """Unique in the cluster. Without one: the host name."""
    resource_pool: Id = "default"
    """The pool to join."""
    label: Annotated[tuple[str, ...], BeforeValidator(_comma_list), AfterValidator(_labels)] = (
        Field(default=(), max_length=MAX_LABELS)
    )
    """Words, or key=value, that screens show of this agent: a list, or a text with commas."""
    join_token: SecretStr | None = None
    """What the agent joins with."""
    join_token_file: Path | None = None
    """A file with the join token; only its owner may read it."""
    work_dir: Path = Field(default_factory=default_work_dir)
    """Where containers live. One agent at a time; kept over restarts, so that running tasks are found again."""
    scratch_dir: Annotated[tuple[str, ...], BeforeValidator(_comma_list)] = ()
    """Where the /tmp of tasks is made, on a disk of this node: paths, also with variables ($SLURM_TMPDIR), of which
    the first counts that can be written. Empty: in work_dir."""
    slot_type: Annotated[
        Literal["auto", "cuda", "rocm", "cpu", "none"], BeforeValidator(_gpu_alias)
    ] = "auto"
    """What the slots are. auto: NVIDIA GPUs, else AMD GPUs, else all CPUs as one slot."""
    artificial_slots: int = Field(default=0, ge=0, le=MAX_SLOTS)
    """Offer so many pretended slots, for tests and demos."""
    visible_gpus: str = ""
    """Offer only these GPUs: a comma list of index, UUID, PCI address or serial, `0:2` for a MIG slice, or `all`. Slots
    keep the numbers of their GPUs. Empty: ROCR_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES, else in a batch job what it
    was given, else all."""
    isolation: Literal["auto", "bubblewrap", "namespace", "directory"] = "auto"
    """How tasks are contained: by bubblewrap, by namespaces of our own, or not at all (directory). auto: the first that
    works here."""
    orphan_ttl: Annotated[Duration, AfterValidator(_long_enough)] | None = None
    """End tasks after this long without contact to the master, of this agent or the next one: 2h. None: never."""
    alone_ttl: Annotated[Duration, AfterValidator(_long_enough)] | None = None
    """End the agent itself after this long without contact to the master and without tasks: 10m. None: never. In a
    batch job, whose nodes should not be held for nothing."""
    alone_ends_machine: bool = False
    """Shut the machine down then, which needs root: for machines that are paid by the hour. The time counts from the
    last contact that any agent on this work_dir had."""
    default_limits: DefaultLimits = DefaultLimits()
    """What each task may use at most, where its own `resources.limits` does not say."""
    task_log_gib: float | None = Field(default=1.0, ge=LEAST_TASK_LOG_GIB)
    """How much of the disk the output of one task takes at most. What the master has is freed; if the rest reaches
    this, its middle is dropped, and the log says so. None: no bound."""
    python: Annotated[str, AfterValidator(python_name)] = ""
    """The Python of tasks that choose none: an interpreter, or a virtualenv. Empty: the agent's own."""
    prologue: tuple[str, ...] = ()
    """Lines of shell before every task, such as `module load cuda`."""
    allowed_host_paths: Annotated[tuple[str, ...] | None, BeforeValidator(_comma_list)] = None
    """The only paths, with what is below them, that tasks here may mount. None: those that the master allows."""
    allowed_capabilities: Annotated[tuple[str, ...] | None, BeforeValidator(_comma_list)] = None
    """The only Linux capabilities that containers here may be given. None: those that the master allows."""
    allowed_devices: Annotated[tuple[str, ...] | None, BeforeValidator(_comma_list)] = None
    """The only device files, with what is below them, that containers here may be given. None: as the master allows."""
    container_runtime: str = "auto"
    """How tasks run: docker or podman (all in containers), process (none), or auto: in a container of the engine that
    works here if they name an image, as processes if not."""
    container_socket: str = ""
    """The engine's socket. Empty: DOCKER_HOST or CONTAINER_HOST, else where it usually is."""
    image_cache_gib: float | None = Field(default=100.0, ge=0)
    """How much of the disk images take that were pulled for tasks; those not used for longest are removed beyond that.
    None: no bound."""
    image_root: Path | None = None
    """A folder with images for Apptainer, Singularity and Enroot. The name of an image is looked for in it, also with
    .sif (Enroot: with `+` in the place of `/` and `:`, also with .sqsh), before a registry is asked."""
    image_cache_dir: Path | None = None
    """Where Apptainer, Singularity and Enroot keep images of registries. Empty: `images` in work_dir. Nodes may share
    it: then each image is made once for all of them."""
    instance_id: Id | None = None
    """The machine's name at its provider."""
    metadata_service: Annotated[str, Field(pattern=r"^(http://.+)?$")] = ""
    """On a machine of a cloud, http://169.254.169.254: the agent asks there whether the machine goes (spot
    interruptions, maintenance), and tells the master. Empty: nobody is asked."""
    cloud: Cloud = Cloud.AWS
    """Whose `metadata_service` that is."""
    task_metadata: TaskMetadata = TaskMetadata.DIRECT
    """What tasks have of `metadata_service`: direct (all of it), storage (the agent keeps them from it, and hands them
    credentials for their storage), none. The pool says it for machines that the master buys."""
    ends_at: Moment | None = None
    """When this machine ends (walltime, capacity block), e.g. 2026-01-31T18:00:00+01:00: work is placed accordingly."""
    address: Name = ""
    """Where other nodes reach this one. Empty: as the master sees it; agents that it sees at one address, behind the
    same NAT, are told each other's own."""
    network_interface: Annotated[str, Field(pattern=r"^[A-Za-z0-9._@*?-]{0,64}$")] = ""
    """By which network other nodes reach this one, instead of `address`: `ib0`, or a pattern, `eth*`. Its IPv4
    address counts."""
    container_master_host: str = ""
    """The master's host as tasks reach it. Empty: as the agent does."""
    container_master_port: int | None = Field(default=None, ge=1, le=65535)
    """The master's port as tasks reach it. None: as the agent does."""
    http_proxy: str = ""
    """Given to tasks."""
    https_proxy: str = ""
    """Given to tasks."""
    ftp_proxy: str = ""
    """Given to tasks."""
    no_proxy: str = ""
    """Given to tasks."""
    security: SecurityOptions = SecurityOptions()
    """How the agent checks the master."""
    log: LogOptions = LogOptions()
    """The agent's own log, on stderr."""

    @field_validator("allowed_host_paths", "allowed_devices")
    @classmethod
    def _are_absolute(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for path in value or ():
            if not path.startswith("/"):
                raise ValueError(f'"{path}" is not an absolute path')
        return value

    @field_validator("master_url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        if not value:
            return value
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f'"{value}" is not a URL of a master: write http://host:port')
        return value.rstrip("/")

    @model_validator(mode="after")
    def _has_master(self) -> AgentOptions:
        if not self.master_url and not self.master_host:
            raise ValueError("where is the master? give --master http://host:port or master_host")
        if self.address and self.network_interface:
            raise ValueError("give either address or network_interface")
        tls = self.security.tls
        if tls.skip_verify and (tls.master_cert or tls.cert_fingerprint):
            other = "master_cert" if tls.master_cert else "cert_fingerprint"
            raise ValueError(f"security.tls: skip_verify and {other} exclude each other")
        if tls.master_cert and tls.cert_fingerprint:
            raise ValueError("security.tls: give either master_cert or cert_fingerprint")
        self._require_usable_channels()
        if self.metadata_service and self.task_metadata is not TaskMetadata.DIRECT:
            try:
                IPv4Address(urlsplit(self.metadata_service).hostname or "")
            except ValueError:
                raise ValueError(
                    f'metadata_service is "{self.metadata_service}", and tasks can be kept from an IPv4 address only: '
                    "write http://169.254.169.254"
                ) from None
        if self.master_url.startswith("http:") and (tls.enabled or tls.cert_fingerprint):
            raise ValueError(
                f'master_url is "{self.master_url}", and security.tls asks for TLS: write https://'
            )
        return self

    def _require_usable_channels(self) -> None:
        indirect = [name for name in self.channels if name != "direct"]
        if indirect and not self.url.startswith("https:"):
            raise ValueError(
                f"channels: {indirect[0]} needs a master with TLS, for others share the way: write https://"
            )
        for name in indirect:
            if name in _OF_JOBS and self.job_folder is None:
                raise ValueError(
                    f"channels: {name} is for agents of batch jobs, which have a job_folder"
                )

    @property
    def url(self) -> str:
        """http(s)://host:port of the master, as this agent reaches it."""
        if self.master_url:
            return self.master_url
        tls = self.security.tls.enabled or bool(self.security.tls.cert_fingerprint)
        port = self.master_port or (443 if tls else 80)
        return f"{'https' if tls else 'http'}://{self.master_host}:{port}"

    @property
    def proxies(self) -> dict[str, str]:
        """That tasks are given, by variable."""
        given = {
            "HTTP_PROXY": self.http_proxy,
            "HTTPS_PROXY": self.https_proxy,
            "FTP_PROXY": self.ftp_proxy,
            "NO_PROXY": self.no_proxy,
        }
        return {name: value for name, value in given.items() if value}

    @property
    def host_paths(self) -> HostPaths:
        """What tasks may mount, and never: the agent's own folder and token."""
        own = (self.work_dir, self.join_token_file)
        forbidden = tuple(str(path.absolute()) for path in own if path is not None)
        return HostPaths(file="agent.yaml", allowed=self.allowed_host_paths, forbidden=forbidden)

    @property
    def privileges(self) -> Privileges:
        """Which capabilities and devices tasks may have by this agent's own rules."""
        return Privileges(
            file="agent.yaml", capabilities=self.allowed_capabilities, devices=self.allowed_devices
        )

    @property
    def container_url(self) -> str:
        """The same, as tasks reach it."""
        parts = urlsplit(self.url)
        host = self.container_master_host or parts.hostname or ""
        default = parts.port or (443 if parts.scheme == "https" else 80)
        shown = f"[{host}]" if ":" in host else host
        return f"{parts.scheme}://{shown}:{self.container_master_port or default}"

    def token(self) -> str:
        """The join token; empty when there is none. Raises InvalidConfig, which never shows what was read."""
        if self.join_token is not None:
            return one_token(self.join_token.get_secret_value(), "join_token")
        if self.join_token_file is None:
            return ""
        refuse_world_readable(self.join_token_file, "join_token_file")
        what = f"join_token_file {self.join_token_file}"
        try:
            read = self.join_token_file.read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise InvalidConfig([f"{what}: {error.strerror}"], what="agent options") from None
        return one_token(read, what)


def one_token(text: str, what: str) -> str:
    """A token is one word. Anything else would be shown by whoever finds it unfit for a header."""
    token = text.strip()
    lines = len(token.splitlines())
    if lines > 1:
        raise InvalidConfig(
            [f"{what} has {lines} lines: it must hold one join token and nothing else"],
            what="agent options",
        )
    if token and re.fullmatch(r"[!-~]+", token) is None:
        raise InvalidConfig(
            [f"{what} does not hold a join token: a token has no spaces and only ASCII characters"],
            what="agent options",
        )
    return token


def refuse_world_readable(path: Path, what: str) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise InvalidConfig([f"{what} {path}: {error.strerror}"], what="agent options") from error
    if mode & stat.S_IROTH:
        raise InvalidConfig(
            [f"{what} {path} holds a secret and is readable by everyone: chmod 600 {path}"],
            what="agent options",
        )


def parse_options(values: Mapping[str, Any]) -> AgentOptions:
    """Check a mapping of agent.yaml keys. Raises InvalidConfig with one line per problem."""
    kept = {key: value for key, value in values.items() if key not in IGNORED_KEYS}
    try:
        return AgentOptions.model_validate(kept)
    except ValidationError as error:
        problems = [problem(item) for item in error.errors()]
        raise InvalidConfig(problems, what="agent options") from None


def problem(item: Any) -> str:
    """One error of pydantic in our words, without the value: it may be a secret."""
    path: Sequence[str | int] = item["loc"]
    name = ".".join(str(part) for part in path)
    if item["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(path[-1]), _known_keys(path[:-1]), n=1, cutoff=0.5)
        return f"{name}: unknown key" + (f', did you mean "{near[0]}"?' if near else "")
    message = str(item["msg"]).removeprefix("Value error, ")
    return f"{name}: {message}" if name else message


def _known_keys(path: Sequence[str | int]) -> list[str]:
    model: type[BaseModel] = AgentOptions
    for part in path:
        inner = model.model_fields[str(part)].annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
    return list(model.model_fields)
