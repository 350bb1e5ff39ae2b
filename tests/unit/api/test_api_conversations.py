"""Recorded conversations of the published package in a task, call by call: a master must understand each of them.

A file of `tests/unit/api/conversations` begins with the configuration of the experiment; then, after an empty line,
each call is a line `METHOD path body`, followed by the answer as `status fields`. Names with a `$` are this
cluster's. Calls with `&` before them were under way together. An answer may have more fields; `"*"` is any value.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import pytest

from tests.fakes.api_world import ApiWorld

FILES = (Path(__file__).parent / "conversations").glob("*.txt")
TEXTS = {file.stem: file.read_text(encoding="utf-8") for file in sorted(FILES)}


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    body: Any
    status: int
    fields: Any
    together: bool


def read(text: str, names: dict[str, str]) -> list[Call]:
    lines = Template(text).substitute(names).splitlines()
    calls = []
    for said, answered in zip(lines[::2], lines[1::2], strict=True):
        method, path, body = f"{said.removeprefix('& ')} ".split(" ", 2)
        status, _, fields = answered.partition(" ")
        calls.append(
            Call(
                method=method,
                path=path,
                body=json.loads(body) if body.strip() else None,
                status=int(status),
                fields=json.loads(fields or "{}"),
                together=said.startswith("& "),
            )
        )
    return calls


def differs(expected: Any, found: Any) -> bool:
    if expected == "*":
        return found is None
    if isinstance(expected, dict) and isinstance(found, dict):
        return any(differs(value, found.get(key)) for key, value in expected.items())
    return bool(expected != found)


@pytest.mark.parametrize("name", TEXTS)
async def test_a_recorded_conversation(world: ApiWorld, name: str) -> None:
    config, _, text = TEXTS[name].partition("\n\n")
    for number in (0, 1):
        await world.add_agent(f"node-{number}", slots=2, address=f"10.0.0.{number}")
    experiment = await world.create(config)
    run = await world.run_of(experiment)
    names = {
        "experiment": experiment,
        "trial": world.trial_id(experiment),
        "task": run.task_id,
        "allocation": run.id,
        **{f"container{n}": one.container.container_id for n, one in enumerate(run.containers)},
    }
    headers = {"Grpc-Metadata-x-allocation-token": f"Bearer {world.task_token(run)}"}

    async def make(call: Call) -> None:
        answer = await world.call(call.method, call.path, call.body, token="", headers=headers)
        where = (call.method, call.path, answer.text)
        assert answer.status_code == call.status, where
        assert not differs(call.fields, answer.json() if answer.content else {}), where

    together: list[Call] = []
    for call in read(text, {key: str(value) for key, value in names.items()}):
        together.append(call)
        if not call.together:
            await asyncio.gather(*map(make, together))
            together.clear()
