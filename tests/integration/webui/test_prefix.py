"""A proxy serves the master below a path of its own, which no setting names."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright")

from playwright.async_api import expect
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.fakes.api_world import api_world
from tests.integration.webui.served_world import CHROMIUM, serving, visit

PREFIX = "/a/b"

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed: run make test-slow"
)


class Below:
    """ASGI: as a proxy that takes the prefix off, and has nothing else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["path"].startswith(f"{PREFIX}/"), scope["path"]
        below = {
            "path": scope["path"].removeprefix(PREFIX),
            "raw_path": scope["raw_path"].removeprefix(PREFIX.encode()),
        }
        await self._app({**scope, **below}, receive, send)


async def test_pages_work_below_any_prefix(tmp_path: Path) -> None:
    async with api_world(tmp_path) as world, serving(Below(world.app)) as port:
        await world.login()
        id_ = await world.create()
        base = f"http://127.0.0.1:{port}{PREFIX}/"
        async with visit(base) as visitor:
            page = await visitor.open("experiments")
            await page.get_by_role("link", name=f"{id_} tiny").click()
            await expect(page.get_by_role("heading", name=f"{id_} tiny")).to_be_visible()
            assert page.url == f"{base}det/experiments/{id_}"
            await page.get_by_role("link", name="Home", exact=True).click()
            await expect(page.get_by_role("heading", name="Home of admin")).to_be_visible()
            assert visitor.complaints == []


async def test_a_one_time_code_opens_a_browser_that_is_logged_in(tmp_path: Path) -> None:
    async with api_world(tmp_path) as world, serving(Below(world.app)) as port:
        await world.login()
        id_ = await world.create()
        code = (await world.ok("POST", "/api/v1/windlass/login-codes", {}))["code"]
        base = f"http://127.0.0.1:{port}{PREFIX}/"
        async with visit(base) as visitor:
            await visitor.page.goto("about:blank")
            await visitor.context.clear_cookies()
            to_page = f"login?redirect=%2Fdet%2Fexperiments%2F{id_}"
            page = await visitor.open(f"{to_page}#code={code}")
            await expect(page.get_by_role("heading", name=f"{id_} tiny")).to_be_visible()
            assert page.url == f"{base}det/experiments/{id_}"
            assert visitor.complaints == []
            await page.go_back()
            assert code not in page.url, "the history keeps no code"
            await visitor.context.clear_cookies()
            page = await visitor.open(f"{to_page}#code={code}")
            await expect(page.get_by_role("alert")).to_contain_text("det web")
