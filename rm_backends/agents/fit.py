"""Whether a pool of agents could ever hold a request."""

from __future__ import annotations

from collections.abc import Sequence

from master.core.unmet import unmet
from rm_backends.agents.pool import Pool
from rm_backends.base import AllocationRequest
from rm_backends.limits import TooMuch, refusal
from windlass.base.errors import Unfulfillable, Unsatisfiable


def require_fit(pool: Pool, request: AllocationRequest) -> None:
    """Raises Unsatisfiable."""
    if pool.options.closed:
        raise Unsatisfiable(pool.options.closed)
    shape = pool.shape(request.blocked_agents)
    too_much = refusal(shape, request.slots, single_agent=request.single_agent)
    if too_much is None and request.requires.is_picky:
        too_much = _unmet(pool, request)
    if too_much is not None:
        why, nearest = too_much
        if request.single_agent and 0 < shape.largest < request.slots:
            raise Unfulfillable(f"request unfulfillable: {why}", nearest=nearest)
        raise Unsatisfiable(why, nearest=nearest)


def notes_on_fit(pool: Pool, request: AllocationRequest) -> Sequence[str]:
    """What its user should know of how it will run there."""
    largest = pool.shape(request.blocked_agents, request.requires, request.slots).largest
    if not 0 < largest < request.slots:
        return ()
    return (
        f"{request.slots} slots run on several machines, for the largest of resource pool '{pool.name}' has "
        f"{largest}: the network between them may slow the work",
    )


def _unmet(pool: Pool, request: AllocationRequest) -> TooMuch | None:
    why = unmet(pool.name, request.requires, request.slots, pool.kinds(request.blocked_agents))
    if why is not None:
        return TooMuch(why)
    shape = pool.shape(request.blocked_agents, request.requires, request.slots)
    too_much = refusal(shape, request.slots, single_agent=request.single_agent)
    if too_much is None:
        return None
    only = f"counting only {request.requires.describe()}"
    return TooMuch(f"{too_much.why} ({only})", too_much.nearest)
