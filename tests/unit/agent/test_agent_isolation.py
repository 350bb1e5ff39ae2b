"""What an agent says of how it keeps tasks apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_bootstrap.agent.machine import AgentMachine
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.slots import Hardware
from agent_bootstrap.protocol import FROM_AGENT, Hello, IsolationKind
from tests.fakes.fake_runtime import FakeRuntime

OLD_HELLO = {"type": "hello", "version": "0.1.0", "agent_id": "a", "pool": "p", "boot_id": "b"}


def test_the_hello_says_what_the_runtime_does(tmp_path: Path) -> None:
    options = parse_options({"master_url": "http://m:1", "work_dir": str(tmp_path)})
    hello = AgentMachine(options, Hardware(), FakeRuntime()).hello((), 0)
    assert hello.isolation is IsolationKind.DIRECTORY


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({}, IsolationKind.UNKNOWN),
        ({"isolation": "bubblewrap"}, IsolationKind.BUBBLEWRAP),
        ({"isolation": "a word of tomorrow"}, IsolationKind.UNKNOWN),
    ],
)
def test_agents_of_other_versions_are_understood(
    said: dict[str, object], meant: IsolationKind
) -> None:
    hello = FROM_AGENT.validate_python(OLD_HELLO | said)
    assert isinstance(hello, Hello)
    assert hello.isolation is meant
