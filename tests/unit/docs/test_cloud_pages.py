"""The pages of AWS and Google Cloud: their sections load, and what they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from master.config.load import load
from provisioner.providers.aws.permissions import PERMISSIONS

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("aws", "gcp")
_BLOCK = re.compile(r"```yaml\n(.*?)```", re.S)


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text()


def sections(name: str) -> list[str]:
    return _BLOCK.findall(page(name))


@pytest.mark.parametrize("name", PAGES)
def test_what_master_yaml_of_a_page_says_is_taken_as_it_is(name: str, tmp_path: Path) -> None:
    whole, *parts = sections(name)
    for part in ("", *parts):
        document = yaml.safe_load(whole)
        (pool,) = document["resource_pools"]
        pool["provider"] |= yaml.safe_load(part) or {}
        file = tmp_path / "master.yaml"
        file.write_text(yaml.safe_dump(document))
        config = load(file)
        assert config.pools()[0].providers[0].type == name
        assert config.warnings == ()


@pytest.mark.parametrize("name", PAGES)
def test_keys_of_the_tables_are_keys_of_the_sections(name: str, tmp_path: Path) -> None:
    file = tmp_path / "master.yaml"
    file.write_text(sections(name)[0])
    known = set(type(load(file).pools()[0].providers[0]).model_fields)
    rows = re.findall(r"^\| `(\w+): [^`]+`", page(name), re.M)
    assert rows
    assert set(rows) <= known


def test_the_permissions_of_the_page_are_those_of_the_policy() -> None:
    (said,) = re.findall(r"Its permissions: (.*?)\n\n`det deploy", page("aws"), re.S)
    service, named = "", set()
    for found in re.findall(r"`(?:([a-z0-9]+):)?([A-Z]\w+)`", said):
        service = found[0] or service
        named.add(f"{service}:{found[1]}")
    assert named == {each.action for each in PERMISSIONS}
