"""master.yaml as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from master.config.partitions import (
    Partition,
    default_partition,
    pool_sections,
    unknown_names,
)
from master.config.prices import Prices
from master.config.resource_managers import (
    AgentResourceManager,
    BatchResourceManager,
    ResourceManagerSection,
)
from master.config.sections import (
    Cache,
    Connections,
    DatabaseSection,
    Internal,
    Logging,
    LogSection,
    MasterIntegrations,
    MasterRetentionPolicy,
    MasterSecurity,
    MasterWebhooks,
    Observability,
    SignOn,
    TaskLogging,
    Telemetry,
    UiCustomization,
    WebUi,
)
from master.core.expconf.container_defaults import merge_container_defaults
from master.core.expconf.models.durations import NonNegativeDuration
from master.core.expconf.models.schema import FreeMap, Items, NonNegative, Port, Section
from master.core.expconf.models.storage import CheckpointStorage
from master.core.scheduler.types import SchedulerSettings
from provisioner.money.budgets import ClusterBudget
from provisioner.sections.pools import PoolSection, ResolvedPool
from windlass.base.errors import InvalidConfig
from windlass.base.network import is_loopback
from windlass.base.no_effect import NoEffect

DEFAULT_POOL = "default"
DEFAULT_PORT = 8080
TLS_PORT = 8443
"""The default with TLS."""
DEFAULT_TENSORBOARD_TIMEOUT_S = 300


def _none_yet(value: tuple[Any, ...]) -> tuple[Any, ...]:
    if value:
        raise ValueError("several resource managers are not supported yet")
    return value


def _all_absolute(paths: tuple[str, ...]) -> tuple[str, ...]:
    for path in paths:
        if not path.startswith("/"):
            raise ValueError(f'"{path}" is not an absolute path')
    return paths


class MasterConfig(Section):
    """master.yaml, complete and frozen. `pools()` has every pool with its effective settings."""

    config_file: Annotated[
        str | None, NoEffect("name the file with --config-file or DET_CONFIG_FILE")
    ] = Field(default=None, exclude=True)
    """This file."""
    host: str = "127.0.0.1"
    """Our own key: the address to listen on. The default is reachable from this machine only."""
    port: Port = DEFAULT_PORT
    """The port to listen on. With TLS the default is 8443."""
    shutdown_grace: NonNegativeDuration = timedelta(seconds=10)
    """Our own key: how long requests under way may take when the master stops; long polls end at once."""
    connections: Connections = Connections()
    """Our own section: limits on connections that have not authenticated yet."""
    cluster_name: str = ""
    """Shown to users."""
    log: LogSection = LogSection()
    """The master's own log."""
    db: DatabaseSection = DatabaseSection()
    """Where the state is kept."""
    root: Annotated[str | None, NoEffect("pages come with the package")] = Field(
        default=None, exclude=True
    )
    """A directory of pages."""
    cache: Annotated[Cache, NoEffect("the master caches nothing on disk")] = Cache()
    """Files that can be made again."""
    tensorboard_timeout: NonNegative = DEFAULT_TENSORBOARD_TIMEOUT_S
    """Seconds without use until a TensorBoard is stopped. 0: never."""
    notebook_timeout: NonNegative | None = None
    """Seconds without use until a notebook is stopped. None or 0: never."""
    launch_error: bool = True
    """Refuse, not only warn about, requests larger than their pool."""
    max_lost_runs: Annotated[int, Field(ge=0)] = 10
    """Our own key: how often others may end a run of a trial (its machine is lost, its slots are taken back) without a
    new checkpoint, or a run may be lost before it starts, until the trial fails."""
    enable_cors: Annotated[
        bool,
        NoEffect("let a proxy before the master add the headers that pages of other sites need"),
    ] = False
    """Whether pages of other sites may call the API."""
    feature_switches: Annotated[
        Items[str], NoEffect("there is nothing to switch on yet; clients are told them")
    ] = ()
    """Reported to clients as they are."""
    reserved_ports: Items[Port] = ()
    """Never handed to tasks."""
    integrations: Annotated[
        MasterIntegrations, NoEffect("the master talks to no Pachyderm; tasks may")
    ] = MasterIntegrations()
    """Other systems of the site."""
    observability: Observability = Observability()
    """What monitoring reads."""
    webhooks: MasterWebhooks = MasterWebhooks()
    """Calls to other systems when experiments change."""
    webui: WebUi = WebUi()
    """Our own section: the pages."""
    telemetry: Annotated[Telemetry, NoEffect("nothing is ever reported to anybody")] = Telemetry()
    """Reports about use, and traces."""
    retention_policy: MasterRetentionPolicy = MasterRetentionPolicy()
    """How long task logs are kept."""
    ui_customization: Annotated[UiCustomization | None, NoEffect("there are no pages yet")] = None
    """How the pages look."""
    checkpoint_storage: CheckpointStorage | None = None
    """Where checkpoints go. None: a directory below the master's data directory."""
    allowed_host_paths: Annotated[Items[str], AfterValidator(_all_absolute)] | None = None
    """Our own key: the only host paths, with what is below them, that `bind_mounts` and `checkpoint_storage` may name,
    besides those of this file. None: any for tasks that are not root, none for others. Paths in /dev, /run and /sys
    must be named in any case."""
    allowed_capabilities: Items[str] = ()
    """Our own key: Linux capabilities that `add_capabilities` of users may name, besides those of this file."""
    allowed_devices: Annotated[Items[str], AfterValidator(_all_absolute)] = ()
    """Our own key: device files that `resources.devices` of users may name, with what is below them, besides those of
    this file."""
    task_container_defaults: FreeMap = Field(default_factory=dict, repr=False)
    """Lies under the configuration of every task."""
    # Raw: defaults are filled in after a pool's section was laid over it.
    resource_manager: ResourceManagerSection = AgentResourceManager()
    """What all pools share."""
    resource_pools: Items[PoolSection] = (PoolSection(pool_name=DEFAULT_POOL),)
    """Where work waits and runs."""
    budget: ClusterBudget = ClusterBudget()
    """Our own section: how much may be spent."""
    prices: Prices = Prices()
    """Our own section: what machines cost."""
    additional_resource_managers: Annotated[Items[FreeMap], AfterValidator(_none_yet)] = ()
    """Must stay empty."""
    logging: TaskLogging = Logging()
    """Where task logs go."""
    security: MasterSecurity = MasterSecurity()
    """Users, passwords and rights."""
    scim: SignOn | None = Field(default=None, repr=False)
    """Refused when enabled."""
    saml: SignOn | None = Field(default=None, repr=False)
    """Refused when enabled."""
    oidc: SignOn | None = Field(default=None, repr=False)
    """Refused when enabled."""
    det_cloud: SignOn | None = Field(default=None, repr=False)
    """Refused when enabled."""
    internal: Internal = Field(default=Internal(), alias="__internal")
    """Keys of Determined's hosted service."""

    _warnings: tuple[str, ...] = PrivateAttr(default=())
    _partitions: tuple[Partition, ...] = PrivateAttr(default=())

    @model_validator(mode="before")
    @classmethod
    def _port_of_tls(cls, document: Any) -> Any:
        if not isinstance(document, dict) or "port" in document:
            return document
        security = document.get("security")
        tls = security.get("tls") if isinstance(security, dict) else None
        is_on = isinstance(tls, dict) and (tls.get("cert") or tls.get("self_signed"))
        return {**document, "port": TLS_PORT} if is_on else document

    @model_validator(mode="before")
    @classmethod
    def _no_pool_beside_partitions(cls, document: Any) -> Any:
        manager = document.get("resource_manager") if isinstance(document, dict) else None
        if not isinstance(manager, dict) or manager.get("type") not in ("slurm", "pbs"):
            return document
        return {"resource_pools": [], **document}

    @model_validator(mode="after")
    def _partitions_have_a_manager(self) -> MasterConfig:
        for section in self.resource_pools:
            if section.hpc is not None and isinstance(self.resource_manager, AgentResourceManager):
                raise ValueError(
                    f"resource_pools: the provider of pool {section.pool_name} is of type hpc, a partition of the "
                    "resource_manager, which must be of type slurm or pbs then: set that, or type: slurm here"
                )
        return self

    @model_validator(mode="after")
    def _empty_passwords_stay_here(self) -> MasterConfig:
        if self.security.allow_empty_password and not is_loopback(self.host):
            raise ValueError(
                f'security.allow_empty_password needs a loopback host; host is "{self.host}": '
                "remove the key and give the users passwords, or set host: 127.0.0.1"
            )
        return self

    @property
    def warnings(self) -> tuple[str, ...]:
        """Settings that are deprecated, that surprise or that have no effect, one line each."""
        return self._warnings

    def with_warnings(self, warnings: Iterable[str]) -> MasterConfig:
        changed = self.model_copy()
        changed._warnings = tuple(warnings)
        return changed

    def db_url(self, data_dir: Path) -> str:
        """The SQLAlchemy async URL. It may contain the password: not for logs."""
        return self.db.sqlalchemy_url(data_dir)

    def with_partitions(self, partitions: Sequence[Partition]) -> MasterConfig:
        """With the pools of a resource manager of type slurm or pbs. Raises InvalidConfig for names of no pool."""
        manager = self.resource_manager
        if not isinstance(manager, BatchResourceManager):
            return self
        changed = self.with_warnings((*self._warnings, *unknown_names(manager, partitions)))
        changed._partitions = tuple(partitions)
        if problems := list(changed._names_of_no_pool()):
            raise InvalidConfig(problems, what="master configuration")
        return changed

    def _names_of_no_pool(self) -> Iterator[str]:
        sections = self.pool_sections()
        known = [section.pool_name for section in sections]
        where = "<master.yaml>.resource_manager"
        named: dict[str, Sequence[str | None]] = {
            f"{where}.default_aux_resource_pool": [self.default_aux_pool],
            f"{where}.default_compute_resource_pool": [self.default_compute_pool],
        }
        named |= {
            f"<master.yaml>.resource_pools: fall_back_to of {one.pool_name}": one.fall_back_to
            for one in sections
        }
        for place, names in named.items():
            for name in names:
                if name is not None and name not in known:
                    yield f'{place}: "{name}" is not a resource pool (there are {", ".join(known)})'

    def pool_sections(self) -> tuple[PoolSection, ...]:
        """As written, those of type hpc with what the resource manager says; one for each partition before them."""
        if isinstance(self.resource_manager, AgentResourceManager):
            return self.resource_pools
        tls = self.security.tls
        return pool_sections(
            self.resource_manager,
            self.resource_pools,
            self._partitions,
            scheme="https" if tls.cert or tls.self_signed else "http",
            port=self.port,
        )

    def pools(self) -> tuple[ResolvedPool, ...]:
        """Every pool: those of partitions, then in the order of the file."""
        manager = self.resource_manager
        scheduler = (
            manager.scheduler if isinstance(manager, AgentResourceManager) else SchedulerSettings()
        )
        return tuple(
            ResolvedPool(
                section=section,
                scheduler=section.scheduler or scheduler,
                task_container_defaults=merge_container_defaults(
                    section.task_container_defaults or {}, self.task_container_defaults
                ),
            )
            for written in self.pool_sections()
            for section in written.sides()
        )

    @property
    def default_compute_pool(self) -> str | None:
        """Where tasks with slots go if nobody named a pool. None: whoever submits names one."""
        return self._default_pool(self.resource_manager.default_compute_resource_pool, aux=False)

    @property
    def default_aux_pool(self) -> str | None:
        """Where tasks without slots go if nobody named a pool. None: whoever submits names one."""
        return self._default_pool(self.resource_manager.default_aux_resource_pool, aux=True)

    def _default_pool(self, configured: str | None, *, aux: bool) -> str | None:
        manager = self.resource_manager
        if isinstance(manager, BatchResourceManager):
            return configured or default_partition(self._partitions, aux=aux)
        if manager.no_default_resource_pools:
            return None
        names = [section.pool_name for section in self.resource_pools]
        if configured is not None:
            return configured
        if len(names) == 1:
            return names[0]
        return DEFAULT_POOL if DEFAULT_POOL in names else None
