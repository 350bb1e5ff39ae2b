"""What every provider promises of launches: whole or not at all, once for each token, as they were frozen."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.contract.providers.base import ProviderCase, a_token
from tests.fakes.fleet_world import CLUSTER
from windlass.base.errors import WindlassError


@pytest.mark.slow
async def test_offers_are_complete(case: ProviderCase) -> None:
    assert (case.offer.slots, case.offer.usd_per_hour) == (2, 3.0)
    assert case.offer.boot_s > 0
    assert {offer.key.provider for offer in case.offers} == {case.provider.name}
    assert len({offer.key for offer in case.offers}) == len(case.offers)


async def test_a_pool_that_buys_nothing_here_is_sold_nothing(case: ProviderCase) -> None:
    assert case.provider.offers("another") == ()


async def test_a_launch_makes_all_machines_and_tags_them(case: ProviderCase) -> None:
    intent = case.intent(3)
    result = await case.launch(intent)
    assert len(set(result.instance_ids)) == 3
    found = await case.living()
    assert set(found) == set(result.instance_ids)
    for instance in found.values():
        assert instance.cluster_id == CLUSTER
        assert instance.pool == "gpu"
        assert instance.intent_id == intent.intent_id
        assert instance.generation == 7
        assert instance.offer_key == case.offer.key
        assert instance.created_at > 0


async def test_tags_say_what_a_machine_has_and_costs(case: ProviderCase) -> None:
    (instance_id,) = (await case.launch(case.intent())).instance_ids
    found = (await case.living())[instance_id]
    assert (found.slots, found.usd_per_hour) == (2, 3.0)
    assert found.started_at is not None


async def test_a_launch_is_whole_or_not_at_all(case: ProviderCase) -> None:
    case.stock(case.offer, 1)
    with pytest.raises(WindlassError):
        await case.launch(case.intent(2))
    assert not await case.living()
    assert len((await case.launch(case.intent(1))).instance_ids) == 1


async def test_the_same_token_answers_with_the_same_machines(case: ProviderCase) -> None:
    intent = case.intent(2)
    first = await case.launch(intent)
    again = await case.launch(intent)
    assert again.instance_ids == first.instance_ids
    assert len(await case.living()) == 2
    other = await case.launch(case.intent(1))
    assert not set(other.instance_ids) & set(first.instance_ids)
    assert len(await case.living()) == 3


@pytest.mark.slow
async def test_the_same_token_answers_the_same_after_a_restart(case: ProviderCase) -> None:
    intent = case.intent(2)
    first = await case.launch(intent)
    await case.restart()
    assert (await case.launch(intent)).instance_ids == first.instance_ids
    assert set(await case.living()) == set(first.instance_ids)


async def test_launches_with_one_token_at_once_make_one_group(case: ProviderCase) -> None:
    intent = case.intent(2)
    results = await asyncio.gather(*(case.launch(intent) for _ in range(4)))
    assert len({result.instance_ids for result in results}) == 1
    assert len(await case.living()) == 2


async def test_a_launch_whose_reply_is_lost_has_made_its_machines_once(case: ProviderCase) -> None:
    intent = case.intent(2)
    case.lose_replies(1)
    with pytest.raises((TimeoutError, OSError)):
        await case.launch(intent)
    result = await case.launch(intent)
    assert set(await case.living()) == set(result.instance_ids)
    assert len(result.instance_ids) == 2


async def test_a_launch_that_never_arrived_is_made_by_its_repetition(case: ProviderCase) -> None:
    intent = case.intent()
    case.drop_requests(1)
    with pytest.raises((TimeoutError, OSError)):
        await case.launch(intent)
    assert not await case.living()
    assert set((await case.launch(intent)).instance_ids) == set(await case.living())


async def test_a_repetition_after_a_changed_configuration_makes_nothing_new(
    case: ProviderCase,
) -> None:
    intent = case.intent(2)
    first = await case.launch(intent)
    case.reconfigure()
    changed = case.intent(2, token=intent.token)
    assert changed.request != intent.request, "a new launch is made of the new settings"
    assert (await case.launch(intent)).instance_ids == first.instance_ids
    assert len(await case.living()) == 2


async def test_what_is_frozen_holds_no_secret_and_is_plain_json(case: ProviderCase) -> None:
    token = a_token()
    request = case.intent(token=token).request
    assert json.loads(json.dumps(request)) == request
    assert "join-me" not in json.dumps(request)
    assert case.intent(token=token).request == request, "the same in every repetition"
