"""Whether the batch system of a pool takes jobs of a user: asked when work is submitted."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TypeAlias

from agent_bootstrap.agent.identity import shown
from agent_bootstrap.container_options import OsUser
from provisioner.batch.base import JobRefused, NoAnswer, SiteFacts
from provisioner.batch.impersonation import SiteUsers
from rm_backends.base import NO_BATCH, BatchOptions
from rm_backends.batch.shapes import DispatchOptions
from windlass.base.clock import Clock
from windlass.base.errors import PermissionDenied, Unsatisfiable

ASK_LIMIT_S = 10.0
KEPT_S = 60.0
WHO = ("/bin/sh", "-c", "id -u; id -g")
Accounts: TypeAlias = Mapping[str, frozenset[str]] | None
"""As in `SiteFacts`."""
LINK = "`det user link-with-agent-user`"


class BatchUsers:
    """`require` is a `master.allocations.cluster_tasks.RequireUser`."""

    def __init__(
        self,
        pools: Collection[DispatchOptions],
        users: SiteUsers,
        clock: Clock,
        falling_back: Collection[str] = (),
    ) -> None:
        """`pools`: whose jobs are of their users; `falling_back`: those whose work may go to other pools."""
        self._pools = {options.pool: options for options in pools}
        self._users = users
        self._clock = clock
        self._falling_back = frozenset(falling_back)
        self._good: dict[tuple[str, int, int], float] = {}
        """Name and numbers -> when they were found right."""
        self._accounts: dict[str, tuple[float, Accounts]] = {}
        """By name: when they were asked for, and what is known of them."""

    async def require(self, pool: str, who: OsUser | None, batch: BatchOptions = NO_BATCH) -> None:
        """Raises PermissionDenied, and Unsatisfiable for an account or QOS that is not theirs."""
        if pool not in self._pools:
            return
        who = await self._linked(pool, who)
        if pool not in self._falling_back:
            await self._require_account(self._pools[pool], who, batch)

    async def _linked(self, pool: str, who: OsUser | None) -> OsUser:
        why = f"pool '{pool}' submits each job as its user"
        if who is None:
            raise PermissionDenied(
                f"You are linked to no user of the cluster, and {why}: ask an administrator for {LINK}"
            )
        if who.uid == 0 or who.user == "root":
            raise PermissionDenied(
                f"You are linked to root, who submits nothing, and {why}: ask an administrator for {LINK}"
            )
        now, key = self._clock.monotonic(), (who.user, who.uid, who.gid)
        if now - self._good.get(key, float("-inf")) < KEPT_S:
            return who
        await self._ask(who)
        self._good = {user: at for user, at in self._good.items() if now - at < KEPT_S} | {key: now}
        return who

    async def _require_account(
        self, options: DispatchOptions, who: OsUser, batch: BatchOptions
    ) -> None:
        arguments = (*options.section.all_arguments, *batch.of(options.section.type).arguments)
        site = SiteFacts(accounts=await self._accounts_of(who.user))
        for problem in options.dialect.account_problems(arguments, site):
            raise Unsatisfiable(f"As {who.user}: {problem}")

    async def _accounts_of(self, user: str) -> Accounts:
        now = self._clock.monotonic()
        asked_at, found = self._accounts.get(user, (float("-inf"), None))
        if now - asked_at < KEPT_S:
            return found
        try:
            async with asyncio.timeout(ASK_LIMIT_S):
                found = await self._users.accounts(user)
        except (JobRefused, NoAnswer, TimeoutError):  # the site says when the job is submitted
            found = None
        recent = {name: one for name, one in self._accounts.items() if now - one[0] < KEPT_S}
        self._accounts = recent | {user: (now, found)}
        return found

    async def _ask(self, who: OsUser) -> None:
        try:
            done = await self._users.commands(who.user).run(WHO, limit_s=ASK_LIMIT_S)
        except JobRefused as error:
            raise PermissionDenied(error.message) from None
        except NoAnswer:  # the site says when the job is submitted
            return
        if done.code or done.out.split() != [str(who.uid), str(who.gid)]:
            ids = ":".join(done.out.split()) or done.last
            raise PermissionDenied(
                f"You are linked to {shown(who)}, but {who.user} is {ids} on this cluster: ask an administrator to "
                f"correct it with {LINK}"
            )
