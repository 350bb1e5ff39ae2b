"""Filling in `{{ .name }}`. What only Terraform knows becomes `${name}`, which Terraform fills in. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from windlass.base.errors import InvalidConfig
from windlass.deploy.cloud.field_types import nearest

_ACTION = re.compile(r"\{\{(.*?)\}\}")
_NAME = re.compile(r"-?\s*\.([A-Za-z_][A-Za-z0-9_.]*)\s*-?")
_MARK = "\0"
_LIST = re.compile(r'"\\u0000\[(\w+)\]"')


def from_terraform(name: str) -> str:
    """A text, or a part of one, that is known only when what it names was made: an id, a name, an address."""
    return f"{_MARK}{{{name}}}"


def list_from_terraform(name: str) -> str:
    """A whole value: a list, which Terraform gives as JSON."""
    return f"{_MARK}[{name}]"


def as_json(value: Any) -> str:
    """In one line, which is YAML too; for Terraform's `templatestring`."""
    text = json.dumps(value, ensure_ascii=False).replace(r"\u0000{", f"{_MARK}{{")
    return for_terraform(_LIST.sub(rf"{_MARK}{{\1}}", text))


def for_terraform(text: str) -> str:
    """So that `templatestring` fills in what `from_terraform` names, and takes the rest as it is."""
    return text.replace("${", "$${").replace("%{", "%%{").replace(f"{_MARK}{{", "${")


def filled(template: str, values: Mapping[str, Any], what: str) -> str:
    """Lines of comment are kept as they are. Raises InvalidConfig with every placeholder that is unknown."""
    problems: list[str] = []
    lines = []
    for number, line in enumerate(template.splitlines(keepends=True), start=1):
        text = for_terraform(line)
        if not line.lstrip().startswith("#"):
            problems += (f"line {number}: {why}" for why in _problems(text, values))
            text = _ACTION.sub(lambda match: as_json(values.get(_name(match))), text)
        lines.append(text)
    result = "".join(lines)
    problems = problems or list(_yaml_problems(result))
    if problems:
        raise InvalidConfig(problems, what=what)
    return result


def _name(match: re.Match[str]) -> str:
    name = _NAME.fullmatch(match[1])
    return name[1] if name else ""


def _problems(line: str, values: Mapping[str, Any]) -> Iterator[str]:
    for match in _ACTION.finditer(line):
        name = _name(match)
        if not name:
            yield f'"{match[0]}" is not supported: only {{{{ .name }}}} is filled in'
        elif name not in values:
            yield f'"{name}" is unknown: {nearest(name, values)}'


def _yaml_problems(text: str) -> Iterator[str]:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        yield "is not YAML: " + " ".join(str(error).split())
        return
    if not isinstance(document, dict):
        yield "expected a YAML mapping"
