"""Simulated masters are killed and starved on purpose: what they log about it is not shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def no_structured_logs() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield
