"""What every provider promises of lists and of ends: the truth, or that it does not know it."""

from __future__ import annotations

import pytest

from provisioner.providers.base import LimitedCall
from provisioner.types import Scope
from tests.contract.providers.base import ProviderCase
from windlass.base.errors import WindlassError


@pytest.mark.slow
async def test_a_machine_that_died_is_not_alive_in_lists(case: ProviderCase) -> None:
    one, other = await case.two()
    case.kill(one)
    assert set(await case.living()) == {other}
    assert set(await case.living()) == {other}


async def test_machines_that_end_together_are_ended_and_die_as_one(case: ProviderCase) -> None:
    if not case.offer.ends_together:
        case.cannot("end machines together")
    one, _ = (await case.launch(case.intent(2))).instance_ids
    (other,) = (await case.launch(case.intent())).instance_ids
    case.kill(one)
    assert set(await case.living()) == {other}
    _, two = (await case.launch(case.intent(2))).instance_ids
    await case.provider.terminate([two])
    assert set(await case.living()) == {other}


async def test_terminate_ends_exactly_those_and_can_be_repeated(case: ProviderCase) -> None:
    one, other = await case.two()
    await case.provider.terminate([one])
    assert set(await case.living()) == {other}
    await case.provider.terminate([])
    assert set(await case.living()) == {other}
    await case.provider.terminate([one, other])
    assert not await case.living()


@pytest.mark.slow
async def test_a_console_is_one_printable_line(case: ProviderCase) -> None:
    (one,) = (await case.launch(case.intent())).instance_ids
    assert await case.provider.console(one) == ""
    case.write_console(one, "x" * 1000 + "\x1b[1m\r\nwindlass: no\x00 disk.\r\n")
    said = await case.provider.console(one)
    assert said.isprintable()
    assert len(said) < 1000
    assert said.startswith("x")
    assert "windlass: no" in said
    assert await case.provider.console("i-0123456789abcdef0") == ""


async def test_unknown_ids_among_others_hinder_no_end(case: ProviderCase) -> None:
    one, other = await case.two()
    await case.provider.terminate([one, "never-was"])
    assert set(await case.living()) == {other}
    await case.provider.terminate(["never-was", other])
    assert not await case.living()


async def test_a_termination_that_fails_ends_nothing_and_is_repeated(case: ProviderCase) -> None:
    ids = (await case.launch(case.intent(2))).instance_ids
    case.fail_terminates(1)
    with pytest.raises((WindlassError, OSError)):
        await case.provider.terminate(ids)
    assert set(await case.living()) == set(ids)
    await case.provider.terminate(ids)
    assert not await case.living()


async def test_a_list_that_fails_raises_and_is_not_empty(case: ProviderCase) -> None:
    ids = (await case.launch(case.intent())).instance_ids
    case.fail_lists()
    with pytest.raises((WindlassError, OSError)):
        await case.provider.list()
    case.mend()
    assert set(await case.living()) == set(ids)


async def test_a_throttled_list_raises_and_is_not_empty(case: ProviderCase) -> None:
    await case.launch(case.intent())
    case.throttle(LimitedCall.LIST, 1)
    with pytest.raises(WindlassError):
        await case.provider.list()
    assert len(await case.living()) == 1


async def test_a_partial_list_says_what_it_does_not_show(case: ProviderCase) -> None:
    (instance_id,) = (await case.launch(case.intent())).instance_ids
    assert not (await case.provider.list()).unseen
    case.hide(case.offer)
    inventory = await case.provider.list()
    assert instance_id not in {x.instance_id for x in inventory.instances}
    assert any(scope.covers(case.offer) for scope in inventory.unseen)
    assert all(scope.provider == case.provider.name for scope in inventory.unseen)
    assert all(why and isinstance(scope, Scope) for scope, why in inventory.unseen.items())
    case.mend()
    assert instance_id in await case.living()


@pytest.mark.slow
async def test_a_young_machine_may_be_missing_for_the_grace_and_no_longer(
    case: ProviderCase,
) -> None:
    case.hide_young(case.provider.list_grace_s)
    (instance_id,) = (await case.launch(case.intent())).instance_ids
    assert instance_id not in await case.living()
    case.mend()
    assert instance_id in await case.living()


async def test_a_machine_that_is_taken_back_is_announced_and_then_gone(case: ProviderCase) -> None:
    stays, goes = await case.two()
    case.take_back(goes, 3600.0)
    found = await case.living()
    assert found[stays].leaves_at is None
    assert found[goes].leaves_at is not None
    assert found[goes].leaves_because
    case.take_back(goes, -1.0)
    assert set(await case.living()) == {stays}


@pytest.mark.slow
async def test_machines_are_found_after_a_restart(case: ProviderCase) -> None:
    ids = (await case.launch(case.intent(2))).instance_ids
    await case.restart()
    assert set(await case.living()) == set(ids)
    await case.provider.terminate(ids)
    assert not await case.living()


async def test_it_can_be_closed_and_opened_again(case: ProviderCase) -> None:
    ids = (await case.launch(case.intent())).instance_ids
    await case.provider.close()
    await case.provider.open()
    assert set(await case.living()) == set(ids)
