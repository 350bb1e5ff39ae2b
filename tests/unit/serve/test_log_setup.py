"""How lines of the log look, and for whom."""

from __future__ import annotations

import io
import json
import logging

import pytest

from agent_bootstrap.log_setup import set_up_logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *, color: bool) -> str:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", root.handlers)
    monkeypatch.setattr("sys.stderr", stream)
    set_up_logging("info", color=color)
    logging.getLogger("x").info("agent %s", "node-1")
    return stream.getvalue()


@pytest.mark.parametrize("color", [True, False])
def test_lines_on_a_terminal_are_for_people(color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said = written(monkeypatch, Terminal(), color=color)
    assert "agent node-1" in said
    assert not said.startswith("{")
    assert ("\x1b" in said) is color


def test_what_libraries_say_of_each_run_of_theirs_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Timed work runs every ten seconds."""
    stream = io.StringIO()
    written(monkeypatch, stream, color=False)
    logging.getLogger("apscheduler.executors.default").info("executed")
    logging.getLogger("apscheduler.executors.default").warning("raised")
    events = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert events == ["agent node-1", "raised"]


def test_lines_elsewhere_are_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(written(monkeypatch, io.StringIO(), color=True))["event"] == "agent node-1"
