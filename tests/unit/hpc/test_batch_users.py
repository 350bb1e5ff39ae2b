"""Whether a batch system takes jobs of a user, as submissions ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from agent_bootstrap.container_options import OsUser
from master.wiring.batch.users import BatchUsers
from provisioner.batch.base import NoAnswer
from provisioner.batch.commands import COMMAND_LIMIT_S, FinishedCommand, LocalCommands
from provisioner.batch.disks import LocalDisk
from provisioner.batch.impersonation import SiteUsers, UserRefused
from provisioner.batch.slurm.system import SlurmSystem
from rm_backends.base import BatchOptions, JobOptions
from tests.fakes.batch_world import slurm_pool
from windlass.base.clock import ManualClock
from windlass.base.errors import PermissionDenied, Unsatisfiable

ALICE = OsUser(uid=1001, gid=100, user="alice", group="users")
BOB = OsUser(uid=1001, gid=100, user="bob", group="users")


class Asked:
    """Commands of whoever is asked for."""

    def __init__(self) -> None:
        self.answer: FinishedCommand | Exception = FinishedCommand(0, "1001\n100\n")
        self.calls = 0
        self.accounts: Mapping[str, frozenset[str]] | Exception | None = None
        self.accounts_asked = 0

    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        self.calls += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def users(
    asked: Asked, clock: ManualClock, falling_back: Sequence[str] = (), **given: str
) -> BatchUsers:
    """`given`: arguments of the pool."""

    async def accounts(user: str) -> Mapping[str, frozenset[str]] | None:
        asked.accounts_asked += 1
        await asyncio.sleep(0)  # others ask meanwhile
        if isinstance(asked.accounts, Exception):
            raise asked.accounts
        return asked.accounts

    site = SiteUsers(
        lambda _: SlurmSystem(LocalCommands()),
        lambda _: asked,
        lambda _: LocalDisk(),
        lambda user: ("sudo", user),
        accounts,
    )
    arguments = tuple(f"--{name}={value}" for name, value in given.items())
    return BatchUsers([slurm_pool("gpu", sbatch_args=arguments)], site, clock, falling_back)


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
        (None, FinishedCommand(0), "linked to no user of the cluster, .*link-with-agent-user"),
        (OsUser(), FinishedCommand(0), "linked to root"),
        (ALICE, FinishedCommand(0, "1001\n1001\n"), "alice is 1001:1001 on this cluster"),
        (ALICE, UserRefused("alice", "no"), "sudo does not let the master run commands as alice"),
    ],
)
async def test_others_are_refused(
    who: OsUser | None, answer: FinishedCommand | Exception, said: str
) -> None:
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


OF_ALICE = {"physics": frozenset({"normal"}), "teaching": frozenset({"normal", "short"})}


def asks(*arguments: str) -> BatchOptions:
    return BatchOptions(slurm=JobOptions(arguments=arguments))


async def test_accounts_that_are_not_of_the_user_are_refused() -> None:
    asked, clock = Asked(), ManualClock()
    asked.accounts = OF_ALICE
    known = users(asked, clock, account="physics")
    await known.require("gpu", ALICE)
    await known.require("gpu", ALICE, asks("--account=teaching", "--qos=short"))
    for arguments, said in (
        (("-A chemistry",), '"chemistry" is no account that this user may name: physics, tea'),
        (("--qos=short",), '"short" is no QOS of account physics that this user may name: normal'),
    ):
        with pytest.raises(Unsatisfiable, match=f"As alice: {said}"):
            await known.require("gpu", ALICE, asks(*arguments))
    assert asked.accounts_asked == 1
    asked.accounts = {"teaching": frozenset({"normal"})}
    clock.advance(61)
    with pytest.raises(Unsatisfiable, match='"physics" is no account'):
        await known.require("gpu", ALICE)


async def test_accounts_of_users_who_submit_at_once_are_all_kept() -> None:
    asked = Asked()
    asked.accounts = OF_ALICE
    known = users(asked, ManualClock())
    for _ in range(2):
        both = (known.require("gpu", who) for who in (ALICE, BOB))
        await asyncio.gather(*both)
    assert asked.accounts_asked == 2


async def test_a_user_without_an_account_is_told_so() -> None:
    asked = Asked()
    asked.accounts = {}
    with pytest.raises(
        Unsatisfiable, match="As alice: the user who submits the job has no account"
    ):
        await users(asked, ManualClock()).require("gpu", ALICE)


@pytest.mark.parametrize("unknown", [None, NoAnswer("sacctmgr"), UserRefused("alice", "no")])
async def test_where_accounting_says_nothing_every_account_may_pass(
    unknown: Exception | None,
) -> None:
    asked = Asked()
    asked.accounts = unknown
    await users(asked, ManualClock()).require("gpu", ALICE, asks("--account=chemistry"))


async def test_work_that_may_start_in_another_pool_is_not_refused_for_an_account() -> None:
    asked = Asked()
    asked.accounts = OF_ALICE
    known = users(asked, ManualClock(), falling_back=["gpu"], account="chemistry")
    await known.require("gpu", ALICE)
    assert asked.accounts_asked == 0
