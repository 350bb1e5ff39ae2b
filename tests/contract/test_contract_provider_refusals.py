"""What every provider promises of refusals: their kind, what they are true for, and that nothing was made."""

from __future__ import annotations

import pytest

from provisioner.capacity.refusals import BlockKind, scope_of
from provisioner.providers.base import LimitedCall
from provisioner.providers.errors import Refusal, refusal_kind
from tests.contract.providers.base import ProviderCase
from windlass.base.errors import WindlassError

KINDS = [kind for kind in BlockKind if kind not in (BlockKind.BOOT, BlockKind.TAKEN_BACK)]
"""Boots fail later, and machines are taken back later, without a refusal."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_a_refusal_says_of_which_kind_it_is_and_makes_nothing(
    case: ProviderCase, kind: BlockKind
) -> None:
    case.refuse(case.offer, kind)
    with pytest.raises(WindlassError) as refused:
        await case.provider.launch(case.intent(2))
    if kind is not BlockKind.UNKNOWN:
        assert refusal_kind(refused.value) is kind
    else:
        assert refusal_kind(refused.value) in (BlockKind.UNKNOWN, None)
    assert not await case.living()
    scope = refused.value.scope if isinstance(refused.value, Refusal) else None
    assert (scope or scope_of(kind, case.offer)).covers(case.offer), "true for what was asked"
    case.mend()
    assert len((await case.launch(case.intent())).instance_ids) == 1


async def test_a_quota_is_named_with_its_number(case: ProviderCase) -> None:
    case.refuse(case.offer, BlockKind.QUOTA)
    with pytest.raises(Refusal) as refused:
        await case.provider.launch(case.intent())
    assert (refused.value.quota, refused.value.number) == case.quota


async def test_a_stock_out_of_one_offer_leaves_the_others_for_sale(case: ProviderCase) -> None:
    if len(case.offers) < 2:
        case.cannot("sell two offers")
    case.refuse(case.offer, BlockKind.CAPACITY)
    with pytest.raises(WindlassError) as refused:
        await case.provider.launch(case.intent())
    scope = refused.value.scope if isinstance(refused.value, Refusal) else None
    other = case.offers[1]
    assert not (scope or scope_of(BlockKind.CAPACITY, case.offer)).covers(other)
    assert len((await case.launch(case.intent(offer=other))).instance_ids) == 1


async def test_a_throttled_launch_makes_nothing_and_is_repeated(case: ProviderCase) -> None:
    intent = case.intent()
    case.throttle(LimitedCall.LAUNCH, 1)
    with pytest.raises(Refusal) as refused:
        await case.provider.launch(intent)
    assert refused.value.kind is BlockKind.THROTTLED
    assert not await case.living()
    assert set((await case.launch(intent)).instance_ids) == set(await case.living())
