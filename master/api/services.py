"""What routers may call. `master.app` builds `Services`; the application adds what only the API needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Protocol, TypeAlias, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from agent_bootstrap.channels.streams import Stream
from agent_bootstrap.protocol import Channel
from master.allocations.service import AllocationService
from master.api.http.held import ServerStop
from master.auth.issued_tokens import IssuedTokens
from master.auth.login_queries import LoginQueries
from master.auth.ownership import OwnershipQueries
from master.auth.role_service import RoleService
from master.auth.service import AuthService
from master.auth.user_settings import UserSettings
from master.boots.service import BootService
from master.checkpoints.downloads import Downloads
from master.checkpoints.service import CheckpointService
from master.cluster_message import ClusterMessages
from master.config import MasterConfig
from master.config_policies.service import ConfigPolicyService
from master.core.actor import Actor
from master.core.expconf.references import PoolSecrets
from master.core.fall_back import FallBackRule
from master.costs.recorder import CostRecorder
from master.experiments.finding.queries import Finder
from master.experiments.finding.values import ProjectValues
from master.experiments.metadata import ExperimentMetadata
from master.experiments.queries.checkpoints import CheckpointQueries
from master.experiments.queries.experiments import ExperimentQueries
from master.experiments.queries.metrics import MetricQueries
from master.experiments.queries.searches import SearchQueries
from master.experiments.queries.series import SeriesQueries
from master.experiments.reports.log_watch import LogWatch
from master.experiments.reports.service import ReportService
from master.experiments.service import ExperimentService
from master.jobs.service import JobService
from master.live.hub import LiveHub
from master.logs.own_log import OwnLog
from master.logs.retention import LogRetention
from master.logs.store import LogStore
from master.models.queries import ModelQueries
from master.models.service import ModelService
from master.models.versions import VersionService
from master.pool_bindings.service import PoolBindingService
from master.store.blobs import BlobStore
from master.store.store import Store
from master.tasks.generic import GenericTasks
from master.tasks.interactive_queries import InteractiveQueries
from master.tasks.queries import TaskQueries
from master.tasks.service import InteractiveService
from master.templates.queries import TemplateQueries
from master.templates.service import TemplateService
from master.updates.hub import UpdateHub
from master.webhooks.registry import WebhookRegistry
from master.webhooks.service import WebhookService
from master.workspace_rules import WorkspaceRules
from master.workspaces.projects import ProjectService
from master.workspaces.queries import WorkspaceQueries
from master.workspaces.service import WorkspaceService
from provisioner.batch.base import ForeignJob
from provisioner.capacity.offer_views import OfferView
from provisioner.fleet.counters import FleetCounters
from provisioner.images.records import BakeRecord
from provisioner.planning.budget_views import BudgetView
from provisioner.planning.preview import Preview
from provisioner.types import BlockedOffer, CostView, Gang, InstanceView, OfferKey
from rm_backends.base import AllocationRequest
from rm_backends.observer import AgentOperator, Observer
from rm_backends.views import AgentStatus, Foreseen, JoinRequest, RefusalView
from windlass.base.clock import Clock


async def no_others(pool: str) -> Sequence[ForeignJob]:
    """Nobody else has jobs there."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterInfo:
    """Who this master is."""

    master_id: str
    cluster_id: str
    cluster_name: str
    version: str
    """The release of the published client whose API we speak."""
    windlass_version: str


class ImageBakes(Protocol):
    """Images of the machines of elastic pools."""

    def all(self) -> Sequence[BakeRecord]: ...

    async def begin(self, pool: str, instance_type: str = "", *, by: Actor) -> BakeRecord: ...

    async def cancel(self, bake_id: str, *, by: Actor) -> BakeRecord: ...


class Fleet(Protocol):
    """What screens see of the provisioner."""

    @property
    def bakery(self) -> ImageBakes: ...

    def instances(self) -> Sequence[InstanceView]: ...

    def blocked_offers(self) -> Sequence[BlockedOffer]: ...

    def offers(self) -> Sequence[OfferView]:
        """Every offer of every pool."""
        ...

    async def retry(self, key: OfferKey, *, by: Actor) -> None:
        """Forget what keeps the offer from being bought. Returns once that is committed."""
        ...

    def cost(self) -> CostView: ...

    def budgets(self) -> Sequence[BudgetView]:
        """Those that are set, with what counts against them."""
        ...

    @property
    def counters(self) -> FleetCounters:
        """What it has done since it started."""
        ...

    async def preview(self, gangs: Sequence[Gang] = ()) -> Preview:
        """What would be launched now if these waited, too. Changes nothing."""
        ...


class Foreseer(Protocol):
    """What pools of agents would do for requests that they do not have."""

    async def foresee(self, requests: Sequence[AllocationRequest]) -> Mapping[str, Foreseen]:
        """By allocation id; left out: those of pools that others schedule. Changes nothing."""
        ...


class AgentJoins(Protocol):
    """What machines ask before and after their agents run. All raise PermissionDenied."""

    async def join(
        self, asked: JoinRequest, *, token: str, credential: str, peer: str
    ) -> AgentStatus:
        """May be repeated. Raises Conflict for what may pass."""
        ...

    def standing(
        self, agent_id: str, credential: str, since: datetime | None = None
    ) -> AgentStatus: ...

    async def leave(self, agent_id: str, credential: str, *, stop: bool) -> AgentStatus:
        """No more work for it; once it runs nothing, it is forgotten. `stop`: end what runs there now."""
        ...


class AgentGateway(Protocol):
    """Takes the connections of agents."""

    def unauthenticated_reason(
        self, *, pool: str, agent_id: str, token: str, peer: str, credential: str = ""
    ) -> str:
        """Why a connection that shows these is not even accepted; empty if it is."""
        ...

    async def serve(
        self, channel: Channel, *, pool: str, token: str, peer: str, credential: str = ""
    ) -> None:
        """One connection, until it ends. `peer` is the address that the master sees."""
        ...


class PortStreams(Protocol):
    """Connections to ports of tasks, through their agents."""

    async def open(self, agent_id: str, container_id: str, port: int, first: bytes = b"") -> Stream:
        """`first`: what is written first; to send it along saves a way there and back. Raises OSError with words for
        people."""
        ...

    def admits(self, agent_id: str, credential: str) -> bool:
        """Whether a connection that shows these is of an agent that may carry streams."""
        ...

    async def serve(self, pipe: Stream, agent_id: str) -> None:
        """That connection, until it ends."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    info: MasterInfo
    config: MasterConfig
    master_url: str
    """By which agents and tasks reach the master."""
    store: Store
    blobs: BlobStore
    auth: AuthService
    user_settings: UserSettings
    experiments: ExperimentService
    tasks: InteractiveService
    generic: GenericTasks
    templates: TemplateService
    config_policies: ConfigPolicyService
    pool_bindings: PoolBindingService
    rules: WorkspaceRules
    webhooks: WebhookService
    webhook_registry: WebhookRegistry
    workspaces: WorkspaceService
    projects: ProjectService
    models: ModelService
    versions: VersionService
    """Of models."""
    updates: UpdateHub
    """Tells clients of what changes."""
    live: LiveHub
    """Tells open pages when to ask again."""
    roles: RoleService
    reports: ReportService
    metadata: ExperimentMetadata
    checkpoints: CheckpointService
    downloads: Downloads
    allocations: AllocationService
    storage_secrets: PoolSecrets
    """What references in the checkpoint storage of an experiment stand for."""
    jobs: JobService
    logs: LogStore
    log_watch: LogWatch
    own_log: OwnLog
    messages: ClusterMessages
    retention: LogRetention
    """How long task logs are kept."""
    """Looks at output before it is stored."""
    cluster: Observer
    """Pools, agents and queues of all resource managers."""
    operator_of: Callable[[str], AgentOperator]
    """By agent. Raises NotFound, and InvalidState for one that is not operated from here."""
    gateway: AgentGateway
    streams: PortStreams
    joins: AgentJoins
    refused_agents: Callable[[], Sequence[RefusalView]]
    """Newest first."""
    join_tokens: IssuedTokens
    foreseer: Foreseer
    fall_back: Callable[[AllocationRequest], FallBackRule]
    """Where a request may go when its own pool cannot serve it."""
    boots: BootService
    provisioner: Fleet | None
    costs: CostRecorder
    clock: Clock
    jobs_of_others: Callable[[str], Awaitable[Sequence[ForeignJob]]] = no_others
    """By pool: those that its batch system has beside ours."""
    price_troubles: Callable[[], Mapping[str, str]] = dict
    """By provider: why its vendor could not be asked for prices last."""
    database_is_damaged: Callable[[], bool] = lambda: False
    """Whether a page was found that is not what was written."""
    certificate_names: Callable[[], Sequence[str]] = tuple
    """Of the certificate that is served now."""
    certificate_fingerprint: Callable[[], str] = str
    """By which agents know this master; empty without TLS."""


class Reads:
    """Every query the API makes of the store."""

    def __init__(self, store: Store) -> None:
        self.experiments = ExperimentQueries(store)
        self.finder = Finder(store)
        self.values = ProjectValues(store)
        self.metrics = MetricQueries(store)
        self.series = SeriesQueries(store)
        self.checkpoints = CheckpointQueries(store)
        self.tasks = TaskQueries(store)
        self.workspaces = WorkspaceQueries(store)
        self.searches = SearchQueries(store)
        self.interactive = InteractiveQueries(store)
        self.templates = TemplateQueries(store)
        self.logins = LoginQueries(store)
        self.models = ModelQueries(store)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiContext:
    """One for each application."""

    services: Services
    reads: Reads
    owners: OwnershipQueries
    closing: ServerStop = field(default_factory=ServerStop)
    """Set when the server stops: what waits is answered at once."""


def make_api(services: Services) -> ApiContext:
    return ApiContext(
        services=services,
        reads=Reads(services.store),
        owners=OwnershipQueries(services.store),
    )


async def api_of(connection: HTTPConnection) -> ApiContext:
    # Not a plain function: those are run in threads, one hop for every request.
    return cast("ApiContext", connection.app.state.api)


TheApi: TypeAlias = Annotated[ApiContext, Depends(api_of)]
"""The dependency, as routes name it."""
