"""The files of the pages: what they import is there, what was generated is current, and libraries are what npm has."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest
from fastapi.routing import APIRoute, APIWebSocketRoute

from master.api.application import ROUTES
from master.webui.assets import STATIC, AssetFolder, read_assets
from master.webui.shell import module_of
from tools.webui_states import files as generated_states

ASSETS = read_assets()
MODULES = [name for name in ASSETS.files if name.endswith(".js")]
OWN = [name for name in MODULES if name.startswith("js/")]
MOST_LINES = 300
ROOT = Path(__file__).parents[3]


def text_of(name: str) -> str:
    return ASSETS.files[name].content.decode()


def routes() -> list[str]:
    return re.findall(r'route\("([^"]*)"', text_of("js/routes.js"))


def test_every_page_is_a_part_of_the_navigation_and_found_by_the_palette() -> None:
    """All but those that need an id: they are found by the name of what they show."""
    places = text_of("js/places.js")
    begins = set(re.findall(r'"([\w-]+)"', " ".join(re.findall(r"begins: \[[^\]]*\]", places))))
    of_a_person = {"", "settings"}
    assert {route.partition("/")[0] for route in routes()} - begins == of_a_person
    named = {path.partition("?")[0] for path in re.findall(r'path: "([^"]+)"', places)}
    others = {"", "fleet", "admin/users", "compare"}
    """Other addresses of what is named, and one that shows nothing of itself."""
    alone = {re.sub(r"/:\w+\?$", "", route) for route in routes()}
    assert {route for route in alone if ":" not in route} - named == others


def test_keys_are_listed_as_in_the_documents() -> None:
    """Ctrl+K and those of pages apart."""
    listed = text_of("js/widgets/key_help.js").partition("const KEYS")[2].partition("\n];")[0]
    shown = {key for keys in re.findall(r'\["([^"]+)"', listed) for key in re.split(r"[ ,]+", keys)}
    table = (ROOT / "docs/web-ui.md").read_text().partition("## Keys")[2].partition("\n\nIn a")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    told = {key for row in rows for key in re.findall(r"`([^`]+)`", row)}
    single = {key for key in told if len(key) == 1}
    assert single == {key for key in shown if len(key) == 1}


def test_every_import_names_a_file_of_ours() -> None:
    for name, imported in ASSETS.imports.items():
        assert [one for one in imported if one not in ASSETS.files] == [], name
    for name in OWN:
        assert len(ASSETS.imports[name]) == len(re.findall(r'\bfrom "', text_of(name))), name


def test_every_route_has_its_page() -> None:
    lines = text_of("js/routes.js").count('route("')
    patterns = re.findall(
        r'route\("([^"]*)", \(\) => import\("\./([^"]+)"\)', text_of("js/routes.js")
    )
    assert len(patterns) == lines
    for pattern, module in patterns:
        assert f"js/{module}" in ASSETS.files
        path = re.sub(r":\w+\??", "7", pattern)
        assert module_of(ASSETS, path) == f"js/{module}", path


def test_a_page_is_preloaded_with_all_that_it_imports() -> None:
    names = ASSETS.modules_of("js/app.js", "js/pages/experiment.js")
    assert {"js/widgets/table.js", "js/widgets/virtual.js", "vendor/uplot.js"} <= set(names)
    assert "js/pages/home.js" not in names, "what another address shows is asked for there"
    assert "vendor/uplot.js" not in ASSETS.modules_of("js/app.js", "js/pages/experiments.js")


def test_pages_ask_the_api_through_one_module_and_make_no_html() -> None:
    for name in OWN:
        forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|https?://"
        assert not re.search(forbidden, text_of(name)), name
        if name != "js/wait.js":
            assert not re.search(r"\bfetch\(|XMLHttpRequest", text_of(name)), name
        assert text_of(name).count("\n") < MOST_LINES, name
        assert max(len(line) for line in text_of(name).splitlines()) <= 120, name


def test_every_path_of_the_modules_is_one_of_the_api() -> None:
    kinds = (APIRoute, APIWebSocketRoute)
    known = {route.path_format for route in ROUTES if isinstance(route, kinds)}
    named = {path for name in OWN for path in re.findall(r'"(/api/v1/[^"]+)"', text_of(name))}
    assert len(named) > 10
    assert named <= known


def test_states_look_as_the_table_says() -> None:
    for path, content in generated_states().items():
        assert path.read_bytes() == content, "run `make webui`"


def test_libraries_are_listed_with_version_licence_and_hash() -> None:
    listed = json.loads((STATIC / "vendor/vendor.json").read_text())
    assert {f"vendor/{one['file']}" for one in listed} == {
        name for name in ASSETS.files if name.startswith("vendor/")
    }
    for one in listed:
        content = (STATIC / "vendor" / one["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == one["sha256"], one["file"]
        assert one["integrity"].startswith("sha512-")
        assert (
            "Permission is hereby granted" in (STATIC / "vendor" / one["licence_file"]).read_text()
        )


def test_another_content_has_another_address(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "one.js"
    file.write_text("export const one = 1;\n")
    (tmp_path / "notes.txt").write_text("not served")
    kept, reloading = AssetFolder(tmp_path), AssetFolder(tmp_path, reload=True)
    before = reloading.current()
    assert list(before.files) == ["a/one.js"]
    file.write_text("export const one = 2;\n")
    os.utime(file, ns=(1, 1))
    assert reloading.current().version != before.version == kept.current().version
    assert reloading.current().files["a/one.js"].content.endswith(b"2;\n")


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("experiments/", "js/pages/experiments.js"),
        ("experiments/7/trials", "js/pages/experiment.js"),
        ("experiments/7/trials/8", "js/pages/trial.js"),
        ("experiments//trials/8", None),
        ("experiments/7/trials/8/logs/9", None),
        ("experimentS", None),
    ],
)
def test_addresses_lead_to_modules(path: str, module: str | None) -> None:
    assert module_of(ASSETS, path) == module
