"""Pages of curves, searches and hyperparameters in Chromium: what they show is what the API says."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest
import pytest_asyncio

pytest.importorskip("playwright")

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Locator, Page, expect

from master.store import tables
from master.store.unit_of_work import UnitOfWork
from tests.fakes.api_world import api_world
from tests.integration.webui.search_world import Searches, searches
from tests.integration.webui.served_world import (
    CHROMIUM,
    DESKTOP,
    PHONE,
    ServedWorld,
    Visit,
    serving,
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: run make test-slow"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServedWorld]:
    async with (
        api_world(tmp_path_factory.mktemp("searches")) as world,
        serving(world.app) as port,
    ):
        await world.login()
        yield ServedWorld(world, f"http://127.0.0.1:{port}/")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(served: ServedWorld) -> Searches:
    return await searches(served.world)


def chart(page: Page, title: str) -> Locator:
    return page.get_by_role("figure").filter(has=page.locator("figcaption", has_text=title))


async def numbers(figure: Locator) -> list[list[str]]:
    """The table below a chart, its head first."""
    region = figure.get_by_role("region", name="Numbers of")
    if not await region.count():
        await figure.get_by_text("Numbers", exact=True).click()
    await expect(region).to_be_visible()
    rows = await region.get_by_role("row").all()
    return [await row.locator("th, td").all_inner_texts() for row in rows]


def shown(value: Any) -> str:
    return "" if value is None else f"{value:.6g}"


async def test_rungs_are_those_of_the_api_and_trials_climb(
    served: ServedWorld, here: Searches, visitor: Visit
) -> None:
    world = served.world
    page = await visitor.open(f"experiments/{here.halving}/search")
    table = page.get_by_role("table", name="Rungs")

    async def compare() -> list[Any]:
        path = f"/api/v1/windlass/experiments/{here.halving}/searcher"
        rungs: list[Any] = (await world.ok("GET", path))["rungs"]
        for rung in rungs:
            row = table.get_by_role("row").filter(has_text=f"{rung['units']} epochs")
            entries, training = rung["entries"], rung["training"]
            went_on = [one for one in entries if one["promoted"]]
            counts = [f"Rung {rung['rung']}", f"{rung['units']} epochs", len(entries), len(went_on)]
            stopped = len(entries) - len(went_on)
            for at, text in enumerate([*counts, stopped]):
                await expect(row.locator("td").nth(at)).to_have_text(str(text))
            for one in training[:8]:
                link = row.get_by_role("link", name=str(one["trialId"]), exact=True).first
                await expect(link).to_be_visible()
            await expect(row).to_contain_text(f"{len(training)} trial")
        listed = await numbers(chart(page, "Rungs"))
        assert [(row[0], row[1], row[3]) for row in listed[1:]] == [
            (str(one["trialId"]), str(rung["rung"]), shown(one["metric"]))
            for rung in rungs
            for one in rung["entries"]
        ]
        return rungs

    low, middle, _ = await compare()
    lowest = table.get_by_role("row").filter(has_text="2 epochs")
    await expect(lowest).to_contain_text(f"with loss of {shown(low['toGoOn'])} or less")
    assert middle["training"]
    climber = here.trials[0]
    await world.report(climber, "validation", 4, loss=-1.5, epochs=4, accuracy=1)
    await expect(table.get_by_role("row").filter(has_text="8 epochs")).to_contain_text(
        f"1 trial: {climber}"
    )
    await page.get_by_role("checkbox", name="logarithmic").check()
    assert "scale=log" in page.url
    _, middle, last = await compare()
    assert [one["trialId"] for one in middle["entries"]] == [climber]
    assert [one["trialId"] for one in last["training"]] == [climber]
    await expect(page.get_by_text(f"det experiment describe {here.halving}")).to_be_visible()


async def test_a_range_chosen_in_one_view_holds_in_all(
    served: ServedWorld, here: Searches, visitor: Visit
) -> None:
    path = f"/api/v1/windlass/experiments/{here.halving}/trial-columns"
    columns = await served.world.ok("GET", path)
    depths = next(one["values"] for one in columns["hyperparameters"] if one["name"] == "net.depth")
    page = await visitor.open(f"experiments/{here.halving}/hp?axes=net.depth+net.kind")
    everything = len(columns["trials"])
    said = page.get_by_role("status").filter(has_text="in the ranges")
    await expect(said).to_contain_text(f"{everything} of {everything} trials")
    assert await page.locator("main img").count() == 0
    parallel = chart(page, "Parallel coordinates")
    drawing = parallel.locator("canvas")
    box = await drawing.bounding_box()
    assert box is not None
    middle = 32 + (360 - 44 - 32) / 2
    await drawing.hover(position={"x": 56, "y": 34})
    await page.mouse.down()
    await page.mouse.move(box["x"] + 56, box["y"] + middle, steps=4)
    await page.mouse.up()
    low, high = min(depths), max(depths)
    inside = [at for at, one in enumerate(depths) if one > (low + high) / 2]
    assert 0 < len(inside) < everything
    await expect(said).to_contain_text(f"{len(inside)} of {everything} trials")
    names = [str(columns["trials"][at]) for at in inside]
    rows = page.get_by_role("table", name="Trials in the ranges").get_by_role("row")
    await expect(rows).to_have_count(len(inside) + 1)
    for figure in (parallel, chart(page, "smallest validation.loss by")):
        assert [row[0] for row in (await numbers(figure))[1:]] == names
    assert "ranges=" in page.url
    await page.reload()
    await expect(said).to_contain_text(f"{len(inside)} of {everything} trials")
    await page.get_by_text("Ranges: 1 set").click()
    kinds = page.get_by_role("group", name="net.kind")
    await kinds.get_by_role("checkbox").first.focus()
    await page.keyboard.press("Space")
    await expect(page.get_by_text("Ranges: 2 set")).to_be_visible()
    depth = page.get_by_role("spinbutton", name="net.depth from")
    await depth.fill(str(low))
    await depth.press("Enter")
    await depth.blur()
    await page.get_by_role("button", name="Clear the ranges").click()
    await expect(said).to_contain_text(f"{everything} of {everything} trials")
    await page.get_by_label("Metric").select_option("validation.accuracy")
    await page.get_by_label("Value").select_option("last")
    await expect(chart(page, "last validation.accuracy by")).to_be_visible()


async def test_cells_and_points_are_the_medians_of_their_trials(
    here: Searches, visitor: Visit
) -> None:
    page = await visitor.open(f"experiments/{here.external}/hp?across=lr&down=own")
    table = page.get_by_role("table", name="Median smallest validation.loss")
    await expect(table.get_by_role("rowheader")).to_have_text(["1", '"1"'])
    await expect(table.get_by_role("button")).to_have_text(["none", "-1"])
    await table.get_by_role("button", name="-1").click()
    said = page.get_by_role("status").filter(has_text="in the ranges")
    await expect(said).to_contain_text("1 of 4 trials")
    points = await numbers(chart(page, "smallest validation.loss by lr"))
    assert [row[1:] for row in points[1:]] == [["0", "-1"]]
    await visitor.open(f"experiments/{here.external}/hp?scale=log")
    await expect(page.get_by_text("No value is positive")).to_be_visible()
    await visitor.open(f"experiments/{here.grid}/search")
    cells = chart(page, "Points of the grid").get_by_role("cell")
    ended = ["0/1", "0/1", "0/1", "0/1", "0/1", "0.25"]
    await expect(cells).to_have_text(["", *ended])


async def test_curves_say_what_has_no_place_and_are_saved(
    served: ServedWorld, here: Searches, visitor: Visit, tmp_path: Path
) -> None:
    page = await visitor.open(f"experiments/{here.halving}/charts?metrics=training.loss")
    loss = chart(page, "training.loss")
    await expect(page.get_by_role("figure")).to_have_count(1)
    diverged = f"Trial {here.trials[3]} has reported NaN or infinite 2 times, from step 5 to 6."
    await expect(loss).to_contain_text(diverged)
    listed = await numbers(loss)
    assert len(listed) == 13
    assert [f"trial {here.trials[0]}", "4", "-3", "-3.75"] in [row[:4] for row in listed]
    await page.get_by_role("checkbox", name="logarithmic").check()
    await expect(loss).to_contain_text("zero or negative values have no place")
    await page.get_by_label("Smoothing").select_option("0.9")
    await expect(loss).to_contain_text("smoothed; numbers and CSV are as reported")
    async with page.expect_download() as saving:
        await loss.get_by_role("button", name="Save training.loss as CSV").click()
    await (await saving.value).save_as(tmp_path / "loss.csv")
    lines = (tmp_path / "loss.csv").read_text().splitlines()
    assert lines[0] == "series,steps,value"
    assert f"trial {here.trials[0]},4,-3.75" in lines
    async with page.expect_download() as saving:
        await loss.get_by_role("button", name="Save training.loss as PNG").click()
    await (await saving.value).save_as(tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    await page.get_by_label("Horizontal axis").select_option("epochs")
    await expect(loss).to_contain_text("Last epochs")
    address = page.url
    await page.reload()
    assert page.url == address
    await expect(page.get_by_label("Smoothing")).to_have_value("0.9")
    link = (await numbers(loss))[1][0]
    await loss.get_by_role("link", name=link, exact=True).click()
    await expect(page.get_by_role("heading", name=link.capitalize())).to_be_visible()


async def test_a_part_of_a_long_curve_is_shown_in_more_points(
    served: ServedWorld, here: Searches, visitor: Visit
) -> None:
    world = served.world
    trial = world.trial_id(here.grid, 1)
    unit = UnitOfWork()
    for step in range(4_000):
        report = {"avg_metrics": {"long": (step * 7) % 13}, "batch_metrics": None}
        row = {"id": 10**9 + step, "trial_id": trial, "run_id": 1, "group": "training"}
        more = {"steps": step, "archived": False, "reported_at": world.clock.now()}
        unit.insert(tables.Metric, {**row, **more, "metrics": report})
    await world.services.store.commit(unit)
    await world.report(trial, "training", 4_000, long=1)
    page = await visitor.open(f"experiments/{here.grid}/trials/{trial}/metrics")
    curve = chart(page, "training.long")
    await numbers(curve)
    points = curve.get_by_role("row").last.locator("td").first
    await expect(points).to_have_text(re.compile(r"^[345]\d\d$"))
    whole = int(await points.inner_text())
    plot = await curve.locator(".u-over").bounding_box()
    assert plot is not None
    middle = plot["y"] + plot["height"] / 2
    await page.mouse.move(plot["x"] + plot["width"] * 0.5, middle)
    await page.mouse.down()
    await page.mouse.move(plot["x"] + plot["width"] * 0.6, middle, steps=4)
    await page.mouse.up()
    await expect(points).not_to_have_text(str(whole))
    assert int(await points.inner_text()) > whole + 200
    await curve.locator(".u-over").dblclick()
    await expect(points).to_have_text(str(whole))


ARITHMETIC = """async (root) => {
  const statistics = await import(`${root}js/statistics.js`);
  const { scaleOf, isWithin } = await import(`${root}js/widgets/scale.js`);
  const { smoothed } = await import(`${root}js/widgets/line_data.js`);
  const { csvOf } = await import(`${root}js/widgets/download.js`);
  const rows = Array.from({ length: 20 }, (_, at) => at);
  const log = scaleOf([0, 0.1, 10, null, NaN], { isLog: true });
  const words = scaleOf(["b", 2, true, null, 1, { x: 1 }]);
  return {
    ranks: statistics.ranksOf([3, 1, 3, 2]),
    median: [statistics.median([4, NaN, 1, 3]), statistics.median([])],
    rising: statistics.importance(rows, rows.map((at) => at ** 3)),
    none: statistics.importance(rows, rows.map((at) => (at * 7) % 20)).share < 0.2,
    groups: statistics.importance(rows.map((at) => (at < 10 ? "a" : "b")), rows).share > 0.7,
    each: statistics.importance(rows.map(String), rows),
    few: statistics.importance([1, 2], [1, 2]),
    log: [log.kind, log.place(1), log.place(0), log.place(-1), log.place(null)],
    one: [scaleOf([5]).place(5), scaleOf([]).place(5), scaleOf([]).ticks(5)],
    near: scaleOf([2 ** 60, 2 ** 60 + 256]).ticks(6).every(({ at }) => at >= 0 && at <= 1),
    ticks: scaleOf([-1, 1]).ticks(5).map(({ text }) => text),
    noLog: scaleOf([-1, 0], { isLog: true }).kind,
    words: [words.kind, words.words, words.place("2"), words.place(null)],
    within: [isWithin([0, 1], 1), isWithin([0, 1], NaN), isWithin(['"a"'], "a"), isWithin(["1"], "1")],
    smooth: smoothed([1, null, 1, NaN], 0.9).map((one) => (Number.isFinite(one) ? one.toFixed(6) : String(one))),
    csv: csvOf([["a,b", '=1+"', -1, null]]),
  };
}"""


async def test_arithmetic_of_the_charts(visitor: Visit) -> None:
    page = await visitor.open("dashboard")
    await expect(page.get_by_role("heading", name="Home of admin")).to_be_visible()
    module = await page.locator("script[type=module]").first.get_attribute("src")
    assert module is not None
    found = await page.evaluate(ARITHMETIC, module.removesuffix("js/app.js"))
    assert found == {
        "ranks": [3.5, 1, 3.5, 2],
        "median": [3, None],
        "rising": {"share": 1, "rows": 20, "sign": 1},
        "none": True,
        "groups": True,
        "each": None,
        "few": None,
        "log": ["log", 0.5, None, None, None],
        "one": [0.5, 0.5, []],
        "near": True,
        "ticks": ["-1", "-0.5", "0", "0.5", "1"],
        "noLog": "number",
        "words": ["words", ["1", "2", '"b"', "true", '{"x":1}'], None, None],
        "within": [True, False, True, False],
        "smooth": ["1.000000", "null", "1.000000", "NaN"],
        "csv": '"a,b","\'=1+""",-1,\r\n',
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [DESKTOP, PHONE])
async def test_everybody_can_use_the_pages(
    here: Searches, visitor: Visit, width: int, height: int, scheme: Literal["light", "dark"]
) -> None:
    """By the rules of axe; on a phone nothing is wider than it."""
    page = visitor.page
    await page.set_viewport_size({"width": width, "height": height})
    await page.emulate_media(color_scheme=scheme)
    halving = f"experiments/{here.halving}"
    for path in (
        f"{halving}/charts",
        f"{halving}/search",
        f"{halving}/hp",
        f"experiments/{here.grid}/search",
        f"experiments/{here.external}/search",
        f"experiments/{here.external}/hp",
    ):
        await visitor.open(path)
        await expect(page.locator(".command")).to_be_visible()
        await expect(page.get_by_text("Loading…")).to_have_count(0)
        for closed in await page.locator("main summary").all():
            await closed.click()
        assert await page.evaluate("() => document.documentElement.scrollWidth") <= width, path
        found = await Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
    await page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
