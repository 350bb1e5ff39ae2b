"""Registry credentials: who is given them, and that nobody else is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from agent_bootstrap.agent.connection.link import MasterLink
from agent_bootstrap.agent.logins import OLD_MASTER, Logins
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.container_options import ContainerOptions, RegistryLogin
from agent_bootstrap.protocol import (
    ChannelClosed,
    ContainerSpec,
    Message,
    RegistryCredentials,
    RegistryLoginReply,
    RegistryLoginRequest,
    Welcome,
)
from tests.fakes.agents_world import AgentsWorld, agents_world, allocation, sent_to
from tests.fakes.fake_agent import FakeAgent
from tests.fakes.virtual_time import run

LOGIN = RegistryCredentials(username="me", password="hush")


def replies(agent: FakeAgent) -> list[Message]:
    return sent_to(agent, RegistryLoginReply)


def test_an_agent_gets_the_login_of_what_it_was_given_as_often_as_it_asks() -> None:
    async def scenario(world: AgentsWorld) -> None:
        world.logins.known["task-1.1"] = LOGIN
        agent = await world.add_agent("a1")
        (container,) = (await world.run_allocation(allocation(1))).containers
        question = RegistryLoginRequest(
            container_id=container.container_id, allocation_id="task-1.1"
        )
        agent.ask(question)
        agent.ask(question)
        await agent.until(lambda: len(replies(agent)) == 2)
        reply = RegistryLoginReply(container_id=container.container_id, login=LOGIN)
        assert replies(agent) == [reply, reply]
        assert [m.answers_logins for m in agent.received if isinstance(m, Welcome)] == [True]

    _play(scenario)


def test_an_agent_gets_nothing_of_what_is_over() -> None:
    async def scenario(world: AgentsWorld) -> None:
        world.logins.known["task-1.1"] = LOGIN
        agent = await world.add_agent("a1")
        (container,) = (await world.run_allocation(allocation(1))).containers
        agent.exit(container.container_id)
        await world.master.ended("task-1.1")
        await world.settle()
        agent.ask(
            RegistryLoginRequest(container_id=container.container_id, allocation_id="task-1.1")
        )
        await agent.until(lambda: bool(replies(agent)))
        assert replies(agent) == [RegistryLoginReply(container_id=container.container_id)]

    _play(scenario)


def test_an_agent_that_asks_for_what_is_anothers_is_cut_off() -> None:
    async def scenario(world: AgentsWorld) -> None:
        world.logins.known["task-1.1"] = LOGIN
        await world.add_agent("a1")
        (container,) = (await world.run_allocation(allocation(1))).containers
        thief = await world.add_agent("a2")
        thief.ask(
            RegistryLoginRequest(container_id=container.container_id, allocation_id="task-1.1")
        )
        await thief.until(lambda: not thief.connected)
        assert replies(thief) == []

    _play(scenario)


def test_a_login_is_not_in_what_is_printed_of_it() -> None:
    every = RegistryCredentials(
        username="me", password="hush-1", identity_token="hush-2", registry_token="hush-3"
    )
    assert "hush" not in repr(RegistryLoginReply(container_id="c", login=every))


def _play(scenario: Callable[[AgentsWorld], Awaitable[None]]) -> None:
    async def main() -> None:
        async with agents_world() as world:
            await scenario(world)

    run(main(), limit_s=3600)


class Line:
    """A connection that answers each question with what comes next: a login, or the end of the connection."""

    def __init__(
        self, logins: Logins, *answers: RegistryCredentials | ChannelClosed | None
    ) -> None:
        self._logins = logins
        self._answers = list(answers)
        self.asked: list[Message] = []

    async def send(self, message: Message) -> None:
        self.asked.append(message)
        answer = self._answers.pop(0)
        if isinstance(answer, ChannelClosed):
            raise answer
        self._logins.tell(RegistryLoginReply(container_id="c", login=answer))

    async def receive(self) -> Message:
        raise NotImplementedError

    async def close(self, reason: str = "") -> None:
        raise NotImplementedError


def spec(*, has_login: bool = True) -> ContainerSpec:
    return ContainerSpec(
        container_id="c",
        allocation_id="t.1",
        task_id="t",
        task_type="COMMAND",
        entrypoint=("true",),
        environment={},
        options=ContainerOptions(
            image="python", registry_login=RegistryLogin(reference="t") if has_login else None
        ),
    )


def test_the_agent_asks_until_it_is_answered_also_over_a_lost_connection() -> None:
    async def main() -> RegistryCredentials | None:
        link = MasterLink()
        logins = Logins(link)
        asking = asyncio.create_task(logins.of(spec()))
        await asyncio.sleep(100)
        assert not asking.done(), "the master is away"
        line = Line(logins, ChannelClosed("lost"), LOGIN)
        link.open(line)
        login = await asking
        assert line.asked == [RegistryLoginRequest(container_id="c", allocation_id="t.1")] * 2
        logins.tell(RegistryLoginReply(container_id="c", login=None))  # late, and of no interest
        return login

    assert run(main(), limit_s=3600) == LOGIN


def test_a_task_without_a_login_asks_nobody() -> None:
    assert run(Logins(MasterLink()).of(spec(has_login=False)), limit_s=10) is None


def test_a_master_that_does_not_know_the_question_is_not_asked() -> None:
    async def main() -> None:
        link = MasterLink()
        logins = Logins(link)
        line = Line(logins)
        link.open(line)
        logins.master_answers = False
        with pytest.raises(StartRefused, match="registry_auth") as refused:
            await logins.of(spec())
        assert str(refused.value) == OLD_MASTER
        assert line.asked == []

    run(main(), limit_s=60)
