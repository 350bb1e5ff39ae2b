"""The pages of workspaces, models and administration in Chromium: what they do is what the API then says."""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("playwright")

from playwright.async_api import Locator, Page, expect

from master.logs.own_log import render
from tests.integration.webui.served_world import CHROMIUM, PHONE, ServedWorld, Visit

HOSTILE = "<img src=x onerror=alert(1)>'; \u202e<b>bold</b>"
PAGES = {
    "workspaces": "Workspaces",
    "workspaces/2": "lab",
    "workspaces/2/members": "lab",
    "workspaces/2/pools": "lab",
    "workspaces/2/templates": "lab",
    "workspaces/2/policies": "lab",
    "projects/2/experiments": "vision",
    "projects/2/notes": "vision",
    "models": "Models",
    "models/seeing": "seeing",
    "models/seeing/versions/1": "seeing 1",
    "templates": "Templates",
    "config-policies": "Config policies of the cluster",
    "webhooks": "Webhooks",
    "webhooks/1": "first",
    "admin": "Users",
    "admin/users/1": "admin",
    "admin/groups": "Groups",
    "admin/roles": "Roles",
    "admin/tokens": "Access tokens",
    "admin/sessions": "Sessions",
    "admin/audit": "Audit log",
    "admin/settings": "Configuration",
    "admin/about": "About",
    "settings": "Settings of admin",
}

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: run make test-slow"),
]


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("main").get_by_role("button", name=name, exact=True)


async def confirm(page: Page, verb: str) -> None:
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name=verb, exact=True).click()
    await expect(dialog).to_have_count(0)


async def test_each_page_opens_by_its_address_and_fits_a_phone(visitor: Visit) -> None:
    page = visitor.page
    await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    for path, title in PAGES.items():
        await visitor.open(path)
        await expect(page.locator("main h1")).to_have_text(title)
        await expect(page.get_by_role("status").filter(has_text="Loading")).to_have_count(0)
        await expect(page.locator("main [role=alert]")).to_have_count(0)
        wide = await page.evaluate("() => document.documentElement.scrollWidth")
        assert wide <= PHONE[0], (path, wide)
        assert visitor.complaints == [], path
    await visitor.open("workspaces")
    place = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Workspaces")
    await expect(place).to_be_in_viewport(ratio=1)
    assert await page.evaluate("place => place.offsetHeight", await place.element_handle()) >= 44
    name = page.get_by_role("grid").get_by_role("gridcell").first
    card = name.locator("..")
    widths = [await one.evaluate("element => element.clientWidth") for one in (name, card)]
    assert widths[0] > 0.8 * widths[1], "the name has a line of its own"
    await page.set_viewport_size({"width": 1280, "height": 800})


async def test_a_workspace_is_made_edited_archived_and_deleted(
    served: ServedWorld, visitor: Visit
) -> None:
    page = await visitor.open("workspaces")
    await button(page, "New workspace").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill(HOSTILE)
    await dialog.get_by_role("button", name="New workspace").click()
    await expect(page.locator("main h1")).to_contain_text("<img src=x")
    assert await page.locator("main img, main b").count() == 0
    word = "'<img src=x onerror=alert(1)>'\\''; "
    await expect(page.locator(".command code")).to_contain_text(f"list-projects {word}")
    await button(page, "Edit").click()
    await dialog.get_by_label("Name").fill("lab")
    await dialog.get_by_role("button", name="Edit").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("lab")
    await dialog.get_by_label("Name").fill("second lab")
    await dialog.get_by_role("button", name="Edit").click()
    await expect(page.locator("main h1")).to_have_text("second lab")
    id_ = int(page.url.rsplit("/", 1)[1])
    await button(page, "Archive").click()
    await expect(button(page, "Unarchive")).to_be_visible()
    shown = (await served.world.ok("GET", f"/api/v1/workspaces/{id_}"))["workspace"]
    assert (shown["name"], shown["archived"]) == ("second lab", True)
    await button(page, "Unarchive").click()
    await expect(button(page, "Archive")).to_be_visible()
    await button(page, "Delete").click()
    await confirm(page, "Delete")
    await expect(page.locator("main h1")).to_have_text("Workspaces")
    left = await served.world.ok("GET", "/api/v1/workspaces")
    assert id_ not in [one["id"] for one in left["workspaces"]]
    assert all("40" in one for one in visitor.complaints)
    visitor.complaints.clear()


async def test_a_project_gets_a_note_and_moves(served: ServedWorld, visitor: Visit) -> None:
    world = served.world
    made = await world.ok("POST", "/api/v1/workspaces/1/projects", {"name": "moving"})
    id_ = made["project"]["id"]
    page = await visitor.open(f"projects/{id_}/notes")
    await button(page, "New note").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("found")
    await dialog.get_by_label("Note", exact=True).fill("<b>0.3</b>")
    await dialog.get_by_role("button", name="New note").click()
    await expect(page.get_by_role("heading", name="found")).to_be_visible()
    await button(page, "Move").click()
    await dialog.get_by_label("To workspace").select_option("lab")
    await dialog.get_by_role("button", name="Move").click()
    await expect(page.get_by_role("link", name="Workspace lab")).to_be_visible()
    project = (await world.ok("GET", f"/api/v1/projects/{id_}"))["project"]
    assert project["workspaceName"] == "lab"
    assert project["notes"] == [{"name": "found", "contents": "<b>0.3</b>"}]


async def test_a_model_is_edited_and_its_version_shows_metrics(
    served: ServedWorld, visitor: Visit
) -> None:
    page = await visitor.open("models/seeing")
    await button(page, "Edit").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Labels").fill("eyes, best")
    await dialog.get_by_role("button", name="Edit").click()
    await expect(page.get_by_text("eyes, best")).to_be_visible()
    model = (await served.world.ok("GET", "/api/v1/models/seeing"))["model"]
    assert model["labels"] == ["eyes", "best"]
    await (
        page.get_by_role("grid", name="Versions").get_by_role("link", name="1", exact=True).click()
    )
    metrics = page.get_by_role("table", name="Metrics at the checkpoint")
    await expect(metrics.get_by_role("row", name="loss validation 0.5")).to_be_visible()
    await expect(page.get_by_text("det checkpoint download checkpoint-2")).to_be_visible()


async def test_a_user_is_made_joins_a_group_and_is_deactivated(
    served: ServedWorld, visitor: Visit
) -> None:
    world = served.world
    page = await visitor.open("admin/users")
    await button(page, "New user").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("User name").fill("newcomer")
    await dialog.get_by_label("Password", exact=True).fill("short")
    await dialog.get_by_role("button", name="New user").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("password")
    assert await dialog.get_by_label("Password", exact=True).get_attribute("aria-invalid") == "true"
    await dialog.get_by_label("Password", exact=True).fill("Long-enough-1")
    await dialog.get_by_role("button", name="New user").click()
    await expect(page.locator("main h1")).to_have_text("newcomer")
    address, id_ = page.url, int(page.url.rsplit("/", 1)[1])
    await button(page, "Give a role").click()
    await dialog.get_by_label("Role").select_option("Viewer")
    await dialog.get_by_role("button", name="Give a role").click()
    roles = page.get_by_role("table", name="Roles")
    await expect(roles.get_by_role("row", name="Viewer the whole cluster directly")).to_be_visible()
    await visitor.open("admin/groups")
    await page.get_by_role("grid").get_by_role("link", name="first").click()
    await button(page, "Add a member").click()
    await dialog.get_by_label("User").select_option("newcomer")
    await dialog.get_by_role("button", name="Add a member").click()
    await expect(page.get_by_role("link", name="newcomer")).to_be_visible()
    await page.goto(address)
    await button(page, "Deactivate").click()
    await confirm(page, "Deactivate")
    await expect(button(page, "Activate")).to_be_visible()
    user = (await world.ok("GET", f"/api/v1/users/{id_}"))["user"]
    assert user["active"] is False
    assert all("400" in one for one in visitor.complaints)
    visitor.complaints.clear()


async def test_an_access_token_is_shown_once_and_revoked(visitor: Visit) -> None:
    page = await visitor.open("settings")
    await button(page, "New access token").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Description").fill("for the browser's test")
    await dialog.get_by_role("button", name="New access token").click()
    await expect(dialog.locator("code")).not_to_be_empty()
    await dialog.get_by_role("button", name="Close").click()
    row = page.get_by_role("row").filter(has_text="for the browser's test")
    await row.get_by_role("button", name="Revoke").click()
    await confirm(page, "Revoke")
    await expect(row).to_have_count(0)


async def test_a_template_and_a_policy_say_what_is_wrong_at_the_field(
    served: ServedWorld, visitor: Visit
) -> None:
    world = served.world
    page = await visitor.open("templates?name=third")
    await button(page, "Edit").click()
    config = page.get_by_role("dialog").get_by_label("Configuration")
    await config.fill('{"labels": ["new"')
    await page.get_by_role("dialog").get_by_role("button", name="Edit").click()
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("not JSON")
    await config.fill('{"labels": ["new"]}')
    await page.get_by_role("dialog").get_by_role("button", name="Edit").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    stored = await world.ok("GET", "/api/v1/templates/third")
    assert stored["template"]["config"] == {"labels": ["new"]}
    await visitor.open("config-policies")
    policy = page.get_by_role("region", name="Experiments")
    text = policy.get_by_label("Policies for experiments")
    await text.fill("constraints: {resources: {max_slots: many}}")
    await policy.get_by_role("button", name="Set").click()
    await expect(policy.get_by_role("alert")).to_contain_text("max_slots")
    await text.fill("constraints: {resources: {max_slots: 64}}")
    await policy.get_by_role("button", name="Set").click()
    await expect(policy.get_by_text("experiment 1 of admin: max_slots")).to_be_visible()
    await policy.get_by_role("button", name="Delete").click()
    await confirm(page, "Delete")
    left = await world.ok("GET", "/api/v1/config-policies/global/EXPERIMENT")
    assert left["configPolicies"] == {}
    assert all("400" in one for one in visitor.complaints)
    visitor.complaints.clear()


async def test_the_audit_log_is_read_by_user(served: ServedWorld, visitor: Visit) -> None:
    for user, action in ((1, "update user"), (3, "delete workspace")):
        facts = {"by": HOSTILE, "user": user, "action": action, "target": "it's <b>lab</b>"}
        text = render(None, "", {"event": "denied", **facts, "request": "DELETE /api/v1/x"})
        record = logging.LogRecord("audit", logging.WARNING, "", 0, text, None, None)
        served.world.services.own_log.handler.handle(record)
    served.world.services.own_log.handler.handle(
        logging.LogRecord("master.tasks", logging.WARNING, "", 0, text, None, None)
    )
    page = await visitor.open("admin/audit?denied=1")
    await expect(
        page.get_by_text("2 in all"), "the same text of another logger is none"
    ).to_be_visible()
    log = page.get_by_role("grid", name="Audit log")
    await expect(log.get_by_role("row", name="denied first delete workspace")).to_be_visible()
    await expect(log.get_by_text("it's <b>lab</b>").first).to_be_visible()
    await page.get_by_label("User is").fill("admin")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("1 in all")).to_be_visible()
    await expect(log.get_by_role("row", name="denied admin update user")).to_be_visible()
    assert "user=admin" in page.url
    await page.reload()
    await expect(page.get_by_text("1 in all")).to_be_visible()


async def test_a_webhook_is_made_and_deleted(served: ServedWorld, visitor: Visit) -> None:
    page = await visitor.open("webhooks")
    await button(page, "New webhook").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name", exact=True).fill("browser's")
    await dialog.get_by_label("URL").fill("ftp://127.0.0.1/")
    await dialog.get_by_role("button", name="New webhook").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("url")
    await dialog.get_by_label("URL").fill("https://255.255.255.255/")
    await dialog.get_by_role("button", name="New webhook").click()
    await expect(page.locator("main h1")).to_have_text("browser's")
    await expect(page.get_by_text("No calls in the last days")).to_be_visible()
    id_ = int(page.url.rsplit("/", 1)[1])
    hooks = (await served.world.ok("GET", "/api/v1/webhooks"))["webhooks"]
    (made,) = [one for one in hooks if one["id"] == id_]
    assert made["triggers"][0]["condition"] == {"state": "COMPLETED"}
    await button(page, "Delete").click()
    await confirm(page, "Delete")
    await expect(page.locator("main h1")).to_have_text("Webhooks")
    await expect(page.get_by_role("link", name="browser's")).to_have_count(0)
    assert all("400" in one for one in visitor.complaints)
    visitor.complaints.clear()


async def test_who_may_not_sees_no_buttons_and_reads_why(
    served: ServedWorld, visitor: Visit
) -> None:
    """A user without rights; the page of the configuration says what the master says."""
    first = await served.world.ok(
        "POST", "/api/v1/auth/login", {"username": "first", "password": "Secret123"}, token=""
    )
    await visitor.context.set_extra_http_headers({"Authorization": f"Bearer {first['token']}"})
    page = await visitor.open("admin/users")
    await expect(
        page.get_by_role("grid", name="Users").get_by_role("link", name="admin")
    ).to_be_visible()
    await expect(button(page, "New user")).to_have_count(0)
    await visitor.open("config-policies")
    await expect(page.get_by_text("None. You may not set any")).to_have_count(2)
    await visitor.open("admin/settings")
    await expect(page.get_by_role("alert")).to_contain_text("You may not see this")
    await visitor.context.set_extra_http_headers({})
    assert all("403" in one for one in visitor.complaints)
    visitor.complaints.clear()
