"""Registry credentials of tasks: asked of the master when an image is pulled, and kept nowhere by us."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from agent_bootstrap.agent.connection.link import MasterLink
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.protocol import (
    ChannelClosed,
    ContainerSpec,
    ExitFailure,
    RegistryCredentials,
    RegistryLoginReply,
    RegistryLoginRequest,
)

ASK_AGAIN_S = 10.0
OLD_MASTER = (
    "registry_auth: the master's version does not give registry credentials to agents: upgrade it, "
    "or log in to the registry on the node"
)


class Logins:
    """Outlives connections: a question that one of them lost is asked again on the next."""

    def __init__(self, link: MasterLink) -> None:
        self._link = link
        self.master_answers = True
        """Set by each connection: masters of 0.1 would end it on a question."""
        self._waiting: dict[str, asyncio.Future[RegistryCredentials | None]] = {}

    async def of(self, spec: ContainerSpec) -> RegistryCredentials | None:
        """Waits for the master for as long as that takes. None: the task has none. Raises StartRefused."""
        if spec.options.registry_login is None:
            return None
        answer: asyncio.Future[RegistryCredentials | None] = (
            asyncio.get_running_loop().create_future()
        )
        self._waiting[spec.container_id] = answer
        question = RegistryLoginRequest(
            container_id=spec.container_id, allocation_id=spec.allocation_id
        )
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

    def tell(self, reply: RegistryLoginReply) -> None:
        """What the master answered. Late and repeated answers change nothing."""
        answer = self._waiting.get(reply.container_id)
        if answer is not None and not answer.done():
            answer.set_result(reply.login)
