"""Copy the libraries of the pages from the locked npm packages into master/webui/static/vendor.

Browsers take them as they are, but for three things that `vendor.json` lists: imports of each other are by file, the
line that names a source map is left out, and uPlot, which has no small module, is given the export it lacks. Beside
each lies a line for the type checker, which reads the packages' own declarations.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.webui_files import write_or_compare
from tools.webui_node import PACKAGES, ROOT, STATIC

VENDOR = STATIC / "vendor"
_IMPORTS = {
    "preact": "preact.js",
    "preact/hooks": "hooks.js",
    "@preact/signals-core": "signals-core.js",
}
_IMPORT = re.compile(r'(?<=from)\s*"([^".][^"]*)"')
_MAP = re.compile(r"\n//# sourceMappingURL=.*\s*$")


@dataclass(frozen=True, slots=True)
class Library:
    file: str
    package: str
    source: str
    types: str = ""
    """The name to import its types by, where it is not the package's."""
    added: str = ""
    """At the end of the file."""
    default: bool = False
    """Whether it exports one thing without a name."""


LIBRARIES = (
    Library("preact.js", "preact", "dist/preact.module.js"),
    Library("hooks.js", "preact", "hooks/dist/hooks.module.js", types="preact/hooks"),
    Library("signals-core.js", "@preact/signals-core", "dist/signals-core.module.js"),
    Library("signals.js", "@preact/signals", "dist/signals.module.js"),
    Library("openapi-fetch.js", "openapi-fetch", "dist/index.mjs", default=True),
    Library(
        "uplot.js", "uplot", "dist/uPlot.iife.min.js", added="export default uPlot;\n", default=True
    ),
    Library("uplot.css", "uplot", "dist/uPlot.min.css"),
)


def shown(library: Library, text: str) -> str:
    text = _IMPORT.sub(lambda found: f'"./{_IMPORTS[found[1]]}"', text)
    text = _MAP.sub("", text).rstrip("\n") + "\n"
    return text + library.added


def declaration(library: Library) -> str:
    name = library.types or library.package
    default = f'export {{ default }} from "{name}";\n' if library.default else ""
    return f'{default}export * from "{name}";\n'


def files() -> dict[Path, bytes]:
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    found: dict[Path, bytes] = {}
    listed = []
    for library in LIBRARIES:
        folder = PACKAGES / library.package
        package = json.loads((folder / "package.json").read_text())
        content = shown(library, (folder / library.source).read_text()).encode()
        found[VENDOR / library.file] = content
        if library.file.endswith(".js"):
            types = VENDOR / library.file.replace(".js", ".d.ts")
            found[types] = declaration(library).encode()
        licence = f"{library.package.removeprefix('@').replace('/', '-')}.LICENSE"
        found[VENDOR / licence] = (folder / "LICENSE").read_bytes()
        listed.append(
            {
                "file": library.file,
                "name": library.package,
                "version": package["version"],
                "licence": package["license"],
                "licence_file": licence,
                "source": library.source,
                "integrity": locked[f"node_modules/{library.package}"]["integrity"],
                "sha256": hashlib.sha256(content).hexdigest(),
                "added": library.added.strip(),
            }
        )
    found[VENDOR / "vendor.json"] = (json.dumps(listed, indent=2) + "\n").encode()
    return found


if __name__ == "__main__":
    sys.exit(write_or_compare(files(), "tools.vendor_webui"))
