"""Config policies: what an administrator fixes for the experiments, or the tasks, of the cluster or of one workspace.

An invariant lies over what users submit; a constraint bounds what they may ask for. Where the cluster and a workspace
speak of the same key, the cluster's counts. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from master.core.expconf.interactive import TaskConfig
from master.core.expconf.models.experiment import ROOT
from master.core.expconf.models.schema import FreeMap, NonNegative, Priority, Section
from master.core.expconf.parsing.errors import explain, first_problems, json_kind
from master.core.expconf.parsing.merging import merge
from master.core.expconf.parsing.normalise import normalise
from master.core.expconf.parsing.texts import text_problems
from master.core.expconf.reading import check, refuse_masks
from master.core.expconf.secrets import masked
from master.core.expconf.templates import AnyTask, known_part
from master.core.jobs import (
    JobChange,
    JobType,
    SetMaxSlots,
    SetPlace,
    SetPool,
    SetPriority,
    SetWeight,
)
from windlass.base.errors import InvalidArgument, InvalidConfig
from windlass.base.formats.documents import MalformedDocument, plain, read_document, shown
from windlass.base.formats.json_types import JsonMapping, JsonObject

WHAT = "config policy"
_SLOTS = ("slots_per_trial", "slots")
_FAILED = "submitted workload failed"


class ConstraintBroken(InvalidArgument):
    """More than a constraint allows."""

    def __init__(self, path: str, message: str) -> None:
        """`path`: what exceeds it, as `resources.priority`."""
        self.path = path
        super().__init__(message)


class WorkloadType(StrEnum):
    """What a policy is for, in the words of the published API."""

    EXPERIMENT = "EXPERIMENT"
    TASK = "NTSC"
    """Notebooks, TensorBoards, shells, commands and generic tasks."""

    @classmethod
    def of(cls, job: JobType) -> WorkloadType:
        return cls.EXPERIMENT if job is JobType.EXPERIMENT else cls.TASK


class ResourceLimits(Section):
    max_slots: NonNegative | None = None


class Constraints(Section):
    resources: ResourceLimits = ResourceLimits()
    priority_limit: Priority | None = None
    """No job may have a smaller, that is a stronger, one."""


class ConfigPolicy(Section):
    """One scope's, for one kind of work."""

    invariant_config: FreeMap = Field(default_factory=dict)
    constraints: Constraints = Constraints()


class PolicyText(NamedTuple):
    policy: ConfigPolicy
    document: JsonObject
    """As it was written."""


class ScopedPolicy(NamedTuple):
    scope: str
    """In texts: "the cluster", or "workspace X"."""
    policy: ConfigPolicy


class _Limit(NamedTuple):
    value: int
    scope: str


def read_policy(text: str, workload: WorkloadType) -> PolicyText:
    """Raises InvalidArgument for an empty text, InvalidConfig with every problem."""
    try:
        document = read_document(text)
    except MalformedDocument as error:
        raise InvalidConfig([f"<policy>: {error}"], what=WHAT) from None
    if document is None or document == {}:
        raise InvalidArgument(
            "configPolicies: no specified config policies: give invariant_config, constraints or both"
        )
    if not isinstance(document, dict):
        raise InvalidConfig(
            [f"<policy>: expected object, but got {json_kind(document)}"], what=WHAT
        )
    policy = policy_of(document)
    _check_invariant(policy.invariant_config, workload)
    return PolicyText(policy, document)


def policy_of(document: JsonMapping) -> ConfigPolicy:
    """Of a document that was read before. Raises InvalidConfig."""
    try:
        policy = ConfigPolicy.model_validate(dict(document))
    except ValidationError as error:
        lines = [problem.line for problem in explain(error, ConfigPolicy, root="<policy>")]
        raise InvalidConfig(lines, what=WHAT) from None
    return policy.model_copy(update={"invariant_config": normalise(policy.invariant_config)})


def _check_invariant(invariant: JsonMapping, workload: WorkloadType) -> None:
    """Of tasks it may have what any kind of them knows."""
    if workload is WorkloadType.EXPERIMENT:
        check(invariant, what=WHAT)
        refuse_masks(invariant, what=WHAT)
        return
    if problems := first_problems(text_problems(normalise(plain(invariant)), root=ROOT)):
        raise InvalidConfig(problems, what=WHAT)
    refuse_masks(invariant, what=WHAT)
    try:
        AnyTask.from_json({"description": "", **normalise(invariant)})
    except InvalidConfig as error:
        raise InvalidConfig(error.problems, what=WHAT) from None


@dataclass(frozen=True, slots=True)
class Policies:
    """All that holds for one workload in one workspace, the weakest scope first."""

    workload: WorkloadType
    layers: Sequence[ScopedPolicy] = ()

    def over(self, raw: JsonMapping) -> JsonObject:
        """A configuration under all invariants. A search without `max_slots` gets the bound as its own."""
        document = dict(raw)
        for layer in self.layers:
            if layer.policy.invariant_config:
                document = merge(layer.policy.invariant_config, document)
        limit = self._max_slots
        if limit is not None and self.workload is WorkloadType.EXPERIMENT:
            slots = _at(document, ("resources", "slots_per_trial"))
            if not isinstance(slots, int) or slots <= limit.value:  # else `require` says so
                document = merge(document, {"resources": {"max_slots": limit.value}})
        return document

    def filled_in(self, priority: int) -> Iterator[tuple[str, JsonObject]]:
        """Whose, and what constraints give work that says nothing of it. `priority`: what it would get elsewhere."""
        limit, bound = self._max_slots, self._priority_limit
        if limit is not None and self.workload is WorkloadType.EXPERIMENT:
            yield limit.scope, {"resources": {"max_slots": limit.value}}
        if bound is not None and bound.value > priority:
            yield bound.scope, {"resources": {"priority": bound.value}}

    def known_to(self, model: type[TaskConfig]) -> Policies:
        """Without the keys of invariants that tasks of this kind do not have."""
        layers = [
            ScopedPolicy(
                scope,
                policy.model_copy(
                    update={"invariant_config": known_part(model, policy.invariant_config)}
                ),
            )
            for scope, policy in self.layers
        ]
        return Policies(self.workload, layers)

    def told(self, raw: JsonMapping) -> Iterator[str]:
        """What they make of a configuration, in sentences for whoever wrote it."""
        before, after = normalise(raw), masked(self.over(raw))
        scopes: dict[tuple[str, ...], str] = {}
        for scope, policy in self.layers:
            scopes.update(dict.fromkeys(_leaves(policy.invariant_config), scope))
        if (limit := self._max_slots) is not None:
            scopes.setdefault(("resources", "max_slots"), limit.scope)
        for path, scope in scopes.items():
            was, value = _at(before, path), _at(after, path)
            if value not in (was, None):
                instead = "" if was is None else f" instead of {_shown(was)}"
                yield (
                    f"{'.'.join((ROOT, *path))} is {_shown(value)}{instead}: "
                    f"set by the config policy of {scope}"
                )

    def default_priority(self, priority: int) -> int:
        """Of a job that gives none, where others get this one."""
        limit = self._priority_limit
        return priority if limit is None else max(priority, limit.value)

    def require(self, *, slots: int, max_slots: int | None, priority: int | None) -> None:
        """Raises InvalidArgument for what exceeds a constraint."""
        limit = self._max_slots
        if limit is not None:
            for key, asked in (("slots_per_trial", slots), ("max_slots", max_slots)):
                if asked is not None and asked > limit.value:
                    raise ConstraintBroken(
                        f"resources.{key}",
                        f"failed constraint check: requested resources.slots [{asked}] exceeds limit set by admin "
                        f"[{limit.value}]: {_FAILED} slots constraint of the config policy of {limit.scope}",
                    )
        self._require_priority(priority)

    def require_change(self, change: JobChange) -> None:
        """Raises InvalidArgument for what an invariant fixes otherwise, and for what exceeds a constraint."""
        match change:
            case SetPriority(priority=priority):
                self._require_free("priority", priority, "priority cannot be modified")
                self._require_priority(priority)
            case SetPlace(priority=priority) if priority is not None:
                self._require_free("priority", priority, "priority cannot be modified")
                self._require_priority(priority)
            case SetWeight(weight=weight):
                self._require_free("weight", weight, "weight cannot be modified")
            case SetMaxSlots(max_slots=max_slots):
                self._require_free(
                    "max_slots", max_slots, "max slots is already set in an invariant config policy"
                )
                self._require_max_slots(max_slots)
            case SetPool(pool=pool):
                self._require_free("resource_pool", pool, "the resource pool cannot be modified")
            case _:
                pass

    def require_order(self, *, priority: int | None, weight: float, max_slots: int | None) -> None:
        """Of a job that is in the queue already. Raises as `require_change`."""
        changes: list[JobChange] = [SetWeight(weight)]
        if priority is not None:
            changes.append(SetPriority(priority))
        if self.workload is WorkloadType.EXPERIMENT:
            changes.append(SetMaxSlots(max_slots))
        for change in changes:
            self.require_change(change)

    def require_keep_counts(self, changes: JsonMapping) -> None:
        """Raises InvalidArgument for those that an invariant fixes otherwise."""
        for key, value in changes.items():
            self._require_fixed(("checkpoint_storage", key), value, f"{key} cannot be modified")

    def problems(self) -> Iterator[str]:
        """Invariants that break a constraint: nobody could submit anything."""
        fixed = self.over({}).get("resources") or {}
        limit = self._max_slots
        for key in (*_SLOTS, "max_slots"):
            value = fixed.get(key)
            if limit is not None and value is not None and value > limit.value:
                yield (
                    f"invariant_config.resources.{key}: {value} is more than "
                    f"constraints.resources.max_slots of {limit.scope}, {limit.value}"
                )
        bound, priority = self._priority_limit, fixed.get("priority")
        if bound is not None and priority is not None and priority < bound.value:
            yield (
                f"invariant_config.resources.priority: {priority} is stronger than "
                f"constraints.priority_limit of {bound.scope}, {bound.value}"
            )

    @property
    def _max_slots(self) -> _Limit | None:
        for scope, policy in reversed(self.layers):
            if (value := policy.constraints.resources.max_slots) is not None:
                return _Limit(value, scope)
        return None

    @property
    def _priority_limit(self) -> _Limit | None:
        for scope, policy in reversed(self.layers):
            if (value := policy.constraints.priority_limit) is not None:
                return _Limit(value, scope)
        return None

    def _require_priority(self, priority: int | None) -> None:
        limit = self._priority_limit
        if limit is not None and priority is not None and priority < limit.value:
            raise ConstraintBroken(
                "resources.priority",
                f"requested priority [{priority}] exceeds limit set by admin [{limit.value}]: "
                f"{_FAILED} priority constraint of the config policy of {limit.scope}",
            )

    def _require_max_slots(self, max_slots: int | None) -> None:
        limit = self._max_slots
        if limit is not None and max_slots is None:
            raise InvalidArgument(
                f"max_slots: none is more than the config policy of {limit.scope} allows, {limit.value}"
            )
        self.require(slots=0, max_slots=max_slots, priority=None)

    def _require_free(self, key: str, value: object, refusal: str) -> None:
        self._require_fixed(("resources", key), value, refusal)

    def _require_fixed(self, path: tuple[str, ...], value: object, refusal: str) -> None:
        for layer in reversed(self.layers):
            fixed = _at(layer.policy.invariant_config, path)
            if fixed is None:
                continue
            if fixed != value:
                raise InvalidArgument(
                    f"{refusal}: the config policy of {layer.scope} sets {'.'.join(path)} to {_shown(fixed)}"
                )
            return


NO_POLICIES = Policies(WorkloadType.EXPERIMENT)


def _leaves(document: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in document.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*path, key))
        elif value is not None:
            yield (*path, key)


def _at(document: Mapping[str, Any], path: Sequence[str]) -> Any:
    found: Any = document
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _shown(value: object) -> str:
    return shown(value) if isinstance(value, str) else shown(str(value)).strip('"')
