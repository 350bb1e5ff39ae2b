"""What pages quote of our programs' sentences, the programs say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OURS = ("windlass", "master", "provisioner", "rm_backends", "agent_bootstrap")
AS_OTHERS = (
    *("tests/fakes/gce", "tests/contract/providers", "tests/integration/clouds"),
    *("tests/unit/provisioner", "tests/unit/agent"),
)
"""Where doubles and records word what AWS, Google, batch systems and ssh say."""
SECTIONS = [
    ("cloud-troubleshooting.md", "No machine comes"),
    ("cloud-troubleshooting.md", "A machine comes, and no agent"),
    ("cloud-troubleshooting.md", "A machine is there, and its work does not run"),
    ("aws.md", "When nothing comes"),
    ("gcp.md", "When nothing comes"),
    ("deploy-aws.md", "If something fails"),
    ("troubleshooting.md", "Commands of users"),
    ("troubleshooting.md", "Submissions that are refused"),
    ("troubleshooting.md", "The master"),
    ("troubleshooting.md", "Agents"),
    ("why-does-it-wait.md", "When the provider refuses"),
    ("hpc/troubleshooting.md", "`windlass hpc`"),
    ("hpc/troubleshooting.md", "Work that does not start or does not go on"),
    ("hpc/slurm.md", "When something is wrong"),
    ("hpc/ssh.md", ""),
    ("hpc/rest.md", "For administrators: slurmrestd with tokens"),
    ("hpc/networks.md", "What the ways do"),
]
_HOLE = "\0"
_SHELLS = re.compile(r"\$\w+|\$\?|\$\([^()]*(?:\([^()]*\))?[^()]*\)")
_VALUE = re.compile(r"[\w\0:/@=+%-]*[\0\d/_][\w\0:/@=+%.-]*|\b[A-Z]{4,}\b|<[a-z ]+>")
"""A word that differs from case to case: with a digit, a slash, an underscore, or in capitals."""
_NAMES = re.compile(r"\b(?:partition|queue|squeue|Python|N)\b")
"""Words that our sentences put in, as one site or another has them."""
_BETWEEN = re.compile(r"\.{3,}|: |[();]")
"""Between parts of a sentence that come from several places."""


def general(text: str) -> str:
    """Words that differ become a hole each."""
    text = _NAMES.sub(_HOLE, _VALUE.sub(_HOLE, " ".join(text.split())))
    return re.sub(r"\0(?:[ .-]?\0)*", _HOLE, text)


@cache
def said() -> str:
    """All texts of the code, one in a line."""
    texts = []
    for folder in (*OURS, *AS_OTHERS):
        for path in (ROOT / folder).rglob("*.py"):
            texts += list(_texts(ast.parse(path.read_text(encoding="utf-8"))))
    boots = (ROOT / "agent_bootstrap/scripts").glob("*.sh")
    texts += [_SHELLS.sub(_HOLE, path.read_text(encoding="utf-8")) for path in boots]
    whole = "\n".join(text.replace("\\.", ".") for text in texts)
    return f"{whole}\n" + "\n".join(general(text) for text in texts)


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):
        yield "".join(
            str(part.value) if isinstance(part, ast.Constant) else _HOLE for part in node.values
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
        yield node.value.decode(errors="replace")
    for child in ast.iter_child_nodes(node):
        if not isinstance(node, ast.JoinedStr) or isinstance(child, ast.FormattedValue):
            yield from _texts(child)


def quoted(page: str, section: str) -> list[str]:
    """Of the first column of a section's table: what is between backticks, or all of it."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    body = text.split(f"## {section}\n")[1].split("\n## ")[0] if section else text
    body = body[
        max(0, body.find("| you see")) :
    ]  # the table of what one sees, where there are others
    rows = [line.split(" | ")[0].removeprefix("| ") for line in body.splitlines() if "|" in line]
    # What is not in backticks tells what one sees, in our own words.
    found = [part for row in rows[2:] for part in re.findall(r"`([^`]+)`", row)]
    return [part for part in found if not part.startswith(("det ", "windlass "))]


def is_said(sentence: str) -> bool:
    """Each part of it, as it is or with holes for what differs."""
    parts = [part.strip(" :,") for part in _BETWEEN.split(sentence)]
    return all(part in said() or general(part) in said() for part in parts if part)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "section"), SECTIONS)
def test_every_sentence_of_the_table_is_one_of_the_program(page: str, section: str) -> None:
    sentences = quoted(page, section)
    assert sentences
    assert [sentence for sentence in sentences if not is_said(sentence)] == []


def test_a_sentence_that_nobody_says_is_found() -> None:
    assert not is_said("the moon of us-east-1 is used up")
    assert is_said("user data of pool gpu-1 has 9000 bytes: EC2 takes 16384")
