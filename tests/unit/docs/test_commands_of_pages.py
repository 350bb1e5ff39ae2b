"""Every command of ours that a page of the documents or of the web UI shows exists, with its options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from master.webui.assets import STATIC
from windlass.cli.groups import Unloaded, load_operator_commands
from windlass.cli.main import DetGroup, app

ROOT = Path(__file__).parents[3]
PAGES = [
    page
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    if page.parent.name not in ("reference", "decisions")  # made of the commands; of their day
]
_BLOCK = re.compile(r"^```(?:bash|sh|console|)\n(.*?)^```", re.S | re.M)
_INLINE = re.compile(r"`((?:det|windlass) [^`]+)`")
_SHOWN = re.compile(r"""[`"'](det [^`"']+)[`"']""")
"""In JavaScript."""
_ENDS = ";|&<>"
"""Of a command in a line."""


def commands(page: Path) -> Iterator[str]:
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            words = line.removeprefix("$ ").strip()
            if words.startswith(("det ", "windlass ")):
                yield words
    for words in _INLINE.findall(_BLOCK.sub("", text)):
        yield words.replace("\n", " ")


def words_of(line: str) -> list[str]:
    """Of the first command in it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=_ENDS)
    lexer.whitespace_split = True
    return list(takewhile(lambda word: not set(word) <= set(_ENDS), lexer))


def problem(root: Any, text: str) -> str:
    """Why it cannot be typed; empty: it can. click's classes are duck-typed, as typer brings its own copy."""
    try:
        left = words_of(text)[1:]
    except ValueError as error:
        return str(error)
    here, known = root, _options(root)
    while left:
        word = left.pop(0)
        if word.startswith("-") and len(word) > 1:
            name = word.partition("=")[0]
            if name == "--":
                break
            if name not in known:
                return f"{here.name} has no {name}"
            if known[name] and "=" not in word and left:
                left.pop(0)
        elif hasattr(here, "list_commands"):
            found = _top(root, word) if here is root else here.get_command(None, word)
            if found is None:
                return "" if _is_placeholder(word) else f"{here.name} has no command {word}"
            here = found.load() if isinstance(found, Unloaded) else found
            known = _options(here)
        elif _takes_the_rest(here):
            break
    return ""


@cache
def _top(root: Any, word: str) -> Any:
    """The command itself, where `det` has a stand-in that loads it when it runs."""
    for name, lazy in DetGroup.lazy.items():
        if word in (name, lazy.alias):
            return lazy.load()
    if word in DetGroup.operators:
        return load_operator_commands(word)[word]
    return root.get_command(None, word)


def _options(command: Any) -> dict[str, bool]:
    """Name -> whether a value follows."""
    return {"--help": False} | {
        name: not option.is_flag and not option.count
        for option in command.params
        if option.param_type_name == "option"
        for name in (*option.opts, *option.secondary_opts)
    }


def _takes_the_rest(command: Any) -> bool:
    """A program and its own options follow."""
    settings = command.context_settings
    return "ignore_unknown_options" in settings or "allow_interspersed_args" in settings


def _is_placeholder(word: str) -> bool:
    return "..." in word or "|" in word or word.isupper()


@pytest.fixture(scope="module")
def root() -> Any:
    return typer.main.get_command(app)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_the_page_can_be_typed(page: Path, root: Any) -> None:
    told = []
    for text in commands(page):
        if why := problem(root, text):
            told.append(f"{text}: {why}")
    assert told == []


def test_the_commands_of_the_web_ui_can_be_typed(root: Any) -> None:
    told, count = [], 0
    for module in sorted((STATIC / "js").rglob("*.js")):
        for text in _SHOWN.findall(module.read_text(encoding="utf-8")):
            line = re.sub(r"\$\{kind\.det\}", "command", text)
            line = re.sub(r"\$\{[^}]*\}?", "VALUE", line)
            count += 1
            if why := problem(root, line):
                told.append(f"{module.name}: {text}: {why}")
    assert count > 50
    assert told == []


def test_a_wrong_command_is_found(root: Any) -> None:
    assert problem(root, "det deploy aws up --cluster-id lab --moon 1")
    assert problem(root, "det deploy mars up")
    assert problem(root, "det cmd run 'open")
    assert not problem(root, "det -m https://x deploy aws up --cluster-id lab")
