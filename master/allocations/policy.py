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
    default_compute_pool: str = "default"
    default_aux_pool: str = "default"
    launch_error: bool = True
    """Refuse what could never run; false: accept it with a warning."""

    def pool_of(self, wanted: str, *, aux: bool, what: str) -> str:
        """The pool `wanted`, or the default one of work with slots or without (`aux`).

        Raises InvalidConfig, of a `what`, for an unknown pool.
        """
        pool = wanted or (self.default_aux_pool if aux else self.default_compute_pool)
        if pool not in self.defaults:
            known = ", ".join(sorted(self.defaults))
            problem = (
                f'<config>.resources.resource_pool: there is no pool "{pool}"; use one of {known}'
            )
            raise InvalidConfig([problem], what=what)
        return pool
