"""What the cluster adds to everything that is submitted, and which pool it goes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from master.core.expconf import ClusterDefaults
from windlass.base.errors import InvalidConfig


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

    def pool_of(self, wanted: str, *, aux: bool, what: str) -> str:
        """The pool `wanted`, or the default one of work with slots or without (`aux`).

        Raises InvalidConfig, of a `what`, for an unknown pool, or if none is named and there is no default.
        """
        pool = wanted or (self.default_aux_pool if aux else self.default_compute_pool)
        if pool is not None and pool in self.defaults:
            return pool
        problem = f'there is no pool "{pool}"'
        if pool is None:
            problem = f"must be set: there is no default pool for work {'without' if aux else 'with'} slots"
        known = ", ".join(sorted(self.defaults))
        raise InvalidConfig(
            [f"<config>.resources.resource_pool: {problem}; use one of {known}"], what=what
        )
