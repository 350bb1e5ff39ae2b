"""Write how states look, from the table that `det` colours them by, as a stylesheet and a module of the pages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tools.webui_files import write_or_compare
from tools.webui_node import STATIC
from windlass.base.states import STYLES

_NOTE = "Written by tools/webui_states.py from windlass/base/states.py."


def stylesheet() -> str:
    tokens = {style.token: (style.light, style.dark) for style in STYLES}
    variables = [
        f"  --{token}: light-dark({light}, {dark});" for token, (light, dark) in tokens.items()
    ]
    rules = [
        ", ".join(f".state.{word.lower()}" for word in style.words)
        + f" {{ color: var(--{style.token}) }}"
        for style in STYLES
    ]
    return "\n".join([f"/* {_NOTE} */", ":root {", *variables, "}", *rules, ""])


def module() -> str:
    lines = [
        f"  {word}: {{ symbol: {json.dumps(style.symbol, ensure_ascii=False)}, token: "
        f'"{style.token}" }},'
        for style in STYLES
        for word in style.words
    ]
    return "\n".join(
        [
            f"// {_NOTE}",
            "",
            "/** By the first word of a state. */",
            "/** @type {Record<string, { symbol: string, token: string }>} */",
            "export const STATES = {",
            *lines,
            "};",
            "",
        ]
    )


def files() -> dict[Path, bytes]:
    return {
        STATIC / "css/states.css": stylesheet().encode(),
        STATIC / "js/states.js": module().encode(),
    }


if __name__ == "__main__":
    sys.exit(write_or_compare(files(), "tools.webui_states"))
