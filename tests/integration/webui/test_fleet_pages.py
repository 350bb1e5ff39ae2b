"""Pages of machines and money in Chromium: their dollars are the ledger's, and what is unknown is not zero."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

pytest.importorskip("playwright")

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Locator, Page, expect

from tests.fakes.api_world import SPOT, api_world
from tests.fakes.one_machine import a_machine
from tests.integration.webui.served_world import (
    CHROMIUM,
    DESKTOP,
    PHONE,
    ServedWorld,
    Visit,
    serving,
)

HOSTILE = "<img src=x onerror=alert(1)>\u202e<b>bold</b>"
PAGES = (
    "costs",
    "fleet/offers",
    "fleet/timeline",
    "clusters/historical-usage?from=2026-01-01&to=2026-01-31",
    "clusters/logs",
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: run make test-slow"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServedWorld]:
    """A job held half of an agent's slots, on a machine that was bought."""
    async with (
        api_world(tmp_path_factory.mktemp("fleet"), elastic=True) as world,
        serving(world.app) as port,
    ):
        await world.login()
        await world.add_agent("i-7")
        await world.run_of(await world.create())
        await a_machine(world, "i-7")
        await a_machine(world, HOSTILE, usd_per_hour=1.0)
        world.clock.advance(1800)
        yield ServedWorld(world, f"http://127.0.0.1:{port}/")


def row(page: Page, grid: str, name: str) -> Locator:
    return page.get_by_role("grid", name=grid).get_by_role("row").filter(has_text=name)


async def test_dollars_on_the_pages_are_those_of_the_ledger(
    served: ServedWorld, visitor: Visit
) -> None:
    found = await served.world.ok("GET", "/api/v1/windlass/fleet/costs?by=instance&month=all")
    (ledger,) = [each for each in found["rows"] if each["name"] == "i-7"]
    page = await visitor.open("costs")
    await page.get_by_label("Sum up by").select_option("instance")
    await page.get_by_label("Month, in UTC").select_option("all")
    for cause in ("usd", "busyUsd", "bootUsd", "idleUsd"):
        assert ledger[cause] > 0, cause
        await expect(row(page, "Costs", "i-7")).to_contain_text(f"${ledger[cause]:.4f}")
    await expect(row(page, "Costs", "<img src=x")).to_contain_text("$2.5000")
    await expect(page.get_by_role("table", name="Budgets")).to_contain_text("$2.5000$10.0025%")
    assert "by=instance" in page.url
    await page.reload()
    await expect(row(page, "Costs", "<img src=x")).to_be_visible()
    assert await page.locator("main img, main b").count() == 0
    await page.get_by_role("link", name="Machines").click()
    machine = row(page, "Machines", "i-7")
    await expect(machine).to_contain_text(f"${ledger['usd']:.4f}")
    await expect(row(page, "Machines", "<img src=x")).to_contain_text("$2.5000")
    await expect(page.locator("canvas")).to_be_visible()
    await expect(machine).to_contain_text("busy")
    await expect(machine).to_contain_text("1 h 0 min")
    await page.get_by_label("Time").select_option("1")
    await expect(machine).not_to_contain_text("1 h 0 min")
    assert "hours=1" in page.url
    assert await page.locator("main img, main b").count() == 0


async def test_an_offer_says_why_it_is_refused_and_is_tried_again(
    served: ServedWorld, visitor: Visit
) -> None:
    page = await visitor.open("fleet/offers")
    await expect(row(page, "Offers", SPOT)).to_contain_text("no capacity")
    await expect(row(page, "Offers", "on_demand")).to_contain_text("unknown")
    await page.get_by_role("button", name=f"Try again {SPOT}").click()
    await expect(row(page, "Offers", SPOT)).not_to_contain_text("no capacity")
    offers = (await served.world.ok("GET", "/api/v1/windlass/fleet/offers"))["offers"]
    assert [offer["state"] for offer in offers] == ["open", "open"]


async def test_usage_is_that_of_the_export(served: ServedWorld, visitor: Visit) -> None:
    page = await visitor.open("clusters/historical-usage?from=2026-01-01&to=2026-01-31&by=label")
    asked = "startDate=2026-01-01&endDate=2026-01-31"
    period = "period=RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY"
    path = f"/api/v1/resources/allocation/aggregated?{asked}&{period}"
    entries = (await served.world.ok("GET", path))["resourceEntries"]
    hours = sum(entry["byExperimentLabel"].get("first", 0) for entry in entries) / 3600
    assert hours > 0
    await expect(row(page, "Usage", "first")).to_contain_text(f"{hours:.2f}")
    async with page.expect_download() as download:
        await page.get_by_role("link", name="Download as CSV").click()
    text = (await (await download.value).path()).read_text()
    assert text.startswith("aggregation_type,aggregation_key,date,seconds\n")


async def test_the_log_of_the_master_is_followed_and_searched(
    served: ServedWorld, visitor: Visit
) -> None:
    log, handler = logging.getLogger("tests.pages"), served.world.services.own_log.handler
    log.addHandler(handler)
    try:
        log.warning("first %s", HOSTILE)
        page = await visitor.open("clusters/logs")
        await expect(page.get_by_role("log")).to_contain_text("first <img src=x")
        log.error("second")
        await expect(page.get_by_role("log")).to_contain_text("second")
    finally:
        log.removeHandler(handler)
    await page.get_by_label("Level").select_option("ERROR")
    await expect(page.get_by_role("log")).not_to_contain_text("first")
    assert "level=ERROR" in page.url
    assert await page.locator("main img, main b").count() == 0


@pytest.mark.parametrize(("width", "height"), [DESKTOP, PHONE])
async def test_everybody_can_use_the_pages(visitor: Visit, width: int, height: int) -> None:
    """By the rules of axe; on a phone nothing is wider than it."""
    page = visitor.page
    await page.set_viewport_size({"width": width, "height": height})
    for path in PAGES:
        await visitor.open(path)
        await expect(page.locator("main h1")).to_be_visible()
        await expect(page.get_by_text("Loading…")).to_have_count(0)
        assert await page.evaluate("() => document.documentElement.scrollWidth") <= width, path
        found = await Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
    await page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
