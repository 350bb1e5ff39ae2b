"""Generate the types of the REST API that the pages are checked with, from its OpenAPI document."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from master.api.application import ROUTES
from master.api.openapi import DescribedApp
from tools.webui_files import write_or_compare
from tools.webui_node import PACKAGES, STATIC, run_node

TYPES = STATIC / "js/openapi.d.ts"
_GENERATOR = PACKAGES / "openapi-typescript/bin/cli.js"


def document() -> Any:
    app = DescribedApp(
        title="Windlass", version="", openapi_url=None, docs_url=None, redoc_url=None
    )
    app.router.routes.extend(ROUTES)
    return without_titles(app.openapi())


def without_titles(part: Any) -> Any:
    """They are the names again, and would be a comment on each line."""
    if isinstance(part, dict):
        return {
            key: without_titles(value)
            for key, value in part.items()
            if not (key in ("title", "summary") and isinstance(value, str))
        }
    return [without_titles(one) for one in part] if isinstance(part, list) else part


def declarations(described: Any) -> str:
    """Raises SystemExit if the generator refuses the document."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "openapi.json", Path(folder) / "openapi.d.ts"
        source.write_text(json.dumps({"info": {"title": "Windlass"}} | described))
        done = run_node(
            _GENERATOR, source, "-o", target, "--alphabetize", "--default-non-nullable=false"
        )
        if done.returncode or not target.exists():
            raise SystemExit(done.stdout)
        return target.read_text()


if __name__ == "__main__":
    sys.exit(write_or_compare({TYPES: declarations(document()).encode()}, "tools.webui_types"))
