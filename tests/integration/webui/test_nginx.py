"""A real nginx before a real master, by the lines of docs/security.md: at the root, below a path, with TLS."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx2 as httpx
import pytest

pytest.importorskip("playwright")

from playwright.async_api import Page, async_playwright, expect

from tests.certificates import self_signed
from tests.integration.proxy.test_proxy import free_port
from tests.integration.webui.served_world import CHROMIUM
from tests.real_cluster import RealCluster, eventually

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
SECURITY = Path(__file__).parents[3] / "docs" / "security.md"
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")

pytestmark = [
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed: run make test-slow"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: run make test-slow"),
]


def location(path: str, port: int) -> str:
    """The block of the page, for this path and a master on this port."""
    found = re.search(r"```\n(location / \{\n.*?\n\})\n```", SECURITY.read_text(), re.DOTALL)
    assert found is not None
    block = found[1].replace("location / {", f"location {path} {{")
    return block.replace(
        "http://127.0.0.1:8080;", f"http://127.0.0.1:{port}{'' if path == '/' else '/'};"
    )


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealCluster, list[str]]]:
    """The master behind nginx: at the root, below `/a/b/`, and with TLS below `/gpu/`."""
    assert NGINX is not None
    folder = tmp_path_factory.mktemp("nginx")
    config = {
        "resource_pools": [{"pool_name": "default"}],
        "security": {"trusted_proxies": ["127.0.0.1"], "allowed_hosts": ["localhost"]},
    }
    certificate = self_signed(folder)
    ports = [free_port() for _ in range(3)]
    with RealCluster(folder / "cluster", config) as cluster:
        cluster.start_master()
        places = zip(ports, ("/", "/a/b/", "/gpu/"), ("", "", " ssl"), strict=True)
        servers = "\n".join(
            f"server {{ listen 127.0.0.1:{port}{tls}; {location(path, cluster.port)} }}"
            for port, path, tls in places
        )
        (folder / "nginx.conf").write_text(
            f"""daemon off; pid {folder}/pid; error_log {folder}/error.log;
            events {{ }}
            http {{
              access_log off;
              map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
              ssl_certificate {certificate.cert}; ssl_certificate_key {certificate.key};
              {"".join(f"{name}_temp_path {folder}/{name};" for name in TEMPORARY)}
              {servers}
            }}"""
        )
        with closing(_Nginx(folder / "nginx.conf")):
            urls = [
                f"http://127.0.0.1:{ports[0]}/",
                f"http://127.0.0.1:{ports[1]}/a/b/",
                f"https://127.0.0.1:{ports[2]}/gpu/",
            ]
            plain = ssl.create_default_context(cafile=str(certificate.cert))

            def answers() -> bool:
                try:
                    return all(httpx.get(f"{url}info", verify=plain).is_success for url in urls)
                except httpx.HTTPError:
                    return False

            eventually("nginx leads to the master", answers)
            yield cluster, urls


class _Nginx:
    def __init__(self, config: Path) -> None:
        assert NGINX is not None
        self._process = subprocess.Popen(
            [NGINX, "-c", str(config), "-e", str(config.with_name("log"))]
        )

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


@asynccontextmanager
async def new_page() -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = await chromium.new_context(ignore_https_errors=True)
        yield await context.new_page()
        await chromium.close()


@pytest.mark.parametrize("at", [0, 1, 2], ids=["root", "below a path", "TLS"])
async def test_people_log_in_look_around_and_change_things(
    sites: tuple[RealCluster, list[str]], at: int
) -> None:
    cluster, urls = sites
    base = urls[at]
    async with new_page() as page:
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("request", lambda one: one.url.startswith(base) or complaints.append(one.url))
        await page.goto(f"{base}det/workspaces")
        assert page.url.startswith(f"{base}det/login?redirect=")
        await page.get_by_label("User").fill("admin")
        await page.get_by_label("Password").fill(cluster.password)
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("heading", name="Workspaces")).to_be_visible()
        assert page.url == f"{base}det/workspaces"
        (cookie,) = await page.context.cookies()
        assert cookie["secure"] is base.startswith("https")
        await page.get_by_role("button", name="New workspace").click()
        name = f"made-{at}"
        await page.get_by_role("dialog").get_by_label("Name").fill(name)
        await page.get_by_role("dialog").get_by_role("button", name="New workspace").click()
        heading = page.locator("main h1")
        await expect(heading).to_contain_text(name)
        assert page.url.startswith(f"{base}det/workspaces/")
        await page.reload()
        await expect(heading).to_contain_text(name)
        assert complaints == []
