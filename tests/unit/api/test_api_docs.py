"""The documentation, as a master serves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from master.api.cluster import description as routes
from tests.fakes.api_world import ApiWorld


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    (folder / "hpc").mkdir(parents=True)
    (folder / "index.html").write_text("<h1>Windlass</h1>")
    (folder / "hpc" / "modes.html").write_text("<h1>Modes</h1>")
    (tmp_path / "secret").write_text("not for everybody")
    monkeypatch.setattr(routes, "SITE", folder)
    return folder


async def test_pages_are_for_everybody_and_load_nothing_from_elsewhere(
    world: ApiWorld, site: Path
) -> None:
    first = await world.call("GET", "/docs", token="")
    assert (first.status_code, first.headers["location"]) == (307, "docs/index.html")
    for path, text in (("", "Windlass"), ("index.html", "Windlass"), ("hpc/modes.html", "Modes")):
        response = await world.call("GET", f"/docs/{path}", token="")
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/html")
        assert response.headers["content-security-policy"].startswith("default-src 'self';")
        assert text in response.text


@pytest.mark.parametrize("path", ["other.html", "../secret", "..%2fsecret", "hpc/../../secret"])
async def test_nothing_else_is_served(world: ApiWorld, site: Path, path: str) -> None:
    text = await world.refused(404, "GET", f"/docs/{path}", token="")
    assert "not for everybody" not in text


async def test_an_installation_without_pages_says_how_to_make_them(
    world: ApiWorld, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "SITE", site / "missing")
    text = await world.refused(404, "GET", "/docs/index.html", token="")
    assert "make docs-site" in text
