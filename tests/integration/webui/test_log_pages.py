"""The log of a task in the browser: one line among 200,000 is found, and whoever is sent its link sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

pytest.importorskip("playwright")

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from master.logs.rows import TaskLine
from tests.integration.webui.served_world import CHROMIUM, DESKTOP, PHONE, ServedWorld, Visit

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: run make test-slow"),
]
LINES, RARE, AT_ONCE = 200_000, (70_000, 150_000), 10_000
START = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = (
    "<img src=x onerror=alert(1)> \x1b[31mred\x1b[0m \x1b]0;title\x07tail \u202egnp.exe \u200bzero "
)


def line(task: str, number: int) -> TaskLine:
    word = " needle" if number in RARE else ""
    return TaskLine(
        task_id=task,
        timestamp=START + timedelta(seconds=number / 10),
        log=f"step {number}: loss 0.25{word}",
        level="ERROR" if number % 1_000 == 0 else "INFO",
        rank_id=number % 2,
        source="task",
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def task(served: ServedWorld) -> AsyncIterator[str]:
    """With a long log."""
    command: str = (await served.world.ok("GET", "/api/v1/commands"))["commands"][0]["id"]
    logs = served.world.services.logs
    await logs.delete([command])
    for first in range(1, LINES + 1, AT_ONCE):
        await logs.append([line(command, n) for n in range(first, first + AT_ONCE)])
    yield command


async def shown(page: Page, text: str) -> None:
    await expect(page.get_by_role("log").get_by_text(text, exact=True)).to_be_visible()


async def test_one_line_among_many_is_found_and_its_link_shows_it(
    visitor: Visit, task: str
) -> None:
    page = await visitor.open(f"tasks/{task}/logs")
    await shown(page, f"step {LINES}: loss 0.25")
    await page.get_by_label("Search in the log").fill("needle")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status").get_by_text("2 hits", exact=True)).to_be_visible()
    await shown(page, "step 70000: loss 0.25 needle")
    assert "line=70000" in page.url
    await page.get_by_role("log").focus()
    await page.keyboard.press("n")
    await shown(page, "step 150000: loss 0.25 needle")
    await page.keyboard.press("N")
    await shown(page, "step 70000: loss 0.25 needle")
    other = await visitor.context.new_page()
    await other.goto(page.url)
    await shown(other, "step 70000: loss 0.25 needle")
    await expect(other.locator(".log-line[aria-current]")).to_have_count(1)
    await shown(other, "step 70001: loss 0.25")
    await other.close()


async def test_an_expression_a_level_and_a_rank_choose_lines(visitor: Visit, task: str) -> None:
    page = await visitor.open(f"tasks/{task}/logs")
    await page.get_by_label("regex").check()
    await page.get_by_label("Search in the log").fill("step 1[23]0000:")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status").get_by_text("2 hits", exact=True)).to_be_visible()
    await shown(page, "step 120000: loss 0.25")
    await page.get_by_label("Level").select_option("ERROR")
    await shown(page, "step 121000: loss 0.25")
    await page.get_by_label("Ranks").fill("1")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("No line is like that.")).to_be_visible()
    await page.get_by_label("Search in the log").fill("(")
    await page.get_by_role("button", name="Search").click()
    await expect(page.get_by_role("alert")).to_contain_text("no regular expression")
    assert all("400" in one for one in visitor.complaints)
    visitor.complaints.clear()


async def test_the_log_goes_to_a_line_and_to_a_time(visitor: Visit, task: str) -> None:
    page = await visitor.open(f"tasks/{task}/logs")
    await page.get_by_label("Go to line").fill("100000")
    await page.keyboard.press("Enter")
    await shown(page, "step 100000: loss 0.25")
    # Older lines come before the first one, which stays where it is.
    await page.get_by_role("log").focus()
    await page.keyboard.press("Home")
    await shown(page, "step 99500: loss 0.25")
    await page.get_by_role("slider").focus()
    await page.keyboard.press("Home")
    await page.keyboard.press("Enter")
    await shown(page, "step 1: loss 0.25")
    await page.reload()
    await shown(page, "step 1: loss 0.25")
    await page.get_by_label("follow").check()
    await shown(page, f"step {LINES}: loss 0.25")


async def test_a_log_that_could_not_be_read_is_asked_for_again(visitor: Visit, task: str) -> None:
    page = visitor.page
    windows = "**/logs/window*"
    await page.route(windows, lambda route: route.abort())
    await visitor.open(f"tasks/{task}/logs")
    problem = page.locator("main").get_by_role("alert")
    await expect(problem).to_contain_text("The master does not answer")
    await page.unroute(windows)
    await expect(problem).to_have_count(0, timeout=30_000)
    await shown(page, f"step {LINES}: loss 0.25")
    visitor.complaints.clear()


async def test_lines_of_any_kind_are_text(served: ServedWorld, visitor: Visit, task: str) -> None:
    page = await visitor.open(f"tasks/{task}/logs")
    await shown(page, f"step {LINES}: loss 0.25")
    at = (START + timedelta(seconds=LINES / 10 + 1)).isoformat()
    for text in (HOSTILE, "long " + "x" * 60_000):
        posted = {"taskId": task, "log": text, "timestamp": at}
        await served.world.ok("POST", "/api/v1/task/logs", {"logs": [posted]})
    log = page.get_by_role("log")
    await expect(log.locator(".hue-red")).to_have_text("red")
    await expect(log).to_contain_text("<img src=x onerror=alert(1)>")
    await expect(log).to_contain_text("tail U+202Egnp.exe U+200Bzero")
    await expect(log).to_contain_text("55,005 more characters")
    assert await page.locator("main img").count() == 0


async def test_what_is_followed_does_not_pile_up(
    served: ServedWorld, visitor: Visit, task: str
) -> None:
    """In the time of the page, which does not wait between two looks."""
    browser = visitor.context.browser
    assert browser is not None
    context = await browser.new_context(storage_state=await visitor.context.storage_state())
    await context.clock.install()
    page = await context.new_page()
    await page.goto(f"{served.base}det/tasks/{task}/logs")
    lines = page.get_by_text("Lines ")
    await expect(lines).to_be_visible()
    for first in range(LINES + 1_000, LINES + 7_000, 400):
        await served.world.services.logs.append([line(task, n) for n in range(first, first + 400)])
        await context.clock.run_for(2_000)
        await expect(page.get_by_role("log")).to_contain_text(f"step {first + 399}:")
    start, end = (await lines.inner_text()).removeprefix("Lines ").split(" of ")[0].split(" to ")
    assert int(end.replace(",", "")) - int(start.replace(",", "")) < 5_000
    await context.close()


async def test_everybody_can_use_it(visitor: Visit, task: str) -> None:
    """By the rules of axe, light and dark; on a phone nothing is wider than it."""
    page = visitor.page
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        await visitor.open(f"tasks/{task}/logs?search=needle&line=70000")
        await shown(page, "step 70000: loss 0.25 needle")
        found = await Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert await page.evaluate("() => document.documentElement.scrollWidth") <= PHONE[0]
    await page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
    await page.emulate_media(color_scheme="light")
