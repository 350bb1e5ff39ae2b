"""What may run here: configs against this cluster's pools, at creation and when an experiment moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, islice
from typing import Any, NamedTuple

import structlog

from master.allocations.abilities import having, runs_image
from master.allocations.batch import arguments_without_effect, batch_options
from master.allocations.cluster_tasks import ClusterTasks
from master.allocations.identities import TaskOwner
from master.allocations.mounts import (
    mount_problems,
    privilege_problems,
    storage_problems,
    storage_unwritable,
)
from master.allocations.policy import ClusterPolicy, WorkspaceDefaults, lost_default
from master.core.expconf import ClusterDefaults, ExperimentConfig, check, complete, parse
from master.core.expconf.models.searchers import AdaptiveAshaSearcher, AsyncHalvingSearcher
from master.core.expconf.origins import Origin, layers_of, origins_of
from master.core.expconf.policies import NO_POLICIES, Policies
from master.core.expconf.templates import Template, naming, over_template
from master.core.searcher.limits import check_limits
from master.core.searcher.search import Search
from master.experiments.lifecycle.state import RunSettings
from master.experiments.sampling.process import require_sampler
from rm_backends.base import AllocationRequest, JobOrder, ResourceManager
from windlass.base.clock import Clock
from windlass.base.errors import InvalidConfig, NotFound, Unfulfillable, Unsatisfiable
from windlass.base.formats.trial_class import is_trial_class, needs_package
from windlass.base.ids import Ids
from windlass.base.no_effect import keys_without_effect

log = structlog.get_logger(__name__)

MAX_WARNINGS = 100
"""More of them tell nobody more."""
NO_POOL = ""
"""Where unmanaged experiments run."""
TIMED = (AsyncHalvingSearcher, AdaptiveAshaSearcher)
"""Searchers that must know how far a trial is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedExperiment:
    """A config that could run here."""

    config: ExperimentConfig
    settings: RunSettings
    search: Search
    warnings: tuple[str, ...] = ()
    """Words that the published client knows."""
    config_warnings: tuple[str, ...] = ()
    """Sentences about keys of the config that have no effect, and about what the agents must have."""
    origins: Sequence[Origin] | None = None
    """Of the values of the config that are no defaults of Windlass; None: they are not known."""


class Completed(NamedTuple):
    config: ExperimentConfig
    pool: str
    lower: ClusterDefaults | None
    """What lies under it; None: it was complete before."""
    notes: Sequence[str]
    """What is to be told of its pool."""


class Fit(NamedTuple):
    """What the resource manager says of the requests of an experiment."""

    launch_warnings: tuple[str, ...] = ()
    """Words that the published client knows."""
    notes: Sequence[str] = ()


class Admission:
    """Reads the cluster's policy, and asks the resource manager what could ever fit. Changes nothing."""

    def __init__(
        self,
        *,
        policy: ClusterPolicy,
        cluster: ClusterTasks,
        rm: Callable[[], ResourceManager],
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._policy = policy
        self._cluster = cluster
        self._rm = rm
        self._clock = clock
        self._ids = ids

    def check(
        self,
        text: str,
        *,
        owner: TaskOwner,
        policies: Policies,
        workspace: WorkspaceDefaults,
        template: Template | None = None,
    ) -> CheckedExperiment:
        """Parse, complete and test an experiment config of this owner against this cluster. Blocks."""
        written = parse(text)
        raw = over_template(written, template)
        with naming(template):
            checked, done = self._check(raw, raw, owner, policies, workspace=workspace)
        layers = layers_of(
            written, template=template, policies=policies, pool=done.pool, defaults=done.lower
        )
        return replace(checked, origins=origins_of(checked.config.to_json(), layers))

    def check_again(
        self,
        document: Mapping[str, Any],
        *,
        owner: TaskOwner,
        policies: Policies,
        workspace: WorkspaceDefaults,
        changes: Mapping[str, Any],
    ) -> CheckedExperiment:
        """The same for a configuration that was complete before these changes. Blocks."""
        checked, done = self._check(
            document, changes, owner, policies, workspace=workspace, is_complete=True
        )
        layers = layers_of(
            changes, template=None, policies=policies, pool=done.pool, defaults=done.lower
        )
        return replace(checked, origins=origins_of(checked.config.to_json(), layers))

    def _check(
        self,
        raw: Mapping[str, Any],
        given: Mapping[str, Any],
        owner: TaskOwner,
        policies: Policies,
        *,
        workspace: WorkspaceDefaults,
        is_complete: bool = False,
    ) -> tuple[CheckedExperiment, Completed]:
        """`given`: what somebody wrote and should hear of."""
        completed = self._completed(raw, policies, workspace=workspace, is_complete=is_complete)
        config, pool = completed.config, completed.pool
        self._require_mounts(config, pool, owner)
        settings = run_settings(config, pool)
        policies.require(
            slots=settings.slots_per_trial,
            max_slots=settings.max_slots,
            priority=settings.priority,
        )
        search = search_of(config)
        check_limits(search)
        require_sampler(search.sampler)
        fit = self._fit(settings)
        told = chain(
            completed.notes, fit.notes, policies.told(given), self._warnings(config, given, pool)
        )
        checked = CheckedExperiment(
            config=config,
            settings=settings,
            search=search,
            warnings=fit.launch_warnings,
            config_warnings=tuple(islice(told, MAX_WARNINGS)),
        )
        return checked, completed

    def check_unmanaged(
        self, text: str, *, workspace: WorkspaceDefaults, template: Template | None = None
    ) -> CheckedExperiment:
        """The same for an experiment that nothing here runs: it has no pool, and its storage is its user's. Blocks."""
        written = parse(text)
        raw = over_template(written, template)
        with naming(template):
            if raw.get("bind_mounts"):
                problem = "<config>.bind_mounts: an unmanaged experiment has none: nothing of it runs here"
                raise InvalidConfig([problem], what="experiment configuration")
            default = next((d.checkpoint_storage for d in self._policy.defaults.values()), {})
            own = raw.get("checkpoint_storage")
            layers = ClusterDefaults(
                checkpoint_storage=default,
                workspace_checkpoint_storage=workspace.checkpoint_storage,
            )
            lower = ClusterDefaults() if own else layers
            config = complete(
                raw, defaults=lower, seed=self._seed(), name=self._name(), unmanaged=True
            )
            search = search_of(config)
            check_limits(search)
        made_of = layers_of(
            written, template=template, policies=NO_POLICIES, pool=NO_POOL, defaults=lower
        )
        return CheckedExperiment(
            config=config,
            settings=run_settings(config, NO_POOL),
            search=search,
            origins=origins_of(config.to_json(), made_of),
        )

    def _name(self) -> str:
        return f"Experiment ({self._ids.uuid()[:8]})"

    def _seed(self) -> int:
        return int(self._clock.now().timestamp()) % 2**31

    def preview(self, document: Mapping[str, Any]) -> tuple[ExperimentConfig, Search]:
        """The complete configuration and its search, whether or not it could run here. Blocks."""
        config = self._completed(check(document), NO_POLICIES, has_program=False).config
        search = search_of(config)
        check_limits(search)
        return config, search

    def _completed(
        self,
        raw: Mapping[str, Any],
        policies: Policies,
        *,
        workspace: WorkspaceDefaults | None = None,
        is_complete: bool = False,
        has_program: bool = True,
    ) -> Completed:
        """With the defaults of its pool."""
        raw = policies.over(raw)
        resources = raw.get("resources") or {}
        wanted, aux = (
            str(resources.get("resource_pool") or ""),
            resources.get("slots_per_trial") == 0,
        )
        pool = self._policy.pool_of(
            wanted, aux=aux, what="experiment configuration", workspace=workspace
        )
        # What lies under a complete one is in it already: lists would have it twice.
        defaults = ClusterDefaults() if is_complete else self._policy.defaults[pool]
        if workspace is not None and not is_complete:
            defaults = replace(defaults, workspace_checkpoint_storage=workspace.checkpoint_storage)
        priority = policies.default_priority(defaults.priority)
        config = complete(
            raw,
            defaults=replace(defaults, priority=priority),
            seed=self._seed(),
            name=self._name(),
            unmanaged=not has_program,
        )
        notes = tuple(lost_default(wanted, pool, aux=aux, workspace=workspace))
        return Completed(config, pool, None if is_complete else defaults, notes)

    def check_pool(self, settings: RunSettings) -> tuple[str, ...]:
        """Whether an experiment may run in the pool of `settings`: launch warnings. Raises NotFound, Unsatisfiable."""
        if settings.pool not in self._policy.defaults:
            raise NotFound("resource pool", settings.pool)
        return self._fit(settings).launch_warnings

    def _fit(self, settings: RunSettings) -> Fit:
        """Raises Unsatisfiable, unless what could never run is accepted here."""
        try:
            return Fit(notes=self._rm().check(self._probe(settings)))
        except Unsatisfiable as error:
            if self._policy.launch_error or isinstance(error, Unfulfillable):
                raise
            log.warning("experiment may never run", reason=error.message)
            return Fit(launch_warnings=("LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED",))

    def first_requests(
        self, checked: CheckedExperiment, *, user: str, trials: int | None = None
    ) -> list[AllocationRequest]:
        """What the trials that such an experiment of this user begins with would ask for. `trials`: of so many."""
        settings = checked.settings
        one = replace(
            self._probe(settings), user=user, preemption_timeout_s=settings.preemption_timeout_s
        )
        count = checked.search.method.first_trials if trials is None else trials
        return [replace(one, allocation_id=f"planned.{number}") for number in range(count)]

    def _warnings(
        self, config: ExperimentConfig, raw: Mapping[str, Any], pool: str
    ) -> Iterator[str]:
        able = self._rm().abilities(pool)
        image = config.environment.image
        yield from keys_without_effect(config, raw, having=having(image, able))
        yield from arguments_without_effect(config.pbs)
        entrypoint = config.entrypoint
        if not isinstance(entrypoint, str) or not is_trial_class(entrypoint):
            return
        # What is in an image shows when it starts.
        runs_in_image = runs_image(image, able)
        if not runs_in_image and (able is None or not able.trial_classes):
            yield needs_package(entrypoint)

    def _require_mounts(self, config: ExperimentConfig, pool: str, owner: TaskOwner) -> None:
        rules = self._cluster.host_paths_of(pool)
        as_root = self._cluster.runs_as_root(owner)
        problems = (
            *mount_problems(config, rules, as_root=as_root),
            *privilege_problems(config, self._cluster.privileges_of(pool)),
            *storage_problems(config, rules, as_root=as_root),
        )
        able = None if problems else self._rm().abilities(pool)
        if able is not None and able.shares_user:
            problems = tuple(storage_unwritable(config))
        if problems:
            raise InvalidConfig(problems, what="experiment configuration")

    def _probe(self, settings: RunSettings) -> AllocationRequest:
        """The request that a trial with these settings would make."""
        now = self._clock.now()
        return AllocationRequest(
            allocation_id="check",
            task_id="check",
            name="check",
            pool=settings.pool,
            slots=settings.slots_per_trial,
            job=JobOrder(
                job_id="check",
                submitted=now,
                weight=settings.weight,
                max_slots=settings.max_slots,
                priority=settings.priority,
            ),
            requested=now,
            single_agent=settings.single_node,
            requires=settings.requires,
            batch=settings.batch,
        )


def search_of(config: ExperimentConfig) -> Search:
    document = config.to_json()
    return Search.from_config(
        document["searcher"],
        document["hyperparameters"],
        document["reproducibility"]["experiment_seed"],
    )


def run_settings(
    config: ExperimentConfig, pool: str, queue_position: Decimal | None = None
) -> RunSettings:
    """What running the trials needs of a complete config."""
    resources, searcher = config.resources, config.searcher
    return RunSettings(
        pool=pool,
        slots_per_trial=resources.slots_per_trial,
        max_restarts=config.max_restarts,
        single_node=bool(resources.is_single_node),
        requires=resources.requirements(),
        batch=batch_options(config.slurm, config.pbs),
        weight=resources.weight,
        max_slots=resources.max_slots,
        priority=resources.priority,
        queue_position=queue_position,
        preemption_timeout_s=config.preemption_timeout,
        metric=searcher.metric,
        smaller_is_better=searcher.smaller_is_better,
        time_metric=searcher.time_metric if isinstance(searcher, TIMED) else None,
    )
