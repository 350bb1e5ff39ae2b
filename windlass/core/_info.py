"""Who this process is: cluster, task, allocation, trial.

The launcher writes it down as the JSON files that the published package reads too, so that user code may import either.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.base.errors import InvalidArgument
from windlass.sdk.wire import canonical_url

DEFAULT_RUN_DIR = "/run/determined"
_REQUIRED = (
    "DET_MASTER",
    "DET_CLUSTER_ID",
    "DET_AGENT_ID",
    "DET_SLOT_IDS",
    "DET_TASK_ID",
    "DET_ALLOCATION_ID",
    "DET_SESSION_TOKEN",
    "DET_TASK_TYPE",
)


def run_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The task's private directory: DET_RUN_DIR, else where containers have it."""
    return Path((os.environ if environ is None else environ).get("DET_RUN_DIR", DEFAULT_RUN_DIR))


@dataclass(frozen=True, slots=True)
class RendezvousInfo:
    """The containers of this allocation, ordered by rank."""

    container_addrs: list[str]
    container_rank: int
    container_slot_counts: list[int]

    def to_json(self) -> dict[str, Any]:
        return {
            "container_addrs": self.container_addrs,
            "container_rank": self.container_rank,
            "container_slot_counts": self.container_slot_counts,
        }


@dataclass(frozen=True, slots=True)
class ResourcesInfo:
    gpu_uuids: list[str]

    def to_json(self) -> dict[str, Any]:
        return {"gpu_uuids": self.gpu_uuids}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialInfo:
    """The trial that this task runs. `config` is the whole experiment configuration: not a stable interface."""

    trial_id: int
    experiment_id: int
    trial_seed: int
    hparams: dict[str, Any]
    config: dict[str, Any]
    steps_completed: int
    trial_run_id: int
    debug: bool = False
    inter_node_network_interface: str | None = None

    @property
    def _config(self) -> dict[str, Any]:
        """The name that training code written for the published package uses."""
        return self.config

    @property
    def _trial_run_id(self) -> int:
        return self.trial_run_id

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> TrialInfo:
        try:
            config = json.loads(environ["DET_EXPERIMENT_CONFIG"])
            return cls(
                trial_id=int(environ["DET_TRIAL_ID"]),
                experiment_id=int(environ["DET_EXPERIMENT_ID"]),
                trial_seed=int(environ["DET_TRIAL_SEED"]),
                hparams=json.loads(environ["DET_HPARAMS"]),
                config=config,
                steps_completed=int(environ["DET_STEPS_COMPLETED"]),
                trial_run_id=int(environ["DET_TRIAL_RUN_ID"]),
                debug=bool(config.get("debug", False)),
                inter_node_network_interface=environ.get("DET_INTER_NODE_NETWORK_INTERFACE"),
            )
        except KeyError as missing:
            raise InvalidArgument(f"{missing.args[0]} is not set: is this a trial?") from None
        except ValueError as problem:
            raise InvalidArgument(f"a DET_ variable of the trial is malformed: {problem}") from None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """This task and its place in the cluster. Off the cluster there is none: `get_cluster_info()` returns None."""

    master_url: str
    cluster_id: str
    agent_id: str
    slot_ids: list[int]
    task_id: str
    allocation_id: str
    session_token: str
    task_type: str
    """TRIAL, COMMAND, NOTEBOOK, SHELL, TENSORBOARD, GENERIC or CHECKPOINT_GC."""
    master_cert_name: str | None = None
    master_cert_file: str | None = None
    last_checkpoint: str | None = None
    trial_info: TrialInfo | None = None
    rendezvous_info: RendezvousInfo | None = None
    resources_info: ResourcesInfo | None = None

    def __repr__(self) -> str:
        return f"ClusterInfo(allocation_id={self.allocation_id!r}, task_type={self.task_type!r})"

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> ClusterInfo:
        missing = [name for name in _REQUIRED if name not in environ]
        if missing:
            raise InvalidArgument(f"not inside a task: {', '.join(missing)} not set")
        return cls(
            master_url=canonical_url(environ["DET_MASTER"]),
            cluster_id=environ["DET_CLUSTER_ID"],
            agent_id=environ["DET_AGENT_ID"],
            slot_ids=json.loads(environ["DET_SLOT_IDS"]),
            task_id=environ["DET_TASK_ID"],
            allocation_id=environ["DET_ALLOCATION_ID"],
            session_token=environ["DET_SESSION_TOKEN"],
            task_type=environ["DET_TASK_TYPE"],
            master_cert_name=environ.get("DET_MASTER_CERT_NAME"),
            master_cert_file=environ.get("DET_MASTER_CERT_FILE"),
            last_checkpoint=environ.get("DET_LATEST_CHECKPOINT") or None,
            trial_info=TrialInfo.from_env(environ) if environ["DET_TASK_TYPE"] == "TRIAL" else None,
            rendezvous_info=_read_rendezvous(run_dir(environ) / "info"),
            resources_info=_read_resources(run_dir(environ) / "info"),
        )

    @classmethod
    def from_files(cls, directory: Path) -> ClusterInfo | None:
        cluster = _read_json(directory / "cluster.json")
        if cluster is None:
            return None
        trial = _read_json(directory / "trial.json")
        cluster["last_checkpoint"] = cluster.pop("latest_checkpoint", None)
        return cls(
            **cluster,
            trial_info=TrialInfo(**trial) if trial else None,
            rendezvous_info=_read_rendezvous(directory),
            resources_info=_read_resources(directory),
        )

    def to_json(self) -> dict[str, Any]:
        """The content of cluster.json. The published package passes it to its own constructor: no further keys."""
        names = (
            "master_url",
            "cluster_id",
            "agent_id",
            "slot_ids",
            "task_id",
            "allocation_id",
            "session_token",
            "task_type",
            "master_cert_name",
            "master_cert_file",
        )
        return {name: getattr(self, name) for name in names} | {
            "latest_checkpoint": self.last_checkpoint
        }

    @property
    def latest_checkpoint(self) -> str | None:
        """The checkpoint to go on from, if this is a trial and has one."""
        return self.last_checkpoint if self.task_type == "TRIAL" else None

    @property
    def user_data(self) -> dict[str, Any]:
        """The `data` field of the experiment configuration."""
        return (self.trial.config.get("data") or {}) if self.task_type == "TRIAL" else {}

    @property
    def trial(self) -> TrialInfo:
        if self.trial_info is None:
            raise RuntimeError(f"a {self.task_type} task has no trial")
        return self.trial_info

    @property
    def container_addrs(self) -> list[str]:
        return self.rendezvous_info.container_addrs if self.rendezvous_info else ["127.0.0.1"]

    @property
    def container_slot_counts(self) -> list[int]:
        if self.rendezvous_info is None:
            return [len(self.slot_ids)]
        return self.rendezvous_info.container_slot_counts

    @property
    def container_rank(self) -> int:
        return self.rendezvous_info.container_rank if self.rendezvous_info else 0

    @property
    def gpu_uuids(self) -> list[str]:
        return self.resources_info.gpu_uuids if self.resources_info else []


def get_cluster_info() -> ClusterInfo | None:
    """This task, from its environment or from the files that the launcher wrote; None off the cluster.

    The environment wins: files may be left over from another allocation in a reused directory.
    """
    if all(name in os.environ for name in _REQUIRED):
        return ClusterInfo.from_env(os.environ)
    return ClusterInfo.from_files(run_dir() / "info")


def write_info(directory: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write one file of the info directory, readable by its owner only: cluster.json holds the session token."""
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / name
    fresh = directory / f".{name}.{os.getpid()}"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)
    fresh.replace(target)


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return None


def _read_rendezvous(directory: Path) -> RendezvousInfo | None:
    content = _read_json(directory / "rendezvous.json")
    return RendezvousInfo(**content) if content else None


def _read_resources(directory: Path) -> ResourcesInfo | None:
    content = _read_json(directory / "resources.json")
    return ResourcesInfo(**content) if content else None
