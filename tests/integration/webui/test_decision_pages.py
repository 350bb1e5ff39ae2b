"""A stock-out on the pages of a real master: the offer is blocked, the next is bought, and the journal says why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("playwright")

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Locator, Page, expect

from tests.integration.webui.served_world import CHROMIUM, DESKTOP, PHONE, Visit, visit
from tests.real_cluster import RealCluster, embedded_pool, eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: run make test-slow"),
]

Json = dict[str, Any]
CHEAP, DEAR = "compute/local/gpu-cheap/on_demand", "compute/local/gpu-dear/on_demand"
SELLS = {"type": "embedded", "slots_per_instance": 2, "boot_time": "100ms"}
POOL = embedded_pool(max_idle_agent_period="10m") | {
    "providers": [
        SELLS | {"instance_type": "gpu-cheap", "usd_per_hour": 36.0, "available": 0},
        SELLS | {"instance_type": "gpu-dear", "usd_per_hour": 72.0},
    ]
}
del POOL["provider"]
CONFIG = {
    "resource_manager": {
        "type": "agent",
        "default_compute_resource_pool": "compute",
        "default_aux_resource_pool": "compute",
    },
    "resource_pools": [POOL, {"pool_name": "kept"}],
}
PAGES = (
    "fleet/decisions",
    "fleet/plan",
    "fleet/plan?slots=2&runs=3",
    "fleet/batch-jobs",
    *(
        f"resourcepool/compute/{part}"
        for part in ("active", "queued", "stats", "configuration", "bindings")
    ),
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with RealCluster(tmp_path_factory.mktemp("decisions"), CONFIG) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(cluster: RealCluster) -> AsyncIterator[Visit]:
    async with visit(f"{cluster.url}/", password=cluster.password) as browser:
        yield browser


def run(cluster: RealCluster, slots: int) -> str:
    """A command that holds so many slots until the cluster ends. Returns its job."""
    command = {"entrypoint": ["sleep", "3600"], "resources": {"slots": slots}}
    made = cluster.client.session.post("/api/v1/commands", {"config": command})
    return str(made["command"]["jobId"])


@pytest.fixture(scope="module")
def machine(cluster: RealCluster) -> str:
    """It was bought for a command that runs on it."""
    run(cluster, 2)
    bought = eventually(
        "a machine was bought and works",
        lambda: next((x for x in cluster.instances() if x["activity"] == "busy"), None),
    )
    return str(bought["id"])


def decisions(cluster: RealCluster, query: str = "") -> list[Json]:
    found: list[Json] = cluster.get(f"/api/v1/windlass/fleet/decisions?{query}")["decisions"]
    return found


def row(page: Page, grid: str, name: str) -> Locator:
    return page.get_by_role("grid", name=grid).get_by_role("row").filter(has_text=name)


async def test_a_stock_out_can_be_read_from_the_offer_to_the_dollars(
    cluster: RealCluster, machine: str, visitor: Visit
) -> None:
    bought, refused = decisions(cluster, "kind=launched")
    assert (refused["offer"], refused["instances"]) == (CHEAP, [])
    assert (bought["offer"], bought["instances"], bought["usdPerHour"]) == (DEAR, [machine], 72.0)

    page = await visitor.open("fleet/offers")
    await expect(row(page, "Offers", CHEAP)).to_contain_text("refused")
    await page.get_by_role("link", name="Decisions").click()
    asked = row(page, "Decisions", CHEAP)
    await expect(asked).to_contain_text(refused["said"])
    launched = row(page, "Decisions", DEAR)
    await expect(launched).to_contain_text("launching 1 x gpu-dear")
    await expect(launched).to_contain_text("$72.00")
    await launched.click()
    await page.keyboard.press("x")
    told = page.get_by_role("region", name="The selected decision")
    weighed = told.get_by_role("table", name="Offers that were weighed")
    await expect(weighed).to_contain_text(refused["said"])
    await expect(weighed.get_by_role("row").filter(has_text=DEAR)).to_contain_text("launched: 1")
    await expect(told.get_by_role("link", name=machine)).to_be_visible()
    await page.reload()
    await expect(told.get_by_role("heading", level=2)).to_have_text("Pool compute: launched")
    await told.get_by_role("link", name=bought["jobs"][0]).click()
    await expect(page.get_by_role("heading", name="holds 2 slots")).to_be_visible()


async def test_bars_and_dollars_are_those_of_the_ledger(
    cluster: RealCluster, machine: str, visitor: Visit
) -> None:
    page = await visitor.open("fleet/timeline")
    bar = row(page, "Machines", machine)
    await expect(bar).to_contain_text("busy")

    def spent() -> float:
        found = cluster.get("/api/v1/windlass/fleet/costs?by=instance&month=all")["rows"]
        return float(next(each["usd"] for each in found if each["name"] == machine))

    shown = bar.get_by_role("gridcell").filter(has_text="$").first
    before = await asyncio.to_thread(spent)
    await expect(shown).not_to_have_text(await shown.inner_text())
    dollars = float((await shown.inner_text()).removeprefix("$"))
    assert before - 1e-4 <= dollars
    # What a machine costs is booked now and then.
    booked = f"${dollars} in the ledger"
    await asyncio.to_thread(eventually, booked, lambda: spent() + 1e-4 >= dollars)
    life = (await asyncio.to_thread(cluster.get, "/api/v1/windlass/fleet/timeline"))["machines"][0]
    kinds = [span["kind"] for span in life["spans"]]
    assert (kinds[0], "boot" in kinds, kinds[-1]) == ("queued", True, "busy")
    await page.locator("canvas").click(position={"x": 400, "y": 35})
    await expect(page.get_by_text(f"Only those about machine {machine}.")).to_be_visible()
    await expect(page.get_by_role("grid", name="Decisions").get_by_role("row")).to_have_count(2)


async def test_what_if_says_what_would_be_bought(visitor: Visit) -> None:
    page = await visitor.open("fleet/plan?slots=2")
    await expect(
        page.get_by_text("1 run of 2 slots in pool compute: machines would be launched.").first
    ).to_be_visible()
    launches = page.get_by_role("table", name="Launches")
    await expect(launches).to_contain_text(DEAR)
    await expect(launches).to_contain_text("$72.00")
    await page.get_by_label("of slots each").fill("3")
    await page.get_by_label("of slots each").press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text(
        "the nearest sizes that fit are 2 and 4"
    )
    assert "slots=3" in page.url
    (refused,) = visitor.complaints
    assert "400 (Bad Request)" in refused
    visitor.complaints.clear()


async def test_a_job_that_waits_for_machines_leads_to_what_was_decided(
    cluster: RealCluster, machine: str, visitor: Visit
) -> None:
    run(cluster, 2)
    job = run(cluster, 2)
    page = await visitor.open(f"jobs/{job}")
    await page.get_by_role("link", name="What was decided about machines for it").click()
    await expect(page.get_by_text(f"Only those for runs of job {job}.")).to_be_visible()
    await expect(row(page, "Decisions", "not launched, now")).to_contain_text("max_instances (2)")
    page = await visitor.open("resourcepool/compute/queued")
    await expect(row(page, "Jobs that wait", "max_instances (2)")).to_be_visible()
    await page.get_by_role("link", name="Active").click()
    await expect(page.get_by_role("grid", name="Jobs with slots").get_by_role("row")).to_have_count(
        3
    )


async def test_a_pool_shows_its_section_and_whom_it_is_kept_for(
    cluster: RealCluster, visitor: Visit
) -> None:
    cluster.client.session.post("/api/v1/workspaces", {"name": "lab"})
    page = await visitor.open("resourcepool/compute/configuration")
    await expect(page.get_by_label("resource_pools: compute")).to_contain_text("gpu-dear")
    await visitor.open("resourcepool/kept/bindings")
    await page.get_by_role("button", name="Bind a workspace").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Workspace").select_option("lab")
    await dialog.get_by_role("button", name="Bind a workspace").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_role("table", name="Workspaces")).to_contain_text("lab")


@pytest.mark.parametrize(("width", "height"), [DESKTOP, PHONE])
async def test_everybody_can_use_the_pages(
    machine: str, visitor: Visit, width: int, height: int
) -> None:
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
