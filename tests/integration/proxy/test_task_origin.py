"""A page of a task that tries to act as its reader, with `webui.task_origin` and without, in a real browser."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")

from playwright.async_api import Page, async_playwright, expect

from tests.integration.proxy.test_proxy import free_port
from tests.integration.webui.served_world import CHROMIUM
from tests.real_cluster import RealCluster, eventually

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed: run make test-slow"
)

ATTACK = """<!doctype html><title>task</title><h1>A task</h1><pre id="out">…</pre><script>
const master = "MASTER";
const told = {};
const tried = async (name, act) => {
  try { told[name] = await act(); } catch (error) { told[name] = String(error.name); }
};
(async () => {
  const cookie = {credentials: "include"};
  await tried("read", async () => (await (await fetch(master + "/api/v1/me", cookie)).json()).user.username);
  await tried("change", async () => (await fetch(master + "/api/v1/users/setting", {method: "POST",
    credentials: "include", headers: {"Content-Type": "application/json"},
    body: JSON.stringify({settings: [{key: "stolen", value: "1", storagePath: "x"}]})})).status);
  await tried("form", async () => (await fetch(master + "/api/v1/auth/logout", {method: "POST", mode: "no-cors",
    credentials: "include"})).status);
  await tried("cookie", async () => document.cookie);
  document.getElementById("out").textContent = JSON.stringify(told);
})();
</script>"""
SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(open("attack.html", "rb").read())

print("serving", flush=True)
HTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
"""


@contextmanager
def attacking(folder: Path, webui: dict[str, Any]) -> Iterator[tuple[RealCluster, str]]:
    """A cluster, and the path of the page of a task in it."""
    config = {"resource_pools": [{"pool_name": "default"}], "webui": webui}
    with RealCluster(folder, config) as cluster:
        cluster.start_agent("node-1", slots=1)
        port = free_port()
        files = {"serve.py": SERVER, "attack.html": ATTACK.replace("MASTER", cluster.url)}
        body = {
            "config": {
                "entrypoint": ["python3", "serve.py", str(port)],
                "environment": {"proxy_ports": [{"proxy_port": port}]},
                "resources": {"slots": 0},
            },
            "files": [
                {
                    "path": name,
                    "content": base64.b64encode(text.encode()).decode(),
                    "type": ord("0"),
                    "mode": 0o644,
                }
                for name, text in files.items()
            ],
        }
        session = cluster.client.session
        task_id = str(session.post("/api/v1/commands", body)["command"]["id"])

        def is_serving() -> bool:
            lines = session.stream(f"/api/v1/tasks/{task_id}/logs", None)
            return any("serving" in str(line["log"]) for line in lines)

        eventually("the task serves", is_serving)
        yield cluster, f"/proxy/{task_id}:{port}/"


async def log_in(page: Page, cluster: RealCluster) -> None:
    await page.goto(f"{cluster.url}/det/login")
    await page.get_by_label("User").fill("determined")
    await page.get_by_label("Password").fill(cluster.password)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("heading", name="Home of determined")).to_be_visible()


async def outcome(page: Page) -> dict[str, Any]:
    out = page.locator("#out")
    await expect(out).to_contain_text("cookie", timeout=30_000)
    return dict(json.loads(await out.inner_text()))


@pytest.mark.parametrize("apart", [True, False], ids=["an origin of its own", "the master's"])
async def test_a_page_of_a_task_and_its_reader(tmp_path: Path, apart: bool) -> None:
    port = free_port()
    # Another host name, as `https://tasks.example.org` is: cookies of the one are not those of the other.
    origin = f"http://localhost:{port}"
    webui = {"task_origin": origin, "task_port": port} if apart else {}
    with attacking(tmp_path, webui) as (cluster, path):
        async with async_playwright() as playwright:
            chromium = await playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox"]
            )
            page = await chromium.new_page()
            await log_in(page, cluster)
            await page.goto(f"{cluster.url}{path}")
            told = await outcome(page)
            if apart:
                assert page.url == f"{origin}{path}"
                assert told["read"] == told["change"] == "TypeError", "the browser gives it nothing"
            else:
                assert page.url == f"{cluster.url}{path}"
                assert told["read"] == "determined", "why webui.task_origin is there"
            assert told["cookie"] == "", "no script reads the session"
            if apart:
                await page.goto(f"{cluster.url}/det/")
                await expect(page.get_by_role("heading", name="Home of determined")).to_be_visible()
                cookies = {(one["domain"], one["value"]) for one in await page.context.cookies()}
                assert {domain for domain, _ in cookies} == {"127.0.0.1", "localhost"}
                assert len({value for _, value in cookies}) == 1, "one session at both"
                await page.goto(f"{origin}/api/v1/me")
                await expect(page.locator("body")).to_contain_text("only pages of tasks")
            await chromium.close()
