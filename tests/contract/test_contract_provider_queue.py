"""What every provider promises of launches that it accepts now and delivers later."""

from __future__ import annotations

import pytest

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import Accepted, LaunchResult
from provisioner.providers.errors import Refusal
from tests.contract.providers.base import ProviderCase, delivered
from tests.fakes.fleet_world import CLUSTER


@pytest.mark.slow
async def test_an_accepted_launch_is_listed_as_one_group_and_has_no_machine(
    case: ProviderCase,
) -> None:
    case.queue(case.offer)
    intent = case.intent(2)
    accepted = await case.accepted(intent)
    assert accepted.handle
    assert accepted.look_again_s > 0
    inventory = await case.provider.list()
    assert not inventory.instances
    (group,) = inventory.groups
    assert group.accepted.handle == accepted.handle
    assert (group.cluster_id, group.pool, group.generation) == (CLUSTER, "gpu", 7)
    assert (group.intent_id, group.offer_key) == (intent.intent_id, case.offer.key)
    assert group.count == 2


@pytest.mark.slow
async def test_a_queued_launch_is_delivered_whole_to_who_asks_by_its_handle(
    case: ProviderCase,
) -> None:
    case.queue(case.offer)
    intent = case.intent(2)
    handle = (await case.accepted(intent)).handle
    assert isinstance(await case.provider.answer(handle), Accepted)
    case.deliver()
    result = delivered(await case.provider.answer(handle))
    assert len(set(result.instance_ids)) == 2
    assert set(await case.living()) == set(result.instance_ids)
    assert {x.intent_id for x in (await case.living()).values()} == {intent.intent_id}
    assert not (await case.provider.list()).groups
    assert delivered(await case.provider.answer(handle)) == result, "as often as it is asked"


@pytest.mark.slow
async def test_the_token_of_a_queued_launch_queues_nothing_more(case: ProviderCase) -> None:
    case.queue(case.offer)
    intent = case.intent(2)
    first = await case.accepted(intent)
    await case.restart()
    again = await case.provider.launch(intent)
    assert isinstance(again, Accepted)
    assert again.handle == first.handle
    assert len((await case.provider.list()).groups) == 1
    case.deliver()
    assert isinstance(await case.provider.launch(intent), LaunchResult)
    assert len(await case.living()) == 2


@pytest.mark.slow
async def test_a_queued_launch_whose_reply_is_lost_is_found_in_the_list(
    case: ProviderCase,
) -> None:
    case.queue(case.offer)
    case.lose_replies(1)
    intent = case.intent()
    with pytest.raises((TimeoutError, OSError)):
        await case.provider.launch(intent)
    (group,) = (await case.provider.list()).groups
    assert group.intent_id == intent.intent_id
    assert (await case.accepted(intent)).handle == group.accepted.handle


@pytest.mark.slow
async def test_a_cancelled_launch_is_never_delivered(case: ProviderCase) -> None:
    case.queue(case.offer)
    handle = (await case.accepted(case.intent(2))).handle
    await case.provider.cancel(handle)
    await case.provider.cancel(handle)
    assert not (await case.provider.list()).groups
    case.deliver()
    assert not await case.living()
    with pytest.raises(Refusal):
        await case.provider.answer(handle)


@pytest.mark.slow
async def test_cancelling_what_was_delivered_meanwhile_ends_its_machines(
    case: ProviderCase,
) -> None:
    case.queue(case.offer)
    handle = (await case.accepted(case.intent(2))).handle
    case.deliver()
    await case.provider.cancel(handle)
    assert not await case.living()


@pytest.mark.slow
async def test_a_refusal_may_come_late(case: ProviderCase) -> None:
    case.queue(case.offer)
    handle = (await case.accepted(case.intent())).handle
    case.refuse(case.offer, BlockKind.QUOTA)
    with pytest.raises(Refusal) as refused:
        await case.provider.answer(handle)
    assert refused.value.kind is BlockKind.QUOTA
    assert not (await case.provider.list()).groups
    assert not await case.living()


async def test_an_unknown_handle_is_cancelled_with_success(case: ProviderCase) -> None:
    await case.provider.cancel("never-was")
    assert not (await case.provider.list()).groups
