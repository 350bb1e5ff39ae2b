"""Webhooks on a store, without the rest of a master; receivers are real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from master.store.store import Store
from tests.fakes.hooks import Hooks
from tests.fakes.receiver import Receiver, receiver
from windlass.base.clock import ManualClock


@pytest.fixture
async def hooks(memory_store: Store, clock: ManualClock) -> Hooks:
    made = Hooks(memory_store, clock)
    await made.start()
    return made


@pytest.fixture
async def chat() -> AsyncIterator[Receiver]:
    async with receiver() as made:
        yield made
