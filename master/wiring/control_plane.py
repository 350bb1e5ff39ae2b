"""The services between the store and the API, wired once: for the master's process and for the worlds of tests.

store, blobs -> allocations -> experiments, interactive tasks -> reports, jobs, checkpoints
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_bootstrap.bind_rules import problem_of
from master.allocations.cluster_tasks import ClusterTasks
from master.allocations.peer_ssh import PeerKeys
from master.allocations.policy import ClusterPolicy
from master.allocations.service import AllocationService
from master.allocations.task_messages import TaskLogWriter
from master.allocations.tokens import AllocationTokenMint
from master.allocations.unique_ports import UniquePorts
from master.auth.role_service import RoleService
from master.auth.service import MASTER, AuthService
from master.auth.users import ADMIN
from master.checkpoints.collector import GarbageCollector
from master.checkpoints.experiment_rows import ExperimentRows, TaskLogs
from master.checkpoints.on_agents import OnAgents
from master.checkpoints.places import CheckpointPlaces
from master.checkpoints.planning import Planner
from master.checkpoints.service import CheckpointService
from master.checkpoints.workers import Deleter, WorkerProcesses
from master.config.sections import Authz, MasterWebhooks, Ssh
from master.core.roles.catalogue import Role
from master.core.roles.permissions import Permission
from master.experiments.metadata import ExperimentMetadata
from master.experiments.reports.service import ReportService
from master.experiments.sampling.process import Sampler, SamplerProcess
from master.experiments.service import ExperimentService
from master.experiments.task_spec import TaskSpecs
from master.jobs.ports import PoolQueues
from master.jobs.service import JobService
from master.models.service import ModelService
from master.models.versions import VersionService
from master.store.blobs import BlobStore
from master.store.store import Store
from master.tasks.generic import GenericTasks
from master.tasks.launch_specs import LaunchSpecs
from master.tasks.service import InteractiveService
from master.tasks.service_tokens import ServiceTokens
from master.webhooks.client import Caller, HttpCaller
from master.webhooks.deliveries import Deliveries
from master.webhooks.registry import WebhookRegistry
from master.webhooks.service import WebhookService, derived_key
from master.webhooks.targets import Targets
from master.workspace_rules import WorkspaceRules
from master.workspaces.agent_users import AgentUsers
from master.workspaces.deletion import Removals
from master.workspaces.projects import ProjectService
from master.workspaces.service import WorkspaceService
from rm_backends.base import RestoreRecord
from windlass.base.clock import Clock
from windlass.base.formats.json_types import JsonMapping
from windlass.base.ids import Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the control plane is made of."""

    store: Store
    blobs: BlobStore
    clock: Clock
    ids: Ids
    secret: bytes
    """Allocation tokens are derived from it."""
    policy: ClusterPolicy
    task_log: TaskLogWriter
    logs: TaskLogs
    cluster_id: str
    storage: JsonMapping = field(default_factory=dict)
    """The cluster's `checkpoint_storage`, as configurations of experiments have it."""
    deleter: Deleter = field(default_factory=WorkerProcesses)
    sampler: Sampler = field(default_factory=SamplerProcess)
    ports: UniquePorts = field(default_factory=UniquePorts)
    cluster_tasks: ClusterTasks = field(default_factory=ClusterTasks)
    shell_keys: Ssh = field(default_factory=Ssh)
    agent_users: AgentUsers = field(default_factory=AgentUsers)
    """Those that `cluster_tasks` asks."""
    authz: Authz = field(default_factory=Authz)
    webhooks: MasterWebhooks = field(default_factory=MasterWebhooks)
    call_webhook: Caller | None = None
    """None: by HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """Everything that holds live state, and the services that work on it."""

    parts: Parts
    mint: AllocationTokenMint
    allocations: AllocationService
    """Its resource manager is connected before anything is restored or created."""
    experiments: ExperimentService
    tasks: InteractiveService
    generic: GenericTasks
    reports: ReportService
    metadata: ExperimentMetadata
    checkpoints: CheckpointService
    collector: GarbageCollector
    workspaces: WorkspaceService
    projects: ProjectService
    models: ModelService
    versions: VersionService
    removals: Removals
    roles: RoleService
    """To be loaded before anybody is let in."""
    on_agents: OnAgents
    """Has roots of its own, which are kept to their deadlines as the others are."""
    places: CheckpointPlaces
    rules: WorkspaceRules
    webhooks: WebhookService
    webhook_registry: WebhookRegistry
    deliveries: Deliveries

    async def restore(self) -> Sequence[RestoreRecord]:
        """Rebuild the live roots from the store; what the resource manager must know of them."""
        return [
            *await self.experiments.restore(),
            *await self.tasks.restore(),
            *await self.on_agents.restore(),
        ]

    async def resume(self) -> None:
        """After the resource manager was given the records: do again what a crash may have cut off."""
        await self.experiments.resume()
        await self.tasks.roots.resume()
        await self.generic.resume()
        await self.on_agents.resume()

    def jobs(self, queues: PoolQueues) -> JobService:
        """The job queue; `queues`: what the resource managers tell of theirs."""
        return JobService(
            sources=[self.experiments.roots, self.tasks.roots],
            queues=queues,
            allocations=self.allocations,
            store=self.parts.store,
            clock=self.parts.clock,
            rules=self.rules,
            strict=self.parts.authz.strict_job_queue_control,
        )


def build(parts: Parts) -> ControlPlane:
    mint = AllocationTokenMint(parts.secret)
    allocations = AllocationService(
        store=parts.store, clock=parts.clock, mint=mint, ports=parts.ports
    )
    places = CheckpointPlaces(
        cluster=parts.storage,
        secrets=parts.cluster_tasks.storage_secrets,
        os_user=parts.cluster_tasks.os_user,
    )
    on_agents = OnAgents(
        store=parts.store,
        clock=parts.clock,
        ids=parts.ids,
        allocations=allocations,
        policy=parts.policy,
        cluster=parts.cluster_tasks,
        task_log=parts.task_log,
    )
    planner = Planner(parts.store, parts.cluster_id)
    rows = ExperimentRows(parts.store, parts.logs)
    collector = GarbageCollector(
        store=parts.store,
        clock=parts.clock,
        task_log=parts.task_log,
        planner=planner,
        places=places,
        deleter=parts.deleter,
        agents=on_agents,
        rows=rows,
        cluster_id=parts.cluster_id,
    )
    registry = WebhookRegistry(parts.store, parts.clock, parts.ids)
    rules = WorkspaceRules(parts.store, lambda: parts.policy.defaults)
    experiments = ExperimentService(
        store=parts.store,
        blobs=parts.blobs,
        allocations=allocations,
        policy=parts.policy,
        task_log=parts.task_log,
        specs=TaskSpecs(cluster=parts.cluster_tasks, keys=PeerKeys(parts.secret)),
        clock=parts.clock,
        ids=parts.ids,
        sampler=parts.sampler,
        rules=rules,
        webhooks=registry,
        ended=collector.wake,
    )
    service_tokens = ServiceTokens(parts.secret)
    metadata = ExperimentMetadata(store=parts.store, experiments=experiments, rules=rules)
    tasks = InteractiveService(
        store=parts.store,
        blobs=parts.blobs,
        allocations=allocations,
        policy=parts.policy,
        task_log=parts.task_log,
        specs=LaunchSpecs(cluster=parts.cluster_tasks, service_token=service_tokens.token),
        clock=parts.clock,
        ids=parts.ids,
        keys=parts.shell_keys,
        tokens=service_tokens,
        rules=rules,
    )
    checkpoints = CheckpointService(
        store=parts.store,
        clock=parts.clock,
        ids=parts.ids,
        experiments=experiments,
        metadata=metadata,
        planner=planner,
        collects=on_agents.collects,
        wake=collector.wake,
    )
    roles = role_service(parts.store, parts.authz)
    targets = Targets(parts.webhooks.allowed_targets)
    caller = parts.call_webhook or HttpCaller(targets)
    signing_key = parts.webhooks.signing_key or derived_key(parts.secret)
    deliveries = Deliveries(
        parts.store,
        parts.clock,
        caller,
        registry=registry,
        signing_key=signing_key,
        base_url=parts.webhooks.base_url,
    )
    registry.wake = deliveries.wake

    def workspace_removed(workspace_id: int) -> None:
        roles.forget_workspace(workspace_id)
        registry.forget_workspace(workspace_id)

    removals = Removals(
        parts.store,
        experiments=checkpoints,
        tasks=tasks,
        remove_tasks=rows.remove_tasks,
        removed=workspace_removed,
    )
    workspaces = WorkspaceService(
        parts.store,
        parts.clock,
        agent_users=parts.agent_users,
        roles=roles,
        pools=rules.pool_bindings,
        refused_folder=lambda folder: _refused_folder(folder, parts),
        removal=removals.wake,
        removed=workspace_removed,
    )
    return ControlPlane(
        parts=parts,
        mint=mint,
        allocations=allocations,
        experiments=experiments,
        tasks=tasks,
        generic=GenericTasks(tasks, parts.store),
        reports=ReportService(
            store=parts.store,
            experiments=experiments,
            clock=parts.clock,
            secrets=parts.cluster_tasks.storage_secrets,
            cluster_id=parts.cluster_id,
        ),
        metadata=metadata,
        checkpoints=checkpoints,
        collector=collector,
        workspaces=workspaces,
        projects=ProjectService(
            parts.store,
            parts.clock,
            queue=workspaces.queue,
            rules=rules,
            relocated=experiments.relocated,
            removal=removals.wake,
        ),
        models=ModelService(parts.store, parts.clock, queue=workspaces.queue),
        versions=VersionService(
            parts.store, parts.clock, queue=workspaces.queue, checkpoints=planner
        ),
        removals=removals,
        roles=roles,
        on_agents=on_agents,
        places=places,
        rules=rules,
        webhooks=WebhookService(
            parts.store,
            parts.clock,
            parts.ids,
            registry=registry,
            targets=targets,
            caller=caller,
            signing_key=signing_key,
        ),
        webhook_registry=registry,
        deliveries=deliveries,
    )


def _refused_folder(folder: str, parts: Parts) -> str | None:
    """Why tasks of no pool may mount it, whoever they run as."""
    rules = map(parts.cluster_tasks.host_paths_of, parts.policy.defaults)
    problems = [problem_of(folder, each, as_root=False) for each in rules]
    return None if None in problems or not problems else problems[0]


def role_service(store: Store, authz: Authz) -> RoleService:
    creators = authz.workspace_creator_assign_role
    own = [
        Role(role.id, role.name, frozenset(Permission[name] for name in role.permissions))
        for role in authz.roles
    ]
    return RoleService(
        store, own_roles=own, creators_role=creators.role_id if creators.enabled else None
    )


async def start_roles(roles: RoleService, auth: AuthService, authz: Authz) -> None:
    """Load them, and let them decide if they are to."""
    roles.report_changes(auth.rights.changed)
    await roles.load()
    for user in auth.users():
        if user.username == ADMIN:
            await roles.ensure_administrator(user.id, by=MASTER)
    if authz.type == "rbac":
        auth.register_rules(roles.rules_of)
