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
    """What a cluster in a cloud is to be. The descriptions are the help of the options."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    placeholders: ClassVar[dict[str, object]] = {"cluster_id": "x"}
    """What stands for a required option that was wrong while the others are looked at."""

    cluster_id: str
    master_instance_type: str
    aux_agent_instance_type: str
    compute_agent_instance_type: str
    inbound_cidr: Annotated[
        Cidr,
        Field(
            description="Let these addresses reach the master. SSH is open to them too, unless it is everybody."
        ),
    ] = EVERYBODY
    port: Annotated[
        Port | None,
        Field(description=f"Port of the master. Default: {TLS_PORT}, without TLS {PLAIN_PORT}."),
    ] = None
    tls: Annotated[
        bool,
        Field(
            description="Let the master speak HTTPS, with a certificate that it signs itself unless one is given."
        ),
    ] = True
    database: Annotated[
        str,
        one_of("kind of database", DATABASES),
        Field(
            description="managed: the cloud's PostgreSQL. local: PostgreSQL on the master's machine."
        ),
    ] = "managed"
    db_password: Annotated[
        str,
        Field(
            description="Password of the managed database. Default: a random one, which only the master reads.",
            repr=False,
        ),
    ] = ""
    initial_user_password: Annotated[
        str,
        Field(
            description="Password of admin and determined at the first start. Default: asked for, else random.",
            repr=False,
        ),
    ] = ""
    max_idle_agent_period: Annotated[
        Period, Field(description="End machines that have had no work for so long.")
    ] = timedelta(minutes=5)
    max_agent_starting_period: Annotated[
        Period, Field(description="End machines whose agent has not connected after so long.")
    ] = timedelta(minutes=20)
    min_dynamic_agents: Annotated[
        Count, Field(description="Keep so many machines of each pool without work.")
    ] = 0
    max_dynamic_agents: Annotated[
        int, Field(ge=1, le=FEW_ENOUGH, description="Let each pool have so many machines at most.")
    ] = 5
    max_aux_containers_per_agent: Annotated[
        Count,
        Cli(names=("--max-cpu-containers-per-agent",)),
        Field(description="Let each machine of aux-pool run so many tasks without slots."),
    ] = 16
    scheduler_type: Annotated[
        str, one_of("scheduler", SCHEDULERS), Field(description="Scheduler of the pools.")
    ] = "fair_share"
    preemption_enabled: Annotated[
        bool, Cli(text=True), Field(description="true: the priority scheduler preempts.")
    ] = False
    cpu_env_image: Annotated[
        str, Field(description="Image of tasks on CPUs. Goes with --gpu-env-image.")
    ] = ""
    gpu_env_image: Annotated[
        str, Field(description="Image of tasks on GPUs. Goes with --cpu-env-image.")
    ] = ""
    master_config_template_path: Annotated[
        Path | None,
        Field(
            description="Use this template of master.yaml. dump-master-config-template prints ours."
        ),
    ] = None
    local_state_path: Annotated[
        Path | None,
        Field(
            description="Keep Terraform's files and state here. Default: below ~/.local/share/windlass."
        ),
    ] = None
    package: Annotated[
        str,
        Field(
            description="What the master's machine installs: a requirement of pip, or the URL of a wheel."
        ),
    ] = ""
    yes: Annotated[
        bool, Cli(names=("--no-prompt",), plain=True), Field(description="Do not ask.")
    ] = False
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
