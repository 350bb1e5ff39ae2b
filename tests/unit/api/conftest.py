"""The world that the API tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.api_world import ApiWorld, api_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ApiWorld]:
    """Logged in as admin; no agents yet."""
    async with api_world(tmp_path) as opened:
        await opened.login()
        yield opened
