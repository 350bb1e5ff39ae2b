"""Registry credentials of tasks: asked of the master when an image is pulled, and kept nowhere by us."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from agent_bootstrap.agent.link import Link
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.protocol import (
    ChannelClosed,
    ContainerSpec,
    ExitFailure,
    Login,
    LoginReply,
    LoginRequest,
)

ASK_AGAIN_S = 10.0
OLD_MASTER = (
    "registry_auth: the master's version does not give registry credentials to agents: upgrade it, "
    "or log in to the registry on the node"
)


class Logins:
    """Outlives connections: a question that one of them lost is asked again on the next."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.master_answers = True
        """Set by each connection: masters of 0.1 would end it on a question."""
        self._waiting: dict[str, asyncio.Future[Login | None]] = {}

    async def of(self, spec: ContainerSpec) -> Login | None:
        """Waits for the master for as long as that takes. None: the task has none. Raises StartRefused."""
        if spec.options.registry_login is None:
            return None
        answer: asyncio.Future[Login | None] = asyncio.get_running_loop().create_future()
        self._waiting[spec.container_id] = answer
        question = LoginRequest(container_id=spec.container_id, allocation_id=spec.allocation_id)
        try:
            while not answer.done():
                await self._link.connected()
                if not self.master_answers:
                    raise StartRefused(ExitFailure.TASK_ERROR, OLD_MASTER)
                with suppress(ChannelClosed):
                    await self._link.send(question)
                await asyncio.wait((answer,), timeout=ASK_AGAIN_S)
            return answer.result()
        finally:
            self._waiting.pop(spec.container_id, None)

    def tell(self, reply: LoginReply) -> None:
        """What the master answered. Late and repeated answers change nothing."""
        answer = self._waiting.get(reply.container_id)
        if answer is not None and not answer.done():
            answer.set_result(reply.login)
