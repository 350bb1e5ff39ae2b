"""What it costs to ask whether somebody may do something, with roles of 500 groups in 1,000 workspaces.

    python -m benchmarks.bench_roles

The user is in all groups; each holds a role in several workspaces. Budget: 20 µs for a decision, a mean over all
actions and many workspaces. Besides: what a request for a list asks once (where may this user look?), and the first
decision after some role changed, for which the roles of the user are put together anew.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.calibration import REFERENCE_S, loop_s, print_calibration
from master.auth.actions import Action, Target
from master.auth.permissions import allowed, visibility
from master.auth.principal import Principal
from master.auth.role_rules import RoleRules
from master.core.roles.access import Access, Grant, access_of
from master.core.roles.catalogue import FIXED_ROLES, RoleId

WORKSPACES, GROUPS, IN_EACH = sized((1_000, 500, 4), (20, 10, 2))
ROUNDS = sized(20, 1)
BUDGET_US = 20.0
ROLES = {role.id: role for role in FIXED_ROLES}
HELD = (RoleId.VIEWER, RoleId.EDITOR, RoleId.WORKSPACE_ADMIN, RoleId.EDITOR_RESTRICTED)
KINDS = ("experiment", "workspace", "model", "notebook", "template")
T = TypeVar("T")


def grants() -> list[Grant]:
    """Of all groups."""
    return [
        Grant(HELD[(group + at) % len(HELD)], 1 + (group * IN_EACH + at) % WORKSPACES)
        for group in range(GROUPS)
        for at in range(IN_EACH)
    ]


def took_s(work: Callable[[], T]) -> tuple[float, T]:
    """The faster of two, of CPU time."""
    begun = time.process_time()
    work()
    first_s, begun = time.process_time() - begun, time.process_time()
    found = work()
    return min(first_s, time.process_time() - begun), found


def decisions(by: Principal) -> int:
    targets = [
        Target(kind=KINDS[id_ % len(KINDS)], id=id_, owner_id=9, workspace_id=id_, experiment_id=1)
        for id_ in range(1, WORKSPACES + 1, 10)
    ]
    number = 0
    for _ in range(ROUNDS):
        for target in targets:
            for action in Action:
                allowed(by, action, target)
                number += 1
    return number


def main() -> int:
    arguments(__doc__).parse_args()
    print_calibration()
    slower = loop_s() / REFERENCE_S
    held = grants()

    def put_together() -> Access:
        return access_of(held, ROLES)

    first_s, access = took_s(put_together)
    by = Principal(user_id=7, name="ann", admin=False, rules=RoleRules(access))
    all_s, number = took_s(lambda: decisions(by))
    list_s, _ = took_s(lambda: visibility(by, Action.VIEW_EXPERIMENTS))
    each_us = 1e6 * all_s / number
    print(
        f"{number} decisions, {GROUPS} groups, {WORKSPACES} workspaces: {each_us:.2f} µs each; where budgets are for: "
        f"{each_us / slower:.2f} µs, budget {BUDGET_US:g} µs"
    )
    print(
        f"  where this user may look: {1e6 * list_s:.0f} µs; the roles put together: {1e3 * first_s:.2f} ms"
    )
    return exit_code(each_us / slower <= BUDGET_US)


if __name__ == "__main__":
    sys.exit(main())
