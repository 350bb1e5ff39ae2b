"""Groups and roles in memory are what is stored; and an administrator where nobody is one any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from master.auth.role_service import RoleService
from master.auth.service import MASTER, AuthService
from master.auth.user_rules import UserPatch
from master.core.roles.access import Grant
from master.core.roles.catalogue import RoleId
from master.core.roles.groups import Assignment
from master.core.roles.permissions import Permission
from master.recovery.administrator import recover_administrator
from master.store.store import Store
from tests.fakes.actors import ADMIN
from tests.stores import leading_store
from windlass.base.clock import ManualClock
from windlass.base.errors import LeaseLost, NotFound
from windlass.base.ids import Ids

VIEWER = Assignment(Grant(RoleId.VIEWER), user_id=2)


@pytest.fixture
async def roles(memory_store: Store, clock: ManualClock) -> RoleService:
    await AuthService(memory_store, clock, Ids.seeded(1)).ensure_users()
    service = RoleService(memory_store)
    await service.load()
    return service


async def test_another_start_finds_what_there_was(roles: RoleService, memory_store: Store) -> None:
    group = await roles.create_group("team", [2], by=ADMIN)
    await roles.assign([Assignment(Grant(RoleId.EDITOR), group_id=group.id), VIEWER], by=ADMIN)
    again = RoleService(memory_store)
    await again.load()
    assert again.groups() == roles.groups()
    assert again.assignments() == roles.assignments()
    assert again.access_of(2).allows(Permission.CREATE_EXPERIMENT)
    await roles.delete_group(group.id, by=ADMIN)
    await again.load()
    assert again.assignments() == [VIEWER]
    assert not again.access_of(2).allows(Permission.CREATE_EXPERIMENT)


async def test_what_is_not_committed_has_not_happened(
    roles: RoleService, memory_store: Store
) -> None:
    group = await roles.create_group("team", [2], by=ADMIN)
    await roles.assign([VIEWER], by=ADMIN)
    before = roles.groups(), roles.assignments(), roles.access_of(2)
    await memory_store.take_lease("another")
    other = RoleService(memory_store)
    memory_store._epoch -= 1
    for change in (
        roles.assign([Assignment(Grant(RoleId.EDITOR), user_id=2)], by=ADMIN),
        roles.remove([VIEWER], by=ADMIN),
        roles.update_group(group.id, name="lab", remove=[2], by=ADMIN),
        roles.delete_group(group.id, by=ADMIN),
        roles.create_group("new", [], by=ADMIN),
    ):
        with pytest.raises(LeaseLost):
            await change
    assert (roles.groups(), roles.assignments(), roles.access_of(2)) == before
    await other.load()
    assert (other.groups(), other.assignments()) == before[:2]


async def test_the_first_start_makes_an_administrator_and_later_ones_none(
    roles: RoleService,
) -> None:
    await roles.ensure_administrator(1, by=ADMIN)
    await roles.ensure_administrator(2, by=ADMIN)
    assert roles.assignments() == [Assignment(Grant(RoleId.CLUSTER_ADMIN), user_id=1)]


async def test_an_administrator_is_recovered(tmp_path: Path, clock: ManualClock) -> None:
    url = f"sqlite:///{tmp_path / 'db'}"
    async with leading_store(url, clock) as store:
        auth = AuthService(store, clock, Ids.seeded(1))
        await auth.ensure_users()
        await auth.patch(2, UserPatch(active=False), by=MASTER)
        await store.give_back_lease()
    await recover_administrator(url, tmp_path, "determined", clock)
    await recover_administrator(url, tmp_path, "determined", clock)
    with pytest.raises(NotFound, match="user 'nobody' not found"):
        await recover_administrator(url, tmp_path, "nobody", clock)
    async with leading_store(url, clock) as store:
        auth, roles = AuthService(store, clock, Ids.seeded(1)), RoleService(store)
        await auth.load()
        await roles.load()
        assert (auth.user(2).active, auth.user(2).admin) == (True, True)
        assert roles.access_of(2).allows(Permission.ASSIGN_ROLES)
        assert not roles.access_of(1).allows_somewhere(Permission.VIEW_WORKSPACE)
