"""Parts of experiments and trials in Chromium: checkpoints, code, notes, events, runs, profiler, and what is edited."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect
from sqlalchemy import select

from master.store.tables import CheckpointGc
from tests.fakes.api_world import SINGLE, ApiWorld, file
from tests.integration.webui.served_world import CHROMIUM, DESKTOP, PHONE, ServedWorld, Visit

HOSTILE_FILE = "<img src=x onerror=alert(1)>\u202e.py"
FILES = [
    file("train.py", b"import torch\n" + b"pass\n" * 300 + b"needle = '<script>'\n"),
    file(f"lib/deep/{HOSTILE_FILE}", "# Needle \u202eesrever\n".encode()),
    file("weights.bin", b"\0\1"),
]
NOTES = """# Findings

**Better** than [before](https://example.org/x), but <script>alert(1)</script>
[not this](javascript:alert(1)) ![pixel](https://example.org/pixel.png)

- one
- two
"""

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: run make test-slow"),
]


async def with_code(world: ApiWorld) -> int:
    config = SINGLE.replace("name: tiny", "name: coded")
    return await world.create(config, activate=False, modelDefinition=FILES)


async def shown(world: ApiWorld, experiment: int) -> dict[str, Any]:
    return dict((await world.ok("GET", f"/api/v1/experiments/{experiment}"))["experiment"])


async def test_code_is_browsed_found_and_downloaded(
    served: ServedWorld, visitor: Visit, tmp_path: Path
) -> None:
    experiment = await with_code(served.world)
    page = await visitor.open(f"experiments/{experiment}/code")
    viewer = page.get_by_role("region", name="train.py")
    await expect(viewer).to_contain_text("needle = '<script>'")
    files = page.get_by_role("navigation", name="Files")
    await expect(files.get_by_role("link", name="train.py")).to_have_attribute(
        "aria-current", "true"
    )
    await page.get_by_label("Find in all files").fill("needle")
    await page.keyboard.press("Enter")
    hits = page.get_by_role("region", name="Lines found")
    await expect(hits).to_contain_text("2 lines in 2 text files")
    await hits.get_by_role("link", name="train.py:302").click()
    await expect(page.locator(".code-line")).to_be_in_viewport()
    assert "line=302" in page.url
    await page.reload()
    await expect(page.locator(".code-line")).to_be_in_viewport()
    await hits.get_by_role("link", name="lib/deep/").click()
    await expect(page.locator(".code-text")).to_contain_text("⟦U+202E⟧esrever")
    await expect(files.get_by_role("link", name="<img src=x")).to_be_visible()
    assert await page.locator("main img, main script").count() == 0

    await files.get_by_role("link", name="weights.bin").click()
    await expect(page.get_by_text("It is not a text.")).to_be_visible()
    async with page.expect_download() as one:
        await page.get_by_role("button", name="Download weights.bin").click()
    await (await one.value).save_as(tmp_path / "weights")
    assert (tmp_path / "weights").read_bytes() == b"\0\1"
    async with page.expect_download() as whole:
        await page.get_by_role("button", name="Download all").click()
    await (await whole.value).save_as(tmp_path / "all.tar.gz")
    with tarfile.open(fileobj=io.BytesIO((tmp_path / "all.tar.gz").read_bytes())) as archive:
        assert len(archive.getnames()) == len(FILES)
    await visitor.open("experiments/2/code")
    await expect(page.get_by_text("It was submitted without files")).to_be_visible()


async def test_notes_are_markdown_and_nothing_more(served: ServedWorld, visitor: Visit) -> None:
    page = await visitor.open("experiments/3/notes")
    await page.get_by_role("button", name="Write notes").click()
    await page.get_by_role("dialog").get_by_label("Notes").fill(NOTES)
    await page.get_by_role("dialog").get_by_role("button", name="Write notes").click()
    notes = page.get_by_role("region", name="Notes")
    await expect(notes.get_by_role("heading", name="Findings")).to_be_visible()
    await expect(notes.locator("strong")).to_have_text("Better")
    await expect(notes.get_by_role("listitem")).to_have_text(["one", "two"])
    await expect(notes).to_contain_text("<script>alert(1)</script>")
    links = notes.get_by_role("link")
    await expect(links).to_have_count(1)
    await expect(links).to_have_attribute("href", "https://example.org/x")
    assert await notes.locator("img, script").count() == 0
    assert (await shown(served.world, 3))["notes"] == NOTES


async def test_an_experiment_is_edited_moved_archived_and_deleted_by_its_name(
    served: ServedWorld, visitor: Visit
) -> None:
    world = served.world
    experiment = await with_code(world)
    page = await visitor.open(f"experiments/{experiment}")
    tools = page.get_by_role("toolbar", name="Of the experiment", exact=True)
    dialog = page.get_by_role("dialog")
    await tools.get_by_role("button", name="Edit").click()
    await dialog.get_by_label("Name").fill("renamed <b>")
    await dialog.get_by_label("Labels").fill("x, y")
    await dialog.get_by_role("button", name="Edit").click()
    await expect(page.get_by_role("heading", name=f"{experiment} renamed <b>")).to_be_visible()
    assert (await shown(world, experiment))["labels"] == ["x", "y"]

    await tools.get_by_role("button", name="Move").click()
    await dialog.get_by_label("To project").select_option("lab / vision")
    await dialog.get_by_role("button", name="Move").click()
    await expect(page.get_by_role("link", name="lab / vision")).to_be_visible()
    await tools.get_by_role("button", name="Keep checkpoints").click()
    await dialog.get_by_label("Newest of each trial").fill("3")
    await dialog.get_by_role("button", name="Keep checkpoints").click()
    await expect(dialog).to_have_count(0)
    config = (await shown(world, experiment))["config"]
    assert config["checkpoint_storage"]["save_trial_latest"] == 3
    await expect(tools.get_by_role("button", name="Delete")).to_have_count(0)

    await world.ok("POST", f"/api/v1/experiments/{experiment}/kill")
    await tools.get_by_role("button", name="Retain logs").click()
    await dialog.get_by_label("Days").fill("7")
    await dialog.get_by_role("button", name="Retain logs").click()
    await expect(dialog).to_have_count(0)
    trial = await world.ok("GET", f"/api/v1/experiments/{experiment}/trials")
    assert trial["trials"][0]["logRetentionDays"] == 7
    await page.get_by_role("button", name="Archive", exact=True).click()
    await page.get_by_role("button", name="Unarchive").click()
    await expect(page.get_by_role("button", name="Archive", exact=True)).to_be_visible()
    assert not (await shown(world, experiment))["archived"]
    await tools.get_by_role("button", name="Delete").click()
    await expect(dialog).to_contain_text("1 trial and 0 checkpoints go with it")
    await dialog.get_by_label("Type its name to delete it").fill("another")
    await dialog.get_by_role("button", name="Delete").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("it is not renamed <b>")
    await dialog.get_by_label("Type its name to delete it").fill("renamed <b>")
    await dialog.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="vision")).to_be_visible()
    await world.collected()
    await world.refused(404, "GET", f"/api/v1/experiments/{experiment}")


async def test_checkpoints_are_downloaded_registered_and_deleted_after_a_question(
    served: ServedWorld, visitor: Visit
) -> None:
    page = await visitor.open("experiments/1/checkpoints?sort=SORT_BY_SEARCHER_METRIC&order=up")
    grid = page.get_by_role("grid", name="Checkpoints")
    first = grid.locator('[aria-rowindex="2"]')
    await expect(first).to_contain_text("checkpoint-3")
    await expect(first).to_contain_text("0.333333")
    tools = page.get_by_role("toolbar", name="Of the selected checkpoints")
    await grid.get_by_role("checkbox", name="Select checkpoint-1").click()
    link = tools.get_by_role("link", name="Download as an archive")
    await expect(link).to_have_attribute("href", "/checkpoints/checkpoint-1")
    await tools.get_by_role("button", name="Register").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("combobox", name="Model").select_option("hearing")
    await dialog.get_by_label("Name of the version").fill("best")
    await dialog.get_by_role("button", name="Register").click()
    await expect(page.get_by_role("heading", name="hearing")).to_be_visible()
    (_, made) = (await served.world.ok("GET", "/api/v1/models/hearing/versions"))["modelVersions"]
    assert (made["checkpoint"]["uuid"], made["name"]) == ("checkpoint-1", "best")

    await served.world.checkpoint(await served.world.run_of(1), "old", 0)
    await visitor.open("trials/1/checkpoints")
    await grid.get_by_role("checkbox", name="Select old").click()
    await tools.get_by_role("button", name="Delete checkpoint old").click()
    await expect(dialog).to_contain_text("Delete checkpoint old?")
    await dialog.get_by_role("button", name="Keep it as it is").click()
    assert not await served.world.services.store.read(select(CheckpointGc.checkpoints))
    await tools.get_by_role("button", name="Delete checkpoint old").click()
    await dialog.get_by_role("button", name="Delete").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_text("Deleting checkpoint old.")).to_be_visible()
    asked = await served.world.services.store.read(select(CheckpointGc.checkpoints))
    assert ["old"] in asked


async def test_events_and_runs_say_what_the_api_says(served: ServedWorld, visitor: Visit) -> None:
    page = await visitor.open("experiments/1/events")
    grid = page.get_by_role("grid", name="Events")
    events = (await served.world.ok("GET", "/api/v1/windlass/experiments/1/events"))["events"]
    for event in events:
        await expect(grid).to_contain_text(event["text"])
    await expect(grid.locator('[aria-rowindex="2"]')).to_contain_text(events[-1]["text"])
    await visitor.open("trials/1")
    runs = page.get_by_role("table", name="Runs")
    await expect(runs).to_contain_text("node-1")
    await expect(runs.get_by_role("row")).to_have_count(2)
    await expect(page.locator(".timeline canvas")).to_be_visible()
    await page.get_by_role("link", name="Hyperparameters").click()
    await expect(page.get_by_role("row", name="lr 0.5")).to_be_visible()


async def test_the_profiler_names_gpus_that_do_nothing(served: ServedWorld, visitor: Visit) -> None:
    page = await visitor.open("trials/1/profiler")
    await expect(page.get_by_text("Nothing was measured.")).to_be_visible()
    for percent in (0.0, 1.0):
        measured = {"GPU-<b>1": {"gpu_util": percent}, "GPU-2": {"gpu_util": 90.0}}
        await served.world.report(1, "gpu", 0, **{"node-1": measured})
    await page.reload()
    await expect(page.get_by_role("status").filter(has_text="did nothing")).to_contain_text(
        "GPU-<b>1 of node-1: 0.5 % used"
    )
    chart = page.get_by_role("figure").filter(has_text="GPU use, %")
    await chart.get_by_text("Numbers").click()
    await expect(chart.get_by_role("row", name="node-1 GPU-2")).to_contain_text("90")


PAGES = (
    *(f"experiments/1/{part}" for part in ("checkpoints", "code?find=print", "notes", "events")),
    "experiments/3/notes",
    *(f"trials/1/{part}" for part in ("overview", "hyperparameters", "profiler", "checkpoints")),
    "trials/1/events",
)


async def check(page: Page, visitor: Visit, width: int) -> None:
    for path in PAGES:
        await visitor.open(path)
        await expect(page.locator("main h1")).to_be_visible()
        await expect(page.get_by_text("Loading…")).to_have_count(0)
        assert await page.evaluate("() => document.documentElement.scrollWidth") <= width, path
        found = await Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"


@pytest.mark.parametrize(("width", "height"), [DESKTOP, PHONE])
async def test_everybody_can_use_the_parts(visitor: Visit, width: int, height: int) -> None:
    page = visitor.page
    await page.set_viewport_size({"width": width, "height": height})
    await page.emulate_media(color_scheme="dark" if width == PHONE[0] else "light")
    await check(page, visitor, width)
    await page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
