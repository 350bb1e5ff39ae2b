"""What a job asks of the machines it runs on: keys of `resources`, the same for experiments and tasks."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from master.core.expconf.models.schema import Items, Number, Positive, Section
from master.core.expconf.parsing.errors import nearest
from master.core.machines import Market, Requirements

MIB = 2**20


def _named(models: tuple[str, ...]) -> tuple[str, ...]:
    if any(not any(map(str.isalnum, model)) for model in models):
        raise ValueError('must name GPU models such as "A100"')
    return models


def _market(value: Any) -> Any:
    known = [market.value for market in Market]
    if value not in known:
        near = nearest(str(value), known)
        hint = f' (did you mean "{near}"?)' if near else ""
        raise ValueError(f'"{value}" is no market{hint}: use one of {", ".join(known)}')
    return Market(value)


def _memory(value: Any) -> Any:
    """Strings that could be read have become bytes before (see `normalise`)."""
    if isinstance(value, str):
        raise ValueError(f'"{value}" is not a size such as "40GiB"')
    return value


class MachineRequirements(Section):
    """All but `fall_back` are kept in every pool: what no machine of the pool can meet is refused at submission."""

    gpu_models: Annotated[Items[str], AfterValidator(_named)] = ()
    """Only on GPUs of one of these models: "A100" is every A100, "A100 80GB" one with that in its name."""
    min_gpu_memory: Annotated[Positive, BeforeValidator(_memory)] | None = None
    """Of each GPU at the least: bytes, or a size such as "40GiB"."""
    markets: Items[Annotated[Market, BeforeValidator(_market)]] = ()
    """Only on machines bought so: reserved, capacity_block, spot, on_demand, queued. Machines that are not bought serve
    all."""
    max_usd_per_hour: Annotated[Number, Field(ge=0)] | None = None
    """What all machines of one trial or task may cost together, each counted whole."""
    placement_group: bool = False
    """Several machines of one trial must be in one placement group."""
    fall_back: bool = True
    """false: never in a pool that its own falls back to."""

    def requirements(self) -> Requirements:
        """As the scheduler and the planner ask them."""
        return Requirements(
            gpu_models=frozenset(self.gpu_models),
            min_gpu_memory_mib=-(-(self.min_gpu_memory or 0) // MIB),
            markets=frozenset(self.markets),
            max_usd_per_hour=self.max_usd_per_hour,
            placement_group=self.placement_group,
            may_fall_back=self.fall_back,
        )
