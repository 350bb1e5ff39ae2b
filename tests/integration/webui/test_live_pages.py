"""Pages that change by themselves: what others do is shown by the tab's socket, also after a restart of the master."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

pytest.importorskip("playwright")

from playwright.async_api import Route, expect

from master.api.http.held import ServerStop
from tests.fakes.api_world import PASSWORD, ApiWorld, api_world
from tests.fakes.served_api import Served
from tests.integration.webui.served_world import CHROMIUM, Visit, visit

NO_POLLING = """
  const plain = window.setTimeout;
  window.setTimeout = (run, after, ...rest) => plain(run, after >= 3000 ? 3_600_000 : after, ...rest);
"""
"""Only news make pages ask again; short waits stay, so that news are told after each other and sockets come back."""

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: run make test-slow"),
]


class Here:
    """A master that can be restarted, and a tab on its pages."""

    def __init__(self, world: ApiWorld, server: Served, tab: Visit) -> None:
        self.world, self.server, self.tab = world, server, tab

    async def restart(self, version: str) -> None:
        await self.server.stop()
        api = self.world.app.state.api
        info = replace(api.services.info, windlass_version=version)
        services = replace(api.services, info=info)
        self.world.app.state.api = replace(api, services=services, closing=ServerStop())
        self.server = Served(self.world, self.server.port)
        await self.server.start()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Here]:
    folder: Path = tmp_path_factory.mktemp("live")
    async with api_world(folder) as world:
        await world.login()
        server = Served(world)
        await server.start()
        async with visit(f"{server.url}/") as tab:
            here = Here(world, server, tab)
            try:
                yield here
            finally:
                await here.server.stop()


async def test_what_others_do_is_shown_without_asking_again_and_again(here: Here) -> None:
    world, page = here.world, await here.tab.context.new_page()
    await page.add_init_script(NO_POLLING)
    id_ = await world.create(activate=False)
    await page.goto(f"{here.tab.base}det/experiments")
    row = page.get_by_role("grid", name="Experiments").locator('[aria-rowindex="2"]')
    await expect(row).to_contain_text("paused")
    await world.ok("PATCH", f"/api/v1/experiments/{id_}", {"name": "renamed by another"})
    await expect(row).to_contain_text("renamed by another")
    await row.get_by_role("link", name="renamed by another").click()
    await expect(page.locator(".title .state")).to_contain_text("paused")
    await world.ok("POST", f"/api/v1/experiments/{id_}/kill")
    await expect(page.locator(".title .state")).to_contain_text("canceled")
    await page.goto(f"{here.tab.base}det/clusters")
    await expect(page.get_by_role("heading", name="Cluster")).to_be_visible()
    await world.add_agent("node-7")
    await expect(page.get_by_text("node-7").first).to_be_visible()
    await page.goto(f"{here.tab.base}det/models")
    await world.ok("POST", "/api/v1/models", {"name": "told"})
    await expect(page.get_by_text("told")).to_be_visible()
    assert here.tab.complaints == []
    await page.close()


async def test_a_page_finds_what_it_missed_and_is_told_of_the_new_version(here: Here) -> None:
    world, page = here.world, here.tab.page
    loaded: list[str] = []

    async def note(route: Route) -> None:
        loaded.append(route.request.url)
        await route.continue_()

    id_ = await world.create(activate=False)
    await here.tab.open(f"experiments/{id_}")
    await expect(page.locator(".title .state")).to_contain_text("paused")
    await page.route("**/det/experiments/*", note)
    await here.restart("0.2.0")
    await world.ok("PATCH", f"/api/v1/experiments/{id_}", {"name": "changed meanwhile"})
    await expect(page.get_by_role("heading", name="changed meanwhile")).to_be_visible()
    await expect(page.get_by_text("The master was updated to 0.2.0.")).to_be_visible()
    await world.ok("POST", f"/api/v1/experiments/{id_}/kill")
    await expect(page.locator(".title .state")).to_contain_text("canceled")
    assert loaded == [], "nothing reloads a page by itself"
    await page.unroute("**/det/experiments/*", note)


async def test_a_session_that_ends_is_said_at_once_and_a_new_one_goes_on(here: Here) -> None:
    world, page = here.world, here.tab.page
    id_ = await world.create(activate=False)
    await here.tab.open(f"experiments/{id_}")
    await expect(page.locator(".title .state")).to_contain_text("paused")
    sessions = await world.ok("GET", "/api/v1/windlass/users/1/sessions")
    for session in sessions["sessions"]:
        if not session["current"]:
            await world.ok("DELETE", f"/api/v1/windlass/sessions/{session['id']}")
    dialog = page.get_by_role("dialog", name="Your session has ended")
    await dialog.get_by_label("Password").fill(PASSWORD)
    await dialog.get_by_role("button", name="Log in").click()
    await expect(dialog).to_have_count(0)
    await world.ok("POST", f"/api/v1/experiments/{id_}/kill")
    await expect(page.locator(".title .state")).to_contain_text("canceled")


async def test_where_no_socket_gets_through_pages_ask_again(here: Here) -> None:
    context = await here.tab.context.browser.new_context()  # type: ignore[union-attr]
    await context.add_cookies(await here.tab.context.cookies())  # type: ignore[arg-type]
    page = await context.new_page()
    await page.add_init_script("window.WebSocket = class { close() {} };")
    id_ = await here.world.create(activate=False)
    await page.goto(f"{here.tab.base}det/experiments/{id_}")
    await expect(page.locator(".title .state")).to_contain_text("paused")
    await here.world.ok("POST", f"/api/v1/experiments/{id_}/kill")
    await expect(page.locator(".title .state")).to_contain_text("canceled")
    await context.close()
