"""Fixtures that contract suites share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.providers import CASES
from tests.contract.providers.base import ProviderCase
from tests.contract.providers.embedded import Site


@pytest.fixture(params=list(CASES))
async def case(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ProviderCase]:
    """Each provider in turn, open and without machines."""
    async with CASES[request.param](tmp_path) as one:
        yield one


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """An embedded site below `tmp_path`."""
    one = Site(tmp_path)
    yield one
    await one.end()
