"""Comparing runs, finding things by the palette, the message to everybody and costs by day, in Chromium."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

pytest.importorskip("playwright")

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Locator, Page, expect

from master.store.tables import Cost
from master.store.unit_of_work import UnitOfWork
from tests.fakes.api_world import SINGLE, file
from tests.integration.webui.served_world import CHROMIUM, DESKTOP, PHONE, ServedWorld, Visit

HOSTILE = "<img src=x onerror=alert(1)>\u202e<b>bold</b>"
WIDTH_ONCE_DRAWN = """() => new Promise((done) => {
  const twice = () => requestAnimationFrame(() => done(document.documentElement.scrollWidth));
  requestAnimationFrame(twice);
})"""
"""Charts take their new size a frame after the window has."""

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: run make test-slow"),
]


def region(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


@pytest.fixture(scope="module")
def twins() -> list[int]:
    """Ids of experiments that differ in two settings, and in a line of code; made by the first test that needs them."""
    return []


async def made(served: ServedWorld, twins: list[int]) -> list[int]:
    for number in range(20 - len(twins)):
        config = SINGLE.replace("name: tiny", f"name: twin\ndata: {{said: '{HOSTILE}'}}")
        config = config.replace("lr: 0.5", "lr: 0.25") if number == 3 else config
        config = config.replace("max_restarts: 2", "max_restarts: 4") if number == 11 else config
        code = f"print('{HOSTILE}')\nseed = {number == 3}\n".encode()
        definition = [file("train.py", code), file("same.py", b"same\n")]
        twins.append(await served.world.create(config, modelDefinition=definition, activate=False))
    return twins


async def test_of_twenty_runs_the_two_settings_that_differ_are_found(
    served: ServedWorld, visitor: Visit, twins: list[int]
) -> None:
    ids = await made(served, twins)
    page = await visitor.open("experiments?name=twin&sort=SORT_BY_ID&order=up")
    await expect(page.get_by_text("20 in all")).to_be_visible()
    await page.get_by_role("grid").focus()
    for key in ("j", "x", "End", "Shift+X"):
        await page.keyboard.press(key)
    await expect(page.get_by_role("link", name="Compare 20 experiments")).to_be_visible()
    await page.keyboard.press("c")
    await expect(page.get_by_role("heading", name="Compare 20 experiments")).to_be_visible()
    asked = "&".join(f"experimentIds={id_}" for id_ in ids)
    told = await served.world.ok("GET", f"/api/v1/windlass/compare?{asked}")
    names = [".".join(one["path"]) for one in told["settings"]]
    assert names == ["hyperparameters.lr.val", "max_restarts"]
    settings = region(page, "Settings")
    await expect(settings.locator("tbody th")).to_have_text(names)
    await expect(settings.locator("td.other")).to_have_text(["0.25", "4"])
    await expect(page.locator("main")).to_contain_text(f"2 of {told['total']} settings differ")
    await expect(page.locator("main")).to_contain_text(f"det experiment compare {ids[0]} {ids[1]}")
    await page.reload()
    await expect(settings.locator("tbody th")).to_have_text(names)
    await page.get_by_label("all settings").click()
    await expect(settings.locator("tbody th")).to_have_count(told["total"])
    await expect(settings.locator("tbody th").first).to_have_text(names[0])
    assert "all=1" in page.url
    assert await page.locator("main img, main b").count() == 0


async def test_configuration_and_code_of_two_are_compared(
    served: ServedWorld, visitor: Visit, twins: list[int]
) -> None:
    ids = await made(served, twins)
    page = await visitor.open(f"compare?experiments={ids[0]},{ids[1]},{ids[3]}")
    await page.get_by_role("link", name="Configuration and code").click()
    await expect(page.get_by_text("The code is the same.")).to_be_visible()
    await page.get_by_label("To experiment").select_option(str(ids[3]))
    config = region(page, "Differences of the configuration")
    await expect(config.locator(".removed")).to_have_text("-    val: 0.5")
    await expect(config.locator(".added")).to_have_text("+    val: 0.25")
    code = region(page, "Differences of train.py")
    await expect(code.locator(".added")).to_have_text("+seed = True")
    await expect(code).to_contain_text("<img src=x onerror=alert(1)>")
    await expect(page.get_by_text("1 of 2 files differ.")).to_be_visible()
    address = page.url
    assert f"to={ids[3]}" in address
    await page.reload()
    await expect(code.locator(".added")).to_have_text("+seed = True")
    assert await page.locator("main img, main b").count() == 0


async def test_metrics_and_curves_are_beside_each_other(
    served: ServedWorld, visitor: Visit
) -> None:
    page = await visitor.open("compare?runs=1")
    await expect(page.get_by_role("heading", name="Compare 1 trial")).to_be_visible()
    await page.get_by_role("link", name="Metrics").click()
    best = region(page, "Metrics of the best validation")
    trial = (await served.world.ok("GET", "/api/v1/trials/1"))["trial"]
    told = trial["bestValidation"]["metrics"]["avgMetrics"]
    await expect(best.locator("tbody th")).to_have_text(sorted(told))
    await expect(best).to_contain_text("NaN")
    await expect(page.get_by_role("figure").filter(has_text="validation.loss")).to_be_visible()
    other = await served.world.create(SINGLE.replace("name: tiny", "name: other"))
    second = served.world.trial_id(other)
    await served.world.report(second, "validation", 10, loss=0.5)
    await visitor.open(f"compare?experiments=1,{other}&tab=curves")
    chart = page.get_by_role("figure").filter(has_text="validation.loss")
    await chart.get_by_text("Numbers", exact=True).click()
    for id_ in (1, second):
        await expect(chart.get_by_role("link", name=f"trial {id_}", exact=True)).to_be_visible()
    await visitor.open("compare?experiments=999")
    await expect(page.get_by_role("alert")).to_contain_text("experiment '999' not found")
    assert all("404" in one for one in visitor.complaints)
    visitor.complaints.clear()
    await visitor.open("compare")
    await expect(page.get_by_text("Nothing is chosen.")).to_be_visible()


async def test_anything_is_found_by_keys_alone(
    served: ServedWorld, visitor: Visit, twins: list[int]
) -> None:
    config = SINGLE.replace("name: tiny", f"name: '{HOSTILE}'")
    hostile = await served.world.create(config, activate=False)
    page = await visitor.open("experiments")
    await page.get_by_label("Filter", exact=True).focus()
    await page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Go to")
    entry = palette.get_by_role("combobox")
    await expect(entry).to_be_focused()
    await entry.fill("<img")
    await expect(palette.get_by_role("option")).to_have_count(1)
    await expect(palette.get_by_role("option")).to_contain_text(f"{hostile} <img src=x")
    assert await page.locator("img, b").count() == 0
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name=f"{hostile} <img")).to_be_visible()
    await expect(palette).to_have_count(0)
    await page.keyboard.press("/")
    await entry.fill("audit")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Audit")).to_be_visible()
    await page.keyboard.press("/")
    await entry.fill("seein")
    await expect(palette.get_by_role("option")).to_contain_text(["1 seeing"])
    await entry.fill("nothing has this name")
    await expect(palette.get_by_role("status")).to_have_text("Nothing has that name or id.")
    await page.keyboard.press("Escape")
    await expect(palette).to_have_count(0)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_contain_text(
        "compare what is selected"
    )
    await page.keyboard.press("Escape")


async def test_everybody_is_told_the_cluster_message(served: ServedWorld, visitor: Visit) -> None:
    now = datetime.now(UTC).isoformat()
    path = "/api/v1/master/cluster_message"
    await served.world.ok("PUT", path, {"message": HOSTILE, "startTime": now})
    page = await visitor.open("models")
    banner = page.get_by_role("status").filter(has_text="<img src=x")
    await expect(banner).to_be_visible()
    assert await page.locator("img, b").count() == 0
    await served.world.ok("DELETE", path)
    await page.reload()
    await expect(page.get_by_role("heading", name="Models")).to_be_visible()
    await expect(banner).to_have_count(0)


async def booked(served: ServedWorld) -> float:
    """USD of three days, by two users and nobody."""
    unit, total = UnitOfWork(), 0.0
    for day, user, kind, usd in (
        ("01", 1, "busy", 3.0),
        ("01", None, "idle", 1.0),
        ("03", 2, "busy", 4.5),
    ):
        row = {"month": f"2026-11-{day}", "pool": "gpu", "instance_id": "m", "job_id": f"{user}"}
        owner = {"user_id": user, "experiment_id": None}
        unit.upsert(Cost, {**row, **owner, "kind": kind, "usd": usd, "hours": 1.0})
        total += usd
    await served.world.services.store.commit(unit)
    return total


async def test_costs_by_day_are_those_of_the_ledger(served: ServedWorld, visitor: Visit) -> None:
    total = await booked(served)
    page = await visitor.open("costs?by=day&month=2026-11")
    bars = page.get_by_role("img", name="USD by day")
    await expect(bars.locator("g")).to_have_count(3)
    days = page.get_by_role("grid", name="Costs")
    await expect(days).to_contain_text("2026-11-03")
    facts = page.locator("main dl").filter(has_text="All of it")
    await expect(facts).to_contain_text(f"${total:.4f}")
    titles = await bars.locator("title").all_text_contents()
    assert "2026-11-01: Idle $1.00 of $4.00" in titles
    await page.get_by_label("Divide days by").select_option("user")
    await expect(page.locator("figure")).to_contain_text("(nobody)")
    figure = page.get_by_role("figure")
    await figure.get_by_text("Numbers", exact=True).click()
    await expect(figure.get_by_role("row").nth(1)).to_contain_text("2026-11-01")
    parts = await bars.locator("title").all_text_contents()
    assert "2026-11-03: determined $4.50 of $4.50" in parts
    await expect(page.locator("main")).to_contain_text("det fleet costs --by day --month 2026-11")


async def test_everybody_can_use_the_pages(
    served: ServedWorld, visitor: Visit, twins: list[int]
) -> None:
    """By the rules of axe; on a phone nothing is wider than it."""
    ids = await made(served, twins)
    await booked(served)
    compare = f"compare?experiments={ids[0]},{ids[3]},1"
    page = visitor.page
    for path in (
        *(compare, f"{compare}&tab=code&to={ids[3]}", f"{compare}&tab=curves", "compare?trials=1"),
        *("compare", "costs?by=day&month=2026-11", "dashboard"),
    ):
        for theme in ("light", "dark"):
            await page.emulate_media(color_scheme=theme)
            await visitor.open(path)
            await expect(page.locator("main h1")).to_be_visible()
            await expect(page.get_by_text("Loading…")).to_have_count(0)
            if path == "dashboard":
                await page.keyboard.press("/")
                await expect(page.get_by_role("dialog", name="Go to")).to_be_visible()
            found = await Axe().run(page)
            assert found.violations_count == 0, f"{path}: {found.generate_report()}"
        await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        assert await page.evaluate(WIDTH_ONCE_DRAWN) <= PHONE[0], path
        await page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
