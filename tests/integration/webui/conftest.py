"""One master with something of everything, for all tests of a file."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

pytest.importorskip("playwright")

from playwright.async_api import expect

from tests.fakes.api_population import populate
from tests.integration.webui.served_world import ServedWorld, Visit, served_world, visit

expect.set_options(timeout=30_000)
"""A loaded machine draws pages slowly."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServedWorld]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "storage").mkdir()
    async with served_world(folder) as served:
        await served.world.login()
        await populate(served.world, folder / "storage")
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(served: ServedWorld) -> AsyncIterator[Visit]:
    async with visit(served.base) as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def visitor(browser: Visit) -> AsyncIterator[Visit]:
    """Whose pages complain of nothing, whatever a test does with them."""
    browser.complaints.clear()
    yield browser
    assert browser.complaints == []
