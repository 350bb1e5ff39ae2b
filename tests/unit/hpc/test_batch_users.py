"""Whether a batch system takes jobs of a user, as submissions ask it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent_bootstrap.container_options import OsUser
from master.batch_users import BatchUsers
from provisioner.providers.batch.base import NoAnswer
from provisioner.providers.batch.commands import COMMAND_LIMIT_S, Done
from provisioner.providers.batch.impersonation import UserRefused
from windlass.base.clock import ManualClock
from windlass.base.errors import PermissionDenied

ALICE = OsUser(uid=1001, gid=100, user="alice", group="users")


class Asked:
    """Commands of whoever is asked for."""

    def __init__(self) -> None:
        self.answer: Done | Exception = Done(0, "1001\n100\n")
        self.calls = 0

    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> Done:
        self.calls += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def users(asked: Asked, clock: ManualClock) -> BatchUsers:
    return BatchUsers(["gpu"], lambda _: asked, clock)


async def test_a_good_user_is_asked_for_once_in_a_while() -> None:
    asked, clock = Asked(), ManualClock()
    known = users(asked, clock)
    for _ in range(3):
        await known.require("gpu", ALICE)
    assert asked.calls == 1
    clock.advance(61)
    await known.require("gpu", ALICE)
    assert asked.calls == 2


@pytest.mark.parametrize(
    ("who", "answer", "said"),
    [
        (None, Done(0), "linked to no user of the cluster, .*link-with-agent-user"),
        (OsUser(), Done(0), "linked to root"),
        (ALICE, Done(0, "1001\n1001\n"), "alice is 1001:1001 on this cluster"),
        (ALICE, UserRefused("alice", "no"), "sudo does not let the master run commands as alice"),
    ],
)
async def test_others_are_refused(who: OsUser | None, answer: Done | Exception, said: str) -> None:
    asked = Asked()
    asked.answer = answer
    with pytest.raises(PermissionDenied, match=said):
        await users(asked, ManualClock()).require("gpu", who)
    await users(asked, ManualClock()).require("local", who)


async def test_a_site_that_does_not_answer_refuses_nobody() -> None:
    asked = Asked()
    asked.answer = NoAnswer("sudo did not end within 10 s")
    await users(asked, ManualClock()).require("gpu", ALICE)
    assert asked.calls == 1
