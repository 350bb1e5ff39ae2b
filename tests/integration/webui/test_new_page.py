"""The page of a new experiment in Chromium: written, forked, continued, checked as one types, with files."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("playwright")

import pathspec
import yaml
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Locator, Page, Route, expect

from tests.fakes.api_world import PASSWORD, SINGLE, ApiWorld, file
from tests.integration.webui.served_world import CHROMIUM, DESKTOP, PHONE, ServedWorld, Visit

POLICY = "/api/v1/config-policies/global/EXPERIMENT"
PREVIEW = "**/api/v1/windlass/experiments/preview"

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: run make test-slow"),
]


def editor(page: Page) -> Locator:
    return page.get_by_role("textbox", name="YAML")


def verdict(page: Page) -> Locator:
    return page.get_by_role("region", name="If you submitted it now").get_by_role("status")


def origin(page: Page, key: str) -> Locator:
    table = page.get_by_role("table", name="Where each value comes from")
    return table.get_by_role("row").filter(has=page.get_by_text(key, exact=True))


async def submitted(page: Page, verb: str = "Submit") -> int:
    """The experiment that the page has gone to."""
    await page.get_by_role("main").get_by_role("button", name=verb, exact=True).click()
    await page.wait_for_url("**/det/experiments/*")
    return int(page.url.rsplit("/", 1)[1])


async def shown(world: ApiWorld, id_: int) -> dict[str, Any]:
    found: dict[str, Any] = await world.ok("GET", f"/api/v1/experiments/{id_}")
    return found


async def files_of(world: ApiWorld, id_: int) -> dict[str, bytes]:
    found = await world.ok("GET", f"/api/v1/experiments/{id_}/model_def")
    packed = io.BytesIO(base64.b64decode(found["b64Tgz"]))
    with tarfile.open(fileobj=packed, mode="r:gz") as archive:
        members = {one.name: archive.extractfile(one) for one in archive if one.isfile()}
        return {name: content.read() for name, content in members.items() if content}


async def test_a_fork_with_an_edited_value_keeps_files_template_and_parent(
    served: ServedWorld, visitor: Visit
) -> None:
    world = served.world
    config = {"description": "of the template"}
    await world.ok("POST", "/api/v1/templates/base", {"config": config})
    parent = await world.create(
        activate=False, template="base", modelDefinition=[file("train.py", b"print(7)")]
    )
    page = await visitor.open(f"experiments/{parent}")
    await page.get_by_role("link", name="Fork").click()
    await expect(page.locator("main h1")).to_have_text(f"Fork of experiment {parent}")
    await expect(page.get_by_label("Template")).to_have_value("base")
    await expect(verdict(page)).to_have_text("It would be accepted.")
    await expect(origin(page, "description")).to_contain_text("template base")
    await editor(page).fill(SINGLE.replace("max_restarts: 2", "max_restarts: 5"))
    await page.get_by_label("paused").check()
    child = await submitted(page)
    found = await shown(world, child)
    assert found["experiment"]["forkedFrom"] == parent
    assert found["config"]["max_restarts"] == 5
    assert (found["template"], found["experiment"]["state"]) == ("base", "STATE_PAUSED")
    assert await files_of(world, child) == {"train.py": b"print(7)"}
    await page.get_by_role("link", name="Configuration").click()
    await expect(origin(page, "max_restarts")).to_contain_text("as submitted")
    await expect(page.get_by_text("Submitted with template base.")).to_be_visible()
    await page.get_by_label("defaults too").check()
    await expect(origin(page, "scheduling_unit")).to_contain_text("default")


async def test_a_refused_field_is_shown_at_its_line(visitor: Visit) -> None:
    page = await visitor.open("new")
    await expect(verdict(page)).to_have_text("It would be accepted.")
    wrong = SINGLE.strip().replace("slots_per_trial: 1", "slots_per_trail: 1")
    at = 1 + next(n for n, text in enumerate(wrong.splitlines()) if "slots_per_trail" in text)
    await editor(page).fill(wrong)
    await expect(verdict(page)).to_have_text("It would be refused for 1 problem.")
    problems = page.get_by_role("list", name="Problems")
    await expect(problems).to_contain_text('did you mean "slots_per_trial"?')
    await expect(problems.locator("code")).to_have_text("resources.slots_per_trail")
    await expect(page.locator(".gutter .wrong")).to_have_text(f"✕ {at}")
    await expect(editor(page)).to_have_attribute("aria-invalid", "true")
    await problems.get_by_role("button", name=f"Line {at}").click()
    await expect(editor(page)).to_be_focused()
    chosen = "area => area.value.slice(area.selectionStart, area.selectionEnd)"
    assert await editor(page).evaluate(chosen) == wrong.splitlines()[at - 1]
    await page.get_by_role("main").get_by_role("button", name="Submit").click()
    await expect(page.get_by_role("alert")).to_contain_text("slots_per_trail")
    await editor(page).fill(SINGLE)
    await expect(verdict(page)).to_have_text("It would be accepted.")
    await expect(problems.get_by_role("listitem")).to_have_count(0)
    assert all("400" in one for one in visitor.complaints)
    visitor.complaints.clear()


async def test_a_policy_that_forces_a_field_is_told_before_and_after(
    served: ServedWorld, visitor: Visit
) -> None:
    policy = {
        "invariant_config": {"max_restarts": 0},
        "constraints": {"resources": {"max_slots": 2}},
    }
    await served.world.ok("PUT", POLICY, {"configPolicies": json.dumps(policy)})
    try:
        page = await visitor.open("new")
        await editor(page).fill(SINGLE)
        sentence = "max_restarts is 0 instead of 2: set by the config policy of the cluster"
        await expect(page.get_by_text(sentence)).to_be_visible()
        await expect(origin(page, "max_restarts")).to_contain_text("config policy of the cluster")
        await editor(page).fill(SINGLE.replace("slots_per_trial: 1", "slots_per_trial: 3"))
        limit = page.get_by_role("list", name="Problems").get_by_text("exceeds limit set by admin")
        await expect(limit).to_be_visible()
        await editor(page).fill(SINGLE)
        await page.get_by_label("paused").check()
        id_ = await submitted(page)
    finally:
        await served.world.ok("DELETE", POLICY)
    found = await shown(served.world, id_)
    assert found["config"]["max_restarts"] == 0
    await page.get_by_role("link", name="Configuration").click()
    await expect(origin(page, "max_restarts")).to_contain_text("config policy of the cluster")
    violations = await Axe().run(page)
    assert violations.violations_count == 0, violations.generate_report()


async def test_a_folder_is_uploaded_without_what_detignore_names(
    served: ServedWorld, visitor: Visit, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    (folder / "data").mkdir(parents=True)
    for name, text in {
        ".detignore": "data/\n*.log\n!keep.log\n",
        "train.py": "print(1)",
        "data/large": "no",
        "a.log": "no",
        "keep.log": "yes",
    }.items():
        (folder / name).write_text(text)
    page = await visitor.open("new")
    await editor(page).fill(SINGLE)
    await page.get_by_label("A folder of model code").set_input_files(folder)
    told = page.get_by_text("2 files, 11 B of at most 95 MiB; 3 files left out by .detignore")
    await expect(told).to_be_visible()
    await page.get_by_label("paused").check()
    id_ = await submitted(page)
    assert await files_of(served.world, id_) == {"train.py": b"print(1)", "keep.log": b"yes"}


async def test_what_is_left_out_is_what_det_leaves_out(visitor: Visit) -> None:
    """The patterns in the browser against those of the client."""
    lines = [
        *("# no", "", "*.py[co]", "/top", "build/", "!build/keep", "a/**/z", "**/deep", "x/**"),
        *("\\#sharp", "[!a-c]1", "t?p", "sp ace ", "mid/dle", "*.tmp", "!kept.tmp", "q.*/w"),
    ]
    paths = [
        *("a.pyc", "a.py", "s/b.pyo", "top", "s/top", "build/keep", "s/build/x", "build", "a/z"),
        *("a/b/c/z", "b/a/z", "deep", "s/deep/x", "x/1", "x", "s/x/1", "#sharp", "d1", "a1"),
        *("tip", "t/p", "sp ace", "mid/dle", "s/mid/dle", "1.tmp", "s/kept.tmp", "q.1/w", "qx1/w"),
    ]
    page = await visitor.open("new")
    await expect(editor(page)).to_be_visible()
    answer: list[bool] = await page.evaluate(
        """async ([lines, paths]) => {
          const app = [...document.scripts].map(one => one.src).find(src => src.endsWith("/app.js"));
          const { ignoring } = await import(new URL("ignore.js", app).href);
          const isOut = ignoring(lines);
          return paths.map(path => isOut(path));
        }""",
        [lines, paths],
    )
    spec = pathspec.GitIgnoreSpec.from_lines(lines)

    def is_out(path: str) -> bool:
        parts = path.split("/")
        above = ["/".join(parts[:n]) + "/" for n in range(1, len(parts))]
        return any(map(spec.match_file, [*above, path]))

    assert dict(zip(paths, answer, strict=True)) == {path: is_out(path) for path in paths}


@pytest.mark.parametrize(
    "text",
    [
        "name: x\nsearcher: {name: single, metric: loss}\nmax_restarts: 1\n",
        "name: x\nsearcher:\n  # mine\n  name: single\n  source_trial_id: 3\n\nmax_restarts: 1\n",
        "name: x\nsearcher: {source_trial_id: 3}\n",
        "name: x\nsearcher: {}\n",
        "name: x\n# no searcher\n",
        '{"name": "x", "searcher": {"name": "single", "source_trial_id": 3}}',
    ],
)
async def test_a_text_is_changed_at_one_place(visitor: Visit, text: str) -> None:
    page = await visitor.open("new")
    await expect(editor(page)).to_be_visible()
    changed: list[str] = await page.evaluate(
        """async text => {
          const app = [...document.scripts].map(one => one.src).find(src => src.endsWith("/app.js"));
          const { withKey, withSection } = await import(new URL("config_text.js", app).href);
          const search = { name: "random", metric: "1e3", around: { low: 0.5 } };
          return [
            withKey(text, "searcher", "source_checkpoint_uuid", "7-a: b", ["source_trial_id"]),
            withSection(text, "searcher", search),
          ];
        }""",
        text,
    )
    before = yaml.safe_load(text)
    kept = {k: v for k, v in before.get("searcher", {}).items() if k != "source_trial_id"}
    begun = {**kept, "source_checkpoint_uuid": "7-a: b"}
    assert yaml.safe_load(changed[0]) == {**before, "searcher": begun}
    search = {"name": "random", "metric": "1e3", "around": {"low": 0.5}}
    assert yaml.safe_load(changed[1]) == {**before, "searcher": search}
    assert ("# mine" in text) == ("# mine" in changed[0])


async def test_an_experiment_goes_on_with_a_change(served: ServedWorld, visitor: Visit) -> None:
    world = served.world
    id_ = await world.create()
    await world.finish(await world.run_of(id_))
    page = await visitor.open(f"experiments/{id_}")
    await page.get_by_role("link", name="Continue").click()
    await expect(verdict(page)).to_have_text("It would be accepted.")
    await editor(page).fill("max_restarts: 7\nproject: other\n")
    await expect(page.get_by_text("use `det experiment move` first")).to_be_visible()
    await editor(page).fill("max_restarts: 7\n")
    await expect(origin(page, "max_restarts")).to_contain_text("7")
    assert await submitted(page, "Continue") == id_
    found = await shown(world, id_)
    assert (found["config"]["max_restarts"], found["experiment"]["endTime"]) == (7, None)
    await world.ok("POST", f"/api/v1/experiments/{id_}/kill")


async def test_from_a_trial_it_begins_at_its_checkpoint_or_searches_around(
    served: ServedWorld, visitor: Visit
) -> None:
    trial = served.world.trial_id(1)
    page = await visitor.open(f"experiments/1/trials/{trial}")
    await page.get_by_role("link", name="Begin at its checkpoint").click()
    await expect(editor(page)).to_have_value(
        SINGLE.replace("{name", f"{{source_trial_id: {trial}, name")
    )
    await expect(verdict(page)).to_have_text("It would be accepted.")
    await page.go_back()
    await page.get_by_role("link", name="Search around it").click()
    await expect(page.locator("main h1")).to_have_text(f"Search around trial {trial}")
    await expect(page.get_by_text("16 trials to their own end")).to_be_visible()
    await expect(origin(page, "hyperparameters.lr.maxval")).to_contain_text("1")
    await visitor.open("new?checkpoint=checkpoint-2")
    await expect(origin(page, "searcher.source_checkpoint_uuid")).to_contain_text("checkpoint-2")


async def test_the_editor_indents_and_lets_go(visitor: Visit) -> None:
    page = await visitor.open("new")
    await editor(page).fill("a:")
    await editor(page).press("End")
    for key in ("Enter", "Tab"):
        await page.keyboard.press(key)
    await page.keyboard.type("b: 1")
    await page.keyboard.press("Enter")
    await page.keyboard.type("c: 2")
    await expect(editor(page)).to_have_value("a:\n  b: 1\n  c: 2")
    await page.keyboard.press("Shift+Tab")
    await expect(editor(page)).to_have_value("a:\n  b: 1\nc: 2")
    await page.keyboard.press("Control+z")
    await expect(editor(page)).to_have_value("a:\n  b: 1\n  c: 2")
    await expect(editor(page)).to_be_focused()
    await page.keyboard.press("Escape")
    await page.keyboard.press("Tab")
    await expect(editor(page)).not_to_be_focused()
    await expect(editor(page)).to_have_value("a:\n  b: 1\n  c: 2")


async def test_typed_text_outlives_a_master_that_is_away_and_another_page(visitor: Visit) -> None:
    page = await visitor.open("new?project=1")

    async def away(route: Route) -> None:
        await route.abort()

    await expect(verdict(page)).to_have_text("It would be accepted.")
    await page.route(PREVIEW, away)
    mine = SINGLE.replace("tiny", "mine")
    await editor(page).fill(mine)
    await expect(verdict(page)).to_have_text("The master does not answer.")
    await page.get_by_role("link", name="Home").first.click()
    await expect(page.get_by_role("heading", name="Home of admin")).to_be_visible()
    await page.go_back()
    await expect(editor(page)).to_have_value(mine)
    await page.unroute(PREVIEW)
    await expect(verdict(page)).to_have_text("It would be accepted.")
    assert all("ERR_FAILED" in one for one in visitor.complaints)
    visitor.complaints.clear()


async def test_typed_text_outlives_the_session(visitor: Visit) -> None:
    page = await visitor.open("new")
    await expect(verdict(page)).to_have_text("It would be accepted.")
    await visitor.context.clear_cookies()
    mine = SINGLE.replace("tiny", "mine")
    await editor(page).fill(mine)
    dialog = page.get_by_role("dialog", name="Your session has ended")
    await dialog.get_by_label("Password").fill(PASSWORD)
    await dialog.get_by_role("button", name="Log in").click()
    await expect(dialog).to_have_count(0)
    await expect(verdict(page)).to_have_text("It would be accepted.")
    await expect(editor(page)).to_have_value(mine)
    assert all("401" in one for one in visitor.complaints)
    visitor.complaints.clear()


async def test_a_generic_task_is_started_with_files(
    served: ServedWorld, visitor: Visit, tmp_path: Path
) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "main.py").write_text("print(1)")
    page = await visitor.open("tasks/generic")
    await page.get_by_role("button", name="Start a task…").click()
    dialog = page.get_by_role("dialog")
    await editor(page).fill("entrypoint: [sleep, '9']\nresources: {slots: many}\n")
    await dialog.get_by_label("A folder of files").set_input_files(tmp_path / "files")
    await expect(dialog.get_by_text("1 file, 8 B")).to_be_visible()
    await editor(page).focus()
    await page.keyboard.press("Escape")
    await page.keyboard.press("Tab")
    await expect(dialog.get_by_label("Project")).to_be_focused()
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    await dialog.get_by_role("button", name="Start").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("resources.slots")
    await editor(page).fill("entrypoint: [sleep, '9']\nresources: {slots: 1}\n")
    await dialog.get_by_role("button", name="Start").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_role("region", name="The selected task")).to_be_visible()
    id_ = parse_qs(urlsplit(page.url).query)["task"][0]
    config = (await served.world.ok("GET", f"/api/v1/tasks/{id_}/config"))["config"]
    assert json.loads(config) == {"entrypoint": ["sleep", "9"], "resources": {"slots": 1}}
    await served.world.ok("POST", f"/api/v1/tasks/{id_}/kill", {})
    assert all("400" in one for one in visitor.complaints)
    visitor.complaints.clear()


async def test_tensorboards_are_started_from_experiments_and_by_ids(
    served: ServedWorld, visitor: Visit
) -> None:
    page = await visitor.open("experiments/1")
    await page.get_by_role("button", name="TensorBoard").click()
    await page.wait_for_url("**/wait/tensorboard/*")
    first = page.url.rsplit("/", 1)[1]
    await visitor.open("tasks/tensorboards")
    await page.get_by_role("button", name="Start a tensorboard…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Experiments").fill("1, 99")
    await dialog.get_by_role("button", name="Start").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("experiment '99' not found")
    await dialog.get_by_label("Experiments").fill("1, 2")
    await dialog.get_by_role("button", name="Start").click()
    await expect(page.get_by_role("region", name="The selected task")).to_be_visible()
    second = parse_qs(urlsplit(page.url).query)["task"][0]
    for id_ in (first, second):
        await served.world.ok("POST", f"/api/v1/tensorboards/{id_}/kill")
    assert all("404" in one for one in visitor.complaints)
    visitor.complaints.clear()


async def test_the_page_is_for_all_and_fits_a_phone(visitor: Visit) -> None:
    """By the rules of axe, light and dark, with problems and without."""
    page = visitor.page
    await visitor.open("new?fork=1")
    for text, said in ((SINGLE, "accepted"), ("name: [1", "refused")):
        await editor(page).fill(text)
        await expect(verdict(page)).to_contain_text(said)
        for theme in ("light", "dark"):
            await page.emulate_media(color_scheme=theme)
            found = await Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
    await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    wide = await page.evaluate("() => document.documentElement.scrollWidth")
    assert wide <= PHONE[0], wide
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    await page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
