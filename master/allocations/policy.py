"""What the cluster, and a workspace, add to everything that is submitted, and which pool it goes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from master.core.expconf import ClusterDefaults
from windlass.base.errors import InvalidConfig
from windlass.base.formats.json_types import JsonMapping


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceDefaults:
    """Of one workspace; what it says nothing of is the cluster's."""

    workspace_id: int
    usable: frozenset[str]
    """Pools that its work may go to."""
    compute_pool: str | None = None
    aux_pool: str | None = None
    checkpoint_storage: JsonMapping = field(default_factory=dict)

    def pool(self, *, aux: bool) -> str | None:
        """Of work that names none. One that it may not use any more is none."""
        name = self._configured(aux=aux)
        return name if name in self.usable else None

    def lost_pool(self, *, aux: bool) -> str | None:
        """The one that it may not use any more."""
        name = self._configured(aux=aux)
        return None if name in self.usable else name

    def _configured(self, *, aux: bool) -> str | None:
        return self.aux_pool if aux else self.compute_pool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPolicy:
    defaults: Mapping[str, ClusterDefaults]
    """By pool: its container defaults and the cluster's checkpoint storage."""
    default_compute_pool: str | None = "default"
    """None: whoever submits work with slots names its pool."""
    default_aux_pool: str | None = "default"
    """None: whoever submits work without slots names its pool."""
    launch_error: bool = True
    """Refuse what could never run; false: accept it with a warning."""
    max_lost_runs: int = 10
    """How often a trial may lose its machine without a new checkpoint. More than that is not bad luck."""

    def pool_of(
        self, wanted: str, *, aux: bool, what: str, workspace: WorkspaceDefaults | None = None
    ) -> str:
        """The pool `wanted`, or the default one of work with slots or without (`aux`): the workspace's, else ours.

        Raises InvalidConfig, of a `what`, for a pool that is not there or that the workspace may not use, in the same
        words, or if none is named and there is no default.
        """
        own = workspace.pool(aux=aux) if workspace is not None else None
        pool = wanted or own or (self.default_aux_pool if aux else self.default_compute_pool)
        usable = self.defaults.keys() if workspace is None else workspace.usable
        if pool is not None and pool in self.defaults and pool in usable:
            return pool
        problem = f'there is no pool "{pool}"'
        if pool is None:
            problem = f"must be set: there is no default pool for work {'without' if aux else 'with'} slots"
        elif workspace is not None:
            problem += f" for workspace {workspace.workspace_id}"
        known = ", ".join(sorted(usable))
        raise InvalidConfig(
            [f"<config>.resources.resource_pool: {problem}; use one of {known}"], what=what
        )


def lost_default(
    wanted: str, pool: str, *, aux: bool, workspace: WorkspaceDefaults | None
) -> Iterator[str]:
    """The warning to a submitter who named no pool: `pool` was used instead of the workspace's default."""
    lost = workspace.lost_pool(aux=aux) if workspace is not None and not wanted else None
    if workspace is not None and lost is not None:
        kind = "auxiliary" if aux else "compute"
        yield (
            f"resources.resource_pool: '{lost}', the default {kind} pool of workspace {workspace.workspace_id}, is not "
            f"there any more for this workspace: '{pool}' is used"
        )
