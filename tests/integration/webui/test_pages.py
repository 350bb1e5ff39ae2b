"""The pages in Chromium, by mouse and by keys, on a master's real API; hostile names are only names."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("playwright")

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Locator, Page, Route, expect

from tests.integration.webui.served_world import CHROMIUM, DESKTOP, PHONE, ServedWorld, Visit

HOSTILE = "<img src=x onerror=alert(1)>\u202e<b>bold</b>"

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: run make test-slow"),
]


async def unmanaged(served: ServedWorld, name: str) -> int:
    body = {
        "config": f"name: {name!r}\nsearcher: {{name: single, metric: loss}}",
        "unmanaged": True,
    }
    path = f"/api/v1/experiments/by-external-id/{abs(hash(name))}"
    return int((await served.world.ok("PUT", path, body))["experiment"]["id"])


def grid(page: Page, name: str = "Experiments") -> Locator:
    return page.get_by_role("grid", name=name)


async def test_an_experiment_is_reached_by_links_and_back_restores_the_list(
    visitor: Visit,
) -> None:
    page = await visitor.open("experiments")
    await expect(page).to_have_title("Experiments · Windlass")
    await grid(page).get_by_role("button", name="Name").click()
    await expect(grid(page).get_by_role("columnheader", name="Name")).to_have_attribute(
        "aria-sort", "ascending"
    )
    address = page.url
    assert "sort=name" in address
    await grid(page).get_by_role("link", name="1 tiny", exact=True).click()
    await expect(page.get_by_role("heading", name="1 tiny")).to_be_visible()
    await expect(page.get_by_role("figure").filter(has_text="validation.loss")).to_be_visible()
    await page.go_back()
    await expect(grid(page).get_by_role("columnheader", name="Name")).to_have_attribute(
        "aria-sort", "ascending"
    )
    assert page.url == address
    await page.reload()
    await expect(grid(page).get_by_role("columnheader", name="Name")).to_have_attribute(
        "aria-sort", "ascending"
    )


async def test_the_list_is_walked_by_keys_alone(visitor: Visit) -> None:
    page = await visitor.open("dashboard")
    await expect(page.get_by_role("heading", name="Home of admin")).to_be_visible()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator("#main")).to_be_focused()
    await page.keyboard.press("g")
    await page.keyboard.press("e")
    first = grid(page).locator('[aria-rowindex="2"]')
    await expect(first).to_contain_text("tiny")
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await page.keyboard.press("k")
    await page.keyboard.press("x")
    await expect(first).to_have_attribute("aria-selected", "true")
    await expect(page.get_by_role("toolbar")).to_be_visible()
    await page.keyboard.press("f")
    await expect(page.get_by_role("combobox", name="Filter")).to_be_focused()
    await page.keyboard.type("tiny j")
    await expect(first).to_have_attribute("aria-selected", "true"), "text fields keep their keys"
    await page.get_by_role("combobox", name="Filter").fill("search")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("1 in all")).to_be_visible()
    await grid(page).focus()
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="search")).to_be_visible()


async def test_a_million_rows_are_asked_for_by_windows(served: ServedWorld, visitor: Visit) -> None:
    total, asked = 1_000_000, []
    one = (await served.world.ok("GET", "/api/v1/experiments?limit=1"))["experiments"][0]

    async def answer(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        offset, limit = int(query["offset"][0]), int(query["limit"][0])
        asked.append(limit)
        ids = range(offset + 1, min(offset + limit, total) + 1)
        page = {"offset": offset, "limit": limit, "startIndex": offset, "total": total}
        rows = [{"experiment": {**one, "id": id_, "name": "row"}, "values": []} for id_ in ids]
        pagination = {**page, "endIndex": offset + len(rows)}
        await route.fulfill(json={"experiments": rows, "pagination": pagination})

    page = visitor.page
    await page.route("**/api/v1/windlass/experiments?*", answer)
    await visitor.open("experiments")
    await expect(page.get_by_text("1,000,000 in all")).to_be_visible()
    await page.keyboard.press("End")
    last = grid(page).locator(f'[aria-rowindex="{total + 1}"]')
    await expect(last).to_contain_text(f"{total} row")
    await expect(last).to_be_in_viewport()
    await page.keyboard.press("PageUp")
    await page.keyboard.press("Home")
    await expect(grid(page).locator('[aria-rowindex="2"]')).to_be_in_viewport()
    assert await grid(page).get_by_role("row").count() < 100
    assert max(asked) <= 200
    await page.unroute("**/api/v1/windlass/experiments?*")


async def test_hostile_names_are_text(served: ServedWorld, visitor: Visit) -> None:
    id_ = await unmanaged(served, HOSTILE)
    page = await visitor.open("experiments?sort=-id")
    link = grid(page).get_by_role("link", name=f"{id_} <img src=x")
    await expect(link).to_be_visible()
    assert await page.locator("img, b").count() == 0
    await link.click()
    await expect(page.get_by_role("heading", name=f"{id_} <img")).to_be_visible()
    assert await page.locator("main img, main b").count() == 0


async def test_an_experiment_is_paused_and_ended_after_a_question(
    served: ServedWorld, visitor: Visit
) -> None:
    id_ = await served.world.create()
    page = await visitor.open(f"experiments/{id_}")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator(".title .state")).to_contain_text("paused")
    await page.get_by_role("button", name="Kill").click()
    dialog = page.get_by_role("dialog", name=f"Kill experiment {id_}?")
    await expect(dialog).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await page.get_by_role("button", name="Kill").click()
    await dialog.get_by_role("button", name="Kill").click()
    await expect(page.locator(".title .state")).to_contain_text("canceled")
    shown = await served.world.ok("GET", f"/api/v1/experiments/{id_}")
    assert shown["experiment"]["state"] == "STATE_CANCELED"


async def test_a_trial_shows_its_numbers_and_its_log_follows(
    served: ServedWorld, visitor: Visit
) -> None:
    page = await visitor.open("trials/1/metrics")
    chart = page.get_by_role("figure").filter(has_text="training.loss")
    await chart.get_by_text("Numbers").click()
    await expect(chart.get_by_role("row", name="trial 1 3 1 0.333333")).to_be_visible()
    await page.get_by_role("link", name="Logs").click()
    log = page.get_by_role("log")
    await expect(log).to_contain_text("epoch 1")
    trial = (await served.world.ok("GET", "/api/v1/trials/1"))["trial"]
    line = {"taskId": trial["taskId"], "log": "\x1b[31m<i>second</i>\x1b[0m"}
    await served.world.ok("POST", "/api/v1/task/logs", {"logs": [line]})
    await expect(log).to_contain_text("<i>second</i>")
    await page.get_by_label("Search in the log").fill("epoch")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("list", name="Hits")).to_contain_text("epoch 1")
    await expect(page).to_have_url(re.compile(r"search=epoch&line=\d"))


async def test_what_is_not_there_says_so(visitor: Visit) -> None:
    page = await visitor.open("nothing")
    await expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    await visitor.open("experiments/777")
    await expect(page.get_by_role("alert")).to_contain_text("Not found")
    assert all("404" in one for one in visitor.complaints)
    visitor.complaints.clear()


async def test_a_session_that_ends_is_renewed_over_the_page(
    served: ServedWorld, visitor: Visit
) -> None:
    page = await visitor.open("experiments")
    await expect(grid(page)).to_be_visible()
    await page.get_by_role("combobox", name="Filter").fill("typed")
    await visitor.context.clear_cookies()
    dialog = page.get_by_role("dialog", name="Your session has ended")
    await expect(dialog).to_be_visible()
    await dialog.get_by_label("Password").fill("Correct-horse-1")
    await dialog.get_by_role("button", name="Log in").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_role("combobox", name="Filter")).to_have_value("typed")
    id_ = await unmanaged(served, "typed later")
    await expect(grid(page).get_by_role("link", name=f"{id_} typed later")).to_be_visible()
    assert all("401" in one for one in visitor.complaints)
    visitor.complaints.clear()


PAGES = (
    "dashboard",
    "experiments",
    "experiments/1",
    "experiments/1/trials",
    "experiments/1/config",
)
PAGES_OF_TRIALS = ("trials/1", "trials/1/metrics", "trials/1/logs")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [DESKTOP, PHONE])
async def test_everybody_can_use_the_pages(
    visitor: Visit, width: int, height: int, scheme: Literal["light", "dark"]
) -> None:
    """By the rules of axe; on a phone nothing is wider than it."""
    page = visitor.page
    await page.set_viewport_size({"width": width, "height": height})
    await page.emulate_media(color_scheme=scheme)
    for path in (*PAGES, *PAGES_OF_TRIALS):
        await visitor.open(path)
        await expect(page.locator("main h1")).to_be_visible()
        await expect(page.get_by_text("Loading…")).to_have_count(0)
        assert await page.evaluate("() => document.documentElement.scrollWidth") <= width, path
        found = await Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
    await page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})


async def test_a_master_that_does_not_answer_is_said_and_come_back_to(visitor: Visit) -> None:
    page = await visitor.open("experiments")
    await expect(grid(page)).to_be_visible()
    await page.route("**/api/**", lambda route: route.abort())
    await expect(page.get_by_role("alert")).to_contain_text("The master does not answer")
    await expect(grid(page).get_by_role("link", name="1 tiny", exact=True)).to_be_visible()
    await page.unroute("**/api/**")
    await expect(page.get_by_role("alert")).to_have_count(0, timeout=30_000)
    assert all("ERR_FAILED" in one for one in visitor.complaints)
    visitor.complaints.clear()
