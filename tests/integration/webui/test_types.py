"""`make lint` names the page that a changed reply breaks."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from master.webui.assets import read_assets
from master.webui.shell import module_of
from tools.check_webui import PROJECT, type_errors
from tools.webui_node import PACKAGES, ROOT, STATIC

pytestmark = pytest.mark.skipif(
    not PACKAGES.exists(), reason="the type checker is not installed: run make lint"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(STATIC, tmp_path / "static")
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    config = {"extends": str(PROJECT), "include": [str(tmp_path / "static/js")]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(config))
    return tmp_path / "tsconfig.json"


def test_the_page_of_the_guide_is_right(project: Path) -> None:
    guide = (ROOT / "docs/writing-a-page.md").read_text()
    page, route = re.findall(r"```javascript\n(.*?)```", guide, re.DOTALL)
    modules = project.parent / "static/js"
    (modules / "pages/agents.js").write_text(page)
    routes = (modules / "routes.js").read_text()
    (modules / "routes.js").write_text(
        routes.replace("const ROUTES = [\n", f"const ROUTES = [\n{route}")
    )
    assert type_errors(project) == ""
    assert module_of(read_assets(project.parent / "static"), "clusters") == "js/pages/agents.js"


def test_a_field_that_is_renamed_breaks_the_pages_that_show_it(project: Path) -> None:
    assert type_errors(project) == ""
    types = project.parent / "static/js/openapi.d.ts"
    described = types.read_text()
    assert " searcherMetricValue: " in described
    types.write_text(described.replace(" searcherMetricValue: ", " metricOfSearcher: "))
    errors = type_errors(project)
    assert "pages/trial.js" in errors
    assert "pages/trials.js" in errors
    assert "searcherMetricValue" in errors
