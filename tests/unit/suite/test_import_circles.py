"""No module of the product needs another that needs it: not for types, and not inside functions either."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
PACKAGES = ("windlass", "master", "provisioner", "rm_backends", "agent_bootstrap")


def modules() -> dict[str, Path]:
    paths = (path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py"))
    return {
        ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in known else node.module


def test_no_modules_import_each_other() -> None:
    known = modules()
    assert len(known) > 500
    graph = {name: {*imported(path, known)} & known.keys() for name, path in known.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names them
