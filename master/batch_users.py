"""Whether the batch system of a pool takes jobs of a user: asked when work is submitted."""

from __future__ import annotations

from collections.abc import Callable, Collection

from agent_bootstrap.agent.identity import shown
from agent_bootstrap.container_options import OsUser
from provisioner.providers.batch.base import JobRefused, NoAnswer
from provisioner.providers.batch.commands import Commands
from windlass.base.clock import Clock
from windlass.base.errors import PermissionDenied

ASK_LIMIT_S = 10.0
KEPT_S = 60.0
WHO = ("/bin/sh", "-c", "id -u; id -g")
LINK = "`det user link-with-agent-user`"


class BatchUsers:
    """`require` is a `master.allocations.cluster_tasks.RequireUser`."""

    def __init__(
        self, pools: Collection[str], commands: Callable[[str], Commands], clock: Clock
    ) -> None:
        """`pools`: whose jobs are of their users; `commands`: as one of those."""
        self._pools = frozenset(pools)
        self._commands = commands
        self._clock = clock
        self._good: dict[tuple[str, int, int], float] = {}
        """Name and numbers -> when they were found right."""

    async def require(self, pool: str, who: OsUser | None) -> None:
        if pool not in self._pools:
            return
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
            return
        await self._ask(who)
        self._good = {user: at for user, at in self._good.items() if now - at < KEPT_S} | {key: now}

    async def _ask(self, who: OsUser) -> None:
        try:
            done = await self._commands(who.user).run(WHO, limit_s=ASK_LIMIT_S)
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
