"""What users do with interactive tasks: launch, kill, give a priority; and restore at start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from agent_bootstrap.bind_rules import problem_of
from agent_bootstrap.container_options import OsUser
from master.allocations.abilities import having
from master.allocations.batch import arguments_without_effect, batch_options
from master.allocations.identities import TaskOwner
from master.allocations.mounts import mount_problems, privilege_problems
from master.allocations.policy import ClusterPolicy, WorkspaceDefaults, lost_default
from master.allocations.service import AllocationService
from master.allocations.task_messages import TaskLogWriter
from master.config.sections import Ssh
from master.core.actor import Actor
from master.core.expconf.interactive import TaskConfig, complete_task
from master.core.expconf.models.environment import Image
from master.core.expconf.parsing.normalise import normalise
from master.core.expconf.policies import Policies, WorkloadType
from master.core.expconf.templates import Template, naming, task_over_template
from master.core.jobs import JobType, SetPriority
from master.core.reasons import Reason
from master.core.visibility import EVERYTHING
from master.core.webhooks.types import TaskPlace
from master.parsing import in_parsing_thread
from master.roots.live_roots import LiveRoots
from master.store.blobs import BlobStore
from master.store.contexts import ContextFile, store_context
from master.store.store import Store
from master.tasks import machine
from master.tasks.interactive_queries import InteractiveQueries
from master.tasks.kinds import KINDS, TaskKind
from master.tasks.launch_specs import LaunchSpecs
from master.tasks.live import LiveParts, LiveTask
from master.tasks.restoring import rebuild_tasks
from master.tasks.service_tokens import ServiceTokens
from master.tasks.state import TaskState
from master.workspace_rules import WorkspaceRules
from rm_backends.base import AllocationRequest, JobOrder, RestoreRecord
from windlass.base.clock import Clock
from windlass.base.errors import (
    InvalidConfig,
    InvalidState,
    Unfulfillable,
    Unsatisfiable,
)
from windlass.base.formats.json_types import JsonMapping
from windlass.base.ids import Ids
from windlass.base.no_effect import keys_without_effect

log = structlog.get_logger(__name__)

SLOTS_EXCEEDED = "LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A request to launch a task, parsed from the wire but not yet checked."""

    type: JobType
    config: JsonMapping
    template: Template | None = None
    """Under it. The pool is chosen by the configuration alone."""
    written: JsonMapping | None = None
    """What its user wrote of `config`, if that has more: nobody is warned of keys of others."""
    files: tuple[ContextFile, ...] = ()
    workspace_id: int = 1
    context: str | None = None
    """Blob id of files that are stored already, instead of `files`."""
    details: JsonMapping = field(default_factory=dict)
    """What the caller found out for its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTask:
    """A task that could run here, with the id that it would have."""

    id: str
    config: TaskConfig
    pool: str
    warnings: tuple[str, ...] = ()
    """Words that the published client knows."""
    config_warnings: tuple[str, ...] = ()
    """Sentences about keys of the config that have no effect."""


class InteractiveService:
    """All live interactive tasks of this master."""

    def __init__(
        self,
        *,
        store: Store,
        blobs: BlobStore,
        allocations: AllocationService,
        policy: ClusterPolicy,
        task_log: TaskLogWriter,
        specs: LaunchSpecs,
        clock: Clock,
        ids: Ids,
        keys: Ssh,
        tokens: ServiceTokens,
        rules: WorkspaceRules,
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._allocations = allocations
        self._policy = policy
        self._cluster = specs.cluster
        self._keys = keys
        self.tokens = tokens
        self._clock = clock
        self._ids = ids
        self._rules = rules
        self._parts = LiveParts(
            store=store, clock=clock, allocations=allocations, specs=specs, task_log=task_log
        )
        self._queries = InteractiveQueries(store)
        self.roots: LiveRoots[LiveTask] = LiveRoots(allocations=allocations, clock=clock)

    async def check(self, new: NewTask, *, by: Actor) -> CheckedTask:
        """Complete and test a configuration against this cluster. Launches nothing.

        Raises InvalidConfig, InvalidArgument for what administrators forbid, and Unsatisfiable for what could never
        run unless the cluster accepts that.
        """
        owner = TaskOwner(by.user_id, new.workspace_id)
        policies = await self._rules.policies(new.workspace_id, WorkloadType.TASK)
        defaults = await self._rules.defaults(new.workspace_id)
        checked = await in_parsing_thread(
            self._check, new, self._ids.uuid(), owner, policies, defaults
        )
        batch = batch_options(checked.config.slurm, checked.config.pbs)
        await self._cluster.require_linked(checked.pool, owner, batch)
        return checked

    async def would_request(self, new: NewTask, *, by: Actor) -> AllocationRequest:
        """What such a task would ask for. Raises as `check`; launches nothing."""
        checked = await self.check(new, by=by)
        probe = self._probe(checked.config, checked.pool)
        launches = KINDS[new.type].launches_machines
        return replace(probe, allocation_id="planned.0", user=by.name, launches_machines=launches)

    def _check(
        self,
        new: NewTask,
        id_: str,
        owner: TaskOwner,
        policies: Policies,
        workspace: WorkspaceDefaults,
    ) -> CheckedTask:
        kind = KINDS[new.type]
        known = policies.known_to(kind.model)
        wanted, aux = _wanted_pool(kind, known.over(new.config).get("resources"))
        pool = self._policy.pool_of(wanted, aux=aux, what=kind.model.what(), workspace=workspace)
        raw = known.over(task_over_template(kind.model, new.config, new.template))
        defaults = self._policy.defaults[pool]
        priority = policies.default_priority(defaults.priority)
        with naming(new.template):
            config = complete_task(
                kind.model,
                raw,
                defaults=replace(defaults, priority=priority),
                description=kind.model.name_of(id_),
            )
            resources = config.resources.model_copy(update={"resource_pool": pool})
            config = _with_work_dir(config.model_copy(update={"resources": resources}), raw, new)
            self._require_allowed(new, config, pool, owner)
        policies.require(
            slots=config.resources.slots, max_slots=None, priority=config.resources.priority
        )
        able = self._allocations.rm.abilities(pool)
        return CheckedTask(
            id=id_,
            config=config,
            pool=pool,
            warnings=self._check_fits(kind, config, pool),
            config_warnings=(
                *lost_default(wanted, pool, aux=aux, workspace=workspace),
                *keys_without_effect(
                    config,
                    normalise(new.config if new.written is None else new.written),
                    having=having(config.environment.image, able),
                ),
                *arguments_without_effect(config.pbs),
                *_pool_without_effect(new.template, pool),
                *known.told(new.config if new.written is None else new.written),
            ),
        )

    def _require_allowed(
        self, new: NewTask, config: TaskConfig, pool: str, owner: TaskOwner
    ) -> None:
        kind = KINDS[new.type]
        rules, as_root = self._cluster.host_paths_of(pool), self._cluster.runs_as_root(owner)
        theirs = [mount.source for mount in kind.mounts(new.details)]
        problems = (
            *mount_problems(config, rules, as_root=as_root),
            *privilege_problems(config, self._cluster.privileges_of(pool)),
            *(
                f"<checkpoint_storage>: {path} {problem}"
                for path in theirs
                if (problem := problem_of(path, rules, as_root=as_root))
            ),
            *(
                f"<config>.environment.proxy_ports[{number}].default_service_id: true, but the {kind.noun} itself is "
                "reached by the task's id alone: leave it out, and use TASK_ID:PORT"
                for number, port in enumerate(config.environment.proxy_ports)
                if kind.services and port.default_service_id
            ),
        )
        if problems:
            raise InvalidConfig(problems, what=kind.model.what())

    def _check_fits(self, kind: TaskKind, config: TaskConfig, pool: str) -> tuple[str, ...]:
        """Warnings, if what could never run is accepted here at all. Raises Unsatisfiable."""
        try:
            self._allocations.rm.check(self._probe(config, pool))
        except Unsatisfiable as error:
            if self._policy.launch_error or isinstance(error, Unfulfillable):
                raise
            log.warning("task may never run", kind=kind.noun, reason=error.message)
            return (SLOTS_EXCEEDED,)
        return ()

    async def launch(self, new: NewTask, *, by: Actor) -> CheckedTask:
        """Check, store the files, then write task and request in one commit. It belongs to `by`."""
        checked = await self.check(new, by=by)
        kind = KINDS[new.type]
        made = await in_parsing_thread(kind.make_details, self._keys)
        context = new.context or await store_context(
            self._blobs, new.files, what=f"{kind.noun} context"
        )
        state = TaskState(
            type=new.type,
            id=checked.id,
            job_id=self._ids.uuid(),
            owner_id=by.user_id,
            workspace_id=new.workspace_id,
            config=checked.config,
            pool=checked.pool,
            created_at=self._clock.now(),
            context=context,
            details={**new.details, **made},
        )
        live = LiveTask(self._parts, state, by.name)
        await live.create(machine.launch, lambda: self.roots.register(live), by=by)
        log.info("task launched", task=checked.id, type=new.type.value, by=str(by))
        return checked

    def _probe(self, config: TaskConfig, pool: str) -> AllocationRequest:
        """The request that it would make."""
        now = self._clock.now()
        return AllocationRequest(
            allocation_id="check",
            task_id="check",
            name="check",
            pool=pool,
            slots=config.resources.slots,
            job=JobOrder(job_id="check", submitted=now, priority=config.resources.priority),
            requested=now,
            single_agent=config.resources.is_single_node,
            preemptible=False,
            requires=config.resources.requirements(),
            batch=batch_options(config.slurm, config.pbs),
        )

    async def kill(self, task_id: str, *, by: Actor) -> None:
        """End it now. One that is over stays as it is. Raises NotFound."""
        live = self.roots.get(task_id)
        if live is None:
            await self._queries.task(task_id, EVERYTHING)
            return
        await live.apply(partial(machine.kill, reason=f"by {by}"), by=by)
        log.info("task killed", task=task_id, by=str(by))

    async def set_priority(self, task_id: str, priority: int, *, by: Actor) -> None:
        """Raises NotFound, InvalidArgument for a priority that is none, InvalidState when it is over."""
        change = SetPriority(priority)
        live = self.roots.get(task_id)
        if live is None:
            row = await self._queries.task(task_id, EVERYTHING)
            noun = KINDS[JobType(row.task.type)].noun
            raise InvalidState(f"{noun} {task_id} has already ended ({row.task.exit_status})")
        await self._rules.require_change(change, live.state.workspace_id, live.state.type)
        await live.change_job(change, by=by)

    def note_activity(self, task_id: str) -> None:
        """Somebody uses one of its services. Whom nobody knows, or who is over, needs nothing."""
        if (live := self.roots.get(task_id)) is not None:
            live.note_activity()

    def live(self, task_id: str) -> LiveTask | None:
        """The live root, None when the task is over or unknown."""
        return self.roots.get(task_id)

    def place_of(self, allocation_id: str, container_id: str) -> TaskPlace | None:
        """Where the output of one of its containers comes from. None for what is over, and for a trial."""
        live = self.roots.get(allocation_id.rpartition(".")[0])
        allocation = None if live is None else live.allocation(allocation_id)
        if live is None or allocation is None:
            return None
        for state in allocation.containers:
            if state.container.container_id == container_id:
                return TaskPlace(
                    task_id=live.state.id,
                    workspace_id=live.state.workspace_id,
                    node=state.container.node,
                )
        return None

    def opens(self, token: str, task_id: str) -> bool:
        """Whether it is the token of this task's own service, and the task is alive."""
        live = self.roots.get(task_id)
        if live is None or live.state.is_over:
            return False
        has_token = any(service.has_token for service in live.state.kind.services)
        return has_token and self.tokens.is_good(token, task_id)

    def os_user(self, task_id: str) -> OsUser | None:
        """Whom it runs as: what is configured, what it told of itself, or what agents of its pool do with tasks such as
        it. None: nobody knows."""
        live = self.roots.get(task_id)
        if live is None:
            return None
        if (who := self._cluster.os_user(live.state.owner)) is not None:
            return who
        allocation = live.state.open_allocation
        user = allocation.os_user if allocation is not None else ""
        user = user or self._process_user(live.state)
        return OsUser(user=user) if user else None

    def _process_user(self, state: TaskState) -> str:
        """Clients ask for a user when they launch a shell, and log in as that one: before it runs, and can tell."""
        able = self._allocations.rm.abilities(state.pool)
        has_image = state.config.environment.image != Image()
        return "" if able is None or has_image else able.process_user

    def waiting_reason(self, state: TaskState) -> Reason | None:
        """Why it waits; None if it does not."""
        allocation = state.open_allocation
        if allocation is not None:
            return (
                None
                if allocation.started_at is not None
                else self._allocations.rm.explain(allocation.id)
            )
        return machine.backoff_reason(state)

    async def restore(self) -> list[RestoreRecord]:
        """Rebuild every task that was not over; what the resource managers must know of it."""
        types = [type_ for type_, kind in KINDS.items() if kind.interactive]
        return self.roots.restore(await rebuild_tasks(self._parts, types))


def _wanted_pool(kind: TaskKind, raw: object) -> tuple[str, bool]:
    """The pool that a raw `resources` section names, and whether it is work without slots."""
    resources = raw if isinstance(raw, Mapping) else {}
    aux = kind.always_aux or resources.get("slots") == 0
    return str(resources.get("resource_pool") or ""), aux


def _pool_without_effect(template: Template | None, pool: str) -> Iterator[str]:
    resources = template.config.get("resources") if template is not None else None
    named = resources.get("resource_pool") if isinstance(resources, Mapping) else None
    if named and named != pool:
        yield (
            f"resources.resource_pool of the template has no effect: the task itself chooses its pool, here '{pool}'"
        )


def _with_work_dir(config: TaskConfig, raw: JsonMapping, new: NewTask) -> TaskConfig:
    """Files lie in the task's own working directory: the cluster's default yields to them, the user's own does not."""
    has_files = bool(new.files or new.context)
    if has_files and raw.get("work_dir"):
        raise InvalidConfig(
            [
                "<config>.work_dir: not together with files: they are put into a directory of the task's own"
            ],
            what=KINDS[new.type].model.what(),
        )
    if has_files:
        return config.model_copy(update={"work_dir": None})
    if config.work_dir is not None and not config.work_dir.startswith("/"):
        problem = f'<config>.work_dir: must be an absolute path, but is "{config.work_dir}"'
        raise InvalidConfig([problem], what=KINDS[new.type].model.what())
    return config
