"""One provider under test, and what the contract suite does to it from outside.

To join the suite, a provider gives one subclass of `ProviderCase` in a module beside this one and one line in
`tests.contract.providers.CASES`. A fault that it cannot have skips the tests that need it: call `self.cannot(...)`.
"""

from __future__ import annotations

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import NoReturn

import pytest

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import (
    Accepted,
    FoundInstance,
    FoundState,
    LaunchAnswer,
    LaunchIntent,
    LaunchResult,
    LimitedCall,
    Provider,
)
from provisioner.types import Offer
from tests.fakes.fleet_world import CLUSTER, an_intent

POOL = "gpu"
QUOTA = ("vcpus-of-gpu-2", 8.0)
"""The name and the number of a quota, of providers that have no names of their own."""
LIST_EVERY_S = 0.5
LIST_GRACE_S = 3.0
"""Of clouds, whose own pace would make each test take a minute."""


class ProviderCase(ABC):
    """Made by an entry of `CASES`: an open provider with no machines, whose pool `gpu` may buy at least one offer.

    Its first offer has 2 slots at 3 USD an hour. All faults are off.
    """

    provider: Provider
    """The one under test. `restart` puts another in its place."""
    quota: tuple[str, float | None] = QUOTA
    """The name and the number of the quota that `refuse` refuses for."""
    patience_s: float = 0.0
    """How long pools wait for it at least: of a provider that always delivers later."""
    list_takes_s: float = 0.0
    """How long a list may be behind, in real seconds: what a test waits for at most."""

    # What every case has.

    @abstractmethod
    async def restart(self) -> None:
        """A new provider object for the same account, open, as after a restart of the master."""

    @abstractmethod
    def reconfigure(self) -> None:
        """What launches are made of changes (an image, an address): `freeze` answers otherwise from now on."""

    @abstractmethod
    def kill(self, instance_id: str) -> None:
        """The machine ends by itself."""

    # Faults. Each holds until `mend`, unless it has a number of times.

    def mend(self) -> None:
        """All faults off."""
        self.cannot("have faults")

    def refuse(self, offer: Offer, kind: BlockKind) -> None:
        """Launches of `offer` are refused as this provider refuses for that reason.

        For a quota with the name and the number in `quota`.
        """
        self.cannot(f"refuse for {kind}")

    def stock(self, offer: Offer, machines: int) -> None:
        """So many more machines of it can be had."""
        self.cannot("run out of stock")

    def queue(self, offer: Offer) -> None:
        """Launches of `offer` are accepted, and delivered when `deliver` is called."""
        self.cannot("queue launches")

    def deliver(self) -> None:
        """What is queued is made now, whether or not anybody asks."""
        self.cannot("queue launches")

    def lose_replies(self, times: int) -> None:
        """So many launches are carried out, and their answers lost."""
        self.cannot("lose replies")

    def drop_requests(self, times: int) -> None:
        """So many launches never arrive, and are not answered."""
        self.cannot("lose requests")

    def throttle(self, api: LimitedCall, times: int) -> None:
        """So many calls are answered with "too many calls"."""
        self.cannot("throttle")

    def fail_lists(self) -> None:
        """Nothing can be listed."""
        self.cannot("fail to list")

    def hide(self, offer: Offer) -> None:
        """What is in the zone of `offer` is missing from lists, which say so."""
        self.cannot("answer partial lists")

    def hide_young(self, seconds: float) -> None:
        """Lists miss machines younger than that, without a word. At most `provider.list_grace_s`."""
        self.cannot("list late")

    def fail_terminates(self, times: int) -> None:
        """So many terminations fail, and end nothing."""
        self.cannot("fail to terminate")

    def hang(self, api: LimitedCall) -> None:
        """Calls do not return."""
        self.cannot("hang")

    def take_back(self, instance_id: str, seconds: float) -> None:
        """The provider announces that it takes the machine back so many seconds from now; it does so at that time."""
        self.cannot("take machines back")

    def stoppable(self) -> Offer:
        """An offer whose machines can be stopped."""
        found = next((offer for offer in self.offers if offer.can_stop), None)
        return found or self.cannot("stop machines")

    async def off(self, instance_id: str) -> None:
        """Until lists show it as stopped."""
        while (await self.living())[instance_id].state is not FoundState.STOPPED:  # noqa: ASYNC110 - providers have no events
            await asyncio.sleep(0.05)

    def no_starts(self, offer: Offer) -> None:
        """Starts of stopped machines of `offer` are refused for want of capacity."""
        self.cannot("refuse starts")

    def write_console(self, instance_id: str, text: str) -> None:
        """The machine writes that."""
        self.cannot("read consoles")

    def cannot(self, what: str) -> NoReturn:
        pytest.skip(f"{self.provider.name} cannot {what}")

    # What the tests do with it.

    @property
    def offer(self) -> Offer:
        return self.offers[0]

    @property
    def offers(self) -> list[Offer]:
        return list(self.provider.offers(POOL) or ())

    def intent(
        self, count: int = 1, *, token: str | None = None, offer: Offer | None = None
    ) -> LaunchIntent:
        """A launch as the provisioner makes it: frozen before it is asked. Tokens are new unless given."""
        call = an_intent(offer or self.offer, count, token=token or a_token(), generation=7)
        return replace(call, request=self.provider.freeze(call))

    async def launch(self, intent: LaunchIntent) -> LaunchResult:
        return delivered(await self.provider.launch(intent))

    async def two(self) -> tuple[str, str]:
        """Machines that live and die apart."""
        if not self.offer.ends_together:
            one, other = (await self.launch(self.intent(2))).instance_ids
            return one, other
        (one,) = (await self.launch(self.intent())).instance_ids
        (other,) = (await self.launch(self.intent())).instance_ids
        return one, other

    async def accepted(self, intent: LaunchIntent) -> Accepted:
        answer = await self.provider.launch(intent)
        assert isinstance(answer, Accepted)
        return answer

    async def living(self) -> dict[str, FoundInstance]:
        return {x.instance_id: x for x in await self.listed() if x.state is not FoundState.ENDED}

    async def listed(self) -> Iterable[FoundInstance]:
        return [x for x in (await self.provider.list()).instances if x.cluster_id == CLUSTER]


def a_token() -> str:
    """Ids come from tokens: no two tests on one machine may share one."""
    return uuid.uuid4().hex


def delivered(answer: LaunchAnswer) -> LaunchResult:
    assert isinstance(answer, LaunchResult)
    return answer
