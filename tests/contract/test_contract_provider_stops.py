"""What every provider promises of machines that are stopped and started again, if it can do that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import CannotStop, FoundState
from provisioner.providers.errors import refusal_kind
from provisioner.types import Offer
from tests.contract.providers.base import POOL, ProviderCase
from windlass.base.errors import ProviderError, WindlassError


async def off(case: ProviderCase) -> tuple[str, Offer]:
    """A machine that has stopped, and by what its start is known."""
    offer = case.stoppable()
    (name,) = (await case.launch(case.intent(offer=offer))).instance_ids
    await case.provider.stop(name)
    await case.off(name)
    return name, replace(offer, key=replace(offer.key, stopped=True))


async def test_a_stopped_machine_is_listed_as_such_with_all_its_tags(case: ProviderCase) -> None:
    name, start = await off(case)
    await case.restart()
    found = (await case.living())[name]
    assert found.state is FoundState.STOPPED
    assert (found.pool, found.generation) == (POOL, 7)
    assert found.offer_key == replace(start.key, stopped=False)


async def test_it_runs_again_as_the_same_machine(case: ProviderCase) -> None:
    name, start = await off(case)
    before = (await case.living())[name]
    await case.provider.start(name, start)
    living = await case.living()
    assert set(living) == {name}
    assert living[name].state in (FoundState.PENDING, FoundState.RUNNING)
    assert living[name].intent_id == before.intent_id


async def test_both_may_be_repeated(case: ProviderCase) -> None:
    name, start = await off(case)
    await case.provider.stop(name)
    await case.off(name)
    await case.provider.start(name, start)
    await case.restart()
    await case.provider.start(name, start)
    assert set(await case.living()) == {name}
    await case.provider.stop(name)
    await case.off(name)


async def test_a_stopped_machine_is_ended_like_any_other(case: ProviderCase) -> None:
    name, _ = await off(case)
    await case.provider.terminate([name])
    assert not await case.living()


async def test_one_that_is_gone_can_neither_stop_nor_start(case: ProviderCase) -> None:
    name, start = await off(case)
    await case.provider.terminate([name])
    with pytest.raises(WindlassError):
        await case.provider.stop(name)
    with pytest.raises(WindlassError):
        await case.provider.start(name, start)


async def test_a_start_without_capacity_is_refused_as_such_and_it_stays_stopped(
    case: ProviderCase,
) -> None:
    name, start = await off(case)
    case.no_starts(start)
    with pytest.raises(WindlassError) as refused:
        await case.provider.start(name, start)
    assert refusal_kind(refused.value) is BlockKind.CAPACITY
    assert (await case.living())[name].state is FoundState.STOPPED
    case.mend()
    await case.provider.start(name, start)


@pytest.mark.slow
async def test_machines_that_only_end_say_so(case: ProviderCase) -> None:
    if not isinstance(case.provider, CannotStop):
        pytest.skip("it can stop machines")
    with pytest.raises(ProviderError, match="only end"):
        await case.provider.stop("machine")
