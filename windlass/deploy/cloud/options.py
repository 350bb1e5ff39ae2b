"""Options that `det deploy aws up` and `det deploy gcp up` have in common. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from windlass.base.no_effect import NoEffect
from windlass.deploy.cloud.field_types import EVERYBODY, Cidr, Count, Period, Port, one_of

TLS_PORT = 8443
PLAIN_PORT = 8080
FEW_ENOUGH = 10_000
DATABASES = ("managed", "local")
SCHEDULERS = ("fair_share", "priority", "round_robin")


@dataclass(frozen=True, slots=True)
class Cli:
    """How an option is written, where its name does not say it."""

    names: tuple[str, ...] = ()
    """Further names."""
    metavar: str = ""
    hidden: bool = False
    plain: bool = False
    """A switch without its opposite."""
    text: bool = False
    """No switch: true or false follows."""


class CommonOptions(BaseModel):
    """What a cluster in a cloud is to be. What is said of each is the help of its option."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )
    placeholders: ClassVar[dict[str, object]] = {"cluster_id": "x"}
    """What stands for a required option that was wrong while the others are looked at."""

    cluster_id: str
    master_instance_type: str
    aux_agent_instance_type: str
    compute_agent_instance_type: str
    inbound_cidr: Cidr = EVERYBODY
    """Let these addresses reach the master. SSH is open to them too, unless it is everybody."""
    port: Annotated[
        Port | None,
        Field(description=f"Port of the master. Default: {TLS_PORT}, without TLS {PLAIN_PORT}."),
    ] = None
    tls: bool = True
    """Let the master speak HTTPS, with a certificate that it signs itself unless one is given."""
    database: Annotated[str, one_of("kind of database", DATABASES)] = "managed"
    """managed: the cloud's PostgreSQL. local: PostgreSQL on the master's machine."""
    db_password: Annotated[str, Field(repr=False)] = ""
    """Password of the managed database. Default: a random one, which only the master reads."""
    initial_user_password: Annotated[str, Field(repr=False)] = ""
    """Password of admin and determined at the first start. Default: asked for, else random."""
    max_idle_agent_period: Period = timedelta(minutes=5)
    """End machines that have had no work for so long."""
    max_agent_starting_period: Period = timedelta(minutes=20)
    """End machines whose agent has not connected after so long."""
    min_dynamic_agents: Count = 0
    """Keep so many machines of each pool without work."""
    max_dynamic_agents: Annotated[int, Field(ge=1, le=FEW_ENOUGH)] = 5
    """Let each pool have so many machines at most."""
    max_aux_containers_per_agent: Annotated[
        Count, Cli(names=("--max-cpu-containers-per-agent",))
    ] = 16
    """Let each machine of aux-pool run so many tasks without slots."""
    scheduler_type: Annotated[str, one_of("scheduler", SCHEDULERS)] = "fair_share"
    """Scheduler of the pools."""
    preemption_enabled: Annotated[bool, Cli(text=True)] = False
    """true: the priority scheduler preempts."""
    cpu_env_image: str = ""
    """Image of tasks on CPUs. Goes with --gpu-env-image."""
    gpu_env_image: str = ""
    """Image of tasks on GPUs. Goes with --cpu-env-image."""
    master_config_template_path: Path | None = None
    """Use this template of master.yaml. dump-master-config-template prints ours."""
    local_state_path: Path | None = None
    """Keep Terraform's files and state here. Default: below ~/.local/share/windlass."""
    package: str = ""
    """What the master's machine installs: a requirement of pip, or the URL of a wheel."""
    yes: Annotated[bool, Cli(names=("--no-prompt",), plain=True)] = False
    """Do not ask."""
    det_version: Annotated[str | None, Cli(hidden=True)] = None
    enterprise_edition: Annotated[
        bool, Cli(hidden=True, plain=True), NoEffect("there is one edition")
    ] = False

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Options that do not go together: the one to change, and why."""
        if self.min_dynamic_agents > self.max_dynamic_agents:
            yield (
                "min_dynamic_agents",
                f"{self.min_dynamic_agents} is more than --max-dynamic-agents {self.max_dynamic_agents}",
            )
        if bool(self.cpu_env_image) != bool(self.gpu_env_image):
            given, missing = ("cpu", "gpu") if self.cpu_env_image else ("gpu", "cpu")
            yield (
                f"{missing}_env_image",
                f"is missing: --{given}-env-image needs it; give both, or neither",
            )
        if self.preemption_enabled and self.scheduler_type != "priority":
            yield (
                "preemption_enabled",
                f"--scheduler-type {self.scheduler_type} preempts by itself; or give --scheduler-type priority",
            )
        if self.db_password and self.database == "local":
            yield (
                "db_password",
                "--database local has no password: only the master's user reaches it",
            )
        if self.db_password and not 8 <= len(self.db_password) <= 128:
            yield "db_password", "must have 8 to 128 characters"
        if self.master_config_template_path and not self.master_config_template_path.is_file():
            yield "master_config_template_path", f"{self.master_config_template_path}: no such file"

    @property
    def master_port(self) -> int:
        return self.port or (TLS_PORT if self.tls else PLAIN_PORT)

    @property
    def scheme(self) -> Literal["http", "https"]:
        return "https" if self.tls else "http"

    @property
    def ssh_cidr(self) -> str:
        """Who may log in by SSH; empty: nobody. What is open to everybody is open for the master only."""
        return "" if self.inbound_cidr == EVERYBODY else self.inbound_cidr

    @property
    def only_shows(self) -> bool:
        """Whether `up` shows what it would make, and makes nothing."""
        return False
