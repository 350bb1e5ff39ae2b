"""A browser opens what `det notebook start` prints, and gets to JupyterLab; or reads why there is none."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_bootstrap.agent.runtimes.accounts import DEFAULT_SHELL
from tests.jails import open_way_to
from tests.real_cluster import PATIENCE_S, RealCluster

pytest.importorskip("playwright")
from playwright.sync_api import expect

from tests.integration.notebooks.browsers import CHROMIUM, Browser, browser

ROOT = Path(__file__).parents[3]
JUPYTER, DET = ROOT / ".jupyter", ROOT / ".compat/bin/det"
PATIENCE_MS = PATIENCE_S * 1000

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        CHROMIUM is None or not (JUPYTER / "bin/jupyter-lab").exists() or not DET.exists(),
        reason="Chromium, JupyterLab or the published client is not installed: run make test-slow",
    ),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    open_way_to(JUPYTER / "bin")
    folder = tmp_path_factory.mktemp("pages")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=1)
        yield cluster


def det(cluster: RealCluster, *words: str) -> str:
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        [DET, "-m", cluster.url, *words],
        env={
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "BROWSER": "echo %s",
            **cluster.login_as(),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def started(cluster: RealCluster, *settings: str) -> tuple[str, str]:
    """Its id, and the address that the client opens. While no task may start it is not ready."""
    let_tasks_start(cluster, False)
    words = [word for setting in (*settings, "resources.slots=0") for word in ("--config", setting)]
    task_id = det(cluster, "notebook", "start", "--detach", "--no-browser", *words).split()[-1]
    return task_id, det(cluster, "notebook", "open", task_id).split()[-1]


def let_tasks_start(cluster: RealCluster, yes: bool) -> None:
    with closing(cluster.session()) as session:
        session.login("admin", cluster.password)
        session.post(f"/api/v1/agents/node/{'enable' if yes else 'disable'}", {})


def log_in(at: Browser, cluster: RealCluster) -> None:
    expect(at.page).to_have_title("Log in · Windlass")
    at.page.get_by_label("User").fill("determined")
    at.page.keyboard.press("Tab")
    at.page.keyboard.type(cluster.password)
    at.page.keyboard.press("Enter")


def fits(at: Browser) -> None:
    """On a phone nobody scrolls sideways."""
    assert at.page.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_from_the_printed_address_to_a_cell(cluster: RealCluster) -> None:
    task_id, address = started(cluster, f"environment.python={JUPYTER}")
    with browser() as at:
        at.page.goto(address)
        fits(at)
        at.page.get_by_label("User").fill("determined")
        at.page.get_by_label("Password").fill("wrong")
        at.page.get_by_role("button", name="Log in").click()
        expect(at.page.get_by_role("alert")).to_have_text("Invalid credentials.")
        assert at.complaints.pop().endswith("401 (Unauthorized)"), "Chromium itself says that"
        at.page.get_by_label("Password").fill(cluster.password)
        at.page.keyboard.press("Enter")
        status = at.page.get_by_role("status")
        expect(status).to_contain_text("It waits: ")
        fits(at)
        let_tasks_start(cluster, True)
        at.page.wait_for_url(f"**/proxy/{task_id}/**", timeout=PATIENCE_MS)
        at.page.set_viewport_size({"width": 1280, "height": 900})
        base = f"{cluster.url}/proxy/{task_id}"
        is_welcomed(at, task_id, base)
        runs_a_cell(at, base)
        opens_a_terminal(at, base)
        assert at.complaints == []
        token = address.partition("token%3D")[2].partition("%26")[0]
        assert token
        secrets = [token, cluster.password, *(c.get("value", "") for c in at.context.cookies())]
    logs = [path for path in cluster.folder.rglob("*.log") if path.is_file()]
    assert logs
    for path in logs:
        said = path.read_text(errors="replace")
        assert not any(secret in said for secret in secrets if len(secret) > 8), path
    det(cluster, "notebook", "kill", task_id)


def has_a_kernel(at: Browser) -> None:
    kernel = at.page.get_by_role("button", name=re.compile(r"ipykernel\) \| Idle"))
    expect(kernel).to_be_visible(timeout=PATIENCE_MS)


def is_welcomed(at: Browser, task_id: str, base: str) -> None:
    shown = at.page.locator(".jp-Notebook .jp-MarkdownOutput")
    expect(shown).to_contain_text(f"det notebook kill {task_id}", timeout=PATIENCE_MS)
    has_a_kernel(at)
    (session,) = at.page.request.get(f"{base}/api/sessions").json()
    assert session["path"] == "run/determined/workdir/README.ipynb", "whose kernel is no use"


def runs_a_cell(at: Browser, base: str) -> None:
    at.page.goto(f"{base}/lab?reset")
    at.page.locator(".jp-LauncherCard[data-category=Notebook]").first.click(timeout=PATIENCE_MS)
    has_a_kernel(at)
    cell = at.page.locator(".jp-Notebook .cm-content").first
    cell.click(timeout=PATIENCE_MS)
    at.page.keyboard.type("print(6 * 7, 'in a cell')")
    at.page.keyboard.press("Shift+Enter")
    output = at.page.locator(".jp-OutputArea-output")
    expect(output).to_contain_text("42 in a cell", timeout=PATIENCE_MS)


def opens_a_terminal(at: Browser, base: str) -> None:
    at.page.goto(f"{base}/lab?reset")
    card = at.page.locator(".jp-LauncherCard[title='Start a new terminal session']").first
    card.click(timeout=PATIENCE_MS)
    at.page.locator(".jp-Terminal .xterm").first.click(timeout=PATIENCE_MS)
    at.page.keyboard.type(
        "echo $((6 * 7)) ${BASH_VERSION:+in} $SHELL with $(which jupyter) > typed\n"
    )
    size = len(f"42 in {DEFAULT_SHELL} with {JUPYTER}/bin/jupyter\n")
    file = at.page.get_by_role("listitem", name=re.compile(rf"Name: typed Size: {size} B"))
    expect(file).to_be_visible(timeout=PATIENCE_MS)


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_who_waited_in_vain_reads_why(cluster: RealCluster, scripts: bool) -> None:
    _, address = started(cluster, "environment.python=/nowhere")
    with browser(scripts=scripts) as at:
        at.page.goto(address)
        log_in(at, cluster)
        expect(at.page.locator("#sentence")).to_contain_text("It waits: ")
        let_tasks_start(cluster, True)
        expect(at.page.locator("#sentence")).to_contain_text(
            re.compile("It has ended: .+"), timeout=PATIENCE_MS
        )
        expect(at.page.locator("#log")).not_to_be_empty()
        assert at.complaints == []
