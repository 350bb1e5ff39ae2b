"""Lists of experiments and runs in Chromium: filters with completion, columns, actions on all that is found."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("playwright")

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Locator, Page, expect

from tests.integration.webui.served_world import CHROMIUM, DESKTOP, PHONE, ServedWorld, Visit

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: run make test-slow"),
]


def grid(page: Page, name: str = "Experiments") -> Locator:
    return page.get_by_role("grid", name=name)


def field(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Filter")


def chosen(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


async def test_a_filter_is_completed_by_keys_and_stays_in_the_address(visitor: Visit) -> None:
    page = await visitor.open("experiments")
    await expect(grid(page).get_by_role("row").nth(2)).to_be_visible()
    await page.keyboard.press("f")
    await expect(field(page)).to_be_focused()
    await page.keyboard.type("sta")
    words = page.get_by_role("listbox", name="Words of filters")
    await expect(words.get_by_role("option").first).to_contain_text("state")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(field(page)).to_have_value("state ")
    await page.keyboard.type("= pau")
    await page.keyboard.press("ArrowDown")
    await expect(field(page)).to_have_attribute("aria-activedescendant", "filter-option-0")
    await page.keyboard.press("Enter")
    await page.keyboard.type("and name ~ search")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("1 in all")).to_be_visible()
    await expect(words).to_be_hidden()
    assert chosen(page)["filter"] == ["state = PAUSED and name ~ search"]
    command = "det experiment list --filter 'state = PAUSED and name ~ search'"
    await expect(page.get_by_text(command)).to_be_visible()
    await page.reload()
    await expect(field(page)).to_have_value("state = PAUSED and name ~ search")
    await expect(page.get_by_text("1 in all")).to_be_visible()
    await field(page).fill("")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("1 in all")).to_have_count(0)


async def test_what_is_wrong_is_shown_at_its_place(visitor: Visit) -> None:
    page = await visitor.open("experiments?filter=state+%3D+RUNING+and+lr+%3C+1")
    problem = page.locator("#filter-problem")
    await expect(problem).to_contain_text("did you mean RUNNING?")
    await expect(problem.locator("mark")).to_have_text("RUNING")
    await expect(field(page)).to_have_attribute("aria-describedby", "filter-problem")
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    await field(page).fill("state = RUNNING and lr < 1")
    await page.keyboard.press("Enter")
    await expect(grid(page).get_by_role("link", name="1 tiny", exact=True)).to_be_visible()
    await expect(problem).to_be_empty()
    assert all("400" in one for one in visitor.complaints)
    visitor.complaints.clear()


async def test_addresses_of_before_find_the_same(visitor: Visit) -> None:
    page = await visitor.open("experiments?name=search&state=PAUSED")
    await expect(field(page)).to_have_value("name ~ search and state = PAUSED")
    await expect(page.get_by_text("1 in all")).to_be_visible()


async def test_columns_are_chosen_sorted_by_and_kept(visitor: Visit) -> None:
    page = await visitor.open("experiments")
    await expect(grid(page).get_by_role("row").nth(2)).to_be_visible()
    await page.keyboard.press("e")
    dialog = page.get_by_role("dialog", name="Columns")
    await dialog.get_by_label("Columns whose name contains").fill("hp.lr")
    await dialog.get_by_label("hp.lr").check()
    await dialog.get_by_label("Columns whose name contains").fill("validation.loss")
    await dialog.get_by_label("metric.validation.loss.min").check()
    await dialog.get_by_label("Columns whose name contains").fill("project")
    await dialog.get_by_label("Project").uncheck()
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    await dialog.get_by_role("button", name="Done").click()
    head = grid(page).get_by_role("columnheader")
    await expect(head.filter(has_text="Project")).to_have_count(0)
    await head.get_by_role("button", name="validation.loss.min").click()
    await expect(grid(page).locator('[aria-rowindex="2"]')).to_contain_text("1 tiny")
    await expect(grid(page).locator('[aria-rowindex="2"]')).to_contain_text("0.333333")
    await expect(head.filter(has_text="validation.loss.min")).to_have_attribute(
        "aria-sort", "ascending"
    )
    assert chosen(page)["sort"] == ["metric.validation.loss.min"]
    await page.reload()
    await expect(grid(page).locator('[aria-rowindex="2"]')).to_contain_text("0.333333")
    await page.keyboard.press("e")
    await dialog.get_by_role("button", name="As at first").click()
    await dialog.get_by_role("button", name="Done").click()
    await expect(head.filter(has_text="Project")).to_be_visible()
    assert "columns" not in chosen(page)


async def test_a_view_is_saved_shared_and_found_by_its_short_address(visitor: Visit) -> None:
    page = await visitor.open(
        "projects/1/experiments?filter=name+~+search&columns=state,hp.lr&sort=-id"
    )
    await expect(page.get_by_text("1 in all")).to_be_visible()
    await page.get_by_role("button", name="Save view…").click()
    dialog = page.get_by_role("dialog", name="Save this view")
    await dialog.get_by_label("Name").fill("searches only")
    await dialog.get_by_label("Shown to").select_option("all who see workspace Uncategorized")
    await dialog.get_by_role("button", name="Save view…").click()
    menu = page.get_by_label("View", exact=True)
    await expect(menu.locator("option:checked")).to_have_text("searches only")
    (view,) = chosen(page)["view"]
    await visitor.open(f"projects/1/experiments?view={view}")
    await expect(field(page)).to_have_value("name ~ search")
    await expect(page.get_by_text("1 in all")).to_be_visible()
    await expect(grid(page).get_by_role("columnheader", name="lr")).to_be_visible()
    await field(page).fill("")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Save changes…")).to_be_visible()
    await expect(page.get_by_text("1 in all")).to_have_count(0)
    await menu.select_option("no saved view")
    await expect(grid(page).get_by_role("columnheader", name="Project")).to_be_visible()
    await menu.select_option("searches only")
    await expect(field(page)).to_have_value("name ~ search")
    await page.get_by_role("button", name="Delete view").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete view").click()
    await expect(menu.get_by_role("option", name="searches only")).to_have_count(0)


async def test_all_that_is_found_is_acted_on_after_a_question_with_the_number(
    served: ServedWorld, visitor: Visit
) -> None:
    ids = [await served.world.create(activate=False) for _ in range(3)]
    for id_ in ids:
        await served.world.ok("PATCH", f"/api/v1/experiments/{id_}", {"name": "many of us"})
    page = await visitor.open("experiments?filter=%22many+of+us%22")
    await grid(page).get_by_label(f"Select {ids[0]}").check()
    bar = page.get_by_role("toolbar", name="Of the selected experiments")
    await bar.get_by_role("button", name="Select all 3").click()
    await expect(page.get_by_text("3 in all, 3 selected")).to_be_visible()
    await bar.get_by_role("button", name="Kill").click()
    dialog = page.get_by_role("dialog", name="Kill 3 experiments?")
    await dialog.get_by_role("button", name="Kill").click()
    await expect(bar).to_have_count(0)
    for id_ in ids:
        shown = await served.world.ok("GET", f"/api/v1/experiments/{id_}")
        assert shown["experiment"]["state"] == "STATE_CANCELED"


async def test_runs_of_all_experiments_are_one_list(visitor: Visit) -> None:
    page = await visitor.open("runs?filter=state+%3D+RUNNING+and+metric.validation.loss+%3C+1")
    await expect(page).to_have_title("Runs · Windlass")
    row = grid(page, "Runs").locator('[aria-rowindex="2"]')
    await expect(row).to_contain_text("running")
    await expect(page.get_by_text("1 in all")).to_be_visible()
    await row.get_by_role("link", name="UNCAT-1").click()
    await expect(page.get_by_role("heading", name="Trial 1")).to_be_visible()
    await page.go_back()
    await page.goto(f"{visitor.base}det/projects/1/runs")
    await expect(page.get_by_role("link", name="Runs", exact=True)).to_have_attribute(
        "aria-current", "page"
    )
    await expect(grid(page, "Runs").locator('[aria-rowindex="2"]')).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [DESKTOP, PHONE])
async def test_everybody_can_use_the_lists(
    visitor: Visit, width: int, height: int, scheme: str
) -> None:
    page = visitor.page
    await page.set_viewport_size({"width": width, "height": height})
    await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    for path in ("runs", "projects/1/runs", "experiments?columns=state,hp.lr,label"):
        await visitor.open(path)
        await expect(page.locator("main h1")).to_be_visible()
        await expect(page.get_by_text("Loading…")).to_have_count(0)
        await field(page).fill("s")
        await expect(page.get_by_role("option").first).to_be_visible()
        assert await page.evaluate("() => document.documentElement.scrollWidth") <= width, path
        found = await Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
    await page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
