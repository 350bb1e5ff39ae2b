"""Queue, jobs, cluster, agents and tasks in Chromium, against the state that the API tells."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

pytest.importorskip("playwright")

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Locator, Page, expect

from master.core.scheduler.types import SchedulerSettings
from tests.fakes.api_population import populate
from tests.fakes.api_world import SINGLE, ApiWorld
from tests.integration.webui.served_world import (
    CHROMIUM,
    DESKTOP,
    PHONE,
    ServedWorld,
    Visit,
    served_world,
)

HOSTILE = "<img src=x onerror=alert(1)>"
LARGE = SINGLE.replace("slots_per_trial: 1", "slots_per_trial: 4")

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: run make test-slow"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServedWorld]:
    """Whose pool serves jobs by priority."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "storage").mkdir()
    async with served_world(folder, SchedulerSettings(type="priority")) as served:
        await served.world.login()
        await populate(served.world, folder / "storage")
        yield served


async def job_of(world: ApiWorld, experiment: int) -> str:
    return str((await world.ok("GET", f"/api/v1/experiments/{experiment}"))["experiment"]["jobId"])


async def queued(world: ApiWorld) -> list[str]:
    jobs = (await world.ok("GET", "/api/v1/job-queues?resourcePool=default"))["jobs"]
    return [job["jobId"] for job in jobs]


@pytest.fixture(scope="module")
def waiting(served: ServedWorld) -> dict[str, int]:
    """Ids of experiments that wait for room, by name; made by the first test that needs one."""
    return {}


async def waiting_one(served: ServedWorld, waiting: dict[str, int], name: str) -> int:
    if name not in waiting:
        served.world.clock.advance(1)  # jobs of one moment cannot be moved past each other
        waiting[name] = await served.world.create(LARGE.replace("name: tiny", f"name: {name!r}"))
    return waiting[name]


def row(page: Page, text: str) -> Locator:
    return page.get_by_role("grid").get_by_role("row").filter(has_text=text)


async def test_the_queue_says_why_a_job_waits_as_the_api_does(
    served: ServedWorld, visitor: Visit, waiting: dict[str, int]
) -> None:
    job = await job_of(served.world, await waiting_one(served, waiting, HOSTILE))
    explained = await served.world.ok("GET", f"/api/v1/windlass/jobs/{job}/explain")
    reason = explained["waiting"][0]["reason"]["text"]
    page = await visitor.open("queue/default")
    await expect(row(page, HOSTILE)).to_contain_text(reason)
    await row(page, HOSTILE).get_by_role("checkbox").click()
    drawer = page.get_by_role("region", name="The selected job")
    await expect(drawer).to_contain_text(explained["waiting"][0]["advice"])
    await expect(drawer).to_contain_text(f"det job explain {job}")
    await page.reload()
    await expect(drawer).to_contain_text(reason)
    await row(page, HOSTILE).get_by_role("link").click()
    await expect(page.get_by_role("heading", name=HOSTILE, exact=True)).to_be_visible()
    await expect(page.locator("main")).to_contain_text(reason)
    assert page.url.endswith(f"/jobs/{job}")
    assert await page.locator("main img").count() == 0


async def test_jobs_are_moved_by_keys_and_get_priorities(
    served: ServedWorld, visitor: Visit, waiting: dict[str, int]
) -> None:
    world = served.world
    first = await job_of(world, await waiting_one(served, waiting, HOSTILE))
    second = await job_of(world, await waiting_one(served, waiting, "later"))
    page = await visitor.open(f"queue/default?job={second}")
    await expect(page.get_by_role("toolbar")).to_be_visible()
    before = await queued(world)
    await page.keyboard.press("u")
    await expect(page.get_by_role("button", name="Move up")).to_be_visible()
    await expect(row(page, "later")).to_contain_text(f"{before.index(second)} · later")
    assert (await queued(world)).index(second) == before.index(second) - 1
    await page.get_by_role("button", name="Move to the front").click()
    await expect(row(page, "1 · later")).to_be_visible()
    assert (await queued(world))[0] == second
    await page.goto(page.url.replace(second, first))
    await expect(page.get_by_role("toolbar")).to_be_visible()
    await page.keyboard.press("p")
    dialog = page.get_by_role("dialog", name="Priority of")
    await dialog.get_by_label("Priority").fill("7")
    await page.keyboard.press("Enter")
    await expect(dialog).to_have_count(0)
    shown = await world.ok("GET", f"/api/v1/windlass/jobs/{first}")
    assert shown["job"]["priority"] == 7


async def test_the_slot_map_shows_what_runs_where(served: ServedWorld, visitor: Visit) -> None:
    page = await visitor.open("clusters")
    pool = page.get_by_role("region", name="Pool default")
    slots = pool.get_by_role("group", name="Slots of node-1")
    await expect(slots.locator(".slot")).to_have_count(4)
    await expect(slots.get_by_role("link", name="running: Trial 1 (Experiment 1)")).to_be_visible()
    pools = (await served.world.ok("GET", "/api/v1/resource-pools"))["resourcePools"]
    used, there = pools[0]["slotsUsed"], pools[0]["slotsAvailable"]
    await expect(pool).to_contain_text(f"{used} of {there} slots used")
    await expect(pool.locator(".agent-row").filter(has_text="node-3")).to_contain_text("away")
    await pool.get_by_role("link", name="node-1").click()
    await expect(page.get_by_role("heading", name="Agent node-1")).to_be_visible()


async def test_slots_and_agents_are_drained_and_enabled(
    served: ServedWorld, visitor: Visit
) -> None:
    async def agent() -> dict[str, bool]:
        return dict((await served.world.ok("GET", "/api/v1/agents/node-2"))["agent"])

    page = await visitor.open("agents/node-2")
    await page.get_by_role("button", name="Drain slot 3 of node-2").click()
    await page.get_by_role("button", name="Enable slot 3 of node-2").click()
    await expect(page.get_by_role("button", name="Drain slot 3 of node-2")).to_be_visible()
    await page.get_by_role("button", name="Drain agent node-2").click()
    await expect(page.get_by_role("button", name="Enable agent node-2")).to_be_visible()
    assert (await agent())["draining"]
    await page.get_by_role("button", name="Enable agent node-2").click()
    await expect(page.get_by_role("button", name="Drain agent node-2")).to_be_visible()
    shown = await agent()
    assert shown["enabled"]
    assert not shown["draining"]


async def test_a_token_for_a_machine_is_shown_once(served: ServedWorld, visitor: Visit) -> None:
    page = await visitor.open("clusters")
    await page.get_by_role("button", name="Add a machine…").click()
    dialog = page.get_by_role("dialog", name="Add a machine")
    await dialog.get_by_role("button", name="Make a token").click()
    await expect(dialog).to_contain_text("windlass agent join")
    tokens = (await served.world.ok("GET", "/api/v1/windlass/join-tokens"))["joinTokens"]
    assert len(tokens) == 2, "one is of the world"
    await page.reload()
    await expect(page.get_by_text("--token")).to_have_count(0)


async def test_a_task_is_connected_to_looked_at_and_killed(
    served: ServedWorld, visitor: Visit
) -> None:
    world = served.world
    config = {"description": HOSTILE, "idle_timeout": "10m"}
    shell = (await world.ok("POST", "/api/v1/shells", {"config": config}))["shell"]["id"]
    line = {"taskId": shell, "log": "a line of its own"}
    await world.ok("POST", "/api/v1/task/logs", {"logs": [line]})
    page = await visitor.open("tasks")
    await page.get_by_role("link", name="Shells").click()
    await row(page, HOSTILE).get_by_role("checkbox").click()
    task = page.get_by_role("region", name="The selected task")
    await expect(task).to_contain_text(f"det shell open {shell}")
    await task.get_by_role("link", name="Logs").click()
    await expect(page.get_by_role("log")).to_contain_text("a line of its own")
    await page.go_back()
    await task.get_by_role("button", name="Kill", exact=True).click()
    await page.get_by_role("dialog").get_by_role("button", name="Kill").click()
    await expect(task.get_by_role("button", name="Kill", exact=True)).to_have_count(0)
    ended = (await world.ok("GET", f"/api/v1/shells/{shell}"))["shell"]
    assert ended["state"] in ("STATE_TERMINATING", "STATE_TERMINATED")
    assert await page.locator("main img").count() == 0


async def test_a_command_is_started_by_a_dialog_that_says_what_is_wrong(
    served: ServedWorld, visitor: Visit
) -> None:
    page = await visitor.open("tasks/commands")
    await page.get_by_role("button", name="Start a command…").click()
    dialog = page.get_by_role("dialog", name="Start a command")
    await dialog.get_by_label("Program").fill("sleep 7")
    await dialog.get_by_label("Slots").fill("64")
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_role("alert")).to_contain_text("64 slots")
    assert all("40" in one for one in visitor.complaints)
    visitor.complaints.clear()
    await dialog.get_by_label("Slots").fill("0")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="The selected task")).to_be_visible()
    id_ = page.url.rpartition("task=")[2]
    config = (await served.world.ok("GET", f"/api/v1/commands/{id_}"))["config"]
    assert config["entrypoint"][-1] == "sleep 7"
    assert config["resources"]["slots"] == 0


PAGES = ("queue/default", "clusters", "agents/node-1", "tasks", "tasks/generic")


async def test_everybody_can_use_the_pages(served: ServedWorld, visitor: Visit) -> None:
    """By the rules of axe; on a phone nothing is wider than it."""
    page = visitor.page
    command = (await served.world.ok("GET", "/api/v1/commands"))["commands"][0]
    job = command["jobId"]
    selected = (f"queue/default?job={job}", f"jobs/{job}", f"tasks/commands?task={command['id']}")
    for path in (*PAGES, *selected, f"command/{command['id']}/logs"):
        await visitor.open(path)
        await expect(page.locator("main h1")).to_be_visible()
        await expect(page.get_by_text("Loading…")).to_have_count(0)
        found = await Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
        await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        assert await page.evaluate("() => document.documentElement.scrollWidth") <= PHONE[0], path
        await page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
