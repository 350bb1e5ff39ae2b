"""Each role in each scope at each route: what the rules say is what the published table says."""

from __future__ import annotations

import pytest

from master.api.permits import VISIBLE, Permit, permit_of
from master.auth.actions import ANYWHERE, CLUSTER, Target
from master.auth.permissions import allowed, denial, visibility
from master.auth.principal import Principal
from master.auth.role_rules import RoleRules
from master.core.roles.access import Access, Grant, access_of
from master.core.roles.catalogue import roles
from tests.fakes.populated_world import routes
from tests.unit.auth.permissions_of_routes import ROUTE_NEEDS, RouteNeed
from tests.unit.auth.published_permissions import CLUSTER_ONLY, HOLDERS, ROLES, has
from windlass.base.errors import NotFound

HERE, THERE = 7, 8
"""The workspace of the target, and another one."""
SCOPES = (None, HERE, THERE)
_DECLARED = {
    f"{method} {route.path}": permit
    for method, route in routes()
    if (permit := permit_of(route.endpoint)).action is not None
}
_ROLES = roles()


def test_every_route_has_an_entry() -> None:
    assert sorted(_DECLARED) == sorted(ROUTE_NEEDS)


@pytest.mark.parametrize("scope", SCOPES, ids=["cluster", "here", "elsewhere"])
@pytest.mark.parametrize("letter", [*ROLES, ""])
def test_each_role_may_do_what_the_table_says(letter: str, scope: int | None) -> None:
    access = access_of([Grant(ROLES[letter][0], scope)], _ROLES) if letter else Access()
    caller = Principal(user_id=3, name="x", admin=True, rules=RoleRules(access))
    wrong = {
        route: (expected, found)
        for route, need in ROUTE_NEEDS.items()
        if (expected := _expected(letter, scope, need))
        != (found := _found(caller, _DECLARED[route], need))
    }
    assert wrong == {}


def _expected(letter: str, scope: int | None, need: RouteNeed) -> int:
    def holds(permission: str, *, here: bool = True) -> bool:
        if not permission:
            return True
        if not letter or not has(letter, permission):
            return False
        if scope is None:
            return True
        assignable = not any(has(letter, one) for one in CLUSTER_ONLY)
        return assignable and here and scope == HERE

    if need.kind == "free":
        return 200
    if need.kind == "cluster":
        return 200 if holds(need.needs, here=False) else 403
    if not holds(need.sees):
        return 404
    return 200 if holds(need.needs) else 403


def _found(caller: Principal, permit: Permit, need: RouteNeed) -> int:
    assert permit.action is not None
    if need.kind == "free":
        return 200 if allowed(caller, permit.action, CLUSTER) else 403
    if permit.where is VISIBLE and not allowed(caller, permit.action, ANYWHERE):
        return 403
    if need.kind == "seen":
        visible = visibility(caller, permit.action)
        if need.sees == "VIEW_NSC" and visible.interactive is not None:
            visible = visible.interactive
        return 200 if HERE in visible else 404
    target = CLUSTER
    if need.kind != "cluster":
        target = Target(kind=need.kind, id=1, owner_id=4, workspace_id=HERE, experiment_id=1)
    if allowed(caller, permit.action, target):
        return 200
    return 404 if isinstance(denial(caller, permit.action, target), NotFound) else 403


def test_the_table_names_permissions_that_there_are() -> None:
    named = {name for need in ROUTE_NEEDS.values() for name in need[1:] if name}
    assert named <= set(HOLDERS)
