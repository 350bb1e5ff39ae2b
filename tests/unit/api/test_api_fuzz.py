"""Whatever the description of the API allows is answered as it says: no failure, no shape that it does not declare."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from master.api.application import ROUTES
from master.api.routing import ApiRoute
from tests.fakes.api_world import ApiWorld
from tests.fakes.declared_replies import DeclaredReplies

EXAMPLES = 10
"""Of each operation."""
HELD_S = 1.0
"""Long polls and followed logs are answered by events that do not come here."""
MAY_FAIL = {501, 503}
TAGS = sorted({str(tag) for route in ROUTES if isinstance(route, ApiRoute) for tag in route.tags})


class Fuzz:
    """Sends what is generated, from a thread, to the application on its event loop."""

    def __init__(self, world: ApiWorld) -> None:
        self._world = world
        self._loop = asyncio.get_running_loop()
        self._replies = DeclaredReplies(world.app)
        self.statuses: Counter[int] = Counter()

    def run(self, operation: Any) -> None:
        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
        def check(case: Any) -> None:
            try:
                response = asyncio.run_coroutine_threadsafe(self._send(case), self._loop).result()
            except TimeoutError:
                return
            self.statuses[response.status_code] += 1
            status = response.status_code
            assert status < 500 or status in MAY_FAIL, case.as_curl_command()
            self._replies.check(response)

        check()

    async def _send(self, case: Any) -> httpx2.Response:
        sent = case.as_transport_kwargs(base_url="http://test")
        content = json.dumps(sent["json"]).encode() if "json" in sent else sent.get("data")
        async with asyncio.timeout(HELD_S):
            return await self._world.client.request(
                sent["method"],
                sent["url"].removeprefix("http://test"),
                params=sent.get("params"),
                content=content if isinstance(content, bytes | str) else None,
                headers={"Authorization": f"Bearer {self._world.token}"},
            )


def operations(document: dict[str, Any], tag: str) -> Iterator[Any]:
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = found.ok()
        if tag in (operation.tags or ()):
            yield operation


@pytest.mark.slow
@pytest.mark.parametrize("tag", TAGS)
async def test_what_the_description_allows_is_answered_as_it_says(
    world: ApiWorld, tag: str
) -> None:
    await world.add_agent()
    await world.run_of(await world.create())
    document = await world.ok("GET", "/api/v1/openapi.json")
    fuzz = Fuzz(world)
    for operation in operations(document, tag):
        await asyncio.to_thread(fuzz.run, operation)
    assert fuzz.statuses.total() > 0
