"""master.yaml as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PrivateAttr

from master.config.pools import (
    DEFAULT_POOL,
    AgentResourceManager,
    PoolSection,
    ResolvedPool,
    ResourceManagerSection,
    resolve_pool,
)
from master.config.sections import (
    Cache,
    Database,
    Internal,
    Log,
    Logging,
    MasterIntegrations,
    MasterRetentionPolicy,
    MasterSecurity,
    MasterWebhooks,
    Observability,
    SignOn,
    TaskLogging,
    Telemetry,
    UiCustomization,
)
from master.core.expconf.container_defaults import merge_container_defaults
from master.core.expconf.schema import FreeMap, Items, NonNegative, Port, Section
from master.core.expconf.storage import CheckpointStorage

DEFAULT_PORT = 8080
DEFAULT_TENSORBOARD_TIMEOUT_S = 300


def _none_yet(value: tuple[Any, ...]) -> tuple[Any, ...]:
    if value:
        raise ValueError("several resource managers are not supported yet")
    return value


class MasterConfig(Section):
    """Complete and frozen. `pools()` has every pool with its effective settings."""

    config_file: str | None = Field(default=None, exclude=True)
    host: str = "127.0.0.1"
    """Our own key: the address to listen on. The default is reachable from this machine only."""
    port: Port = DEFAULT_PORT
    cluster_name: str = ""
    log: Log = Log()
    db: Database = Database()
    root: str | None = Field(default=None, exclude=True)
    """Accepted and ignored: pages come with the package."""
    cache: Cache = Cache()
    tensorboard_timeout: NonNegative = DEFAULT_TENSORBOARD_TIMEOUT_S
    """Seconds without use until it is stopped."""
    notebook_timeout: NonNegative | None = None
    launch_error: bool = True
    """Refuse, not only warn about, requests larger than their pool."""
    enable_cors: bool = False
    feature_switches: Items[str] = ()
    reserved_ports: Items[Port] = ()
    """Never handed to tasks."""
    integrations: MasterIntegrations = MasterIntegrations()
    observability: Observability = Observability()
    webhooks: MasterWebhooks = MasterWebhooks()
    telemetry: Telemetry = Telemetry()
    retention_policy: MasterRetentionPolicy = MasterRetentionPolicy()
    ui_customization: UiCustomization | None = None
    checkpoint_storage: CheckpointStorage | None = None
    """None: a directory below the master's data directory."""
    task_container_defaults: FreeMap = Field(default_factory=dict, repr=False)
    """Raw: defaults are filled in after a pool's section was laid over it."""
    resource_manager: ResourceManagerSection = AgentResourceManager()
    resource_pools: Items[PoolSection] = (PoolSection(pool_name=DEFAULT_POOL),)
    additional_resource_managers: Annotated[Items[FreeMap], AfterValidator(_none_yet)] = ()
    logging: TaskLogging = Logging()
    security: MasterSecurity = MasterSecurity()
    scim: SignOn | None = Field(default=None, repr=False)
    saml: SignOn | None = Field(default=None, repr=False)
    oidc: SignOn | None = Field(default=None, repr=False)
    det_cloud: SignOn | None = Field(default=None, repr=False)
    internal: Internal = Field(default=Internal(), alias="__internal")

    _warnings: tuple[str, ...] = PrivateAttr(default=())

    def model_post_init(self, context: Any) -> None:
        if isinstance(context, Mapping):
            self._warnings = tuple(context.get("warnings", ()))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Deprecated and surprising settings, one line each."""
        return self._warnings

    def db_url(self, data_dir: Path) -> str:
        """The SQLAlchemy async URL. It may contain the password: not for logs."""
        return self.db.sqlalchemy_url(data_dir)

    def pools(self) -> tuple[ResolvedPool, ...]:
        """Every pool, in the order of the file."""
        return tuple(
            resolve_pool(
                section,
                scheduler=self.resource_manager.scheduler,
                task_container_defaults=merge_container_defaults(
                    section.task_container_defaults or {}, self.task_container_defaults
                ),
            )
            for section in self.resource_pools
        )

    @property
    def default_compute_pool(self) -> str | None:
        """Where tasks with slots go if nobody named a pool. None: whoever submits names one."""
        return self._default_pool(self.resource_manager.default_compute_resource_pool)

    @property
    def default_aux_pool(self) -> str | None:
        """Where tasks without slots go if nobody named a pool. None: whoever submits names one."""
        return self._default_pool(self.resource_manager.default_aux_resource_pool)

    def _default_pool(self, configured: str | None) -> str | None:
        if self.resource_manager.no_default_resource_pools:
            return None
        names = [section.pool_name for section in self.resource_pools]
        if configured is not None:
            return configured
        if len(names) == 1:
            return names[0]
        return DEFAULT_POOL if DEFAULT_POOL in names else None
